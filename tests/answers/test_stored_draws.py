"""Draws in a file: the same answers to the last digit, and nothing else is taken for one."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.stored import CHECKSUM_BYTES, HEAD_BYTES, from_bytes, to_bytes
from discreet.research.readers import particles
from folding import every
from networks import asia
from releases import guarantee, simulated, simulated_counts

RNG = np.random.default_rng
NETWORK = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("a", "b"))), {"x": (), "y": ("x",)})
PRIOR = dc.Dirichlet.uniform(NETWORK, 0.5)
THETA = dc.Tables(NETWORK, {"x": [0.3, 0.7], "y": [[0.8, 0.2], [0.4, 0.6]]})


def made(mechanism: dc.tools.Mechanism, n: int, seed: int) -> dc.Release:
    counts = simulated_counts(THETA, n, RNG(seed))
    counts = dc.results.Counts(counts.tables, counts.policy, {("x", "y"): np.array(counts.tables["y"])})
    return dc.simulate(mechanism, counts, PRIOR, guarantee(1, "replace"), rng=RNG([seed, 1]))


LAPLACE, PLANNED, STAGES = (
    made(dc.laplace(), 5000, 1),
    made(dc.planned(pairs_share=0), 5000, 2),
    made(dc.research.allocated(), 5000, 4),
)
DRAWS, FEW = made(dc.research.posterior_sampler(), 5000, 5), made(dc.laplace(), 40, 6)
ASIA = simulated(asia(), 2_000, guarantee(), RNG(20))
PUBLIC = dc.Tables(NETWORK, {"x": np.array([3, 5]), "y": np.array([[2, 1], [2, 3]])})
KINDS: dict[str, tuple[dc.Release | dc.results.Combined, dict[str, object]]] = {
    "pooled, learned": (PLANNED, {}),
    "pooled, of a larger network": (ASIA, {}),
    "pooled, the network trusted": (PLANNED, {"trust_network": True}),
    "pooled, with a prior": (LAPLACE, {"prior": PRIOR, "method": "pooled"}),
    "pooled, two stages": (STAGES, {}),
    "pooled, with public records": (dc.combine(LAPLACE, data="same", public=PUBLIC), {}),
    "pooled, two releases": (dc.combine(LAPLACE, PLANNED, data="same"), {}),
    "exact": (FEW, {"prior": PRIOR, "method": "exact"}),
    "particles": (DRAWS, {}),
    "sequential": (dc.combine(LAPLACE, DRAWS, data="different"), {}),
}
QUERIES = {
    NETWORK: ["P(y)", "P(y | x=yes)", "P(x, y)", "MAP(x | y=a)", "MPE(| y=b)"],
    ASIA.network: ["P(lung | smoke=yes)", "P(tub, bronc | dysp=yes)", "MPE(| xray=yes)", "P(asia, smoke)"],
}


def posterior_of(kind: str) -> dc.results.PosteriorDraws:
    evidence, options = KINDS[kind]
    return dc.noise_aware(evidence, draws=60, rng=RNG(7), **options)  # type: ignore[arg-type]


@cache
def file_of(kind: str) -> bytes:
    return to_bytes(posterior_of(kind))


@pytest.mark.costly("A digit that storing loses is found by asking every question before and after.")
@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_the_same_to_the_last_digit(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(particles, "LEAST_PARTICLES", 60)
    posterior = posterior_of(kind)
    posterior.save(tmp_path / "made.draws")
    # What was asked before does not matter: the file is of a posterior of its own.
    back, other = dc.results.PosteriorDraws.load(tmp_path / "made.draws"), posterior_of(kind)
    assert (back.method, back.mixing, back.network, back.doubting) == (
        other.method,
        posterior.mixing,
        other.network,
        other.doubting,
    )
    assert (back.replicates is None) == (other.replicates is None) and (back.saturated is None) == (
        other.saturated is None
    )
    for one, two in (
        (back, other),
        (back.fresh(), posterior.fresh()),
        (back.fresh(rng=RNG(3)), other.fresh(rng=RNG(3))),
    ):
        for node in other.network.nodes:
            np.testing.assert_array_equal(one.probabilities[node], two.probabilities[node])
            if one.replicates is not None and two.replicates is not None:
                np.testing.assert_array_equal(one.replicates[node], two.replicates[node])
    for query in QUERIES[other.network]:
        assert dc.answer(back, query, level=0.9) == dc.answer(other, query, level=0.9)
    if other.doubting:
        network = [dc.answer(each.assuming("network"), QUERIES[other.network][0], level=0.9) for each in (back, other)]
        assert network[0] == network[1]
    assert back.ess() == posterior.ess()


def test_a_file_that_is_written_again_is_the_same() -> None:
    raw = file_of("pooled, of a larger network")
    assert to_bytes(from_bytes(raw)) == raw


@every("position", [0, 14, 15, 16, 23, 24, 200, -33, -32, -1, *range(1000, 60_000, 7919)])
def test_a_byte_that_was_changed_is_found(position: int) -> None:
    raw = bytearray(file_of("pooled, learned"))
    if position < len(raw):
        raw[position] ^= 1
        with pytest.raises(dc.InputError, match=r"damaged|no file of posterior draws"):
            from_bytes(bytes(raw))


@every("kept", [0, 10, 15, 16, 24, 60, 500, -1, -8, -40, -4000])
def test_a_file_that_was_cut_is_found(kept: int) -> None:
    raw = file_of("pooled, learned")
    with pytest.raises(dc.InputError, match=r"damaged|no file of posterior draws"):
        from_bytes(raw[:kept])


def made_up(raw: bytes, change: dict[str, object], body: bytes | None = None) -> bytes:
    """A file with another head or other numbers, and the checksum of these."""
    size = int.from_bytes(raw[16:24], "little")
    head = json.loads(raw[24 : 24 + size]) | change
    text = json.dumps({name: value for name, value in head.items() if value != "left out"}).encode()
    text += b" " * (-len(text) % HEAD_BYTES)
    content = (
        raw[:16] + len(text).to_bytes(8, "little") + text + (raw[24 + size : -CHECKSUM_BYTES] if body is None else body)
    )
    return content + sha256(content).digest()


FAULTS: list[tuple[dict[str, object], str]] = [
    ({"version": 1}, "has version 1 of the format, and this package reads 2"),
    ({"method": "guess"}, "has draws of no known method"),
    ({"method": "guess", "more": {"a": 1}}, "is read with a pack that is not installed"),
    ({"draws": 61}, "fewer numbers than its head says|no probabilities"),
    ({"draws": 2**62}, "fewer numbers than its head says"),
    ({"draws": 59}, "no probabilities|more numbers than its head says"),
    ({"draws": 0}, "draws of its head: Input should be greater than 0"),
    ({"twins": False}, "more numbers than its head says|no probabilities|no replicates"),
    ({"evidence": "{}"}, "release"),
    ({"evidence": "left out"}, "evidence of its head: Field required"),
    ({"more": 1}, "more of its head: Input should be a valid dictionary"),
    ({"farther": 1}, "farther of its head: Extra inputs are not permitted"),
    ({"parents": {"x": ["y"], "y": ["x"]}}, "the network has a cycle"),
    ({"parents": {"x": []}}, "parents"),
    (
        {"generator": {"state": {}, "entropy": 1, "spawn_key": [], "pool_size": 4, "children": 0}},
        "does not fit together",
    ),
]


@pytest.mark.parametrize(("change", "message"), FAULTS)
def test_a_head_that_says_something_else_is_refused(change: dict[str, object], message: str) -> None:
    raw = file_of("pooled, learned")
    with pytest.raises(dc.InputError, match=message):
        from_bytes(made_up(raw, change))


@every("number", [-0.1, 1.5, np.nan, np.inf])
def test_numbers_that_are_no_probabilities_are_refused(number: float) -> None:
    raw = file_of("pooled, learned")
    size = int.from_bytes(raw[16:24], "little")
    body = np.frombuffer(raw[24 + size : -CHECKSUM_BYTES]).copy()
    body[5] = number
    with pytest.raises(dc.InputError, match="no probabilities"):
        from_bytes(made_up(raw, {}, body.tobytes()))


def test_a_generator_of_another_kind_is_left_out() -> None:
    """Then these draws are all there are."""
    rng = np.random.Generator(np.random.Philox(3))
    back = from_bytes(to_bytes(dc.noise_aware(PLANNED, draws=20, rng=rng)))
    assert dc.answer(back, "P(y)", level=0.9).rows
    with pytest.raises(dc.InputError, match="all there are"):
        back.fresh()


def test_draws_that_no_release_makes_are_refused(tmp_path: Path) -> None:
    for posterior in (
        dc.tools.plug_in(LAPLACE, draws=5, rng=RNG(1)),
        dc.results.PosteriorDraws(posterior_of("particles").probabilities),
    ):
        with pytest.raises(dc.InputError, match="only draws that noise_aware made"):
            posterior.save(tmp_path / "none.draws")
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused(tmp_path: Path) -> None:
    PLANNED.save(tmp_path / "release.json")
    with pytest.raises(dc.InputError, match="no file of posterior draws; `discreet draw` makes one of a release"):
        dc.results.PosteriorDraws.load(tmp_path / "release.json")
    with pytest.raises(dc.InputError, match="cannot read posterior draws"):
        dc.results.PosteriorDraws.load(tmp_path / "absent.draws")
    posterior_of("pooled, learned").save(tmp_path / "made.draws")
    with pytest.raises(FileExistsError):
        posterior_of("pooled, learned").save(tmp_path / "made.draws", replace=False)
