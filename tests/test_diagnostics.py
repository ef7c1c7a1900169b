"""Whether chains have mixed: R-hat and effective sizes of chains whose law is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

import discreet as dc
from discreet.posterior.diagnostics import effective_size, r_hat
from folding import every

CHAINS, DRAWS = 4, 10_000


def autoregressive(correlation: float, seed: int) -> np.ndarray:
    """Stationary chains of variance 1 in which each draw has this correlation with the one before, one quantity."""
    rng = np.random.default_rng(seed)
    draws = rng.standard_normal((1, CHAINS, DRAWS))
    draws[..., 1:] *= np.sqrt(1 - correlation**2)
    for step in range(1, DRAWS):
        draws[..., step] += correlation * draws[..., step - 1]
    return draws


@every("correlation", [-0.5, 0.0, 0.5, 0.9])
def test_the_effective_size_is_that_of_the_autocorrelation(correlation: float) -> None:
    """Sums of correlations: each draw is worth (1 - c) / (1 + c); the estimates were within 4 % of it."""
    draws = autoregressive(correlation, seed=1)
    worth = (1 - correlation) / (1 + correlation)
    assert effective_size(draws)[0] == pytest.approx(worth * CHAINS * DRAWS, rel=0.1)
    assert 0.999 < r_hat(draws)[0] < 1.01
    # Ranks alone matter, and every quantity is judged by itself.
    several = np.concatenate([np.exp(3 * draws), autoregressive(0.0, seed=2)])
    assert effective_size(several)[0] == pytest.approx(effective_size(draws)[0], rel=1e-9)
    assert r_hat(several)[0] == pytest.approx(r_hat(draws)[0], abs=1e-3)


def test_chains_that_do_not_agree_have_a_large_r_hat() -> None:
    draws = autoregressive(0.0, seed=3)
    apart, wider, drifting = draws.copy(), draws.copy(), draws + np.linspace(-1, 1, DRAWS)
    apart[:, 0] += 1
    wider[:, 0] *= 3
    for wrong in (apart, wider, drifting):
        assert r_hat(wrong)[0] > 1.05
    # Chains as far apart as they are wide are worth a draw or two each.
    assert effective_size(draws + 5 * np.arange(CHAINS)[:, None])[0] < 3 * CHAINS


def test_r_hat_is_the_root_of_the_variances() -> None:
    """Halves of chains with the ranks (1, 2, 3, 8), (4, 5, 6, 7), twice, by the definition."""
    draws = np.array([[[1.0, 2, 3, 8, 4, 5, 6, 7], [1, 2, 3, 8, 4, 5, 6, 7]]])
    halves = draws.reshape(4, 4)
    ranks = 2 * halves - 0.5

    def ratio(ranked: np.ndarray) -> float:
        scores = ndtri((ranked - 3 / 8) / (16 + 1 / 4))
        within, between = scores.var(axis=1, ddof=1).mean(), scores.mean(axis=1).var(ddof=1)
        return float(np.sqrt(3 / 4 + between / within))

    folded = np.abs(halves - 4.5)
    ranked = np.array([[(folded < x).sum() + ((folded == x).sum() + 1) / 2 for x in row] for row in folded])
    assert r_hat(draws)[0] == pytest.approx(max(ratio(ranks), ratio(ranked)))


def test_what_never_moves() -> None:
    still = np.zeros((1, CHAINS, 20))
    assert r_hat(still)[0] == 1 and effective_size(still)[0] == CHAINS * 20
    assert r_hat(still + np.arange(CHAINS)[:, None])[0] == np.inf


def test_too_short_chains_are_refused() -> None:
    for judged in (r_hat, effective_size):
        judged(np.zeros((1, 2, 8)))
        with pytest.raises(dc.InputError, match="chains of 7 draws are too short"):
            judged(np.zeros((1, 2, 7)))
