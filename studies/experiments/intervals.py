"""Simulated releases whose truth is known, and whether intervals of posteriors hold it.

Truths are drawn from Dirichlet rows, or are a network's own probabilities. `bench.calibration` measures with these
pieces, too. Under ADD_REMOVE the number of records is fixed as well, and no reader is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes

from .errors import single

__all__ = [
    "LEVEL",
    "QUERIES",
    "Evidence",
    "Simulation",
    "between",
    "conditionals",
    "held",
    "inside",
    "simulation",
    "tiny",
    "values",
]

Floats = npt.NDArray[np.float64]
Evidence = tuple[str, dict[str, int]]
"""A target, and codes of the observed states by name."""

LEVEL = 0.95
INTERIOR = 1e-6
"""Entries nearer to 0 or 1 are counted apart: an interval holds them only if it ends there."""
QUERIES = 20
"""Conditional queries of a network, the same ones in every run."""
LEAST_EVIDENCE = 0.02
"""Their evidence is at least so probable where the queries are chosen."""


# ------------------------------------------------------------------------------------------ what is simulated


@dataclass(frozen=True, eq=False)
class Simulation:
    """What is drawn.

    Args:
        truth: probabilities, shape `(*parents, child, 1)`.
        prior: of the rows, the one that the truth was drawn from if it was drawn.
        release: of records of the truth.
    """

    truth: dc.Tables
    prior: dc.Dirichlet
    release: dc.Release


def tiny() -> dc.Tables:
    """Uniform probabilities of three variables, every family a child of those before."""
    variables = tuple(dc.Variable(node, tuple("012"[:size])) for node, size in (("a", 2), ("b", 3), ("c", 2)))
    return dc.Dirichlet.uniform(dc.Network(variables, {"a": (), "b": ("a",), "c": ("a", "b")})).mean()


def simulation(
    theta: dc.Tables,
    concentration: float | None,
    records: int,
    mechanism: str,
    promise: dc.Guarantee,
    rng: np.random.Generator,
) -> Simulation:
    """Draw a truth, records of it, and a release with simulated noise.

    Args:
        theta: probabilities of a network, axes `(*parents, child)`.
        concentration: of the Dirichlet prior that the truth is drawn from, in every cell, records; None for `theta`
            itself, and the default prior.
        records: how many.
        mechanism: a name in `dc.tools.MECHANISMS`.
        promise: of the release.
        rng: source of all of them.

    Returns:
        What was drawn.
    """
    network = theta.network
    prior, truth = dc.Dirichlet.uniform(network), single(theta)
    if concentration is not None:
        prior = dc.Dirichlet.uniform(network, concentration)
        truth = prior.draw(1, rng=rng)
    codes = sample_codes(dc.Tables(network, {node: table[..., 0] for node, table in truth.items()}), records, rng)
    made = dc.simulate(dc.tools.MECHANISMS[mechanism](), dc.tools.count_codes(network, codes), prior, promise, rng=rng)
    return Simulation(truth, prior, made)


# ------------------------------------------------------------------------------------------ what is asked


def conditionals(
    theta: dc.Tables, number: int, rng: np.random.Generator, observed: tuple[int, int] = (1, 2)
) -> list[Evidence]:
    """Targets with one or two observed states that at least 2 % of the records of `theta` show.

    Args:
        theta: probabilities; no posterior and no drawn truth, so that what is asked depends on neither.
        number: of queries.
        rng: picks them.
        observed: fewest and most observed variables of a query.

    Returns:
        Pairs (target, codes of the observed states by name).
    """
    codes = sample_codes(theta, 5000, rng)
    nodes, queries = theta.network.nodes, list[Evidence]()
    fewest, most = observed
    while len(queries) < number:
        target, *given = rng.permutation(nodes)[: int(rng.integers(fewest + 1, most + 2))]
        record = int(rng.integers(5000))
        evidence = {str(name): int(codes[name][record]) for name in given}
        shown = np.all([codes[name] == code for name, code in evidence.items()], axis=0)
        if np.mean(shown) >= LEAST_EVIDENCE:
            queries.append((str(target), evidence))
    return queries


def values(cells: dc.Tables, queries: Sequence[Evidence]) -> dict[str, Floats]:
    """Table entries, node marginals and conditional probabilities, each of shape (number, draws)."""
    nodes = cells.network.nodes
    return {
        "entries": np.concatenate([cells[node].reshape(-1, cells.draws or 1) for node in nodes]),
        "marginals": np.concatenate(list(Laws(cells).marginals().values())),
        "conditionals": np.concatenate([Laws(cells).joint([target], given) for target, given in queries]),
    }


# ------------------------------------------------------------------------------------------ what is held


def held(posterior: Mapping[str, Floats], true: Mapping[str, Floats]) -> dict[str, tuple[float, float]]:
    """Share of the 95 % intervals of one posterior that hold the truth, and their mean width, by kind of number.

    Args:
        posterior: values by kind, shape (number, draws).
        true: the same of the truth, shape (number,).

    Returns:
        Pairs (coverage, width); NaN where there are no numbers of a kind. "entries" are those that are neither 0 nor 1,
        the others are "entries at 0 or 1".
    """
    found = {}
    for kind, draws in posterior.items():
        hits, widths = inside(draws, true[kind])
        inner = between(true[kind])
        if kind == "entries":
            found["entries at 0 or 1"] = _means(hits[~inner], widths[~inner])
        found[kind] = _means(hits[inner], widths[inner])
    return found


def inside(draws: Floats, true: Floats) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Which 95 % intervals hold the truth, and how wide each is.

    Args:
        draws: shape (number, draws).
        true: shape (number,).

    Returns:
        Both of shape (number,); a row with a draw that is NaN holds nothing, and its width is NaN.
    """
    lower, upper = dc.tools.credible_interval(draws, LEVEL)
    return (lower <= true) & (true <= upper), upper - lower


def between(probabilities: Floats) -> npt.NDArray[np.bool_]:
    """Which of them are neither 0 nor 1."""
    return np.asarray((probabilities > INTERIOR) & (probabilities < 1 - INTERIOR))


def _means(hits: npt.NDArray[np.bool_], widths: Floats) -> tuple[float, float]:
    """Of one run; an answer that some draws cannot give (impossible evidence) does not hold the truth."""
    return (float(hits.mean()), float(np.nanmean(widths))) if hits.size else (np.nan, np.nan)
