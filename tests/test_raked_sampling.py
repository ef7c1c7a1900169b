"""Laws of all variables with given margins: fitted ones are those of least relative entropy, and records have them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import discreet as dc
from discreet.inference.raked_sampling import POOL_RECORDS, raked_blocks, raked_law
from oracle import full_joint, random_draws, small, with_draws

CHAIN = small(("a", 3, ()), ("b", 2, ("a",)), ("c", 2, ("b",)), ("d", 3, ("c",)))
RECORDS = 200_000
SLACK = 6 * np.sqrt(0.25 / RECORDS) + 6 * np.sqrt(0.25 / POOL_RECORDS)
"""Six deviations of a share of all records and of one of the pool."""


def probabilities(network: dc.Network, seed: int) -> dc.Tables:
    cells = random_draws(network, 1, seed=seed)
    return dc.Tables(network, {node: cells[node][..., 0] for node in network.nodes})


def margin(joint: np.ndarray, names: tuple[str, ...], of: tuple[str, ...]) -> np.ndarray:
    summed = joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in of))
    kept = [name for name in names if name in of]
    return summed.transpose([kept.index(name) for name in of])


def rows(joint: np.ndarray, names: tuple[str, ...], of: tuple[str, ...]) -> np.ndarray:
    table = margin(joint, names, of)
    return table / table.sum(axis=-1, keepdims=True)


def shares(law: object, network: dc.Network, seed: int) -> np.ndarray:
    sizes = [network.schema[name].size for name in network.nodes]
    found = np.zeros(sizes)
    for block in raked_blocks(law, RECORDS, np.random.default_rng(seed), 65_536):  # type: ignore[arg-type]
        np.add.at(found, tuple(block[name] for name in network.nodes), 1)
    return found / RECORDS


def test_nothing_wanted_leaves_the_network() -> None:
    theta = probabilities(CHAIN, 1)
    found = shares(raked_law(theta, {}, np.random.default_rng(2)), CHAIN, 3)
    assert np.abs(found - full_joint(with_draws(theta))[..., 0]).max() < SLACK


def test_all_pairs_of_another_law_are_met() -> None:
    """A chain is moved to the pairs of a network in which every variable depends on all before."""
    names = CHAIN.nodes
    whole = small(("a", 3, ()), ("b", 2, ("a",)), ("c", 2, ("a", "b")), ("d", 3, ("a", "b", "c")))
    theta, other = probabilities(CHAIN, 4), full_joint(with_draws(probabilities(whole, 5)))[..., 0]
    wanted: dict[str, dict[tuple[str, ...], np.ndarray]] = {"a": {("a",): rows(other, names, ("a",))}}
    for pair in combinations(names, 2):
        wanted.setdefault(pair[1], {})[pair] = rows(other, names, pair)
    before = full_joint(with_draws(theta))[..., 0]
    found = shares(raked_law(theta, wanted, np.random.default_rng(6)), CHAIN, 7)
    for pair in combinations(names, 2):
        truth = margin(other, names, pair)
        assert np.abs(margin(found, names, pair) - truth).max() < SLACK
    assert max(np.abs(margin(before, names, p) - margin(other, names, p)).max() for p in combinations(names, 2)) > 0.1


def test_what_is_not_moved_stays_as_near_as_can_be() -> None:
    """One family of three, a pair wanted of another law: the odds ratios of the rows stay within the pair's cells."""
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("a", "b")))
    theta = probabilities(network, 8)
    wanted = {"c": {("a", "c"): np.array([[0.3, 0.7], [0.6, 0.4]])}}
    law = raked_law(theta, wanted, np.random.default_rng(9))
    moved = np.stack([law.rows("c", {"a": np.array([a, a]), "b": np.array([0, 1])})[:, 0] for a in (0, 1)])

    def odds(share: np.ndarray) -> np.ndarray:
        return share[:, 0] / (1 - share[:, 0]) * (1 - share[:, 1]) / share[:, 1]

    np.testing.assert_allclose(odds(moved), odds(theta["c"][..., 0]), rtol=1e-9)
    share = theta["b"]
    np.testing.assert_allclose(moved @ share, [0.3, 0.6], atol=6 * np.sqrt(0.25 / POOL_RECORDS))


def test_what_cannot_be_had_together_is_a_law_all_the_same() -> None:
    """Three variables of which each pair is opposed: of two states that is impossible."""
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ()))
    theta = dc.Tables(network, {name: np.array([0.5, 0.5]) for name in "abc"})
    opposed = np.array([[0.0, 1.0], [1.0, 0.0]])
    wanted = {"b": {("a", "b"): opposed}, "c": {("a", "c"): opposed, ("b", "c"): opposed}}
    found = shares(raked_law(theta, wanted, np.random.default_rng(10)), network, 11)
    assert np.isfinite(found).all() and found.sum() == pytest.approx(1)
    assert np.abs(margin(found, tuple("abc"), ("a", "b")) - opposed / 2).max() < SLACK
    assert np.abs(found.sum(axis=(0, 1)) - 0.5).max() < 0.51


def test_impossible_states_stay_impossible_unless_wanted() -> None:
    network = small(("a", 2, ()), ("b", 3, ("a",)))
    theta = dc.Tables(network, {"a": np.array([0.5, 0.5]), "b": np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])})
    wanted = {"b": {("b",): np.array([0.2, 0.2, 0.6])}}
    found = shares(raked_law(theta, wanted, np.random.default_rng(12)), network, 13)
    assert found[0, 2] == 0 and found[1, 0] == 0
