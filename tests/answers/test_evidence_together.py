"""Releases of all kinds on the same records, in one posterior: against the enumeration of all data sets.

The oracle takes from a release its public numbers alone and computes the law of what was released from them: softmax
of sums over records, densities of Dirichlet laws, sums over every point of a grid. Monte Carlo: as in `test_py`,
whose limits have a chance below 1e-9 of a false alarm for a mean; seeds are fixed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import discreet as dc
from all_data_sets import NETWORK, PRIOR, agrees, data_sets, enumerated
from discreet.evidence import chains
from discreet.evidence.moves import log_grid_mass
from folding import every
from networks import asia
from shell import Shell
from tiny import network_of

RECORDS = {"x": np.array([0, 0, 1, 1, 1, 1]), "y": np.array([0, 2, 1, 1, 2, 0])}
COUNTS = dc.tools.count_codes(NETWORK, RECORDS)
Log = Callable[[np.ndarray], np.ndarray]
CANDIDATES = [
    dc.Tables(NETWORK, {"x": [p, 1 - p], "y": [row, other]})
    for p in (0.2, 0.6)
    for row, other in itertools.permutations(([0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3]), 2)
]


def promise(epsilon: float, relation: str = "replace", delta: float = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


@cache
def made(kind: str, relation: str = "replace") -> dc.Release:
    """A simulated release of each kind; the epsilons are large enough to show what each tells."""
    seed = sum(map(ord, kind))
    match kind:
        case "table":
            return dc.simulate(dc.laplace(), COUNTS, PRIOR, promise(3, relation), rng=seed)
        case "contrasts":
            return dc.simulate(dc.research.fourier(), COUNTS, PRIOR, promise(4, relation), rng=seed)
        case "trimmed" | "another trimmed":
            sampler = dc.research.posterior_sampler(draws=2, floor=0.1)
            return dc.simulate(sampler, COUNTS, PRIOR, promise(8, relation), rng=seed)
        case "tempered":
            return dc.simulate(dc.research.posterior_sampler(), COUNTS, PRIOR, promise(4, relation, 1e-3), rng=seed)
        case "given":
            sampler = dc.research.posterior_sampler(given="x", floor=0.1)
            return dc.simulate(sampler, COUNTS, PRIOR, promise(4, relation), rng=seed)
        case "candidates":
            return dc.simulate(dc.research.map_estimate(CANDIDATES), COUNTS, PRIOR, promise(8, relation), rng=seed)
        case "gaussian":
            return dc.simulate(dc.gaussian(), COUNTS, PRIOR, promise(6, relation, 1e-3), rng=seed)
        case "planned":
            return dc.simulate(dc.planned(), COUNTS, PRIOR, promise(3, relation), rng=seed)
    steps = np.random.default_rng(0).integers(0, 2**20, (6, 4))
    score = dc.research.ScoreTable(NETWORK, ("z",), np.arange(4.0)[:, None], np.array([0.0, 1, 0, -1]), steps)
    return dc.simulate(dc.research.scored(score, draws=3), COUNTS, PRIOR, promise(6, relation), rng=seed)


FIGURES: dict[str, tuple[list[float], list[str], tuple[str, float], Any]] = {
    "rounded figures": ([3, 3], ["x"], ("rounded", 3), None),
    "normal figures": ([1.2, 2.4, 1.9], ["y"], ("gaussian", 1.5), None),
    "weighted figures": (
        [4, 3],
        ["x", "y"],
        ("discrete_laplace", 1.5),
        [[[1, 0, 2], [0, 1, 0]], [[0, -1, 1], [1, 1, 0]]],
    ),
}
"""Figures by others: numbers, variables, the noise, and weights of sums over cells."""


@cache
def figures(kind: str) -> dc.external.External:
    """Each of them as a document."""
    values, over, noise, weights = FIGURES[kind]
    law = dc.external.StatedNoise(*noise)
    return dc.external_table(values, NETWORK, over, law, guarantee=None, source=kind, weights=weights)


def log_law_of_figures(kind: str, sets: np.ndarray) -> np.ndarray:
    """Log probability of the figures, given each data set, up to a constant."""
    values, over, (law, scale), weights = FIGURES[kind]
    by_cell = sets.reshape(len(sets), 6) @ np.reshape(weights, (2, 6)).T if weights else None
    counted = by_cell if by_cell is not None else sets.sum(axis=2 if over == ["x"] else 1)
    off = np.abs(values - counted)
    if law == "rounded":
        return np.where((off < scale / 2).all(axis=1), 0, -np.inf)
    return -(off**2 / (2 * scale**2) if law == "gaussian" else off / scale).sum(axis=1)


KINDS = ("table", "contrasts", "trimmed", "another trimmed", "tempered", "candidates", "scored")


def log_law(release: dc.Release, sets: np.ndarray) -> np.ndarray:
    """Log probability of what was released, given each data set, shape (sets, 2, 3), up to a constant."""
    payload: Any = release.payload
    total = getattr(payload, "total", None)
    noise = 0 if total is None else -np.abs(total.value - sets.sum(axis=(1, 2))) / total.scale
    margins = {"x": sets.sum(axis=2), "y": sets}
    match release.payload:
        case dc.kinds.NoisyCounts():
            tables = payload.tables.items()
            if payload.noise == "discrete_gaussian":
                return sum(-np.square(z - margins[node]).reshape(len(sets), -1).sum(axis=1)
                           / (2 * payload.scales[node] ** 2) for node, z in tables)  # fmt: skip
            return sum(-np.abs(z - margins[node]).reshape(len(sets), -1).sum(axis=1) / payload.scales[node]
                       for node, z in tables)  # fmt: skip
        case dc.kinds.NoisyTables():
            return sum(-np.abs(z - {("x",): margins["x"], ("y",): sets.sum(axis=1)}.get(scope, sets)).reshape(
                len(sets), -1).sum(axis=1) / payload.scales[scope] for scope, z in payload.tables.items())  # fmt: skip
        case dc.research.NoisyCoefficients():
            values = {
                (): sets.sum(axis=(1, 2)) + payload.shift,
                ("x",): -np.diff(margins["x"], axis=1),
                ("y",): -np.diff(sets.sum(axis=1), axis=1),
                ("x", "y"): np.diff(np.diff(sets, axis=1), axis=2),
            }
            logs = np.zeros(len(sets))
            for scope, z in payload.components.items():
                if scope or payload.noisy_total:
                    logs -= np.abs(z - values[scope]).reshape(len(sets), -1).sum(axis=1) / payload.scale
            return logs
        case dc.research.Choice():
            laws = np.log([each["x"][:, None] * each["y"] for each in payload.candidates])
            scores = np.tensordot(sets, laws, ([1, 2], [1, 2])) / release.calibration.scale
            return scores[:, payload.index] - logsumexp(scores, axis=1) + noise
        case dc.research.ScoredChoice():
            table = payload.table_of_scores
            scores = table.base + sets.reshape(len(sets), 6) @ table.steps * payload.rate / 2**20
            chosen = scores[:, payload.indices].sum(axis=1) - len(payload.indices) * logsumexp(scores, axis=1)
            return chosen + noise
    logs = np.zeros(len(sets)) + noise
    for node, rows in (("x", [0]), ("y", [0, 1])):
        if node in payload.untold:
            continue
        for row in rows:
            counts = margins["x"] if node == "x" else sets[:, row]
            drawn = payload.cells[node] if node == "x" else payload.cells[node][row]
            logs += log_row(drawn, 0.5 + payload.temper * counts, payload.floors.get(node), release.calibration, node)
    return logs


def log_row(drawn: np.ndarray, b: np.ndarray, floor: float | None, calibration: Any, node: str) -> np.ndarray:
    """Log probability of a row's draws, shape (states, draws), by concentrations, shape (sets, states)."""
    shared, which = np.unique(b, axis=0, return_inverse=True)
    if floor is None:
        mass = gammaln(shared).sum(axis=1) - gammaln(shared.sum(axis=1))
    else:
        mass = logsumexp((shared - 1) @ np.log(grid(len(drawn), floor, calibration.resolution[node])).T, axis=1)
    return (b - 1) @ np.log(drawn).sum(axis=1) - drawn.shape[1] * mass[which.ravel()]


def grid(size: int, floor: float, steps: int) -> np.ndarray:
    """All points of a row's grid, shape (points, states)."""
    firsts = np.array(list(itertools.product(range(steps + 1), repeat=size - 1)))
    firsts = firsts[firsts.sum(axis=1) <= steps]
    units = np.hstack([firsts, steps - firsts.sum(axis=1, keepdims=True)])
    return floor + (1 - size * floor) * units / steps


def agrees_with_enumeration(kinds: tuple[str, ...], relation: str, seed: int) -> None:
    by_others = [kind for kind in kinds if kind in FIGURES]
    releases = [made(kind, relation) for kind in kinds if kind not in FIGURES]
    sets = data_sets(6 if relation == "replace" else 13, exactly=relation == "replace")
    laws: list[Log] = [partial(log_law, release) for release in releases]
    laws += [partial(log_law_of_figures, kind) for kind in by_others]
    truth = enumerated(lambda sets: sum(law(sets) for law in laws), sets)
    evidence = [*releases, *map(figures, by_others)]
    posterior = dc.noise_aware(dc.combine(*evidence, data="same"), prior=PRIOR, method="exact", draws=2000, rng=seed)
    agrees(posterior, *truth)


EVERY_TRIPLE = tuple(itertools.combinations((*KINDS, "gaussian", "planned", "given", *FIGURES), 3))
SHUFFLED = [EVERY_TRIPLE[place] for place in np.random.default_rng(62).permutation(len(EVERY_TRIPLE))]
PAIRS = tuple(pair for pair in itertools.combinations(KINDS, 2) if pair != ("table", "contrasts"))
TRIPLES = (("table", "trimmed", "candidates"), ("tempered", "candidates", "scored"),
           ("contrasts", "another trimmed", "scored"), ("trimmed", "another trimmed", "tempered"))  # fmt: skip


@pytest.mark.costly("A wrong law of one kind beside another is found by enumerating all data sets.")
@pytest.mark.parametrize("kinds", [*PAIRS, *TRIPLES, KINDS], ids=", ".join)
def test_kinds_on_the_same_records(kinds: tuple[str, ...]) -> None:
    agrees_with_enumeration(kinds, "replace", 1)


@pytest.mark.costly("A wrong law of a kind that pairs leave out is found by enumerating all data sets.")
@every("kinds", SHUFFLED[:6], ids=", ".join)
def test_some_triples_of_all_kinds(kinds: tuple[str, ...]) -> None:
    """Of thirteen kinds, three of them figures by others, drawn with a fixed seed."""
    agrees_with_enumeration(kinds, "replace", 7)


@pytest.mark.thorough
@every("kinds", SHUFFLED[6:], ids=", ".join)
def test_all_other_triples(kinds: tuple[str, ...]) -> None:
    agrees_with_enumeration(kinds, "replace", 7)


@pytest.mark.costly("A wrong law of one kind beside another is found by enumerating all data sets.")
@pytest.mark.parametrize("kinds", [("trimmed", "candidates"), ("table", "tempered", "scored")], ids=", ".join)
def test_their_number_is_not_public(kinds: tuple[str, ...]) -> None:
    """Each release tells it with noise; data sets of more than 13 records have less than 1e-4 of the mass."""
    agrees_with_enumeration(kinds, "add-remove", 2)


@pytest.mark.costly("A wrong law in the chains over types is found by enumerating all data sets.")
@pytest.mark.parametrize("kinds", [("trimmed", "candidates"), ("table", "tempered", "scored")], ids=", ".join)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_chains_over_counts_of_types(kinds: tuple[str, ...], relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "RECORDS_PER_TYPE", 0)
    agrees_with_enumeration(kinds, relation, 3)


@pytest.mark.costly("A wrong law of several data sets is found by enumerating all data sets.")
def test_several_data_sets_one_of_which_has_several_kinds() -> None:
    """The other data set is a table whose records are known: it is added to the prior."""
    exact = dc.external.StatedNoise("rounded", 1)
    other = dc.external_table([[3, 0, 1], [0, 2, 2]], NETWORK, ["x", "y"], exact, guarantee=None, source="a census")
    same = [made("candidates"), made("tempered")]
    both = dc.combine(dc.combine(*same, data="same"), other, data="different")
    public = np.array([[3, 0, 1], [0, 2, 2]])
    truth = enumerated(lambda sets: sum(log_law(each, sets) for each in same), data_sets(6, exactly=True), public)
    agrees(dc.noise_aware(both, prior=PRIOR, draws=2000, rng=4), *truth)


@every("size, floor, steps", [(2, 0.1, 2048), (2, 0.01, 100), (3, 0.1, 40), (4, 0.05, 24), (3, 0.3, 40)])
def test_the_mass_on_a_grid(size: int, floor: float, steps: int) -> None:
    """By a sum over all of its points, to nine digits; for records of one state alone, too."""
    rng, points = np.random.default_rng(size), np.log(grid(size, floor, steps))
    units = np.linspace(floor, 1 - (size - 1) * floor, steps + 1)
    for records in (0, 3, 1000):
        for counts in (rng.multinomial(records, np.full(size, 1 / size)), np.eye(size)[0] * records):
            b = 0.5 + 0.7 * counts
            assert log_grid_mass(b, floor, np.log(units)) == pytest.approx(
                logsumexp(points @ (b - 1)), abs=1e-9, rel=1e-9
            )


def test_the_mass_on_a_grid_with_both_powers_negative() -> None:
    """Its ends are far above its middle, and the other end counts, however small the floor."""
    floor, powers = 1e-25, np.array([-0.9, -0.8])
    logs = np.log(np.linspace(floor, 1 - floor, 2049))
    terms = powers[0] * logs + powers[1] * logs[::-1]
    assert terms[0] - terms.min() > 50 and terms[0] - terms[-1] < 6  # without its far end the sum is .3 % less
    assert log_grid_mass(powers + 1, floor, logs) == pytest.approx(logsumexp(terms), abs=1e-12)


@pytest.mark.costly("A general reader that disagrees with the special ones is found by drawing with both.")
def test_the_special_readers_read_what_they_did() -> None:
    """The general reader is taken where there is no other; and it agrees with them."""
    read = {kind: dc.noise_aware(made(kind), prior=PRIOR, draws=10, rng=1).method for kind in KINDS}
    assert read == {"table": "exact", "contrasts": "exact", "trimmed": "particles", "another trimmed": "particles",
                    "tempered": "particles", "candidates": "choice", "scored": "choice"}  # fmt: skip
    for kind in ("tempered", "candidates"):
        special = dc.noise_aware(made(kind), prior=PRIOR, draws=2000, rng=1)
        general = dc.noise_aware(made(kind), prior=PRIOR, draws=2000, rng=1, method="exact")
        for node in NETWORK.nodes:
            off = special.probabilities[node].mean(axis=-1) - general.probabilities[node].mean(axis=-1)
            # Particles and chains are worth 400 draws each: 6.5 errors of the difference.
            assert (np.abs(off) / general.probabilities[node].std(axis=-1)).max() < 6.5 * np.sqrt(2 / 400)


def test_releases_that_do_not_tell_their_number_are_refused() -> None:
    releases = [made("candidates", "add-remove"), made("tempered", "add-remove")]
    silent = [replace(each, payload=replace(each.payload, total=None), calibration=replace(
        each.calibration, total_scale=None)) for each in releases]  # fmt: skip
    with pytest.raises(dc.InputError, match="do not tell the number of records"):
        dc.noise_aware(dc.combine(*silent, data="same"), draws=10, rng=1)


def test_what_takes_too_long_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains._Task, "of", lambda *_: pytest.fail("chains were begun"))
    network = asia().network
    codes = np.random.default_rng(0).integers(0, 2, (8, 800_000))
    counts = dc.tools.count_codes(network, dict(zip(network.nodes, codes, strict=True)))
    prior = dc.Dirichlet.uniform(network)
    kinds = dc.laplace(), dc.research.posterior_sampler()
    both = dc.combine(*(dc.simulate(kind, counts, prior, promise(1), rng=1) for kind in kinds), data="same")
    monkeypatch.setattr(chains, "RECORDS_PER_TYPE", 10**6)
    refusal = r"could make [\d,]+ sweeps in time, of which 1,000 are needed; combine fewer kinds"
    with pytest.raises(dc.DiscreetError, match=refusal):
        dc.noise_aware(both, draws=10, rng=1)


@pytest.mark.costly("Intervals of several kinds that are too short are found by drawing truths from the prior.")
def test_intervals_hold_truths_from_the_prior() -> None:
    """At epsilon .1, 1 and 3. That some entry is outside of 99 % has a chance of at most .03 in each of 30 runs.

    More than 8 such runs: a false alarm in fewer than 3e-7 of all seeds, whatever the correlation within a run.
    """
    network = network_of({"a": 2, "b": 2}, "a>b")
    prior, missed = dc.Dirichlet.uniform(network, 1.0), 0
    for run in range(30):
        rng = np.random.default_rng(run)
        theta = {node: prior.draw(1, rng=rng)[node][..., 0] for node in network.nodes}
        a = rng.binomial(1, theta["a"][1], 40)
        counts = dc.tools.count_codes(network, {"a": a, "b": rng.binomial(1, theta["b"][a, 1])})
        epsilon = (0.1, 1, 3)[run % 3]
        drawn = [prior.draw(1, rng=np.random.default_rng(number)) for number in range(4)]
        listed = [dc.Tables(network, {node: each[node][..., 0] for node in network.nodes}) for each in drawn]
        kinds = (dc.laplace(), 0), (dc.research.posterior_sampler(), 1e-3), (dc.research.map_estimate(listed), 0)
        parts = [dc.simulate(kind, counts, prior, promise(epsilon, delta=delta), rng=rng) for kind, delta in kinds]
        posterior = dc.noise_aware(dc.combine(*parts, data="same"), draws=1000, rng=rng)
        below = [(posterior.probabilities[node] < theta[node][..., None]).mean(axis=-1) for node in network.nodes]
        ranks = np.array([below[0][1], *below[1][:, 1]])
        missed += bool(np.any((ranks < 0.005) | (ranks > 0.995)))
    assert missed <= 8


@pytest.mark.costly("A table, draws and a choice go through the shell into one posterior.")
def test_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("table", "tempered", "candidates"):
        replace(made(kind), private=True).save(f"{kind}.json")
    run = Shell(capfd)
    run.json("combine table.json tempered.json candidates.json --data same --output all.json")
    told = run.json("query all.json 'P(y=b | x=yes) - P(y=b | x=no)' --draws 200 --seed 1")
    (value,) = told["answers"][0]["values"]
    assert told["method"] == "exact" and value["lower"] < value["mean"] < value["upper"]
