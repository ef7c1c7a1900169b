"""Results as JSON documents: one form for the command line, the server and its client."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

import numpy as np

from discreet.inference.weighted_records import Sampling
from discreet.model.network import Network
from discreet.model.number_types import read_dates, write_dates
from discreet.posterior.fit_check import GoodnessOfFit, check_fit
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.answers import Answer, AnswerDraws, AnswerRow, EvidenceProbability
from discreet.queries.regress import Regression
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.external_figures import External
from discreet.util.arrays import Floats

Document = dict[str, Any]


OF_NUMBERS = ("sums", "clipped", "concerns")
"""Fields of an answer that are written where they are not empty."""
ENDLESS: Mapping[str, float] = {"lower": -math.inf, "upper": math.inf}
"""Ends of a row's interval that there may be none of, and what None stands for in a document."""
BASIS = ("basis", "unmeasured", "prior_only", "assumes")
"""Fields of answers and regressions with their basis and assumptions."""


def write_fields(result: object, *names: str) -> Document:
    """Map the names of some fields of a result to their values, tuples replaced by lists, also nested ones."""
    return {name: _as_lists(getattr(result, name)) for name in names}


def read_fields(document: Mapping[str, Any], *names: str) -> Document:
    """Read fields of a result from JSON, lists replaced by tuples; absent fields are left out (take their defaults)."""
    return {name: _as_tuples(document[name]) for name in names if name in document}


def _as_lists(value: Any) -> Any:
    """Replace tuples by lists, also tuples in tuples; any other value is returned as it is, without a look inside."""
    return list(map(_as_lists, value)) if isinstance(value, tuple) else value


def _as_tuples(value: Any) -> Any:
    """Replace lists by tuples, also lists in lists; any other value is returned as it is, without a look inside."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def answer_document(answer: Answer, *, draws: bool = False) -> Document:
    """Convert an answer to JSON; `read_answer` reads it back.

    Args:
        answer: the answer.
        draws: whether to include its numbers in every draw.

    Returns:
        "query", "kind", "level", "left_out", "basis", "unmeasured", "prior_only", "assumes", "evidence" (an object or
        None) and "too_rare"; for a query of a number also "unit" and "inside", and for an expression of several queries
        "unit"; "sums", "clipped" and "concerns", each where it is not empty; "sampling" if laws were sampled;
        "more_evidence" if there are several evidences; and "values", the rows, in which an end without bound is None,
        and which have "dates", their numbers as text, if these are dates; with `draws`
        also "draws", for each row its numbers in every draw (None if not finite), and "weights" if they have some.

    Raises:
        InputError: draws of an answer that has none.
    """
    document = write_fields(answer, "query", "kind", "level", "left_out", *BASIS)
    document |= {"evidence": answer.evidence and asdict(answer.evidence), "too_rare": answer.too_rare}
    document |= {} if answer.inside is None and not answer.sums else write_fields(answer, "unit", "inside")
    document |= write_fields(answer, "unit") if answer.kind == "expression" else {}
    for name in OF_NUMBERS:
        document |= write_fields(answer, name) if getattr(answer, name) else {}
    document |= {} if answer.sampling is None else {"sampling": _write_sampling(answer.sampling)}
    document |= {"more_evidence": [asdict(each) for each in answer.more_evidence]} if answer.more_evidence else {}
    if draws:
        document["draws"] = [
            [number if math.isfinite(number) else None for number in row] for row in answer.draws.tolist()
        ]
        weights = answer.drawn.weights if answer.drawn is not None else None
        document |= {} if weights is None else {"weights": weights.tolist()}
    rows: list[Document] = [write_dates(row) for row in answer.rows]
    return {**document, "values": [row | {name: None for name in ENDLESS if math.isinf(row[name])} for row in rows]}


def read_answer(document: Mapping[str, Any]) -> Answer:
    """Restore the answer that `answer_document` wrote, equal to the last bit.

    "evidence" and "values" must be there, or a KeyError is raised; other absent fields take their defaults, and unknown
    ones are ignored. The answer has no draws.

    Example:
        >>> row = {"state": {"rain": "yes"}, "mean": 0.1 + 0.2, "lower": 0.2, "upper": 0.4}
        >>> answer = Answer("P(rain=yes)", "marginal", 0.95, (row,), basis="measured")
        >>> read_answer(answer_document(answer)) == answer
        True
    """
    sampling, evidence, draws = document.get("sampling"), document["evidence"], document.get("draws")
    weights = np.array(document["weights"], np.float64) if "weights" in document else None
    return Answer(
        drawn=None if draws is None else AnswerDraws(np.array(draws, np.float64), weights),
        rows=tuple(cast(AnswerRow, read_dates(_read_ends(row))) for row in document["values"]),
        more_evidence=tuple(EvidenceProbability(**each) for each in document.get("more_evidence", ())),
        sampling=None if sampling is None else _read_sampling(sampling),
        evidence=None if evidence is None else EvidenceProbability(**evidence),
        **read_fields(
            document, "query", "kind", "level", "left_out", *BASIS, "too_rare", "unit", "inside", *OF_NUMBERS
        ),
    )


def _read_ends(row: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a row; a "lower" of None becomes -infinity and an "upper" of None infinity."""
    return {**row, **{name: value for name, value in ENDLESS.items() if name in row and row[name] is None}}


def _write_sampling(sampling: Sampling) -> Document:
    """Convert the sampling error of an answer to JSON, a key for each field.

    An infinite "widening" (an interval of sampling error alone) becomes None.
    """
    return {**asdict(sampling), "widening": sampling.widening if math.isfinite(sampling.widening) else None}


def _read_sampling(document: Mapping[str, Any]) -> Sampling:
    """Restore the sampling error that `_write_sampling` wrote; a "widening" of None becomes infinity."""
    widening = document["widening"]
    return Sampling(**{**document, "widening": math.inf if widening is None else widening})


def regression_document(regression: Regression, level: float, *, draws: bool = False) -> Document:
    """Convert a regression to JSON.

    Args:
        regression: the regression.
        level: posterior probability of each interval.
        draws: whether to include its coefficients in every draw, which are needed to read it back.

    Returns:
        "target", "on", "kind", "given" if there is evidence, "dates" if variables are dates, "level", "coefficients"
        (for each `{"name", "mean", "lower", "upper"}`, the intercept last), "left_out", "basis", "unmeasured",
        "prior_only" and "assumes"; with `draws` also "draws", a list of the coefficients of each draw.

    Raises:
        InputError: a level outside (0, 1).
    """
    document = write_fields(regression, "target", "on", "kind", *(("given",) if regression.given else ()))
    document |= write_fields(regression, "dates") if regression.dates else {}
    document |= {"level": level, "coefficients": [write_dates(dict(row)) for row in regression.rows(level=level)]}
    document |= write_fields(regression, "left_out", *BASIS)
    return {**document, "draws": regression.coefficients.tolist()} if draws else document


def read_regression(document: Mapping[str, Any]) -> Regression:
    """Restore the regression that `regression_document` wrote with its draws, equal to the last bit.

    "level" and the intervals are not read. Absent fields that have defaults take these.

    Raises:
        KeyError: a document without "draws".

    Example:
        >>> found = Regression("lung", ("smoke",), "linear", ("smoke=yes", "intercept"), np.array([[0.3, 0.1 + 0.2]]))
        >>> read_regression(regression_document(found, 0.9, draws=True)).rows() == found.rows()
        True
    """
    names = tuple(row["name"] for row in document["coefficients"])
    coefficients = np.array(document["draws"], np.float64).reshape(-1, len(names))
    fields = read_fields(document, "target", "on", "kind", "given", "dates", "left_out", *BASIS)
    return Regression(names=names, coefficients=coefficients, **fields)


def named_ends(names: Sequence[str], mean: Floats, lower: Floats, upper: Floats) -> dict[str, dict[str, float]]:
    """Map "mean", "lower" and "upper" to one number for each name: `{"mean": {name: number}, ...}`.

    Args:
        names: names of the numbers.
        mean, lower, upper: numbers in the order of the names, shape `(names,)`.
    """
    ends = {"mean": mean, "lower": lower, "upper": upper}
    return {end: dict(zip(names, numbers.tolist(), strict=True)) for end, numbers in ends.items()}


def fit_document(checked: GoodnessOfFit) -> Document:
    """Convert the goodness of fit of a network to JSON.

    Returns:
        "contradicted", the tests that the network fails, with all their fields; "tested", the number of all tests;
        "pairs_in_tables", the number of pairs of variables that lie in a table; and "pairs", that of all pairs.
    """
    contradicted = [{**asdict(test), "arcs": [list(arc) for arc in test.arcs]} for test in checked.contradicted]
    return {
        "contradicted": contradicted,
        "tested": len(checked.tests),
        "pairs_in_tables": checked.pairs_in_tables,
        "pairs": checked.pairs,
    }


def origin_document(networks: Sequence[Network]) -> Document:
    """Convert the origin and separate privacy cost of learned networks to JSON.

    Returns:
        `{"learned": [...]}` with each different origin once, in the order of the networks; {} if all networks are
        public.
    """
    origins = dict.fromkeys(network.learned for network in networks if network.learned)
    return {"learned": [origin.document() for origin in origins]} if origins else {}


def external_document(figures: External) -> Document:
    """Convert external figures to JSON: their source, guarantee and noise, without the figures themselves.

    Args:
        figures: figures published by others.

    Returns:
        "id", "source", "guarantee_by_source" (text, or None if nothing is promised) and "measurements": of each table
        "variables", "noise" (the tag of its law, None without noise), "scale" of the noise, and "sums", whether it has
        weighted sums instead of counts.
    """
    promise = figures.guarantee
    tables = [
        {"variables": list(table.scope), "noise": table.tag, "scale": table.scale, "sums": table.weights is not None}
        for table in figures.measurements
    ]
    return {
        "id": figures.id,
        "source": figures.source,
        "guarantee_by_source": None if promise is None else str(promise),
        "measurements": tables,
    }


def source_document(evidence: Evidence, posterior: PosteriorDraws, checked: GoodnessOfFit | None = None) -> Document:
    """Convert the provenance of a posterior to JSON: method, goodness of fit, learned networks, external figures.

    Args:
        evidence: a release, external figures, or several of them.
        posterior: posterior given the evidence.
        checked: result of `check_fit` for the evidence; None computes it.

    Returns:
        "method" and "fit" (`fit_document`); "learned" if networks were learned from records (`origin_document`);
        "by_others" if there are external figures, a list of `external_document`; and "missing" if the network has
        states for missing values and a release kept these: "state" if the posterior's network has such states, too,
        else "at-random".
    """
    combined = evidence_of(evidence)
    document = {
        "method": posterior.method,
        "fit": fit_document(check_fit(evidence) if checked is None else checked),
        **origin_document([release.network for release in combined.parts]),
    }
    if combined.external:
        document["by_others"] = [external_document(figures) for figures in combined.external]
    if combined.network.may_be_missing and any(release.policy.missing == "keep" for release in combined.releases):
        document["missing"] = "state" if posterior.network.may_be_missing else "at-random"
    return document
