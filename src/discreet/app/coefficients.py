"""What `query` prints of numbers that have names: coefficients of a regression, parameters of a family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import discreet as dc
from discreet.app.posteriors import Drawing
from discreet.app.terminal import answer_document, show
from discreet.errors import InputError
from discreet.model.late import import_late
from discreet.model.text_tables import columns
from discreet.releases.combined import Evidence

answer_text = import_late("discreet.queries.answer_text")

__all__ = ["regression_document", "regression_lines", "show_parameters", "show_rows", "show_states"]


def show_rows(what: str, rows: Sequence[Mapping[str, object]], method: str, level: float, as_json: bool) -> None:
    """A table of means and intervals, or the same as JSON under the plural of what they are."""
    told = {"method": method, "level": level, f"{what}s": rows}
    show(as_json, told, f"{_print_table(what, rows, level)}\n\nposterior: {method}")


def regression_document(found: dc.results.Regression, level: float) -> dict[str, object]:
    """A regression as JSON."""
    return {
        "target": found.target,
        "on": list(found.on),
        "kind": found.kind,
        "level": level,
        "coefficients": found.rows(level=level),
        "left_out": found.left_out,
        "basis": found.basis,
        "unmeasured": [list(pair) for pair in found.unmeasured],
        "prior_only": [list(part) for part in found.prior_only],
    }


def regression_lines(found: dc.results.Regression, level: float) -> str:
    """A regression as a table, and what it rests on."""
    unit = f"log odds of {found.target}" if found.kind == "logistic" else found.target
    lines = [f"{unit} on {', '.join(found.on)}", _print_table("coefficient", found.rows(level=level), level)]
    if found.left_out:
        lines.append(f"{100 * found.left_out:.3g} % of the draws leave coefficients open; they are left out")
    if found.basis is not None:
        lines.append(f"rests on: {found.basis}")
    return "\n".join([*lines, *answer_text.assumption_lines((found,))])


def _print_table(what: str, rows: Sequence[Mapping[str, object]], level: float) -> str:
    """Print names, means and intervals."""
    lines = [
        (
            ": ".join(str(row[key]) for key in ("class", "name") if key in row),
            f"{row['mean']:.5g}",
            f"{row['lower']:.5g} to {row['upper']:.5g}",
        )
        for row in rows
    ]
    return columns((what, "mean", f"{100 * level:.6g} % interval"), lines)


def show_parameters(evidence: Evidence, more: bool, level: float, how: Drawing, as_json: bool) -> None:
    """The parameters of a family; refused where more was asked than it can answer."""
    if more:
        raise InputError(
            "without queries a family's release answers with its parameters, under its own prior: leave out the prior "
            "and other options of networks, or name queries"
        )
    posterior = dc.scores.read_family(evidence, draws=how.number, rng=how.rng())
    show_rows("parameter", posterior.rows(level=level), "family", level, as_json)


def show_states(posterior: dc.results.PosteriorDraws, answers: dc.results.Answers, as_json: bool) -> None:
    """The probabilities of a choice by a categorical factor: of its one variable, whose states are whole numbers."""
    told = {"method": posterior.method, "answers": [answer_document(part) for part in answers]}
    show(as_json, told, "\n".join([answers.summary(), "", f"posterior: {posterior.method}"]))
