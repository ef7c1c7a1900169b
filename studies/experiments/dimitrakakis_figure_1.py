"""How much of a prior sits on smooth likelihoods: Figure 1 of Dimitrakakis et al. (JMLR 2017), exactly.

Bernoulli families with theta = Delta, 2 Delta, ..., 1 - Delta, distance |x - y|, so that `l(theta) = |ln(theta / (1 -
theta))|`. Thick in the figure is the mass `xi(l <= L)`, thin the bound `1 - exp(-c (L - L0))` of Assumption 2 with the
largest c that holds everywhere. L0 is not printed; it is taken to be the smallest l, where the mass starts.

Example 1 has theta = k Delta for all k up to 1 / Delta, so that theta = 1, whose l is infinite, is among them: with it
the prior, Delta for each, sums to 1, and no L there is satisfies Assumption 1. Without it, as the figure has it, the
prior is divided by its sum, and ln(1 / Delta), which is said to satisfy the assumption, does: it is above the least L.

The package has it as `dc.research.own_family`, and `dc.research.sampled` draws from its posterior. What that charges
for a replaced record, and for each unit of |x - y| under a metric, is the 2 L of Theorem 8.1 with the L of
Assumption 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import discreet as dc
from discreet.research.bounds import assumption_one, assumption_two, lipschitz_constants

from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, markdown
from .pictures import STYLES, grid, legend_below
from .shipped_families import bits_of, tempers, width

Floats = npt.NDArray[np.float64]

__all__ = ["EXPERIMENT", "PRIORS", "STEPS", "family_constants", "measured_family", "prior_masses", "slack"]

STEPS = (0.2, 0.05)
PRIORS = ("uniform", "exp(-l)")
PRINTED_DIGITS = {
    ("uniform", 0.2): (0.7067, 1.386, 0.405),
    ("uniform", 0.05): (0.2694, 2.944, 0.0),
    ("exp(-l)", 0.2): (1.3247, 1.386, 0.405),
    ("exp(-l)", 0.05): (0.6884, 2.944, 0.0),
}
"""c, L and L0 of another calculation, to the digits given."""


def family_constants(step: float, *, with_one: bool = False) -> Floats:
    """`l(theta)` of the finite Bernoulli family.

    Args:
        step: Delta, one over a whole number.
        with_one: keep theta = 1, as printed.

    Returns:
        Nats for each unit of |x - y|, shape (parameters,); infinite at theta = 1.
    """
    theta = step * np.arange(1, round(1 / step) + with_one)
    theta[-1] = 1.0 if with_one else theta[-1]
    with np.errstate(divide="ignore"):
        return lipschitz_constants(np.log([1 - theta, theta]).T, [[0, 1], [1, 0]])


def prior_masses(prior: str, constants: Floats) -> Floats:
    """The two priors of the figure, as probabilities; shape (parameters,)."""
    weights = np.ones_like(constants) if prior == "uniform" else np.exp(-constants)
    return np.asarray(weights / weights.sum())


def slack(constants: Floats, masses: Floats, start: float, rate: float) -> float:
    """Smallest gap between mass and bound, looked for just below every step and on a grid.

    Args:
        constants, masses: of the family and its prior.
        start, rate: L0 and c.

    Returns:
        Negative where the bound is broken.
    """
    points = np.concatenate([np.linspace(start, constants.max() + 1, 2000), constants * (1 - 1e-12)])
    points = points[points >= start]
    mass = (masses[:, None] * (constants[:, None] <= points)).sum(axis=0)
    return float((mass - 1 + np.exp(-rate * (points - start))).min())


def measured_family(step: float, prior: str) -> dict[str, float]:
    """Constants of Assumptions 1 and 2 of a family, corrected and as printed.

    Args:
        step: Delta.
        prior: one of `PRIORS`.

    Returns:
        By name: `L`, `L0`, `c`; `slack` at c and `slack above`, at 1.01 c; `c from 0`, with L0 = 0; and of what is
        printed `L printed`, `prior printed` (the sum of its masses without theta = 1), `prior refused` (whether the
        package refuses them) and `c printed` (theta = 1 kept, prior uniform).
    """
    constants = family_constants(step)
    masses, start = prior_masses(prior, constants), float(constants.min())
    rate = assumption_two(constants, masses, start)
    whole = family_constants(step, with_one=True)
    return {
        "L": assumption_one(constants),
        "L0": start,
        "c": rate,
        "slack": slack(constants, masses, start, rate),
        "slack above": slack(constants, masses, start, 1.01 * rate),
        "c from 0": assumption_two(constants, masses, 0.0),
        "L printed": float(np.log(1 / step)),
        "prior printed": step * constants.size,
        "prior refused": float(_is_refused(constants, np.full(constants.size, step))),
        "c printed": assumption_two(whole, prior_masses("uniform", whole), start),
    }


def shipped_family(step: float, prior: str) -> dict[str, float]:
    """What `dc.research.sampled` charges for a draw from the posterior of such a family, and tempers of its releases.

    Args:
        step: Delta.
        prior: one of `PRIORS`.

    Returns:
        By relation and what it is: `charged` in nats, `temper` of a release at 2 L (L where a record is added), and
        `half`, of one at half of that.
    """
    constants = family_constants(step)
    masses, lipschitz = prior_masses(prior, constants), assumption_one(constants)
    theta = step * np.arange(1, round(1 / step))
    family, found = bits_of(theta, masses, lipschitz), {}
    for relation, _, whole, half in tempers(family):
        charged = width(family.table, relation, family.unit)
        found |= {f"{relation} charged": charged, f"{relation} temper": whole, f"{relation} half": half}
    return found


def _is_refused(constants: Floats, masses: Floats) -> bool:
    """Whether the package takes masses for no distribution."""
    try:
        assumption_two(constants, masses, 0.0)
    except dc.InputError:
        return True
    return False


# ------------------------------------------------------------------------------------------ the experiment


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Both families with both priors; nothing is random."""
    return [({"prior": prior, "step": step}, 0) for prior in PRIORS for step in STEPS]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """The constants, and the steps of the mass: `at` is where it rises to `value`."""
    step, prior = task.setting["step"], task.setting["prior"]
    for metric, value in (measured_family(step, prior) | shipped_family(step, prior)).items():
        yield {"metric": metric, "at": np.nan, "value": value}
    constants = family_constants(step)
    masses = prior_masses(prior, constants)
    # theta and 1 - theta have one constant but for rounding.
    for level in np.unique(constants.round(12)):
        yield {"metric": "mass", "at": level, "value": float(masses[constants <= level + 1e-9].sum())}


def present(frame: pd.DataFrame) -> Page:
    """Both panels, the constants, and where what is printed does not work."""
    plain = frame[frame["metric"] != "mass"]
    found = {
        (prior, step): dict(zip(part["metric"], part["value"], strict=True))
        for (prior, step), part in plain.groupby(["prior", "step"])
    }
    rows = [
        [prior, f"{step:g}", *(f"{row[name]:.4f}" for name in ("L", "L0", "c", "c from 0", "L printed", "c printed"))]
        for prior in PRIORS
        for step in STEPS
        for row in [found[prior, step]]
    ]
    header = ["prior", "Delta", "L", "L0", "best c", "best c if L0 = 0", "L as printed", "best c with theta = 1 kept"]
    return Page(
        _verdict(found),
        [
            Illustration(
                "mass",
                _figure(frame, found),
                "Mass of L-Lipschitz parameters (thick) and the bound with the best c (thin); L in nats for each unit "
                "of |x - y|. Marks: the least uniform constant L, and above, in grey, the printed ln(1 / Delta).",
            )
        ],
        [("Constants of Assumptions 1 and 2 (L and L0: nats; c: one over nats; 0: no c > 0 exists).",
          markdown(header, rows)), _shipped_table(found)],
        list(_checks(found)),
        "With theta = 1 the printed prior, Delta for each parameter, sums to 1; without it, to "
        + " and ".join(f"{found['uniform', step]['prior printed']:.2f} (Delta = {step:g})" for step in STEPS)
        + ", by which it is divided here. " + _crossing(found),
    )  # fmt: skip


def _shipped_table(found: dict[tuple[str, float], dict[str, float]]) -> tuple[str, str]:
    """What the package charges beside 2 L."""
    rows = [
        [prior, f"{step:g}", f"{2 * row['L']:.4f}",
         *(f"{row[f'{relation} {name}']:.4f}" for relation in (dc.Relation.REPLACE, dc.Relation.METRIC)
           for name in ("charged", "temper", "half")),
         f"{row['add-remove charged']:.4f}"]
        for (prior, step), row in found.items()
    ]  # fmt: skip
    header = ["prior", "Delta", "2 L", "replaced: charged", "temper at 2 L", "at L",
              "one unit: charged", "temper at 2 L", "at L", "added: charged"]  # fmt: skip
    caption = (
        "What `dc.research.sampled` charges for a posterior draw of the family, as `dc.research.own_family` has it "
        "(nats): for a replaced record, for each unit of |x - y| under a metric, and for an added record; and the "
        "temper of its releases at 2 L and at L. 1 is the posterior itself."
    )
    return caption, markdown(header, rows)


def _verdict(found: dict[tuple[str, float], dict[str, float]]) -> str:
    """One sentence."""
    shifted = all(found["exp(-l)", step]["c"] > found["uniform", step]["c"] for step in STEPS)
    within = all(row["L"] <= row["L printed"] for row in found.values())
    hopeless = all(row["c printed"] == 0 for row in found.values())
    constants = " and ".join(f"{found['uniform', step]['L']:.3f}" for step in STEPS)
    printed = " and ".join(f"{found['uniform', step]['L printed']:.3f}" for step in STEPS)
    word = "Reproduced in part" if hopeless or not within else "Reproduced"
    before = "but only once theta = 1, which Example 1 includes, is left out (no c > 0 and no finite L exist before), "
    word, rise = (word, "rise") if shifted else ("Not reproduced", "do not rise")
    return (
        f"{word}: with prior exp(-l) both bounds {rise}, {before if hopeless else ''}and the least L is {constants}, "
        f"{'as far as' if within else 'beyond'} the printed ln(1 / Delta) = {printed} allows."
    )


def _crossing(found: dict[tuple[str, float], dict[str, float]]) -> str:
    """Where the bound of the coarse family overtakes the other one."""
    parts = []
    for prior in PRIORS:
        coarse, fine = found[prior, STEPS[0]], found[prior, STEPS[1]]
        gap = coarse["c"] - fine["c"]
        level = (coarse["c"] * coarse["L0"] - fine["c"] * fine["L0"]) / gap if gap > 0 else np.inf
        parts.append(f"L = {level:.2f} ({prior})")
    return (
        f"The bound of Delta = {STEPS[0]:g} is the higher one, as the text has it, above " + " and ".join(parts) + "."
    )


def _checks(found: dict[tuple[str, float], dict[str, float]]) -> Iterator[Check]:
    """The digits of the reference, that c is the best, and what is wrong as printed."""
    for (prior, step), (rate, constant, start) in PRINTED_DIGITS.items():
        row, where = found[prior, step], f"prior {prior}, Delta {step:g}"
        yield Check.near(f"best c, {where}", Estimate(rate), Estimate(row["c"]), rounding=5e-5, digits=4)
        yield Check.near(f"L, {where}", Estimate(constant), Estimate(row["L"]), rounding=5e-4)
        yield Check.near(f"L0, {where}", Estimate(start), Estimate(row["L0"]), rounding=5e-4)
        yield Check.above(f"mass less bound at c, {where}", Estimate(row["slack"]), -1e-9, digits=9)
        yield Check.below(f"mass less bound at 1.01 c, {where}", Estimate(row["slack above"]), -1e-6, digits=6)
        yield Check.near(f"best c with theta = 1 kept, {where}", Estimate(0.0), Estimate(row["c printed"]), digits=4)
    for (prior, step), row in found.items():
        where = f"prior {prior}, Delta {step:g}"
        for relation, times in ((dc.Relation.REPLACE, 2), (dc.Relation.METRIC, 2), (dc.Relation.ADD_REMOVE, 1)):
            wanted = {"charged": times * math.log((1 - step) / step), "temper": 1.0, "half": 0.5}
            for name, value in wanted.items():
                what, found_ = f"dc.research.sampled, {relation}, {name}, {where}", Estimate(row[f"{relation} {name}"])
                yield Check.near(what, Estimate(value), found_, rounding=2e-5, digits=5)
    for prior in PRIORS:
        what = f"best c if L0 = 0, prior {prior}, Delta {STEPS[0]:g}"
        yield Check.near(what, Estimate(0.0), Estimate(found[prior, STEPS[0]]["c from 0"]), digits=4)
    for step in STEPS:
        row, where = found["uniform", step], f"Delta {step:g}"
        # ln((1 - Delta) / Delta) is the least L of the family, ln(1 / Delta) one that is printed to serve.
        gap = Estimate(row["L"] - row["L printed"])
        yield Check.near(f"L less the printed one, {where}", Estimate(math.log(1 - step)), gap, rounding=1e-9)
        what = f"the prior Delta without theta = 1, {where}: refused by the package as no distribution (1: it is)"
        yield Check.near(what, Estimate(1.0), Estimate(row["prior refused"]), digits=0)


def _figure(frame: pd.DataFrame, found: dict[tuple[str, float], dict[str, float]]) -> Figure:
    """A panel for each prior."""
    figure, (panels,) = grid(1, 2, width=3.6, height=3.0, sharey=True)
    for panel, prior, letter in zip(panels, PRIORS, "ab", strict=True):
        for place, step in enumerate(STEPS):
            rises = frame[(frame["prior"] == prior) & (frame["step"] == step) & (frame["metric"] == "mass")]
            _draw(panel, place, step, rises, found[prior, step])
        panel.set_xlabel("L (nats for each unit of |x - y|)")
        panel.set_title(f"({letter}) prior {'uniform' if prior == 'uniform' else '~ exp(-l(theta))'}")
        panel.set_ylim(0, 1.2)
    panels[0].set_ylabel("prior mass of l(theta) <= L")
    legend_below(figure, columns=2)
    return figure


def _draw(panel: Axes, place: int, step: float, rises: pd.DataFrame, row: dict[str, float]) -> None:
    """The mass, its bound and both constants of one family."""
    look = {name: STYLES[place][name] for name in ("color", "linestyle")}
    most = 3.2
    at, mass = rises["at"].to_numpy(float), rises["value"].to_numpy(float)
    panel.step([0, *at, most], [0, *mass, 1], where="post", linewidth=2.4, label=f"mass, Delta = {step:g}", **look)
    levels = np.linspace(row["L0"], most, 200)
    bound = 1 - np.exp(-row["c"] * (levels - row["L0"]))
    panel.plot(levels, bound, linewidth=1.0, label=f"bound with the best c, Delta = {step:g}", **look)
    shape = "xo"[place]
    panel.plot(row["L"], 1.07, shape, color=look["color"], markersize=6, label=f"L, Delta = {step:g}")
    panel.plot(row["L printed"], 1.15, shape, color="#808080", markersize=6, label=f"ln(1 / Delta), Delta = {step:g}")


EXPERIMENT = Experiment(
    title="Dimitrakakis et al. (2017), Figure 1: stochastic Lipschitz continuity",
    source="Dimitrakakis, Nelson, Zhang, Mitrokotsa and Rubinstein (JMLR 2017), Examples 1 and 2, Figure 1",
    claim="The mass of L-Lipschitz parameters of two finite Bernoulli families lies above 1 - exp(-c (L - L0)); the "
    "higher curve is that of Delta = .2, and a prior exp(-l) shifts both bounds up; L = ln(1 / Delta). No c is printed",
    data="none: a property of families and priors, calculated",
    relation="one of the records, each 0 or 1, is replaced: distance 1",
    guarantee="of a draw from such a posterior 2 L for each record replaced, with the L of Assumption 1; none follows "
    "from Assumption 2 (see the examples' page)",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["dimitrakakis_figure_1"])
