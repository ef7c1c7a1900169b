"""How much less noise a plan needs: stars against tables alone, private-pgm, D-Ind and Algorithm 1.

Every plan has all of epsilon, `planned(pairs_share=0)`: what is compared is how its tables share it.
All learn the same records of known networks under ADD_REMOVE. *Noise alone*: the sum over all cells of all families of
the absolute error of the tables that least squares makes of a release, with stars and without, and what the plans
expected it to be before there was a record. *Errors*: of tables (mean over rows of `sum_x |released - true|`),
marginals and conditionals (`errors`). Ours are read as they are asked: tables by `estimate(loss="absolute")`, queries
by `estimate()`. Private-pgm reads the same stars, and a table of each family with noise of its own, in equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import discreet as dc
from discreet.posterior.pooled.least_squares import least_squares
from discreet.posterior.pooled.measured import read_tables

from . import d_ind as printed
from .budget import left_out, spread
from .chowdhury import FORMS, both_forms
from .d_ind import as_runs
from .errors import Data, Truth, errors, simulated, single
from .harness import Experiment, Task, command
from .networks import absent, available, theta_of
from .pages import Check, Estimate, Page, estimate, markdown
from .private_pgm import importable, read_by_mbi
from .shipped import CALLS, NO_PAIRS, SHIPPED, planned
from .tables_alone import tables_alone

__all__ = ["EXPERIMENT", "NETWORKS", "relative"]

Floats = npt.NDArray[np.float64]

NETWORKS = ("asia", "sachs", "child", "alarm")
EPSILONS = (0.3, 1.0, 3.0)
RECORDS = 10_000
RELEASES = 20
"""Of each mechanism in each repeat, for the noise alone."""
STARS, ALONE, EQUAL = "planned: stars", "planned: every table alone", "each family, equal parts"
MECHANISMS: Mapping[str, Callable[[], dc.tools.Mechanism]] = {
    STARS: lambda: planned(NO_PAIRS),
    ALONE: tables_alone,
    EQUAL: dc.laplace,
}
"""By what is measured."""
ON_STARS, ON_FAMILIES = "mbi on our stars", "mbi on each family, equal parts"
PEERS = {ON_STARS: STARS, ON_FAMILIES: EQUAL}
"""What private-pgm reads."""
ALGORITHM_1 = "Algorithm 1"
ERRORS = {"cpt": "tables", "marg": "marginals", "cond": "conditionals"}
NOISE, EXPECTED = "noise", "expected noise"
LOSSES = ("absolute", "squared")
SANE = 0.1
"""By how much noise may differ from what a plan expects and nobody would mind: least squares is taken for normal."""
WORSE = float(np.log(1.25))
"""Log ratio of errors up to which "no worse" is still true."""


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Every network at every epsilon."""
    return [
        ({"network": name, "epsilon": epsilon}, 6 if quick else 40)
        for name in available(NETWORKS)
        for epsilon in EPSILONS
    ]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Noise and errors of all methods on the same records."""
    name, epsilon = task.setting["network"], task.setting["epsilon"]
    theta = theta_of(name)
    data = Data.drawn(Truth.of(theta, name), RECORDS, task.rng(f"records {name}"))
    releases = {}
    for what, mechanism in MECHANISMS.items():
        releases[what] = release = simulated(mechanism(), data.counts, epsilon, task.rng(f"noise {what} {epsilon:g}"))
        more = (
            simulated(mechanism(), data.counts, epsilon, task.rng(f"{what} {epsilon:g} {n}")) for n in range(RELEASES)
        )
        yield {"method": what, "metric": NOISE, "value": float(np.mean([_noise(each, data) for each in more]))}
        if what != EQUAL:
            yield {"method": what, "metric": EXPECTED, "value": _expected(release)}
    for what in (STARS, ALONE):
        rng = task.rng(f"posterior {what} {epsilon:g}")
        tables, means = (dc.estimate(releases[what], rng=rng, loss=loss) for loss in LOSSES)
        for metric in ERRORS:
            yield _error(what, metric, data, single(tables if metric == "cpt" else means))
    for what, read in PEERS.items() if importable() else ():
        found = single(read_by_mbi(releases[read]))
        yield from (_error(what, metric, data, found) for metric in ERRORS)
    rng, counts = task.rng(f"baselines {epsilon:g}"), as_runs(data.counts.tables)
    for form, each in both_forms(theta.network, counts, epsilon, 1, rng).items():
        yield from (_error(form, metric, data, each) for metric in ERRORS)
    found = printed.algorithm_1(theta.network, data.codes, epsilon, 1, rng).theta
    each = dc.Tables(theta.network, found, draws=1)
    yield from (_error(ALGORITHM_1, metric, data, each) for metric in ERRORS)


def _noise(release: dc.Release, data: Data) -> float:
    """Absolute errors of all cells of all families after least squares, records."""
    made = release.network
    fitted = least_squares(read_tables(made, release.payload.measurements), release.records)
    exact = data.counts.tables
    return float(sum(np.abs(fitted.table(made.family(node)) - exact[node]).sum() for node in made.nodes))


def _expected(release: dc.Release) -> float:
    """The same as the plan foretold it: a mean absolute error of a cell of each family."""
    told, made = release.calibration.expected, release.network
    return float(sum(made.cells(made.family(node)) * told[node] for node in made.nodes))


def _error(method: str, metric: str, data: Data, theta: dc.Tables) -> dict[str, Any]:
    """A row."""
    return {"method": method, "metric": metric, "value": float(errors(data, theta)[metric][0])}


# ------------------------------------------------------------------------------------------ the page


def relative(frame: pd.DataFrame, metric: str, mine: str, other: str) -> dict[tuple[str, float], Estimate]:
    """Mean errors of a method over those of another, on the same records.

    Args:
        frame: with columns network, epsilon, method, metric, repeat and value.
        metric: which error.
        mine, other: methods.

    Returns:
        By network and epsilon; jackknife standard errors.
    """
    part = frame[frame["metric"] == metric]
    wide = part.pivot_table(index=["network", "epsilon"], columns=["method", "repeat"], values="value")
    found = {}
    for place, row in wide.iterrows():
        ratio = left_out(row[mine].to_numpy(float)) / left_out(row[other].to_numpy(float))
        found[place] = Estimate(float(ratio[0]), spread(ratio))
    return found


def present(frame: pd.DataFrame) -> Page:
    """Noise and errors by network, and what checks them."""
    here = [name for name in NETWORKS if name in set(frame["network"])]
    noise = {name: _over_epsilons(frame[frame["network"] == name]) for name in here}
    told = ", ".join(f"{name} {found.text(2)}" for name, (_, found) in noise.items())
    means = [
        f"{other} {'/'.join(f'{np.exp(_log_ratio(frame, metric, other).mean):.2f}' for metric in ERRORS)}"
        for other in (*_peers(frame), *FORMS, ALGORITHM_1)
    ]
    verdict = (
        f"Beyond the papers: noise of stars over that of tables alone at equal epsilon: {told}; errors of "
        f"{CALLS[NO_PAIRS]} in "
        f"tables/marginals/conditionals over those of others, geometric means: {'; '.join(means)}."
    )
    rows = [
        [name, f"{foretold:.3f}", found.text(3), _equal(frame[frame["network"] == name]).text(3)]
        for name, (foretold, found) in noise.items()
    ]
    tables = [
        ("Noise alone: absolute error of all cells of all families after least squares, over that of tables alone, "
         "means over epsilon. A plan foretells it from sizes alone.",
         markdown(["network", "stars, foretold", "stars, measured", EQUAL], rows)),
        *((f"Error of {words}, mean ± one standard error.", _table(frame, metric)) for metric, words in ERRORS.items()),
    ]  # fmt: skip
    return Page(verdict, (), tables, list(_checks(frame, noise)), NOTES)


NOTES = (
    f"Stars are those of {CALLS[NO_PAIRS]}, which spends all of epsilon on its plan; the {SHIPPED}, {CALLS[SHIPPED]}, "
    "leaves the plan four fifths.\n\n"
    "Where sampling is most of an error (asia and the queries of all networks at epsilon 1 and 3) less noise changes "
    "little. D-Ind and Algorithm 1 are as in [Figure 2](chowdhury_figure_2.md); its budget ratios say what errors are "
    "worth in epsilon."
)


def _peers(frame: pd.DataFrame) -> list[str]:
    """Those that were run."""
    return [name for name in PEERS if name in set(frame["method"])]


def _over_epsilons(part: pd.DataFrame) -> tuple[float, Estimate]:
    """Of one network: noise of stars over that of tables alone, foretold and measured."""
    foretold = [found.mean for found in relative(part, EXPECTED, STARS, ALONE).values()]
    return float(np.mean(foretold)), _mean(relative(part, NOISE, STARS, ALONE))


def _equal(part: pd.DataFrame) -> Estimate:
    """Of one network: noise of equal parts over that of tables alone."""
    return _mean(relative(part, NOISE, EQUAL, ALONE))


def _mean(found: Mapping[Any, Estimate]) -> Estimate:
    """Of independent estimates."""
    errors_of = [one.error for one in found.values()]
    return Estimate(
        float(np.mean([one.mean for one in found.values()])), float(np.linalg.norm(errors_of) / len(errors_of))
    )


def _log_ratio(frame: pd.DataFrame, metric: str, other: str) -> Estimate:
    """Mean over networks and epsilons of the logarithm of the stars' error over another's."""
    found = relative(frame, metric, STARS, other)
    logs = {place: Estimate(float(np.log(one.mean)), one.error / one.mean) for place, one in found.items()}
    return _mean(logs)


def _table(frame: pd.DataFrame, metric: str) -> str:
    """Mean errors by method, network and epsilon."""
    part = frame[frame["metric"] == metric]
    values = {key: estimate(rows["value"]) for key, rows in part.groupby(["method", "network", "epsilon"])}
    methods, known = list(dict.fromkeys(part["method"])), {place[1:] for place in values}
    places = [(name, epsilon) for name in NETWORKS for epsilon in EPSILONS if (name, epsilon) in known]
    header = ["network", "epsilon", *methods]
    return markdown(
        header, [[name, f"{at:g}", *(values[method, name, at].text(4) for method in methods)] for name, at in places]
    )


def _checks(frame: pd.DataFrame, noise: Mapping[str, tuple[float, Estimate]]) -> Iterator[Check]:
    """Noise is what was foretold, and errors are not above those of the others."""
    for name, (foretold, found) in noise.items():
        what = f"{name}: noise of stars over tables alone, against what the plans foretell"
        yield Check.near(what, Estimate(foretold), found, sane=SANE)
    for other in (ALONE, *_peers(frame), *FORMS, ALGORITHM_1):
        for metric, words in ERRORS.items():
            found = _log_ratio(frame, metric, other)
            what = f"{words}: mean log ratio of the error of stars over that of {other}"
            if other in FORMS or other == ALGORITHM_1 or (other in PEERS and metric == "cpt"):
                yield Check.clearly_below(what, found, 0.0)
            else:
                yield Check.below(what, found, 0.0, sane=WORSE)


EXPERIMENT = Experiment(
    title="Beyond the papers: how much noise a plan needs",
    source="ours; stars are in [mechanisms](../mechanisms.md)",
    claim="nothing of this kind",
    data=f"{RECORDS:,} made-up records of each network",
    relation="add or remove one record",
    guarantee="epsilon as given, delta 0",
    plan=plan,
    measure=measure,
    present=present,
    missing=lambda: [*absent(NETWORKS), *(() if importable() else ("mbi: not installed (extra bench)",))],
)

if __name__ == "__main__":
    command(["planned_noise"])
