"""Commands that need no records: the expected error of a release, and the privacy loss of a mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import fitting, mechanism_of, queries_of, registered, score_of, structure_of
from discreet.cli.output_options import OutputOptions
from discreet.cli.report import UNUSED_DELTA, number_lines, origin_lines, pair_lines, plan_lines, plan_summary
from discreet.display.terminal import check_output, say, screen_width, table
from discreet.errors import InputError, listed
from discreet.mechanisms import MECHANISMS
from discreet.model.over import Over
from discreet.model.query_grammar import MostProbable, plain_queries
from discreet.model.round_numbers import FOUND_BINS, typical_network, wide_columns
from discreet.privacy.guarantee import as_text
from discreet.releases.kinds.noisy_tables import partly_measured_families
from discreet.releases.measurement import Calibration
from discreet.releases.metric_unit import unit_lines
from discreet.releases.policy import RecordsPolicy
from discreet.util.json_files import write_whole
from discreet.util.lazy_imports import lazy_import

# --------------------------------------------------------------------------------------------------------------------
# `plan --within`: the budget for a wanted accuracy, and half-widths at other budgets.


@dataclass(frozen=True)
class Wanted:
    """Queries, their half-width, and the file of the picture, if any."""

    queries: Sequence[str]
    within: float
    picture: Path | None
    replace: bool


def plan_within(
    wanted: Wanted,
    truth: dc.Tables | Over,
    declared: dc.Network,
    has_truth: bool,
    records: int,
    promises: Sequence[dc.Guarantee],
    mechanisms: Mapping[str, dc.tools.Mechanism],
    rng: np.random.Generator,
) -> tuple[dict[str, Any], str]:
    """Plan for each mechanism and relation, as JSON and as text; draw the first plan.

    Args:
        wanted: queries and half-width.
        truth: probabilities of a network.
        declared: the same network, perhaps with columns whose bins are yet to be found.
        has_truth: True if they are the network's own; if not, others are tried as well.
        records: expected number.
        promises: one for each relation; their epsilons do not matter.
        mechanisms: by name.
        rng: source of records and noise.
    """
    if not wanted.queries:
        raise InputError('--within needs queries: give some, such as "P(lung | smoke=yes)"')
    if wanted.picture is not None:
        check_output(wanted.picture, wanted.replace)
    assert isinstance(truth, dc.Tables)
    over = truth if has_truth else truth.network
    plans: list[tuple[dc.Relation, dc.results.AccuracyPlan]] = []
    seed = int(rng.integers(2**63))  # all plans use the same networks and records
    for promise, mechanism in product(promises, mechanisms.values()):
        plan = dc.plan_accuracy(
            over, wanted.queries, wanted.within, records, guarantee=promise, mechanism=mechanism, rng=seed
        )
        plans.append((promise.relation, plan))
    text = "\n\n".join(_write_text(relation, plan) for relation, plan in plans)
    for (_, plan), (_, mechanism) in zip(plans, product(promises, mechanisms.values()), strict=True):
        if plan.guarantee is not None:
            calibration = mechanism.calibrate(truth.network, dc.Dirichlet.uniform(truth.network), plan.guarantee)
            text += number_lines(truth.network, calibration, records)
    if names := [variable.name for variable in wide_columns(declared)]:
        text += f"\n\nfor {FOUND_BINS} bins of {listed(names)}; finding them takes a share of epsilon beside"
    if wanted.picture is not None:
        write_whole(plans[0][1].to_svg(), wanted.picture, "picture", replace=wanted.replace)
        text += f"\n\nwrote {wanted.picture}"
    return {"within": wanted.within, "plans": [_write_document(*each) for each in plans]}, text


def plan_workload(
    workload: Sequence[str],
    truth: dc.Tables,
    has_truth: bool,
    records: int,
    promises: Sequence[dc.Guarantee],
    mechanism: dc.tools.Mechanism,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], str]:
    """Compute the widths and errors of a workload's queries at a given budget.

    Args:
        workload: queries, or files of them; most probable states have no width, and are left out.
        truth: probabilities of a network.
        has_truth: True if they are the network's own; if not, others are tried as well.
        records: expected number.
        promises: of the releases.
        mechanism: that serves the workload.
        rng: source of records and noise.
    """
    queries = plain_queries([query for word in workload for query in queries_of(word)], truth.network)
    numeric = [query for query in queries if not isinstance(query, MostProbable)]
    rows, text = list[dict[str, Any]](), ""
    for promise in promises if numeric else ():
        over = truth if has_truth else truth.network
        plan = dc.plan_accuracy(over, numeric, None, records, guarantee=promise, mechanism=mechanism, rng=rng)
        rows += [{"relation": promise.relation.value, **row} for row in plan.rows()]
        head = f"the workload at epsilon {as_text(promise.epsilon)}, {promise.relation}"
        text += f"\n\n{head}\n{plan.widths_table().text(screen_width())}"
    return rows, text


def _write_document(relation: dc.Relation, plan: dc.results.AccuracyPlan) -> dict[str, Any]:
    """Write a plan as JSON."""
    return {
        "relation": relation.value,
        "mechanism": plan.mechanism,
        "epsilon": None if plan.guarantee is None else as_text(plan.guarantee.epsilon),
        "refused": plan.refused,
        "questions": plan.rows(),
        "half_widths": plan.table(),
    }


def _write_text(relation: dc.Relation, plan: dc.results.AccuracyPlan) -> str:
    """Write a plan as text, with the mechanism and the relation first."""
    return f"{plan.mechanism}, {relation}{plan.summary(width=screen_width()).removeprefix(plan.mechanism)}"


documents = lazy_import("discreet.queries.documents")

AUDITED_DELTA = "1e-6"
"""Default delta of an audit, for mechanisms that need one."""
DEFAULT_MECHANISM = next(iter(MECHANISMS))
REPEATS = 5
"""Default number of made-up data sets."""
KNOWN_TRUTH = "the network file's probabilities"
NEEDS_DELTA = [name for name, entry in MECHANISMS.items() if entry.delta == "needed"]

PlanQueries = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUERY|FILE]...", help="Queries for --within, in the notation of `query`."),
]
PlannedEpsilon = Annotated[
    str | None, flags.budget("--epsilon", metavar="NUMBER", help="Epsilon of the release; --within finds it.")
]
Within = Annotated[
    float | None,
    flags.questions(help="Find the epsilon at which 95 % intervals of the queries have at most this half-width."),
]
Picture = Annotated[Path | None, flags.output(metavar="FILE", help="SVG file of half-widths by epsilon, for --within.")]
PlannedMechanism = Annotated[
    str | None,
    flags.mechanism(
        metavar="NAME",
        show_default="all",
        help="Mechanism to plan, see `release --help`. planned shows its tables and budgets, too.",
    ),
]
Repeats = Annotated[
    int | None, flags.model(show_default=str(REPEATS), help="Number of data sets to make up; not with --within.", min=1)
]


def plan(
    records: Annotated[int, flags.model(help="Number of records to make up; a public guess will do.")],
    queries: PlanQueries = None,
    epsilon: PlannedEpsilon = None,
    within: Within = None,
    picture: Picture = None,
    network: flags.EitherNetwork = None,
    design: flags.DesignFile = None,
    score: flags.ScoreFile = None,
    delta: flags.Delta = "0",
    mechanism: PlannedMechanism = None,
    option: flags.Options = None,
    workload: flags.Workload = None,
    schema: flags.SchemaFile = None,
    relation: flags.RelationName = None,
    unit: flags.ChangeUnit = "record",
    repeats: Repeats = None,
    seed: Annotated[int, flags.model(help="Seed of the made-up records and of the noise.")] = 0,
    form: flags.Format = None,
    output: flags.Output = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Simulate releases, to see their errors or the epsilon that a wanted accuracy needs.

    The command reads no private data and spends no budget. Records are simulated from the probabilities of the network
    file, or from random ones if it has none. With --design they use random weights; with --score, parameters drawn from
    the family's prior.

    Example:
        discreet plan --network demo/asia.bif --epsilon 1 --records 10000
        discreet plan "P(lung | smoke=yes)" --within 0.02
          --network demo/asia.bif --records 10000
    """
    out, rng = OutputOptions.of(form, output, replace, as_json), np.random.default_rng(seed)
    _check_questions(epsilon, within, bool(queries) or picture is not None, (score, design, repeats) != (None,) * 3)
    relations = _list_relations(relation)
    promises = [dc.Guarantee(epsilon=epsilon or 1, delta=delta, relation=each, unit=unit) for each in relations]
    if within is not None:
        truth, source, declared = _choose_truth(network, None, schema, rng)
        chosen = _choose_mechanisms(truth, mechanism or DEFAULT_MECHANISM, option, workload, records)
        assert isinstance(declared, dc.Network)
        wanted = Wanted([query for word in queries or () for query in queries_of(word)], within, picture, replace)
        document, text = plan_within(wanted, truth, declared, source == KNOWN_TRUTH, records, promises, chosen, rng)
        document["source"] = source
    elif score is not None:
        _, drawing = score_of(score, mechanism, option, (network, design, schema, workload))
        document, text = _plan_score(drawing, score, promises, records, repeats or REPEATS, rng)
    else:
        truth, source, declared = _choose_truth(network, design, schema, rng)
        chosen = _choose_mechanisms(truth, mechanism, option, workload, records)
        stated = bool(workload), bool(workload) or any(text.startswith("records=") for text in option or ())
        document, text = _plan_structure(
            (truth, declared), source, chosen, promises, records, repeats or REPEATS, rng, stated
        )
        if workload and isinstance(truth, dc.Tables):
            has_truth, serves = source == KNOWN_TRUTH, chosen[DEFAULT_MECHANISM]
            document["workload"], served = plan_workload(workload, truth, has_truth, records, promises, serves, rng)
            text += served
    out.show({"records": records, "epsilon": epsilon, **document}, text.split("\n"), _list_plans(document))


AuditedDelta = Annotated[
    str | None,
    flags.budget(
        metavar="NUMBER",
        show_default=f"0, or {AUDITED_DELTA} for {', '.join(NEEDS_DELTA)}",
        help="Delta that the mechanism must keep to.",
    ),
]


def audit(
    mechanism: Annotated[str, typer.Argument(metavar="MECHANISM", help="Mechanism to audit; see `release --help`.")],
    epsilon: Annotated[str, flags.budget(metavar="NUMBER", help="Epsilon that the mechanism must keep to.")] = "1",
    delta: AuditedDelta = None,
    relation: flags.RelationName = None,
    unit: flags.ChangeUnit = "record",
    records: Annotated[int, flags.records(help="Most records of a data set.")] = 3,
    max_records: flags.MaxRecords = 1,
    weights: flags.Weights = "record",
    option: flags.Options = None,
    form: flags.Format = None,
    output: flags.Output = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Measure what a mechanism reveals, on neighbouring data sets of tiny networks or designs.

    The audit needs no data. Under a metric, data sets differ in one reading, and the result holds for each unit by
    which it moves.

    Example:
        discreet audit laplace
    """
    from discreet.verify.audit import Finding, Findings

    out = OutputOptions.of(form, output, replace, as_json)
    if records < 1:
        raise InputError(f"an audit needs data sets of at least one record, got {records}")
    entry = registered(mechanism)
    chosen = mechanism_of(entry, option, None, entry.needed)
    delta_text = delta if delta is not None else AUDITED_DELTA if entry.delta == "needed" else "0"
    most = max_records or 1
    policy = RecordsPolicy("error", "error", unit if most > 1 else None, most, weights or "record")
    results: list[Finding] = []
    refused: dict[str, str] = {}
    for each in _list_relations(relation):
        promise = dc.Guarantee(epsilon=epsilon, delta=delta_text, relation=each, unit=unit)
        try:
            results += dc.audit(chosen, promise, most=records, policy=policy)
        except InputError as error:
            refused[each] = str(error)
    if not results:
        raise InputError("; ".join(dict.fromkeys(refused.values())))
    findings = [{entry.over: row.pop("network"), **row} for row in Findings(results).tidy()]
    document = {"mechanism": mechanism, "findings": findings, "refused": refused}
    content = [*Findings(results).content()]
    content += [] if chosen.only is None else unit_lines(results[0].guarantee, chosen.only.variables)
    out.show(document, content, [{"mechanism": mechanism, **finding} for finding in findings])
    for relations, reason in refused.items():
        say(f"discreet: not offered for {relations}: {reason}")
    for finding in results:
        if finding.leak:
            say(f"discreet: {finding.network}, {finding.guarantee.relation}: {finding.leak}")
    if not all(finding.holds for finding in results):
        raise typer.Exit(1)


# ----------------------------------------------------------------------------------------------------------- helpers


def _check_questions(epsilon: str | None, within: float | None, questions: bool, only_errors: bool) -> None:
    """Refuse both --epsilon and --within, neither, and options for the other of them."""
    if (epsilon is None) == (within is None):
        raise InputError("give one of --epsilon, to see errors, and --within, to find the epsilon")
    if within is None and questions:
        raise InputError("queries and --picture are for --within; use --workload for the queries of a release")
    if within is not None and only_errors:
        raise InputError("--within plans for a network: leave out --score, --design and --repeats")


def _list_plans(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the rows of a plan: errors by mechanism and relation, or the epsilon of each query."""
    if "plans" in document and "within" in document:
        return [
            {"relation": plan["relation"], "mechanism": plan["mechanism"], **question}
            for plan in document["plans"]
            for question in plan["questions"]
        ]
    return [
        {**{name: value for name, value in row.items() if name != "errors"}, **more}
        for row in document["expected"]
        for more in [{"parameter": name, "error": error} for name, error in row.get("errors", {}).items()] or [{}]
    ]


def _list_relations(name: str | None) -> list[dc.Relation]:
    """List the relation that is given, or both relations of records."""
    return list(dc.tools.RECORD_RELATIONS) if name is None else [dc.Relation(name)]


def _plan_structure(
    structure: tuple[dc.Tables | Over, Over],
    source: str,
    chosen: Mapping[str, dc.tools.Mechanism],
    promises: Sequence[dc.Guarantee],
    records: int,
    repeats: int,
    rng: np.random.Generator,
    stated: tuple[bool, bool],
) -> tuple[dict[str, Any], str]:
    """Plan over a network or a design; `stated` is True for a workload, and True for a workload or a size.

    Where bins are yet to be found, errors are those of as many bins as there may be, at the budget that is left.
    """
    from discreet.verify.made_up import made_up_in
    from discreet.verify.plan import plan as plan_errors

    truth, declared = structure
    made_up = made_up_in(declared.domain)
    expected: list[tuple[dc.Relation, dc.results.ExpectedError]] = []
    plans: dict[dc.Guarantee, Calibration] = {}
    planner = chosen.get(DEFAULT_MECHANISM)
    for promise in promises:
        left = promise
        if planner and isinstance(declared, dc.Network) and (len(chosen) == 1 or wide_columns(declared)):
            prior = dc.Dirichlet.uniform(declared)
            plan = plans[promise] = planner.calibrate(declared, prior, promise)
            left = replace(promise, epsilon=promise.epsilon - (plan.total - plan.ordinary.total))
        compared = plan_errors(truth, left, records, rng=rng, repeats=repeats, mechanisms=chosen)
        expected += [(promise.relation, each) for each in compared]
    document: dict[str, Any] = {
        "source": source,
        "expected": [_document_expected(relation, error, made_up.compared) for relation, error in expected],
    }
    text = (
        _print_expected(expected, made_up.headings) + f"\n\n{records:,} records made up from {source}, {repeats} times"
    )
    if isinstance(truth, dc.Tables):
        document |= documents.origin_document([truth.network])
        text = "\n".join([text, *origin_lines(truth.network)])
    if plans:
        document["plans"] = {promise.relation.value: plan_summary(plan) for promise, plan in plans.items()}
    for promise, plan in plans.items():
        text += _print_plan(prior, promise, plan, records, *stated)
    return document, text


def _plan_score(
    mechanism: dc.tools.Mechanism,
    score: Path,
    promises: Sequence[dc.Guarantee],
    records: int,
    repeats: int,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], str]:
    """Plan draws among a score's candidates."""
    read = dc.research.read_score_file(str(score))
    scores = read.table if isinstance(read, dc.research.Family) else read
    expected, rows = [], []
    for promise in promises:
        for plan in dc.research.plan_score(mechanism, scores, promise, records, rng=rng, repeats=repeats):
            errors = dict(zip(plan.names, plan.errors.tolist(), strict=True))
            expected.append({"relation": promise.relation, "mechanism": plan.mechanism, "errors": errors})
            rows += [(promise.relation, plan.mechanism, name, f"{error:.4g}") for name, error in errors.items()]
    law = scores.log_law is not None
    heads = ("parameter", "mean error") if law else ("", "score of a record, below the best candidate's")
    source = "parameters that the prior draws" if law else "random probabilities"
    lines = [table(("relation", "mechanism", *heads), rows), ""]
    lines.append(f"{records:,} records made up from {source}, {repeats} times; each error is that of one draw")
    lines += unit_lines(promises[0], scores.network.variables)
    return {"source": source, "expected": expected}, "\n".join(lines)


def _choose_truth(
    network: str | None, design: Path | None, schema: Path | None, rng: np.random.Generator
) -> tuple[dc.Tables | Over, str, Over]:
    """Choose the source of made-up records, and its name: a network's probabilities, random ones, or a design.

    Returns:
        (source, its name, what was declared: with columns whose bins are yet to be found.)
    """
    declared = structure_of(network, design, schema)
    if not isinstance(declared, dc.Network):
        return declared, "random weights", declared
    structure = typical_network(declared)
    with suppress(InputError):
        read = dc.Tables.read(str(network))
        # A word such as `none` is never a file.
        if read.network.parents == structure.parents:
            return dc.Tables(structure, dict(read)), KNOWN_TRUTH, declared
    theta = dc.Dirichlet.uniform(structure).draw(1, rng=rng)
    drawn = {node: table[..., 0] for node, table in theta.items()}
    return dc.Tables(structure, drawn), "random probabilities", declared


def _choose_mechanisms(
    truth: dc.Tables | Over,
    mechanism: str | None,
    option: list[str] | None,
    workload: list[str] | None,
    records: int,
) -> dict[str, dc.tools.Mechanism]:
    """Choose the mechanism that is given, or all that fit, with their required options."""
    if option and mechanism is None:
        raise InputError("give the --mechanism of the options")
    structure = truth.network if isinstance(truth, dc.Tables) else truth
    chosen = {}
    for entry in [registered(mechanism, structure)] if mechanism else fitting(structure).values():
        stands = {**entry.needed, **({"records": str(records)} if "records" in entry.needed else {})}
        queries = workload if mechanism or entry.name == DEFAULT_MECHANISM else None
        chosen[entry.name] = mechanism_of(entry, option, queries, stands)
    return chosen


def _document_expected(
    relation: dc.Relation, expected: dc.results.ExpectedError, names: tuple[str, str]
) -> dict[str, Any]:
    """Write the expected error of one mechanism as JSON, under these names."""
    return {
        "relation": relation,
        "mechanism": expected.mechanism,
        "delta": as_text(expected.guarantee.delta) if expected.guarantee else None,
        names[0]: None if expected.refused else expected.cells,
        names[1]: None if expected.refused or np.isnan(expected.marginals) else expected.marginals,
        "refused": expected.refused,
    }


def _print_expected(expected: list[tuple[dc.Relation, dc.results.ExpectedError]], headings: tuple[str, str]) -> str:
    """Write the expected errors of all mechanisms as a table."""
    return table(("relation", "mechanism", *headings), [(each, *part.texts) for each, part in expected])


def _print_plan(
    prior: dc.Dirichlet,
    promise: dc.Guarantee,
    plan: Calibration,
    records: int,
    has_workload: bool,
    has_size: bool,
) -> str:
    """Write a plan with its pairs, and the tables that planning for these records would leave out."""
    tables, network = plan.of_tables, typical_network(prior.network)
    in_stages = tables if isinstance(tables, dc.kinds.NoiseWithPairs) else None
    first = cast(dc.kinds.PlannedNoise, tables if in_stages is None else in_stages.plan)
    idle = promise.delta and not first.law.concentrated
    text = f"\n\nplan, {promise.relation}{f' ({UNUSED_DELTA})' if idle else ''}:\n\n{plan_lines(network, first)}"
    if in_stages is not None and not has_workload:
        text += f"\n\n{pair_lines(network, in_stages, records)}"
    text += number_lines(prior.network, plan, records)
    whole = has_size or plan.ordinary is not plan
    return text if whole else text + _print_smaller(prior, promise, records, first)


def _print_smaller(prior: dc.Dirichlet, promise: dc.Guarantee, records: int, plan: dc.kinds.PlannedNoise) -> str:
    """Write the tables that planning for these records would leave out, if any."""
    network = prior.network
    smaller = dc.planned(records=records, pairs_share=0, numbers_share=0).calibrate(network, prior, promise)
    if not isinstance(smaller, dc.kinds.PlannedNoise) or set(smaller.scales) == set(plan.scales):
        return ""
    large = partly_measured_families(network, smaller.scales)
    return (
        f"\n\n{len(large)} families are too large for {records:,} records at this budget. With --option "
        f"records={records} they are measured without some parents, and all others more accurately: {listed(large)}"
    )
