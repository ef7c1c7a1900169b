"""A mechanism that releases every family by stars, for audits and enumerations, and its planted bugs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

import discreet as dc
from discreet.mechanisms.noise import Noise
from discreet.noise.star_noise import star_scale
from discreet.planning.star_cover import Group, shared_by, star_cover, star_lengths
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise, star_scopes
from discreet.util.arrays import by_rows, of_rows
from discreet.util.limits import STAR_DIMENSIONS

__all__ = ["STAR_FLAWS", "starred"]

Draw = Callable[[Noise, Sequence[np.ndarray], float], list[np.ndarray]]


def honest(noise: Noise, rows: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
    """Of the source."""
    return noise.star(rows, scale)


def starred(draw_star: Draw = honest, moved: int | None = None, spent: Fraction = Fraction(1)) -> dc.tools.Mechanism:
    """Stars with equal budgets.

    Args:
        draw_star: Noise on the rows of a star.
        moved: What a record is taken to move; None for the truth.
        spent: How much of the budget is given out, 1 for all.
    """

    def groups(network: dc.Network) -> tuple[Group, ...]:
        return star_cover(network, STAR_DIMENSIONS)

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> PlannedNoise:
        most = moved or (1 if guarantee.relation is dc.Relation.ADD_REMOVE else 2)
        found, budgets, scales, stars = groups(network), {}, {}, {}
        share = spent * guarantee.epsilon / len(found)
        for number, group in enumerate(found, 1):
            scale, _ = star_scale(most, share, star_lengths(network, group))
            for scope in group:
                budgets[scope], scales[scope] = min(share, guarantee.epsilon / len(found)), scale
                if len(group) > 1:
                    stars[scope] = number
        expected = dict.fromkeys(network.nodes, 1.0)
        return PlannedNoise("discrete_laplace", most, budgets, scales, guarantee.epsilon, expected, stars)

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: PlannedNoise, noise: Noise) -> NoisyTables:
        tables = {}
        for group in (*star_scopes(own.stars), *((scope,) for scope in own.scales if scope not in own.stars)):
            shared, scale = shared_by(group), own.scales[group[0]]
            rows = [by_rows(counts.joint(scope), scope, shared) for scope in group]
            noisy = draw_star(noise, rows, scale) if shared else [noise.discrete_laplace(rows[0], scale)]
            for scope, row in zip(group, noisy, strict=True):
                sizes = [counts.network.schema[name].size for name in scope]
                tables[scope] = of_rows(row, scope, shared, sizes)
        return NoisyTables(counts.network, tables, own.scales, own.noise, own.stars)

    return replace(dc.planned(pairs_share=0), calibrate=calibrate, draw=draw)


def one_row_without_noise(noise: Noise, rows: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
    noisy = noise.star(rows, scale)
    moved = noisy[0].sum(axis=1) - rows[0].sum(axis=1)
    bare = rows[0].copy()
    bare[:, -1] += moved
    return [bare, *noisy[1:]]


def noise_of_one_table_each(noise: Noise, rows: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
    """As if every table had the whole budget to itself; made to agree by its last cell."""
    noisy = [noise.discrete_laplace(row, scale) for row in rows]
    for row in noisy[1:]:
        row[:, -1] += noisy[0].sum(axis=1) - row.sum(axis=1)
    return noisy


def two_draws_at_the_cost_of_one(noise: Noise, rows: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
    """The second is released, and the first decides whether."""
    first, second = noise.star(rows, scale), noise.star(rows, scale)
    return second if first[0].sum() >= 0 else first


STAR_FLAWS: dict[str, Callable[[], dc.tools.Mechanism]] = {
    "a row without noise": lambda: starred(one_row_without_noise),
    "every table pays as if alone": lambda: starred(noise_of_one_table_each),
    "two draws at the cost of one": lambda: starred(two_draws_at_the_cost_of_one),
    "half the noise": lambda: starred(lambda noise, rows, scale: noise.star(rows, scale / 2)),
    "twice the budget": lambda: starred(spent=Fraction(2)),
}
