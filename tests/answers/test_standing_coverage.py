"""Intervals of the shipped default hold what they promise, stratum by stratum, on small networks that are hard for it.

Seeds are fixed, and the smallest panel runs always, so it guards the posterior, inference and noise. A panel is a
network, the budgets of its releases, and how many there are; in each run a *share* of the intervals of a stratum holds
its truth. Wanted are 93 % of entries, marginals and conditionals, 85 % of the entries at 0 or 1 and 90 % of every other
stratum. The bound lies as far below as shares of runs spread: a posterior that keeps the promise fails one of the tests
that run together with probability below 1e-7, were all seeds drawn anew (Pearson's law of type III for the mean of
runs, because shares are skewed to the left). Coverage at the bound is found in half of all cases; 1.3 standard errors
of the mean lower, which is a fifth of the way from the promise to the bound, in nine of ten; twice as far from the
promise as the bound, always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import pearson3

from bench.strata import study
from bench.strata_tables import places, violations
from experiments.generated import RECIPES, SMALL, generated
from experiments.networks import asia
from experiments.strata import ENDS, KINDS, Known, Setting, measured

DRAWS = 200
"""Of a posterior: between two of so many draws an interval holds .7 points less than 95 %, which the promise allows."""
LEAST_CHANCE = 3e-9
"""Of a false alarm in one of the tests here; there are 33 at most in a tier."""
SKEWNESS = -2.0
"""Of the share in a run; of most strata it is between -1 and 0, of marginals down to -2.4."""
PROMISE, OTHERWISE, AT_ENDS = 0.93, 0.90, 0.85


@dataclass(frozen=True)
class Panel:
    """Releases that are looked at together.

    Args:
        network: "asia", or a small made-up one.
        epsilons: nats.
        runs: at each epsilon, half of them under each relation.
        spread: standard deviation of the share of a run by stratum, as measured.
    """

    network: str
    epsilons: tuple[str, ...]
    runs: int
    spread: Mapping[str, float]

    def bound(self, stratum: str) -> float:
        """Mean share below which a test fails."""
        promised = PROMISE if stratum in KINDS else AT_ENDS if stratum == ENDS else OTHERWISE
        return lowest(promised, self.spread[stratum], self.releases)

    @property
    def releases(self) -> int:
        """How many there are."""
        return self.runs * len(self.epsilons)


def lowest(promised: float, spread: float, runs: int) -> float:
    """What the mean of so many runs falls below with `LEAST_CHANCE` if its expectation is what is promised."""
    root = np.sqrt(runs)
    return float(promised + pearson3.ppf(LEAST_CHANCE, SKEWNESS / root) * spread / root)


PANELS = {
    "rare": Panel(
        "rare-6",
        ("10",),
        24,
        {"entries": 0.04, "truth < .01": 0.11, "row 1-100": 0.1, "row > 100": 0.045, "marginals": 0.085,
         "conditionals": 0.06},
    ),
    "thin": Panel(
        "thin-6",
        ("0.1",),
        48,
        {"entries": 0.02, "row < 1": 0.02, "row 1-100": 0.03, "row > 100": 0.03, ENDS: 0.025, "marginals": 0.09,
         "conditionals": 0.045},
    ),
    "thin, large budget": Panel(
        "thin-6",
        ("10",),
        6,
        {"entries": 0.02, "truth < .01": 0.035, "row < 1": 0.02, "row 1-100": 0.035, "row > 100": 0.04, ENDS: 0.02},
    ),
    "families": Panel(
        "families-6",
        ("0.1", "10"),
        10,
        {"entries": 0.025, "row 1-100": 0.04, "row > 100": 0.03, "marginals": 0.095, "conditionals": 0.045},
    ),
    "sure": Panel("sure-8", ("1",), 16, {"entries": 0.06, ENDS: 0.02}),
    "asia": Panel("asia", ("1", "10"), 24, {"entries": 0.07, "marginals": 0.11, "conditionals": 0.09}),
}  # fmt: skip
"""A minute and a half of one core; most of it are the panels that are looked at by the thorough tests alone."""
DEAR = pytest.mark.costly("What intervals hold of rare states, by stratum, shows over many releases.")
THOROUGH = {"thin", "families", "sure", "asia"}
"""What is not among them has rare states at a large budget, and thin rows."""


@cache
def known(name: str) -> Known:
    """A network with what is asked of it."""
    return Known.of(name, asia() if name == "asia" else generated(name))


@cache
def shares(name: str) -> Mapping[str, npt.NDArray[np.float64]]:
    """Of a panel: the share of the intervals that hold the truth, by stratum, shape (runs,)."""
    panel, found = PANELS[name], dict[str, list[float]]()
    for epsilon, run in product(panel.epsilons, range(panel.runs)):
        setting = Setting(epsilon, ("add-remove", "replace")[run % 2], draws=DRAWS)
        for stratum, tally in measured(known(panel.network), setting, (17, run)).tallies.items():
            found.setdefault(stratum, []).append(tally.hits / tally.number)
    return {stratum: np.array(runs) for stratum, runs in found.items()}


@pytest.mark.costly("Intervals that are too narrow show in coverage over many releases.")
@pytest.mark.parametrize(
    ("name", "stratum"),
    [
        pytest.param(name, stratum, marks=pytest.mark.thorough if name in THOROUGH else DEAR if name == "rare" else ())
        for name, panel in PANELS.items()
        for stratum in panel.spread
    ],
)
def test_intervals_hold(name: str, stratum: str) -> None:
    found, bound = shares(name)[stratum], PANELS[name].bound(stratum)
    assert found.mean() >= bound, f"{stratum} of {PANELS[name].network}: {found.mean():.3f}, not {bound:.3f} or more"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "left_out",
    [pytest.param(THOROUGH, marks=DEAR), pytest.param(set(), marks=pytest.mark.thorough)],
    ids=["always", "thorough"],
)
def test_intervals_hold_over_all_panels(left_out: set[str], kind: str) -> None:
    """Seventy runs and more, or a hundred: what is one or two points too low everywhere is found here."""
    panels = {name: panel for name, panel in PANELS.items() if kind in panel.spread and name not in left_out}
    runs = np.concatenate([shares(name)[kind] for name in panels])
    variances = [panel.releases * panel.spread[kind] ** 2 for panel in panels.values()]
    bound = lowest(PROMISE, np.sqrt(np.sum(variances) / len(runs)), len(runs))
    assert runs.mean() >= bound, f"{kind}: {runs.mean():.3f}, not {bound:.3f} or more"


def test_bounds_are_near_enough_to_find_what_was_wrong() -> None:
    """Coverage that was measured before the posterior was mended, and by how many standard errors it is found."""
    for name, stratum, before, errors in (
        ("rare", "entries", 0.816, 5),
        ("rare", "truth < .01", 0.496, 9),
        ("rare", "row > 100", 0.794, 3),
        ("thin", ENDS, 0.799, 6),
    ):
        panel = PANELS[name]
        error = panel.spread[stratum] / np.sqrt(panel.releases)
        assert before + errors * error < panel.bound(stratum)


def test_false_alarms_are_rarer_than_one_in_ten_million() -> None:
    for tier in (PANELS.keys() - THOROUGH, THOROUGH):
        tests = [(name, stratum) for name in tier for stratum in PANELS[name].spread]
        assert (len(tests) + len(KINDS)) * LEAST_CHANCE < 1e-7
    assert {panel.network for panel in PANELS.values()} == {"asia", *SMALL}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_intervals_hold_on_made_up_networks(name: str) -> None:
    """What must hold, at epsilon .1, 1 and 10 and under both relations, give or take six standard errors by run.

    Twenty minutes for all ten; with six runs the errors themselves are rough, so this finds what is far off.
    """
    rows = study([name], ["0.1", "1", "10"], ["add-remove", "replace"], runs=6, seeds=17, records=10_000, draws=400,
                 estimated=False)  # fmt: skip
    print("\n" + places(rows))
    assert [str(one) for one in violations(rows) if one.errors > 6] == []
