"""Which part of Algorithm 1 of Chowdhury, Rekatsinas and Jha (ICML 2020) helps, on Asia, and what its formulas give.

The reference values of the variants come from one sample of 10,000 records that is not known: all 24 move together with
how many of its records have tuberculosis and lung cancer. How much a value varies from one such sample to the next is
printed beside it, and a reference counts as met within three such spreads. So do ratios of references to that of D-Ind,
which vary less, because what a sample does to one variant it does to D-Ind.

Nothing of the formulas is random: equation (7) is a constant of the graph; the order of equation (13) follows from
expected counts; that sampling in the first stage lessens the noise is false relative to the smaller counts; and what
the scheme costs when a record is replaced instead of added or removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

import discreet as dc
from discreet.queries.synthetic import sample_codes

from .budget import left_out, spread
from .chowdhury_parts import (
    COLUMNS,
    EPSILONS,
    EXAMPLE,
    RECORDS,
    REFERENCE,
    SAMPLING,
    SCHEME,
    SHARE,
    UNIFORM,
    UNSAMPLED,
    UNSAMPLED_WEIGHTED,
    WEIGHTED,
    empirical,
    relative_noise,
    replacing_costs,
    shares_from_counts,
    variants,
)
from .d_ind import Measured, algorithm_1, as_runs, importance, influence, influence_as_printed, parameter_error
from .harness import Experiment, Task, command
from .networks import asia
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import grid, legend_below, style
from .printed import bits, two_stage_loss

__all__ = ["EXPERIMENT", "ORDER", "in_spreads", "ratio"]

Floats = npt.NDArray[np.float64]

MOST_SPREADS = 3.0
SANE_PART = 0.6
"""Part of an error by which a reference of one unknown sample may miss it: half the budget doubles errors."""
FAR = 200
"""Records of each side of the coin whose exact loss stands for the limit."""
ORDER = ("either", "tub", "smoke", "dysp", "lung", "asia", "bronc", "xray")
PRINTED_ORDER = ("asia", "smoke", "bronc", "lung", "tub", "xray", "either", "dysp")


def in_spreads(value: float, errors: npt.ArrayLike) -> float:
    """A value of one unknown sample, less the mean over samples, in standard deviations from sample to sample."""
    found = np.asarray(errors, np.float64)
    return float((value - found.mean()) / found.std(ddof=1))


# ------------------------------------------------------------------------------------------ the experiment

SHIPPED: Mapping[str, dc.tools.Mechanism] = {
    "laplace()": dc.laplace(),
    "allocated()": dc.research.allocated(),
    "allocated(weights='structure')": dc.research.allocated(weights="structure"),
    "allocated(sampling=.1)": dc.research.allocated(sampling="0.1"),
    "allocated(sampling=.1, weights='structure')": dc.research.allocated(sampling="0.1", weights="structure"),
}
READINGS: Mapping[str, Callable[..., dc.results.PosteriorDraws]] = {
    "plug_in": dc.tools.plug_in,
    "noise_aware": dc.noise_aware,
}
DRAWS = 400
STAGE_RUNS = 4000
AGAINST = {"sample": "against the sample's frequencies", "network": "against the network"}
"""What an error is measured against: the first is what noise does, the second what is wanted."""


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Each repeat is a sample of records; fewer runs on each, and fewer releases, in a quick run."""
    runs = 60 if quick else 400
    found: list[tuple[dict[str, Any], int]] = [
        ({"part": "variants", "tables": tables, "at": epsilon, "runs": runs}, 40) for tables, epsilon in COLUMNS
    ]
    found += [({"part": "row totals", "tables": 2, "at": 1, "runs": runs}, 40), ({"part": "equation 7"}, 5)]
    found += [({"part": "stage I", "at": sampling}, 10) for sampling in (1.0, 0.1, 0.01)]
    found += [
        ({"part": "shipped", "mechanism": name, "at": epsilon}, 5 if quick else 40)
        for name in SHIPPED
        for epsilon in EPSILONS
    ]
    return found


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Rows of one part on one sample of records, the same for all parts."""
    setting, truth = task.setting, asia()
    if setting["part"] == "equation 7":
        yield from _equation_7(task.rng("probabilities"))
        return
    if setting["part"] == "stage I":
        yield _stage_noise(task)
        return
    codes = sample_codes(truth, RECORDS, task.rng("records"))
    counts = dc.tools.count_codes(truth.network, codes)
    references = {"sample": empirical(counts), "network": as_runs(truth)}
    rng = task.rng(" ".join(map(str, setting.values())))
    match setting["part"]:
        case "variants":
            found = variants(truth.network, codes, setting["tables"], setting["at"], setting["runs"], rng)
        case "row totals":
            both = partial(algorithm_1, truth.network, codes, setting["at"], setting["runs"], rng, sampling=1)
            found = {"cells": both(totals="cells").second.theta, "parents": both(totals="parents").second.theta}
            rare = float(counts.tables["either"][0, 0].sum())
            yield {"variant": "rare records", "metric": "records", "value": rare}
        case _:
            found = _shipped(counts, SHIPPED[setting["mechanism"]], setting["at"], rng)
    for name, theta in found.items():
        for against, reference in references.items():
            error = float(parameter_error(theta, reference).mean())
            yield {"variant": name, "metric": against, "value": error}


def _equation_7(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Equation (7) at node A of the paper's example under arbitrary probabilities."""
    drawn = dc.Dirichlet.uniform(EXAMPLE, 1.0).draw(1, rng=rng)
    theta = dc.Tables(EXAMPLE, {node: table[..., 0] for node, table in drawn.items()})
    for name, keep in (("own factor left out", False), ("own factor kept", True)):
        value = influence_as_printed(theta, "A", keep_own_factor=keep)
        yield {"variant": name, "metric": "Delta of A", "value": value}


def _stage_noise(task: Task) -> dict[str, Any]:
    """Mean absolute noise of the first stage in a cell without records, over the share of records that it samples."""
    coin, sampling = bits(["a"]), task.setting["at"]
    codes = {"a": np.zeros(100, np.int64)}
    stages = algorithm_1(coin, codes, 1.0, STAGE_RUNS, task.rng("stage I"), share=SHARE, sampling=sampling, tables=1)
    value = float(np.abs(stages.first.cells["a"][1]).mean() / sampling)
    return {"variant": "coin", "metric": "noise of stage I", "value": value}


def _shipped(
    counts: dc.results.Counts, mechanism: dc.tools.Mechanism, epsilon: int, rng: np.random.Generator
) -> dict[str, dc.Tables]:
    """Posterior means of one simulated release, by the way it is read; one run."""
    network = counts.network
    guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), guarantee, rng=rng)
    means = {name: read(release, draws=DRAWS, rng=rng).mean() for name, read in READINGS.items()}
    return {reading: dc.Tables(network, as_runs(mean), draws=1) for reading, mean in means.items()}


# ------------------------------------------------------------------------------------------ page

Errors = Mapping[tuple[str, Measured, int, str], Floats]
"""By variant, tables, epsilon and reference: one value for each sample, in the same order."""


def present(frame: pd.DataFrame) -> Page:
    """The reference table, the parts one by one, the formulas, and the shipped mechanisms."""
    rows = frame[frame["part"] == "variants"].sort_values("repeat")
    errors: dict[tuple[str, Measured, int, str], Floats] = {
        (name, 1 if tables == 1 else 2, int(epsilon), against): values.to_numpy(float)
        for (name, tables, epsilon, against), values in rows.groupby(["variant", "tables", "at", "metric"])["value"]
    }
    shares = shares_from_counts(asia(), RECORDS)
    return Page(
        _verdict(errors, shares),
        [Illustration("variants", _figure(errors), CAPTION)],
        [
            (PARTS_CAPTION, _parts_table(errors)),
            (REFERENCE_CAPTION, _reference_table(errors)),
            ("Budgets of equation (13) from expected counts.", _shares_table(shares)),
            (NOISE_CAPTION, _noise_table()),
            (SHIPPED_CAPTION, _shipped_table(frame)),
        ],
        _checks(frame, errors, shares),
        _notes(frame, errors),
    )  # fmt: skip


CAPTION = (
    "Error of every variant (sum of |dTheta| over a node's cells, mean over nodes) against the sample's own "
    "frequencies; bars: two standard deviations from one sample of records to the next; crosses: the reference, of one "
    "unknown sample."
)
PARTS_CAPTION = (
    "What each part is worth: error without it over error with it, against the sample's own frequencies, ± jackknife "
    "standard error; above 1 it helps."
)
NOISE_CAPTION = "Noise of the first stage, for each record that a count stands for (records), at epsilon_I = .1."
SHIPPED_CAPTION = f"What the package offers, on the same samples: posterior means of {DRAWS} draws, Dirichlet(1/4)."
REFERENCE_CAPTION = (
    "Errors ± standard error over samples; spread: standard deviation from one sample to the next; z: reference less "
    "mean, in spreads."
)


def ratio(over: Floats, under: Floats) -> Estimate:
    """Ratio of the means of paired values and its jackknife standard error."""
    found = left_out(over) / left_out(under)
    return Estimate(float(found[0]), spread(found))


def _verdict(errors: Errors, shares: Mapping[str, float]) -> str:
    """Does the scheme beat its baseline, and which part helps most."""
    third = ratio(errors[SCHEME, 2, 1, "sample"], errors[UNIFORM, 2, 3, "sample"])
    low, high = (ratio(errors[SCHEME, 2, e, "sample"], errors[UNIFORM, 2, e, "sample"]) for e in EPSILONS)
    table = ratio(errors[SCHEME, 2, 1, "sample"], errors[SCHEME, 1, 1, "sample"])
    enough = third.mean - 2 * third.error <= 1
    order = sorted(shares, key=lambda node: -shares[node])
    printed = "follows" if tuple(order) == PRINTED_ORDER else "does not follow"
    return (
        f"{'Reproduced' if enough else 'Not reproduced'}: the error of Algorithm 1 as printed at epsilon 1 is "
        f"{third.text(2)} times that of D-Ind at epsilon 3, printed: the same ({low.text(2)} times at equal epsilon 1, "
        f"{high.text(2)} times at 3); its second table alone costs a factor {table.text(2)} in error, and the printed "
        f"order of budgets {printed} from equations (11) to (13), which give {order[0]} {shares[order[0]]:.0%}."
    )


PARTS: Sequence[tuple[str, tuple[str, Measured | None], tuple[str, Measured | None]]] = (
    ("one table for each node, under uniform budgets", (UNIFORM, 2), (UNIFORM, 1)),
    ("one table for each node, in Algorithm 1", (SCHEME, 2), (SCHEME, 1)),
    ("inverse-variance merge, with sampling", (SCHEME, None), (WEIGHTED, None)),
    ("inverse-variance merge, without sampling", (UNSAMPLED, None), (UNSAMPLED_WEIGHTED, None)),
    ("sampling, under the printed merge", (UNSAMPLED, None), (SCHEME, None)),
    ("sampling, under the inverse-variance merge", (UNSAMPLED_WEIGHTED, None), (WEIGHTED, None)),
    ("the split of equation 13 (no sampling, inverse variances)", (UNIFORM, None), (UNSAMPLED_WEIGHTED, None)),
    ("all of Algorithm 1 as printed", (UNIFORM, None), (SCHEME, None)),
)
"""A part, and the variants without and with it; None for as many tables as the column says."""


def _parts_table(errors: Errors) -> str:
    """Ratios of errors of variants that differ in one part."""
    rows = []
    for part, *pair in PARTS:
        row = [part]
        for tables, epsilon in COLUMNS:
            without, having = (errors[name, own or tables, epsilon, "sample"] for name, own in pair)
            # What one table is worth does not depend on how many the column has.
            row.append("-" if pair[0][1] and tables == 1 else ratio(without, having).text(2))
        rows.append(row)
    header = ["part", *(f"{'two tables' if tables == 2 else 'one table'}, epsilon {e}" for tables, e in COLUMNS)]
    return markdown(header, rows)


def _reference_table(errors: Errors) -> str:
    """Every variant beside its reference value."""
    rows = list[list[object]]()
    for variant, values in REFERENCE.items():
        for (tables, epsilon), value in zip(COLUMNS, values, strict=True):
            row: list[object] = [variant, {1: "one", 2: "two"}[tables], epsilon, f"{value:.3f}"]
            for against in AGAINST:
                found = errors[variant, tables, epsilon, against]
                row += [estimate(found).text(), f"{found.std(ddof=1):.3f}", f"{in_spreads(value, found):+.1f}"]
            rows.append(row)
    header = ["variant", "tables", "epsilon", "reference"]
    return markdown([*header, *(word for name in AGAINST.values() for word in (name, "spread", "z"))], rows)


def _shares_table(shares: Mapping[str, float]) -> str:
    """W and the shares of equation (13), beside the printed places."""
    weights = importance(asia().network)
    rows = [
        [node, f"{weights[node]:g}", f"{share:.1%}", place, PRINTED_ORDER.index(node) + 1]
        for place, (node, share) in enumerate(sorted(shares.items(), key=lambda item: -item[1]), 1)
    ]
    return markdown(["node", "W (equation 11)", "share of the budget", "place", "printed place"], rows)


def _noise_table() -> str:
    """Relative noise with and without sampling."""
    rows = [[f"{beta:g}", f"{relative_noise(0.1, beta):.1f}"] for beta in (1, 0.5, 0.1, 0.01)]
    return markdown(["sampling probability beta", "noise"], rows)


def _shipped_table(frame: pd.DataFrame) -> str:
    """The package's mechanisms with both ways of reading a release."""
    part = frame[frame["part"] == "shipped"]
    found = {key: estimate(values) for key, values in part.groupby(["mechanism", "variant", "at", "metric"])["value"]}
    rows = [
        [name, reading, *(found[name, reading, epsilon, against].text() for epsilon in EPSILONS for against in AGAINST)]
        for name in SHIPPED
        for reading in READINGS
    ]
    columns = [f"epsilon {epsilon}, {against}" for epsilon in EPSILONS for against in AGAINST.values()]
    return markdown(["mechanism", "read by", *columns], rows)


def _checks(frame: pd.DataFrame, errors: Errors, shares: Mapping[str, float]) -> list[Check]:
    """The specification's numbers, and its reading of them."""
    checks = []
    for against, words in AGAINST.items():
        cells = {
            (variant, *at): (value, errors[variant, *at, against], base, errors[UNIFORM, *at, against])
            for variant, values in REFERENCE.items()
            for at, value, base in zip(COLUMNS, values, REFERENCE[UNIFORM], strict=True)
        }
        plain = [(value, own) for value, own, _, _ in cells.values()]
        relative = [(v / b, own / even) for (variant, *_), (v, own, b, even) in cells.items() if variant != UNIFORM]
        checks.append(_in_spreads(f"references, {words}", plain))
        checks.append(_in_spreads(f"ratios of references to that of D-Ind, {words}", relative))
    worse = ratio(errors[SCHEME, 2, 1, "sample"], errors[UNIFORM, 2, 1, "sample"])
    checks.append(Check.clearly_above("error of Algorithm 1 over D-Ind's, epsilon 1", worse, 1.0, digits=2))
    gains = [
        ratio(errors[name, 2, e, "sample"], errors[name, 1, e, "sample"])
        for name in (UNIFORM, SCHEME)
        for e in EPSILONS
    ]
    least, most = (end(gains, key=lambda gain: gain.mean) for end in (min, max))
    checks.append(Check.above("gain of one table for each node, least of four", least, 1.4, sane=1.2, digits=2))
    checks.append(Check.below("gain of one table for each node, most of four", most, 1.7, sane=2.0, digits=2))
    delta = frame[frame["part"] == "equation 7"].groupby("variant")["value"]
    for name, wanted in (("own factor left out", influence(EXAMPLE, "A")), ("own factor kept", 0.25)):
        off = float((delta.get_group(name) - wanted).abs().max())
        what = f"equation (7) in the paper's example, {name}: farthest from {wanted:g} under any probabilities"
        checks.append(Check(what, "at most 1e-12", f"{off:.0e}", off <= 1e-12, "up to 1e-12"))
    order = sorted(shares, key=lambda node: -shares[node])
    expected = " > ".join(ORDER)
    same = tuple(order) == ORDER
    checks.append(Check("order of the budgets", expected, " > ".join(order), same, f"{expected}, alone"))
    half = Estimate(shares["either"])
    checks.append(
        Check.near("share of either in the budget, about a half", Estimate(0.5), half, rounding=0.02, digits=2)
    )
    return [*checks, *_stage_checks(frame)]


def _stage_checks(frame: pd.DataFrame) -> Iterator[Check]:
    """Formulas of the first stage against its simulated noise, and its cost against the exact loss on a coin."""
    noise = frame[frame["part"] == "stage I"]
    for sampling, values in noise.groupby("at")["value"]:
        formula = Estimate(relative_noise(SHARE, float(sampling)))
        what = f"noise of the first stage, simulated, beta = {sampling:g}"
        yield Check.near(what, formula, estimate(values), sane=0.1 * formula.mean, digits=1)
    # The loss tends to its limit as the coin's counts grow, from below.
    exact = Estimate(two_stage_loss((FAR, FAR), (FAR + 1, FAR - 1), 1.0))
    what = f"epsilon under REPLACE where epsilon_B is 1, exact loss of a coin, {2 * FAR} records"
    yield Check.near(what, Estimate(replacing_costs(1, SHARE, SAMPLING)), exact, rounding=0.005, digits=3)


def _in_spreads(what: str, pairs: Sequence[tuple[float, Floats]]) -> Check:
    """All references within three spreads of the means, of those that three spreads say something of.

    Args:
        what: they are.
        pairs: a reference of one unknown sample, and our values of many samples.

    Returns:
        The check; without power if fewer than half of the references say something.
    """
    parts = [MOST_SPREADS * float(own.std(ddof=1) / own.mean()) for _, own in pairs]
    far = [abs(in_spreads(*pair)) for pair, part in zip(pairs, parts, strict=True) if part <= SANE_PART]
    widest = max((part for part in parts if part <= SANE_PART), default=math.nan)
    limit, most = f"less than {MOST_SPREADS:g}", max(far, default=math.nan)
    text = f"{what}, of {len(pairs)} those that a sample knows to {SANE_PART:.0%}: farthest, in spreads"
    accepts = f"{len(far)} of them off by {widest:.0%} at the most"
    return Check(text, limit, f"{most:.1f}", most < MOST_SPREADS, accepts, 2 * len(far) >= len(pairs))


def _notes(frame: pd.DataFrame, errors: Errors) -> str:
    """What the values depend on."""
    part = frame[frame["part"] == "row totals"].sort_values("repeat")
    rare = part[part["metric"] == "records"]["value"].to_numpy(float)
    later = {
        name: estimate(part[(part["variant"] == name) & (part["metric"] == "sample")]["value"])
        for name in ("cells", "parents")
    }
    moves = float(np.corrcoef(rare, errors[UNIFORM, 2, 1, "sample"])[0, 1])
    return (
        f"The values of one sample move together: they depend on how many of its records are in the rarest row of "
        f"'either' (tuberculosis and lung cancer; {rare.min():.0f} to {rare.max():.0f} here, correlation with D-Ind's "
        f"error at epsilon 1 {moves:+.2f}). With the count of a row in equation (12) taken from T_pa, the split "
        f"without sampling, stage I discarded, two tables, epsilon 1, has the error {later['parents'].text()}; taken "
        f"from T, {later['cells'].text()}.\n\n'either' takes half of the budget because its table has certain zeros, "
        "whose counts of 0 count as 1 in equation (12).\n\nUnder REPLACE the printed noise for epsilon_B = 1 costs "
        f"{replacing_costs(1, SHARE, SAMPLING):.2f}."
    )


def _figure(errors: Errors) -> Figure:
    """A panel for each epsilon, a row for each variant."""
    figure, (panels,) = grid(1, len(EPSILONS), width=3.4, height=2.9, sharey=True)
    places = np.arange(len(REFERENCE))[::-1]
    for panel, epsilon in zip(panels, EPSILONS, strict=True):
        for mark, tables in enumerate((2, 1)):
            shift = 0.15 if tables == 2 else -0.15
            found = [errors[name, 2 if tables == 2 else 1, epsilon, "sample"] for name in REFERENCE]
            means, bars = [values.mean() for values in found], [2 * values.std(ddof=1) for values in found]
            look = {**style(mark), "linestyle": "none", "markersize": 5, "capsize": 2}
            label = f"{'two tables' if tables == 2 else 'one table'} for each node"
            panel.errorbar(means, places + shift, xerr=bars, label=label, **look)
            known = [values[COLUMNS.index((2 if tables == 2 else 1, epsilon))] for values in REFERENCE.values()]
            panel.plot(
                known, places + shift, label="reference", marker="x", linestyle="none", color="black", markersize=6
            )
        panel.set_yticks(places, REFERENCE)
        panel.set_xlim(left=0)
        panel.set_xlabel("error (probability)")
        panel.set_title(f"epsilon {epsilon} (nats)")
    legend_below(figure)
    return figure


EXPERIMENT = Experiment(
    title="Chowdhury et al. (2020): what Algorithm 1 is made of, and its budgets on Asia",
    source="Chowdhury, Rekatsinas and Jha (ICML 2020), Algorithm 1, equations (7) and (11) to (13), Section 5.2",
    claim="a third of D-Ind's budget is enough; sampling in the first stage lessens its noise; on Asia budgets fall in "
    "the order " + " > ".join(PRINTED_ORDER),
    data="10,000 records drawn from the bundled network asia, anew for each repeat",
    relation="add or remove one record",
    guarantee="epsilon as given, delta 0; variants in exact arithmetic (continuous noise); under REPLACE the printed "
    "noise costs 1.95 where it says 1",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["chowdhury_allocation"])
