"""Whether a plan from the wanted accuracy says what releases show: half-widths, their spread, errors.

`python -m bench.plan [asia child FOLDER ...] [--epsilon 1] [--records 10000] [--releases 20] [--unknown]` asks ten
questions of each network: three marginals, three with one observed state, two with two of them, and two with a rare
one. They are picked by a seed, so nobody picked them because they went well. The plan is of the releases' budget.
`survey` and `insurer` are made up here: tables with rare states, as they have them.

Each line has the predicted half-width and the mean of the releases', each with its relative standard error, the
quotient of the two, the spread that eight in ten releases are to keep, the share of the releases that did, and the
predicted and the mean absolute error. A mean of 20 half-widths is itself only known to its standard error: with rare
evidence that is a fifth, and a quotient beyond 15 % says something only where it is beyond two of both, too (`off`).

`--unknown` also plans with the network alone, whose probabilities are drawn: the spread is then that of other networks,
and the releases are of the network's own probabilities.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.sampling import sample_codes
from experiments.networks import theta_of

__all__ = ["Compared", "compare", "main", "pick_questions", "report", "see_releases", "survey_like"]

Floats = npt.NDArray[np.float64]

KINDS = ((3, 1, 0.05, 1.0), (2, 2, 0.02, 1.0), (2, 1, 0.002, 0.02))
"""How many questions have how many observed states, and between which probabilities of the evidence."""
MARGINALS, QUESTIONS = 3, 10
RARE_PAIR = (0.0005, 0.05)
"""Probability of the two observed states that are asked for where no single state is rare."""
PROBES, MOST_TRIES = 20_000, 5_000
DRAWS = 400
CLOSE = 0.15
"""Relative distance of a predicted half-width from the mean of those seen."""


@dataclass(frozen=True)
class Compared:
    """A question: what was predicted, and what releases showed.

    Args:
        query: as text.
        predicted: half-width.
        known_to: its relative standard error, as the plan states it.
        spread: ends between which eight in ten releases are to lie.
        error: predicted absolute error.
        seen: half-widths of the releases, shape (releases,).
        errors: their absolute errors, same shape.
    """

    query: str
    predicted: float
    known_to: float
    spread: tuple[float, float]
    error: float
    seen: Floats
    errors: Floats

    @property
    def quotient(self) -> float:
        """Predicted over mean seen half-width."""
        return self.predicted / float(self.seen.mean())

    @property
    def uncertainty(self) -> float:
        """Relative standard error of the mean seen half-width."""
        return float(self.seen.std(ddof=1) / self.seen.mean() / math.sqrt(len(self.seen)))

    @property
    def close(self) -> bool:
        """Whether the quotient is within 15 %."""
        return abs(self.quotient - 1) <= CLOSE

    @property
    def off(self) -> bool:
        """Whether it is beyond that, and beyond two standard errors of both."""
        return not self.close and abs(math.log(self.quotient)) > 2 * math.hypot(self.uncertainty, self.known_to)

    @property
    def held(self) -> float:
        """Share of the releases within the spread."""
        low, high = self.spread
        return float(np.mean((self.seen >= low) & (self.seen <= high)))

    def __str__(self) -> str:
        mark = "" if self.close else " off" if self.off else " chance"
        low, high = self.spread
        return (
            f"  {self.query:58.58}{self.predicted:8.4f}{self.known_to:5.0%}"
            f"{self.seen.mean():8.4f}{self.uncertainty:5.0%}{self.quotient:6.2f}  "
            f"{low:.4f} to {high:.4f}{self.held:6.0%}{self.error:8.4f}{self.errors.mean():8.4f}"
            f"{mark}"
        )


def pick_questions(theta: dc.Tables, seed: int = 0) -> list[str]:
    """Pick ten questions about a network: common, conditional and rare ones.

    Args:
        theta: probabilities, axes `(*parents, child)`.
        seed: of the choice.

    Returns:
        As text.
    """
    rng, network = np.random.default_rng(seed), theta.network
    codes, nodes = sample_codes(theta, PROBES, rng), list(network.nodes)
    found = [f"P({node})" for node in rng.choice(nodes, min(MARGINALS, len(nodes)), replace=False)]

    def pick(number: int, observed: int, least: float, most: float) -> None:
        wanted = len(found) + number
        for _ in range(MOST_TRIES):
            if len(found) >= wanted or observed >= len(nodes):
                return
            target, *given = map(str, rng.permutation(nodes)[: 1 + observed])
            record = int(rng.integers(PROBES))
            share = np.mean(np.all([codes[name] == codes[name][record] for name in given], axis=0))
            states = ", ".join(f"{name}={network.schema[name].states[codes[name][record]]}" for name in given)
            query = f"P({target} | {states})"
            if least <= share <= most and query not in found:
                found.append(query)

    for kind in KINDS:
        pick(*kind)
    pick(QUESTIONS - len(found), 2, *RARE_PAIR)
    return found


def survey_like(kind: str) -> dc.Tables:
    """Make up probabilities of a household survey, or of an insurer's contracts and claims, with rare states.

    Args:
        kind: "survey" or "insurer".

    Returns:
        The probabilities.
    """
    states, arcs = _TABLES[kind]
    network = dc.Network.from_edges(arcs, [dc.Variable(name, tuple(shares)) for name, shares in states.items()])
    rng = np.random.default_rng(len(states))
    tables = {}
    for name, shares in states.items():
        usual = np.array(list(shares.values()))
        rows = network.cells(network.parents[name])
        # Rows are like the whole, some states more, some less by a factor of e^.7; what is rare stays rare.
        table = usual * np.exp(0.7 * rng.standard_normal((rows, len(usual))))
        tables[name] = (table / table.sum(axis=1, keepdims=True)).reshape(network.shape(name))
    return dc.Tables(network, tables)


_TABLES: dict[str, tuple[dict[str, dict[str, float]], list[tuple[str, str]]]] = {
    "survey": (
        {
            "region": {"north": 0.3, "middle": 0.45, "south": 0.25},
            "age": {"young": 0.2, "adult": 0.55, "old": 0.24, "very_old": 0.01},
            "school": {"none": 0.01, "basic": 0.35, "middle": 0.44, "high": 0.2},
            "work": {"employed": 0.6, "self": 0.08, "none": 0.3, "military": 0.02},
            "income": {"low": 0.3, "middle": 0.5, "high": 0.18, "top": 0.02},
            "health": {"good": 0.7, "fair": 0.25, "bad": 0.05},
            "smokes": {"no": 0.78, "yes": 0.22},
            "care": {"no": 0.97, "yes": 0.03},
            "disease": {"no": 0.995, "yes": 0.005},
        },
        [
            ("age", "school"), ("region", "work"), ("age", "work"), ("school", "work"), ("work", "income"),
            ("school", "income"), ("age", "health"), ("smokes", "health"), ("health", "care"), ("age", "care"),
            ("smokes", "disease"), ("age", "disease"), ("school", "smokes"),
        ],
    ),
    "insurer": (
        {
            "age": {"under25": 0.08, "25to60": 0.7, "over60": 0.22},
            "zone": {"a": 0.3, "b": 0.3, "c": 0.25, "d": 0.12, "e": 0.03},
            "use": {"private": 0.85, "business": 0.13, "taxi": 0.02},
            "car": {"small": 0.4, "medium": 0.45, "large": 0.13, "sport": 0.02},
            "mileage": {"low": 0.35, "medium": 0.45, "high": 0.2},
            "bonus": {"0": 0.1, "1": 0.2, "2": 0.3, "3": 0.4},
            "cover": {"liability": 0.45, "part": 0.3, "full": 0.25},
            "claims": {"none": 0.93, "one": 0.06, "more": 0.01},
            "injury": {"no": 0.996, "yes": 0.004},
            "fraud": {"no": 0.997, "yes": 0.003},
            "cost": {"none": 0.93, "small": 0.05, "large": 0.015, "huge": 0.005},
            "lapsed": {"no": 0.9, "yes": 0.1},
        },
        [
            ("age", "bonus"), ("use", "mileage"), ("age", "car"), ("use", "car"), ("car", "cover"), ("age", "cover"),
            ("mileage", "claims"), ("zone", "claims"), ("age", "claims"), ("claims", "injury"), ("claims", "fraud"),
            ("cover", "fraud"), ("claims", "cost"), ("injury", "cost"), ("bonus", "lapsed"), ("claims", "lapsed"),
        ],
    ),
}  # fmt: skip


def see_releases(
    theta: dc.Tables, queries: Sequence[str], promise: dc.Guarantee, records: int, releases: int
) -> tuple[Floats, Floats]:
    """Simulate releases, each of its own records, and read them.

    Args:
        theta: probabilities.
        queries: to be asked.
        promise: of each release.
        records: of each.
        releases: how many.

    Returns:
        Half-widths of each question's widest row, and the absolute errors of those rows, shape (releases, questions).
    """
    network, mechanism, prior = theta.network, dc.planned(), dc.Dirichlet.uniform(theta.network)
    single = dc.Tables(network, {node: table[..., None] for node, table in theta.items()}, draws=1)
    true = [[row["mean"] for row in one.tidy()] for one in dc.answer_many(dc.results.PosteriorDraws(single), queries)]
    found = []
    for number in range(releases):
        rng = np.random.default_rng([7, number])
        scopes = tuple(mechanism.scopes(network)) or None
        counts = dc.tools.count_codes(network, sample_codes(theta, records, rng), scopes)
        posterior = dc.noise_aware(dc.simulate(mechanism, counts, prior, promise, rng=rng), draws=DRAWS, rng=rng)
        told = []
        for answer, truth in zip(dc.answer_many(posterior, queries), true, strict=True):
            rows = answer.tidy()
            widest = int(np.argmax([row["upper"] - row["lower"] for row in rows]))
            told.append(
                ((rows[widest]["upper"] - rows[widest]["lower"]) / 2, abs(rows[widest]["mean"] - truth[widest]))
            )
        found.append(told)
    widths, errors = np.moveaxis(np.array(found), -1, 0)
    return widths, errors


def compare(
    theta: dc.Tables | dc.Network,
    queries: Sequence[str],
    seen: tuple[Floats, Floats],
    promise: dc.Guarantee,
    records: int,
) -> tuple[list[Compared], float]:
    """Compare a plan with releases.

    Args:
        theta: probabilities that the plan knows; or a network alone.
        queries: that were asked.
        seen: what `see_releases` returned.
        promise: of the releases.
        records: of each data set.

    Returns:
        The questions, and the plan's CPU seconds.
    """
    widths, errors = seen
    start = time.process_time()
    plan = dc.plan_accuracy(theta, queries, None, records, guarantee=promise, rng=1)
    taken = time.process_time() - start
    found = []
    for index, one in enumerate(plan.questions):
        predicted = one.at(float(promise.epsilon))
        ends = (one.spread[0] * predicted, min(one.largest, one.spread[1] * predicted))
        error = one.error * predicted
        found.append(Compared(one.query, predicted, one.uncertainty, ends, error, widths[:, index], errors[:, index]))
    return found, taken


def report(name: str, found: Sequence[Compared], taken: float) -> str:
    """Write the table of a network."""
    far = [one for one in found if not one.close]
    head = (
        f"{name}: {taken:.1f} CPU s; "
        f"{len(found) - len(far)} of {len(found)} within 15 %, {sum(one.off for one in far)} off beyond chance; "
        f"{np.mean([one.held for one in found]):.0%} of releases within the spread"
    )
    titles = f"  {'question':58}{'predict':>8}{'+-':>5}{'seen':>8}{'+-':>5}{'quot.':>6}"
    titles += f"  {'spread':16}{'held':>6}{'error':>8}{'seen':>8}"
    return "\n".join([head, titles, *map(str, found)])


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the tables of all networks that are named, or lie in folders that are."""
    parser = argparse.ArgumentParser(description="what plans say, and what releases show")
    parser.add_argument("networks", nargs="*", default=["asia", "child", "alarm", "survey", "insurer"])
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--unknown", action="store_true", help="also plan without the network's probabilities")
    wanted = parser.parse_args(None if arguments is None else list(arguments))
    for name in wanted.networks:
        folder = Path(name)
        paths = sorted(map(str, folder.glob("*.bif*"))) if folder.is_dir() else [name]
        for path in paths:
            theta = survey_like(path) if path in _TABLES else theta_of(path)
            queries = pick_questions(theta)
            promise = dc.Guarantee(epsilon=wanted.epsilon, delta=0, relation="add-remove", unit="record")
            seen = see_releases(theta, queries, promise, wanted.records, wanted.releases)
            print(report(path, *compare(theta, queries, seen, promise, wanted.records)), flush=True)
            if wanted.unknown:
                told = compare(theta.network, queries, seen, promise, wanted.records)
                print(report(f"{path}, probabilities unknown", *told), flush=True)


if __name__ == "__main__":
    main()
