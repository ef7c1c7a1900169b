"""Coverage and width of the shipped default's intervals on a known network, by kind and by how hard a number is.

One run draws records of the network, releases them by `planned` with simulated noise, and reads the release as a user
does who says nothing: `noise_aware` with the prior that it learns. What is counted is parted into *strata*: table
entries by the size of their truth and by how many records their row can expect, entries that are 0 or 1, marginals, and
conditionals of one and of two observed states. `bench.strata` and the page on coverage show them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.exact_laws import Laws

from .errors import Truth, single
from .intervals import Evidence, between, conditionals, inside, simulation, values

__all__ = ["ENDS", "KINDS", "ROWS", "SIZES", "STRATA", "Known", "Run", "Setting", "Tally", "measured", "strata"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ENTRIES, MARGINALS, ONE, TWO = "entries", "marginals", "given one", "given two"
SIZES = ("truth < .01", "truth .01-.1", "truth > .1")
"""Entries by the size of their truth; 1 - x is as rare as x, but is no stratum of its own."""
ROWS = ("row < 1", "row 1-100", "row > 100")
"""Entries by the records that their row can expect, which is n P(parents)."""
ENDS = "at 0 or 1"
"""Entries that are 0 or 1: their interval ends there or does not. All other strata leave such numbers out."""
CONDITIONALS = "conditionals"
"""Those of one and of two observed states together."""
STRATA = (ENTRIES, *SIZES, *ROWS, ENDS, MARGINALS, CONDITIONALS, ONE, TWO)
KINDS = (ENTRIES, MARGINALS, CONDITIONALS)
"""What is promised on average of each network."""
SIZE_LIMITS, ROW_LIMITS = (0.01, 0.1), (1.0, 100.0)
ASKED = 20
"""Conditional queries with one observed state, and as many with two, the same in every run."""
ASKED_BY = 5
"""Seed that picks them."""
MOST_LEFT_OUT = 0.5
"""Share of the draws that may hold the evidence impossible; `discreet` refuses to answer beyond it."""


# ------------------------------------------------------------------------------------------ what is known


@dataclass(frozen=True, eq=False)
class Known:
    """A network whose probabilities are known, and what is asked of it.

    Args:
        name: for seeds and for printing.
        truth: probabilities, and the probabilities of rows.
        one, two: queries with one and with two observed states.
        true: true values by kind, "entries", "marginals", "given one" and "given two", shape (number,).
        rows: `P(parents)` of every entry, in the order of the entries.
    """

    name: str
    truth: Truth
    one: tuple[Evidence, ...]
    two: tuple[Evidence, ...]
    true: Mapping[str, Floats]
    rows: Floats

    @staticmethod
    def of(name: str, theta: dc.Tables) -> Known:
        """Choose the queries of a network and work out its true values.

        Args:
            name: of the network.
            theta: its probabilities, axes `(*parents, child)`.

        Returns:
            The same for the same probabilities.
        """
        truth, rng = Truth.of(theta, name), np.random.default_rng(ASKED_BY)
        one, two = (tuple(conditionals(theta, ASKED, rng, observed=(few, few))) for few in (1, 2))
        rows = [np.broadcast_to(truth.rows[node][..., None], table.shape).ravel() for node, table in theta.items()]
        found = _values(single(theta), one, two)
        return Known(name, truth, one, two, {k: array[:, 0] for k, array in found.items()}, np.concatenate(rows))


def _values(cells: dc.Tables, one: Sequence[Evidence], two: Sequence[Evidence]) -> dict[str, Floats]:
    """By kind, shape (number, draws)."""
    first = values(cells, one)
    return {
        ENTRIES: first["entries"],
        MARGINALS: first["marginals"],
        ONE: first["conditionals"],
        TWO: np.concatenate([Laws(cells).joint([target], given) for target, given in two]),
    }


def strata(true: Floats, expected: Floats) -> dict[str, Flags]:
    """Part table entries.

    Args:
        true: probabilities, shape (number,).
        expected: records that the row of each can expect, shape (number,).

    Returns:
        By name, shape (number,): those between 0 and 1, the same by size and by row, and those at 0 or 1.
    """
    inner, sizes, rows = between(true), np.digitize(true, SIZE_LIMITS), np.digitize(expected, ROW_LIMITS)
    return {
        ENTRIES: inner,
        **{name: inner & (sizes == place) for place, name in enumerate(SIZES)},
        **{name: inner & (rows == place) for place, name in enumerate(ROWS)},
        ENDS: ~inner,
    }


# ------------------------------------------------------------------------------------------ what is measured


@dataclass(frozen=True)
class Setting:
    """What is released, and how it is read.

    Args:
        epsilon: nats.
        relation: of the guarantee.
        records: how many.
        draws: of the posterior.
    """

    epsilon: str
    relation: str
    records: int = 10_000
    draws: int = 400


@dataclass(frozen=True)
class Tally:
    """What was counted in a stratum; divide by `number` for means. A stratum that a network has not is left out.

    Args:
        number: of intervals.
        hits: of those that hold the truth.
        width: sum of their widths.
        unanswered: of those that the posterior does not answer; they hold nothing, and have no width.
        error: sum of the absolute errors of posterior means.
        estimated: the same of `estimate`; NaN where it was not asked for.
    """

    number: int
    hits: int
    width: float
    unanswered: int
    error: float
    estimated: float


@dataclass(frozen=True)
class Run:
    """Tallies by stratum, and CPU seconds of all threads for the draws (not for what is asked of them)."""

    tallies: Mapping[str, Tally]
    seconds: float


def measured(known: Known, setting: Setting, seed: Sequence[int], *, estimated: bool = False) -> Run:
    """One release, its posterior, and what its intervals hold.

    Args:
        known: the network.
        setting: of the release.
        seed: of all that is drawn. Networks, epsilons and relations have records and noise of their own; what reads the
            release cannot change them, nor does the number of draws.
        estimated: whether `estimate` is asked as well.

    Returns:
        The tallies of every stratum that has numbers.
    """
    place = (zlib.crc32(f"{known.name} {setting.epsilon} {setting.relation} {setting.records}".encode()), *seed)
    promise = dc.Guarantee(epsilon=setting.epsilon, delta=0, relation=setting.relation, unit="record")
    theta = known.truth.theta
    made = simulation(theta, None, setting.records, "planned", promise, np.random.default_rng([*place, 0]))
    started = time.process_time()
    posterior = dc.noise_aware(made.release, draws=setting.draws, rng=np.random.default_rng([*place, 1])).probabilities
    cells = dc.Tables(theta.network, dict(posterior.items()), draws=setting.draws)  # a table is drawn when it is read
    seconds = time.process_time() - started
    drawn, point = _values(cells, known.one, known.two), None
    if estimated:
        fast = dc.estimate(made.release, rng=np.random.default_rng([*place, 2]))
        point = {kind: array[:, 0] for kind, array in _values(single(fast), known.one, known.two).items()}
    return Run(_tallies(known, setting.records, drawn, point), seconds)


@dataclass(frozen=True, eq=False)
class _Read:
    """What the posterior says of every number of a kind, each of shape (number,)."""

    hits: Flags
    widths: Floats
    errors: Floats
    estimated: Floats

    @staticmethod
    def of(draws: Floats, true: Floats, point: Floats | None) -> _Read:
        """Draws that hold the evidence impossible are left out of an answer, as `discreet` leaves them out."""
        hits, widths = inside(draws, true)
        means = draws.mean(axis=-1)
        for place in np.flatnonzero(np.isnan(means)):
            kept = draws[place][~np.isnan(draws[place])]
            if len(kept) >= (1 - MOST_LEFT_OUT) * draws.shape[-1]:
                (hits[place],), (widths[place],) = inside(kept[None], true[place, None])
                means[place] = kept.mean()
        errors = np.full(len(true), np.nan) if point is None else np.abs(point - true)
        return _Read(hits, widths, np.abs(means - true), errors)

    def tally(self, part: Flags) -> Tally:
        """Of a part of them."""
        answered = ~np.isnan(self.widths[part])
        return Tally(
            int(part.sum()),
            int(self.hits[part].sum()),
            float(self.widths[part][answered].sum()),
            int((~answered).sum()),
            float(np.nansum(self.errors[part])),
            float(self.estimated[part].sum()),
        )


def _tallies(
    known: Known, records: int, drawn: Mapping[str, Floats], point: Mapping[str, Floats] | None
) -> dict[str, Tally]:
    """Of every stratum that the network has."""
    read = {kind: _Read.of(draws, known.true[kind], point and point[kind]) for kind, draws in drawn.items()}
    found = {
        name: read[ENTRIES].tally(part) for name, part in strata(known.true[ENTRIES], records * known.rows).items()
    }
    found |= {kind: read[kind].tally(between(known.true[kind])) for kind in (MARGINALS, ONE, TWO)}
    found[CONDITIONALS] = _sum(found[ONE], found[TWO])
    return {name: found[name] for name in STRATA if found[name].number}


def _sum(one: Tally, two: Tally) -> Tally:
    """Of two strata that share nothing."""
    return Tally(
        one.number + two.number,
        one.hits + two.hits,
        one.width + two.width,
        one.unanswered + two.unanswered,
        one.error + two.error,
        one.estimated + two.estimated,
    )
