"""Simulation-based calibration: ranks of truths among posterior draws are uniform where truths come from the prior.

Two laws of truths, each read by the posterior whose prior it is, under a public number of records (REPLACE):

* *given*: rows from Dirichlet(1), of which the posterior is told;
* *learned*: what the default posterior believes before it sees a release. The margin of each variable is drawn from
  Dirichlet(1/2), of two parents the law given each of them around that margin, with half a record a state; rows are
  drawn around it, with a concentration that is one of the learned prior's for the whole family, and are then moved to
  these margins by proportional fitting. Rows around a margin that are not moved to it are another law: with few rows
  the margin is then often next to 0 or 1, where intervals of margins are too narrow for it.

Four kinds of quantities are ranked: entries of rows, single margins, margins of families, and pairs of no family in
the releases that measured them; pairs that no table holds are doubted, by a law that no truth here has. The p-value of
each is exact (`bench.ranks`); the least of all times their number is at least .01, which is a false alarm in one run of
a hundred at most. Seeds are fixed.

Source: Talts, Betancourt, Simpson, Vehtari and Gelman (2018).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import discreet as dc
from bench.ranks import LAST_RANK, ranks_of, uniformity
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from discreet.posterior.evidence import measured_sets
from discreet.posterior.joint_draws import law_of
from discreet.releases.combined import evidence_of
from oracle import small
from test_coverage import first

NETWORK = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("a", "b")), ("d", 3, ("c",)), ("e", 2, ("d",)))
PAIRS = (("a", "d"), ("a", "e"), ("b", "d"), ("b", "e"), ("c", "e"))
PROMISE = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
RECORDS = 2000
LEAST_P = 0.01
FEW_RUNS, MANY_RUNS = 60, 600
MARGIN_RECORDS = 0.5
CONCENTRATIONS = (1.0, 4.0, 16.0)
"""Three in the middle of those that the learned prior picks from."""
FITTING_ROUNDS = 60
LEAST_ENTRY = 1e-15
NARROWED = 0.5


def draw_given(rng: np.random.Generator) -> dc.Tables:
    """Rows of Dirichlet(1)."""
    return dc.Dirichlet.uniform(NETWORK).draw(1, rng=rng)


def draw_learned(rng: np.random.Generator) -> dc.Tables:
    """Rows of the learned prior's own law, shape `(*parents, child, 1)`."""
    rows, joint = dict[str, np.ndarray](), np.ones(())
    for place, node in enumerate(NETWORK.nodes):
        parents = [NETWORK.nodes.index(name) for name in NETWORK.parents[node]]
        weights = joint.sum(axis=tuple(axis for axis in range(place) if axis not in parents))
        rows[node] = draw_family(weights, NETWORK.schema[node].size, rng)
        shape = [size if axis in parents else 1 for axis, size in enumerate(joint.shape)]
        joint = joint[..., None] * rows[node].reshape(*shape, -1)
    return dc.Tables(NETWORK, {node: table[..., None] for node, table in rows.items()}, draws=1)


def draw_family(weights: np.ndarray, states: int, rng: np.random.Generator) -> np.ndarray:
    """Rows whose margins have laws of their own, weighted by the law of the parents; shape `(*parents, child)`."""
    parents = tuple(range(weights.ndim))
    margin = rng.dirichlet(np.full(states, MARGIN_RECORDS))
    rows = draw_around(rng.choice(CONCENTRATIONS) * margin, weights.shape, rng)
    goals = [(parents, margin)]
    for parent in parents if len(parents) > 1 else ():
        others = tuple(axis for axis in parents if axis != parent)
        slices = draw_around(MARGIN_RECORDS * states * margin, (weights.shape[parent],), rng)
        goals.insert(0, (others, np.expand_dims(slices, others)))
    for _ in range(FITTING_ROUNDS if parents else 0):
        for axes, wanted in goals:
            whole = weights.sum(axis=axes, keepdims=True)[..., None]
            have = (rows * weights[..., None]).sum(axis=axes, keepdims=True) / whole
            rows = normalised(rows * wanted / np.maximum(have, LEAST_ENTRY))
    return rows if parents else margin


def draw_around(alpha: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draws of a Dirichlet law, shape `(*shape, child)`; of small concentrations by logarithms, which do not vanish."""
    gammas = rng.standard_gamma(np.broadcast_to(alpha + 1, (*shape, len(alpha))))
    logs = np.log(gammas) + np.log(rng.random(gammas.shape)) / alpha
    return normalised(np.exp(logs - logs.max(axis=-1, keepdims=True)))


def normalised(rows: np.ndarray) -> np.ndarray:
    """Rows that sum to 1, no entry 0."""
    rows = np.maximum(rows, LEAST_ENTRY)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def read_given(release: dc.Release, rng: np.random.Generator) -> dc.results.PosteriorDraws:
    """The posterior that is told the prior."""
    return dc.noise_aware(release, draws=LAST_RANK, rng=rng, prior=dc.Dirichlet.uniform(NETWORK), method="pooled")


def read_learned(release: dc.Release, rng: np.random.Generator) -> dc.results.PosteriorDraws:
    """The default posterior, which learns its prior."""
    return dc.noise_aware(release, draws=LAST_RANK, rng=rng)


LAWS = {"given": (draw_given, read_given), "learned": (draw_learned, read_learned)}


def list_quantities(cells: dc.Tables, law: dc.Tables, release: dc.Release) -> dict[str, np.ndarray]:
    """Quantities that are ranked, by name, shape (draws,) each: the first state's, in the first and the last row."""
    found, tables = dict[str, np.ndarray](), measured_sets(evidence_of(release))
    pairs = [pair for pair in PAIRS if any(table.issuperset(pair) for table in tables)]
    scopes = [*((node,) for node in NETWORK.nodes), *map(NETWORK.family, NETWORK.nodes), *pairs]
    for scope in dict.fromkeys(scopes):
        found[f"P({', '.join(scope)})"] = Laws(law).joint(scope)[(0,) * len(scope)]
    for node in NETWORK.nodes[1:]:
        rows = cells[node].reshape(-1, *cells[node].shape[-2:])
        found[f"first row of {node}"], found[f"last row of {node}"] = rows[0, 0], rows[-1, 0]
    return found


def rank_truths(law: str, runs: int, scale: float = 1.0) -> Mapping[str, np.ndarray]:
    """Rank truths among posterior draws; for a planted error draws are as many times as far from their mean."""
    draw, read = LAWS[law]
    ranks: dict[str, list[int]] = {}
    for rng in np.random.default_rng([7, sorted(LAWS).index(law)]).spawn(runs):
        truth = draw(rng)
        counts = dc.tools.count_codes(NETWORK, sample_codes(first(truth), RECORDS, rng))
        release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), PROMISE, rng=rng)
        posterior = read(release, rng)
        true = list_quantities(truth, truth, release)
        drawn = list_quantities(posterior.probabilities, law_of(posterior).cells, release)
        for name, values in drawn.items():
            scaled = values.mean() + scale * (values - values.mean())
            ranks.setdefault(name, []).append(ranks_of(scaled, float(true[name][0]), rng))
    return {name: np.array(found) for name, found in ranks.items()}


def least_p(ranks: Mapping[str, np.ndarray]) -> tuple[float, str]:
    """The least p-value times the number of quantities, and whose it is."""
    p, worst = min((uniformity(found).ecdf, name) for name, found in ranks.items())
    return len(ranks) * p, worst


@pytest.mark.costly("A posterior that is shifted or too narrow shows in the ranks of many truths.")
@pytest.mark.parametrize("law", LAWS)
def test_ranks_are_uniform(law: str) -> None:
    ranks = rank_truths(law, FEW_RUNS)
    assert len(ranks) == 22
    p, worst = least_p(ranks)
    assert p > LEAST_P, worst


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_ranks_of_many_runs_are_uniform(law: str) -> None:
    p, worst = least_p(rank_truths(law, MANY_RUNS))
    assert p > LEAST_P, worst


@pytest.mark.thorough
@pytest.mark.parametrize("law", LAWS)
def test_draws_of_half_the_width_are_found(law: str) -> None:
    assert least_p(rank_truths(law, FEW_RUNS, NARROWED))[0] < LEAST_P
