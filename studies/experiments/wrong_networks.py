"""What a wrong network does to answers, what reading all tables mends, and what the fit check finds.

Records come from a law that the public network denies, or holds. *Made up, right*: seven variables, a random network
and random rows, both public structure and truth. *Made up, wrong*: the public network lacks two in five of its arcs.
*ADULT*: nine columns of the public table, records drawn from it with replacement, arcs drawn by hand; its own
frequencies are the truth. Every release spends all of epsilon on the plan, `planned(pairs_share=0)`, so that what
reading mends is not mixed up with what measured pairs do (that is the page on pairs). It is read twice, with the
network trusted and as all tables say; all shares of one, two and three variables are asked, by what the second answer
rests on.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.queries.synthetic import sample_codes

from .errors import simulated, single
from .harness import Experiment, Task, command
from .pages import Check, Estimate, Page, estimate, markdown
from .shipped import CALLS, NO_PAIRS, SHIPPED, planned

__all__ = [
    "EXPERIMENT",
    "POPULATIONS",
    "Codes",
    "Law",
    "adult",
    "answers",
    "cut",
    "held",
    "law_of",
    "made_up",
    "missing",
]

Floats = npt.NDArray[np.float64]
Codes = dict[str, npt.NDArray[np.int64]]
Law = Callable[[tuple[str, ...]], Floats]
"""The true joint law of some variables."""

RIGHT, WRONG, ADULT = "made up, right", "made up, wrong", "ADULT, by hand"
EPSILONS = (0.3, 1.0, 3.0)
RECORDS = 20_000
DRAWS = 300
LEVEL = 0.95
LEFT_OUT = 0.4
"""Share of the arcs that a wrong network lacks."""
LEAST = 1e-6
"""Probability of a cell that counts."""
MARKS = ("measured", "inferred", "assumed")
METRICS = ("held", "width", "error")
GOOD, SANE = 0.92, 0.85
"""Least share of cells that 95 % intervals are to hold, and what nobody would mind of a few cells a release."""
TRUSTED, READ = "trusted", "as tables say"
READINGS = {TRUSTED: True, READ: False}
HAND = {
    "marital": ("age",),
    "education": ("age",),
    "workclass": ("education",),
    "occupation": ("education", "sex"),
    "hours": ("occupation",),
    "income": ("education", "occupation", "hours"),
}
"""Arcs that somebody may draw between columns of ADULT."""
COLUMNS = {"age": 0, "workclass": 1, "education": 4, "marital": 5, "occupation": 6, "race": 8, "sex": 9, "hours": 12,
           "income": 14}  # fmt: skip
CUTS = {"age": (28, 38, 50), "education": (9, 10, 13), "hours": (35, 41)}


def made_up(rng: np.random.Generator) -> dc.Tables:
    """Probabilities of a random network: seven variables of two to four states, up to three parents."""
    variables = tuple(dc.Variable(f"v{i}", tuple(f"s{k}" for k in range(rng.integers(2, 5)))) for i in range(7))
    names = [variable.name for variable in variables]
    parents = {
        name: tuple(sorted(rng.choice(names[:place], min(place, int(rng.integers(1, 4))), replace=False)))
        for place, name in enumerate(names)
    }
    network = dc.Network(variables, parents)
    drawn = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=rng)
    return dc.Tables(network, {node: table[..., 0] for node, table in drawn.items()})


def cut(network: dc.Network, rng: np.random.Generator) -> dc.Network:
    """The network without some of its arcs."""
    kept = {node: tuple(name for name in network.parents[node] if rng.random() > LEFT_OUT) for node in network.nodes}
    return dc.Network(network.variables, kept)


def _known(theta: dc.Tables, public: dc.Network, rng: np.random.Generator) -> tuple[dc.Network, Codes, Law]:
    """Records of known probabilities."""
    return public, sample_codes(theta, RECORDS, rng), law_of(theta)


def law_of(theta: dc.Tables) -> Law:
    """Joint laws of some variables of a network, which is the truth."""
    cells = single(theta)
    return lambda names: Laws(cells).joint(names)[..., 0]


def _right(task: Task) -> tuple[dc.Network, Codes, Law]:
    theta = made_up(task.rng("law"))
    return _known(theta, theta.network, task.rng("records"))


def _wrong(task: Task) -> tuple[dc.Network, Codes, Law]:
    theta = made_up(task.rng("law"))
    return _known(theta, cut(theta.network, task.rng("arcs")), task.rng("records"))


def _by_hand(task: Task) -> tuple[dc.Network, Codes, Law]:
    network, codes = adult()
    size = len(next(iter(codes.values())))
    rows = task.rng("records").integers(size, size=size)

    def law(names: tuple[str, ...]) -> Floats:
        shape = [network.schema[name].size for name in names]
        flat = np.ravel_multi_index([codes[name] for name in names], shape)
        return np.bincount(flat, minlength=math.prod(shape)).reshape(shape) / size

    return network, {name: column[rows] for name, column in codes.items()}, law


POPULATIONS: Mapping[str, Callable[[Task], tuple[dc.Network, Codes, Law]]] = {
    RIGHT: _right,
    WRONG: _wrong,
    ADULT: _by_hand,
}
"""What is public, records, and the truth."""


def _file() -> Path:
    """Where the public table is, if anywhere."""
    return Path(os.environ.get("DISCREET_DATA", "")) / "uci" / "adult.data.gz"


@cache
def adult() -> tuple[dc.Network, Codes]:
    """Nine columns of ADULT in few states, under the arcs drawn by hand."""
    with gzip.open(_file(), "rt") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == 15]
    states: dict[str, list[str]] = {}
    for name, place in COLUMNS.items():
        if name in CUTS:
            found = np.searchsorted(CUTS[name], [float(row[place]) for row in rows], side="right")
            states[name] = [f"b{bin_}" for bin_ in found]
        else:
            states[name] = [_grouped(name, row[place]) for row in rows]
    variables = tuple(dc.Variable(name, tuple(sorted(set(found)))) for name, found in states.items())
    network = dc.Network(variables, {name: HAND.get(name, ()) for name in states})
    codes = {v.name: np.array([v.states.index(s) for s in states[v.name]], np.int64) for v in variables}
    return network, codes


def _grouped(name: str, value: str) -> str:
    """A column's value among few."""
    match name:
        case "workclass":
            return "private" if value == "Private" else "self" if value.startswith("Self") else "other"
        case "marital":
            return "married" if value.startswith("Married-c") else "never" if value.startswith("Never") else "was"
        case "occupation":
            offices, trades = ("Adm-clerical", "Sales", "Tech-support"), ("Craft", "Machine", "Transport", "Handlers")
            if value in ("Exec-managerial", "Prof-specialty"):
                return "professional"
            return "office" if value in offices else "trade" if value.startswith((*trades, "Farming")) else "service"
        case "race":
            return "white" if value == "White" else "other"
    return value


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Every population at every epsilon."""
    here = [name for name in POPULATIONS if name != ADULT or _file().is_file()]
    return [({"population": name, "epsilon": epsilon}, 8 if quick else 40) for name in here for epsilon in EPSILONS]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Both readings of one release, and its fit check."""
    network, codes, law = POPULATIONS[task.setting["population"]](task)
    epsilon = task.setting["epsilon"]
    release = simulated(
        planned(NO_PAIRS), dc.tools.count_codes(network, codes), epsilon, task.rng(f"noise {epsilon:g}")
    )
    checked = dc.check_fit(release)
    yield {"metric": "contradicted", "value": float(bool(checked.contradicted))}
    yield {"metric": "tested", "value": float(len(checked.tests))}
    marks: dict[tuple[str, ...], str] = {}
    for reading in reversed(READINGS):
        rng = task.rng(f"posterior {epsilon:g}")
        posterior = dc.noise_aware(release, draws=DRAWS, rng=rng, trust_network=READINGS[reading])
        if not marks:
            assert posterior.basis is not None
            marks = {
                names: posterior.basis.of(names)[0] for size in (1, 2, 3) for names in combinations(network.nodes, size)
            }
        yield from ({"reading": reading, **row} for row in held(posterior, marks, law))


def answers(posterior: dc.results.PosteriorDraws) -> Law:
    """Joint draws of any variables, an axis for each and one of draws."""
    return lambda names: Laws(posterior.law.cells).joint(names)


def held(
    posterior: dc.results.PosteriorDraws, marks: Mapping[tuple[str, ...], str], law: Law
) -> Iterator[dict[str, Any]]:
    """Shares of cells that intervals hold, widths and errors of means, by the number of variables and the mark."""
    found: dict[tuple[int, str], list[Floats]] = {}
    read = answers(posterior)
    for names, mark in marks.items():
        table, truth = read(names), law(names)
        lower, upper = dc.tools.credible_interval(table, LEVEL)
        numbers = np.stack([(lower <= truth) & (truth <= upper), upper - lower, np.abs(table.mean(axis=-1) - truth)])
        found.setdefault((len(names), mark), []).append(numbers[:, truth > LEAST])
    for (size, mark), parts in found.items():
        for metric, value in zip(METRICS, np.concatenate(parts, axis=1).mean(axis=1), strict=True):
            yield {"variables": size, "mark": mark, "metric": metric, "value": float(value)}


# ------------------------------------------------------------------------------------------ the page


def present(frame: pd.DataFrame) -> Page:
    """Coverage, widths and errors by population, what the check found, and what checks them."""
    here = [name for name in POPULATIONS if name in set(frame["population"])]
    told = [
        f"{name} {_share(frame, name, TRUSTED, 2).text(2)} / {_share(frame, name, TRUSTED, 3).text(2)} network "
        f"trusted, {_share(frame, name, READ, 2).text(2)} / "
        f"{_share(frame, name, READ, 3).text(2)} {READ}"
        for name in here
    ]
    verdict = f"Beyond the papers: 95 % intervals of measured pairs / triples hold: {'; '.join(told)}."
    tables = [
        ("Share of cells that 95 % intervals hold, by what the second answer rests on, ± one standard error over "
         "repeats.", _table(frame, "held", 3)),
        ("Mean width of these intervals.", _table(frame, "width", 4)),
        ("Mean absolute error of the posterior mean.", _table(frame, "error", 4)),
        ("The fit check.", _fits(frame)),
    ]  # fmt: skip
    return Page(verdict, (), tables, list(_checks(frame, here)), NOTES)


NOTES = (
    f"Releases are {CALLS[NO_PAIRS]}: nothing is spent on pairs that no table holds. The {SHIPPED}, {CALLS[SHIPPED]}, "
    "does so, and [a page](audits.md) has what that changes.\n\n"
    "Of what no table holds together (*assumed*) nobody can know more than the network says, so that intervals fail "
    "where it is wrong; answers say which they are. *Inferred* triples rest on their pairs, and on what triples of the "
    "same release's tables teach of interactions beyond pairs. A wrong network is not found where no table holds what "
    "it denies. Cells of a release depend on each other: its share varies by some points."
)


def _part(frame: pd.DataFrame, name: str, reading: str, size: int, mark: str, metric: str) -> pd.DataFrame:
    """Rows of one number."""
    kept = (frame["population"] == name) & (frame["reading"] == reading) & (frame["metric"] == metric)
    return frame[kept & (frame["variables"] == size) & (frame["mark"] == mark)]


def _share(frame: pd.DataFrame, name: str, reading: str, size: int) -> Estimate:
    """Of measured cells that are held, over all epsilons."""
    return estimate(_by_release(_part(frame, name, reading, size, "measured", "held")))


def _by_release(part: pd.DataFrame) -> pd.Series[float]:
    """One number for each release."""
    return part.set_index(["epsilon", "repeat"])["value"].sort_index()


def _table(frame: pd.DataFrame, metric: str, digits: int) -> str:
    """By population, mark and number of variables: both readings at each epsilon."""
    rows = []
    for name in POPULATIONS:
        for mark in MARKS:
            for size in (1, 2, 3):
                parts = [_part(frame, name, reading, size, mark, metric) for reading in READINGS]
                if all(part.empty for part in parts):
                    continue
                cells = [
                    estimate(part.loc[part["epsilon"] == epsilon, "value"]).text(digits)
                    for part in parts
                    for epsilon in EPSILONS
                ]
                rows.append([name, mark, str(size), *cells])
    header = ["records", "rests on", "variables", *(f"{reading}, {at:g}" for reading in READINGS for at in EPSILONS)]
    return markdown(header, rows)


def _fits(frame: pd.DataFrame) -> str:
    """Tests a release, and releases in which anything is contradicted."""
    rows = []
    for name in POPULATIONS:
        of = frame[frame["population"] == name]
        for epsilon in EPSILONS:
            here = of[of["epsilon"] == epsilon]
            if here.empty:
                continue
            values = [here.loc[here["metric"] == metric, "value"] for metric in ("tested", "contradicted")]
            rows.append(
                [name, f"{epsilon:g}", f"{values[0].mean():.1f}", f"{int(values[1].sum())} of {len(values[1])}"]
            )
    return markdown(["records", "epsilon", "tests a release", "releases contradicted"], rows)


def _checks(frame: pd.DataFrame, here: Sequence[str]) -> Iterator[Check]:
    """What was measured is held whatever the network; trust is not; alarms are rare where it is right."""
    for name in here:
        for size in (1, 2, 3):
            found = _share(frame, name, READ, size)
            yield Check.above(f"{name}: measured shares of {size} held {READ}", found, GOOD, sane=SANE)
        if name != RIGHT:
            found = _share(frame, name, TRUSTED, 3)
            yield Check.clearly_below(f"{name}: measured shares of 3 held with trust", found, GOOD)
    alarms = frame[frame["metric"] == "contradicted"]
    of_right = estimate(alarms.loc[alarms["population"] == RIGHT, "value"])
    yield Check.below("right networks: releases contradicted", of_right, 0.05, sane=0.25)
    widths = [_by_release(_part(frame, RIGHT, reading, 2, "measured", "width")) for reading in READINGS]
    longer = estimate(widths[1] / widths[0])
    yield Check.below(f"right networks: width of measured pairs, {READ} over trust", longer, 1.1, sane=1.2)


def missing() -> list[str]:
    """Parts that cannot be run here, each with its reason."""
    return [] if _file().is_file() else ["ADULT: no uci/adult.data.gz in $DISCREET_DATA"]


EXPERIMENT = Experiment(
    title="Beyond the papers: when the network is wrong",
    source="ours; [the network](../network.md) has the method",
    claim="nothing of this kind",
    data=f"{RECORDS:,} made-up records of random networks; ADULT (UCI), as many as it has, drawn with replacement",
    relation="add or remove one record",
    guarantee="epsilon as given, delta 0",
    plan=plan,
    measure=measure,
    present=present,
    missing=missing,
)

if __name__ == "__main__":
    command(["wrong_networks"])
