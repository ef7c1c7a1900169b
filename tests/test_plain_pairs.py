"""Laws moved to what tables tell of pairs without bias: margins, errors, and what stays."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.pooled.plain_pairs import draw_plain_pairs, move_to_pairs, move_without_bias
from discreet.queries import column_moments
from oracle import full_joint, random_draws, small

NETWORK = small(("a", 3, ()), ("b", 4, ("a",)), ("c", 2, ("a", "b")))
NAMES = NETWORK.nodes
DRAWS = 4000


def released(epsilon: str = "1", records: int = 4000) -> dc.Release:
    rng = np.random.default_rng(5)
    theta = {name: table[..., 0] for name, table in random_draws(NETWORK, 1, 3, 2.0).items()}
    table = dc.tools.simulate_records(dc.Tables(NETWORK, theta), records, rng=rng)
    counts = dc.count(dc.read_records(table, NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)


@pytest.fixture(scope="module")
def told() -> Margins:
    return pooled_margins(NETWORK, released().measurements, None, also=())


def test_pairs_have_the_margin_that_tables_tell_and_the_errors_of_the_noise(told: Margins) -> None:
    """Means of 4,000 draws are known to 5 standard errors, deviations to 8 %."""
    pairs = list(combinations(NAMES, 2))
    found, (total, _) = draw_plain_pairs(told, pairs, DRAWS, np.random.default_rng(1)), told.total
    for pair in pairs:
        deviation = told.deviation(pair) / total
        np.testing.assert_allclose(found[pair].mean(axis=-1), told.table(pair) / total, atol=5 * deviation / DRAWS**0.5)
        # The error of the total, by which all is divided, is felt in large shares alone.
        np.testing.assert_allclose(np.median(found[pair].std(axis=-1)), deviation, rtol=0.08)
        np.testing.assert_allclose(found[pair].sum(axis=(0, 1)), 1.0)
    # One error for all: pairs agree in what they share.
    one, other = found["a", "b"].sum(axis=1), found["a", "c"].sum(axis=1)
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_moved_law_has_the_pairs_with_a_sampling_error_and_keeps_the_rest(told: Margins) -> None:
    law = full_joint(random_draws(NETWORK, DRAWS, 4, 5.0))
    fixed = np.repeat(law[..., :1], DRAWS, axis=-1)
    pairs = {("a", "b"): np.repeat((told.table(("a", "b")) / told.total[0])[..., None], DRAWS, axis=-1)}
    moved = move_to_pairs(fixed, NAMES, pairs, 500, np.random.default_rng(2))
    np.testing.assert_allclose(moved.sum(axis=(0, 1, 2)), 1.0)
    share, wanted = moved.sum(axis=2), pairs["a", "b"]
    own = fixed.sum(axis=2)[..., 0]
    error = np.sqrt(own * (1 - own) / 500)
    np.testing.assert_array_less(np.abs(share.mean(axis=-1) - wanted[..., 0]), 5 * error / DRAWS**0.5)
    np.testing.assert_allclose(share.std(axis=-1), error, rtol=0.1)
    # What no table tells stays: the share of c, and how it goes with what a and b leave open.
    np.testing.assert_allclose(moved.sum(axis=(0, 1)), fixed.sum(axis=(0, 1)), atol=1e-12)


def test_names_may_stand_in_any_order() -> None:
    law = full_joint(random_draws(NETWORK, 3, 4, 5.0))
    pairs = {("a", "c"): full_joint(random_draws(NETWORK, 3, 9, 5.0)).sum(axis=1)}
    one = move_to_pairs(law, NAMES, pairs, 10**9, np.random.default_rng(2))
    other = move_to_pairs(law.transpose(2, 0, 1, 3), ("c", "a", "b"), pairs, 10**9, np.random.default_rng(2))
    np.testing.assert_allclose(one.sum(axis=1), pairs["a", "c"], atol=1e-3)
    np.testing.assert_allclose(other.transpose(1, 2, 0, 3), one, atol=1e-3)


def test_a_posterior_reads_pairs_so_where_states_are_clear_of_the_noise() -> None:
    posterior = dc.noise_aware(released("3"), draws=400, rng=np.random.default_rng(1))
    assert posterior.parts is not None
    sets = posterior.parts.sets
    law = full_joint(posterior.probabilities)
    moved = move_without_bias(sets, law, NAMES)
    told = pooled_margins(NETWORK, released("3").measurements, None)
    for pair in combinations(NAMES, 2):
        others = tuple(axis for axis, name in enumerate(NAMES) if name not in pair)
        wanted = told.table(pair) / told.total[0]
        np.testing.assert_allclose(moved.sum(axis=others).mean(axis=-1), wanted, atol=0.003)
    np.testing.assert_array_equal(move_without_bias(sets, law, NAMES), moved)
    rough = dc.noise_aware(released("0.01", 200), draws=50, rng=np.random.default_rng(1))
    assert rough.parts is not None
    law = full_joint(rough.probabilities)
    assert move_without_bias(rough.parts.sets, law, NAMES) is law


def test_regressions_read_pairs_so() -> None:
    posterior = dc.noise_aware(released("3"), draws=400, rng=np.random.default_rng(1))
    assert posterior.parts is not None
    sets = posterior.parts.sets
    law = move_without_bias(sets, full_joint(posterior.probabilities).sum(axis=1), ("a", "c"))
    slope = law[:, 1] / law.sum(axis=1)
    exact = np.stack([slope[1] - slope[0], slope[2] - slope[0], slope[0]], axis=-1)
    np.testing.assert_allclose(dc.regress(posterior, "c", ["a"]).coefficients, exact, atol=1e-6)


@pytest.mark.costly("Moments by pairs are compared with those of the joint law over hundreds of draws.")
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_many_states_are_read_by_pairs_likewise(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means of 400 draws are known to a twentieth of their deviation; of logistic ones the move is a first step."""
    posterior = dc.noise_aware(released("3"), draws=400, rng=np.random.default_rng(1))
    exact = dc.regress(posterior, "c", ["a", "b"], kind=kind)  # type: ignore[arg-type]
    monkeypatch.setattr(column_moments, "MOST_JOINT_STATES", 3)
    found = dc.regress(posterior, "c", ["a", "b"], kind=kind)  # type: ignore[arg-type]
    deviation = exact.coefficients.std(axis=0)
    np.testing.assert_array_less(np.abs(found.mean() - exact.mean()), 0.35 * deviation)
    np.testing.assert_allclose(found.coefficients.std(axis=0), deviation, rtol=0.3)
