r"""Principal components from noisy second moments: a direct estimate, and a posterior with noise and sampling error.

Released are sums over records u in [-1, 1]^k with cube noise: of products, of squares as 2 u_i^2 - 1, of the features,
and the number of records if that is private. Divided by that number, and less the products of the means, they are
T = S + noise, with S the records' covariance.

The posterior of S approximates the noise by a normal law of the same variance, which is equal for all sums. The priors
are uniform: for the axes of S, for the standard deviations along them and for the means, as far as records fit in
[-1, 1], and for the number of records. Four chains draw it (`spectrum_compiled`). Given S and n records, the law from
which these are a sample has a covariance Sigma with `Sigma^-1 ~ Wishart(n - 1, (n S)^-1)`: exact for normal records.

Source: Dwork, Talwar, Thakurta and Zhang (STOC 2014), *Analyze Gauss*, for components of a noisy covariance, and Hardt
and Talwar (2010) for the noise; Benaych-Georges and Nadakuditi (2011) for the edge of the semicircle; Hoff
(2009) for chains over axes; Gelman et al., *Bayesian Data Analysis*, Section 3.6 for Sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.designs.design import Design, design_of
from discreet.designs.kinds.noisy_sums import NoisyMoments
from discreet.designs.readers.weight_posterior import require_met
from discreet.errors import InputError
from discreet.posterior.diagnostics import measure_mixing
from discreet.posterior.joint_draws import Mixing
from discreet.posterior.protocol import Posterior, name_rows, tails
from discreet.releases.release import Release
from discreet.research.readers.spectrum_compiled import chain
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL

COMPONENT_CHAINS, COMPONENT_WARM_UP, LEAST_SWEEPS, JUDGED_SWEEPS = 4, 300, 2000, 250
"""Number of chains; sweeps of each warm-up, least sweeps after it, and least kept sweeps for measuring the mixing."""
COMPONENT_MIXING = (1.1, 50)
"""Largest R-hat and fewest effective draws, of the worst entry of the covariance, for intervals."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Means, axes and variances, in a design's coordinates.

    Args:
        mean: of the features, shape `(features,)`.
        axes: unit vectors in rows, by descending variance, shape `(features, features)`; the largest entry of each is
            positive.
        variances: along the axes, shape `(features,)`, at least 0 and descending.
    """

    mean: Floats
    axes: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class ComponentPosterior(Posterior):
    """Draws of a covariance matrix.

    Args:
        design: public.
        centre: means of the features, shape `(draws, features)`; all arrays are in the design's coordinates.
        covariance: of the records' law, shape `(draws, features, features)`.
        method: "moments", or "directions" for the choice of a direction.
        mixing: of the chains: R-hat and effective draws of the worst entry of a covariance.
    """

    noun: ClassVar[str] = "coordinate"
    design: Design
    centre: Floats
    covariance: Floats
    method: Literal["moments", "directions"]
    mixing: Mixing

    @property
    def draws(self) -> int:
        """Number of joint draws."""
        return len(self.covariance)

    def ess(self) -> float:
        """Return the effective sample size of the worst entry of a covariance."""
        return min(self.mixing.effective, float(self.draws))

    def mean(self) -> Floats:
        """Compute the mean covariance, shape `(features, features)`."""
        return np.asarray(self.covariance.mean(axis=0))

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of the covariance's entries.

        Args:
            level: posterior probability, between 0 and 1.

        Raises:
            InputError: as `tails`.
        """
        return self.tails(self.covariance, level)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the components by descending variance: coordinates of the unit vector, and the variance along it.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            For each component and feature, and then its variance, `{"component", "name", "mean", "lower", "upper"}`; a
            choice of a direction has one component. "component" counts from 1.

        Raises:
            InputError: as `tails`.
        """
        number = 1 if self.method == "directions" else self.covariance.shape[-1]
        values = np.concatenate([self.components(number), self.variances(number)[..., None]], axis=-1)
        names = (*self.design.names, "variance")
        heads = [{"component": at, "name": name} for at in range(1, number + 1) for name in names]
        return name_rows(heads, values.reshape(self.draws, -1), self.tails, level)

    def spectrum(self) -> Spectrum:
        """Compute means, axes and variances of the mean covariance."""
        variances, axes = _find_axes(self.mean())
        return Spectrum(self.centre.mean(axis=0), axes, variances)

    def components(self, number: int, reference: Floats | None = None) -> Floats:
        """Compute the unit vectors of each draw, by descending variance.

        Args:
            number: number of vectors.
            reference: vectors that set the signs, shape `(number, features)`; None for those of the mean covariance.

        Returns:
            Shape `(draws, number, features)`.
        """
        if reference is None:
            reference = self.spectrum().axes[:number]
        vectors = np.swapaxes(np.linalg.eigh(self.covariance)[1][..., ::-1], 1, 2)[:, :number]
        signs = np.where((vectors * reference).sum(axis=-1) < 0, -1.0, 1.0)
        return np.asarray(vectors * signs[..., None])

    def variances(self, number: int) -> Floats:
        """Compute the variances along the components of each draw, shape `(draws, number)`."""
        return np.asarray(np.linalg.eigvalsh(self.covariance)[:, ::-1][:, :number])

    def tails(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of functions of each draw.

        Args:
            values: shape `(draws, ...)`.
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(...)` each.

        Raises:
            InputError: a level outside (0, 1), too few draws for it, or chains that have not converged.
        """
        require_met(self.mixing, *COMPONENT_MIXING, "ask for more draws")
        return tails(values, level)


@dataclass(frozen=True, eq=False)
class _ReleasedSums:
    """Released sums: number of records and sums of features, products, variance of the noise."""

    first: Floats
    product: Floats
    variance: float
    private: bool

    @property
    def number(self) -> float:
        """Number of records, at least two more than the features."""
        return max(float(self.first[0]), len(self.product) + 2.0)


def quick_components(release: Release) -> Spectrum:
    """Estimate components without draws: axes of the noisy covariance, and variances without the noise's contribution.

    Noise alone spreads the eigenvalues of T over `2 sqrt(k)` standard deviations on either side of their mean (the
    semicircle law). An eigenvalue at a distance t beyond this edge is estimated at `(t + sqrt(t^2 - edge^2)) / 2` from
    the mean. Those within the edge are set equal, with the rest of the trace, whose relative error is small.

    Args:
        release: of noisy moments over a design without a target, with an intercept.

    Returns:
        The estimate, without random numbers; exact for the records if there is no noise.

    Raises:
        InputError: another kind of release.
    """
    sums = _read_sums(release)
    size = len(sums.product)
    mean = np.clip(sums.first[1:] / sums.number, -1, 1)
    noisy = _find_second_moments(sums, sums.number) - np.outer(mean, mean)
    values, axes = _find_axes(noisy)
    edge = 2 * math.sqrt(size * sums.variance) / sums.number
    return Spectrum(mean, axes, _remove_noise(values, edge))


def component_draws(release: Release, *, draws: int, rng: np.random.Generator) -> ComponentPosterior:
    """Draw covariance matrices given a release.

    Args:
        release: as for `quick_components`.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        The posterior.

    Raises:
        InputError: another kind of release, or no more records than features if their number is public.
    """
    sums, size = _read_sums(release), len(design_of(release).features)
    if not sums.private and sums.first[0] <= size + 1:
        raise InputError(f"a covariance of {size} features needs more records than that; their number is public here")
    rounds = max(-(-draws // COMPONENT_CHAINS), JUDGED_SWEEPS)
    thin = -(-LEAST_SWEEPS // rounds)
    setting = np.array([sums.variance, float(sums.private), COMPONENT_WARM_UP, rounds, thin])
    chains = []
    for chain_rng in rng.spawn(COMPONENT_CHAINS):
        axes, state = _start_chain(sums, chain_rng)
        chains.append(chain(sums.first, sums.product, axes, state, setting, chain_rng))
    covariances, means, numbers = (np.stack(arrays) for arrays in zip(*chains, strict=True))
    rows, columns = np.triu_indices(size)
    entries = np.moveaxis(covariances[:, :, rows, columns], -1, 0)
    names = [
        f"covariance of {first} and {second}"
        for first, second in zip(
            *(np.array(design_of(release).names)[arrays] for arrays in (rows, columns)), strict=True
        )
    ]
    mixing = measure_mixing(entries, names.__getitem__, COMPONENT_WARM_UP + rounds * thin)
    picked = np.linspace(0, COMPONENT_CHAINS * rounds - 1, draws).round().astype(np.intp)
    flat = covariances.swapaxes(0, 1).reshape(-1, size, size)[picked]
    number = numbers.T.ravel()[picked]
    sampled = _draw_laws(flat, number, rng)
    mean = means.swapaxes(0, 1).reshape(-1, size)[picked]
    spread = np.einsum("kij,kj->ki", np.linalg.cholesky(sampled), rng.standard_normal(mean.shape))
    mean = mean + spread / np.sqrt(number)[:, None]
    return ComponentPosterior(design_of(release), mean, sampled, "moments", mixing)


# -------------------------------------------------------------------------------------------------------------- details


def _read_sums(release: Release) -> _ReleasedSums:
    """Read the sums of a release of moments without a target."""
    payload, design = release.payload_as(NoisyMoments), design_of(release)
    if design.target is not None or not design.intercept:
        raise InputError("this release is not of principal components: moments of features alone, with an intercept")
    size = len(design.features)
    products = payload.sums[1:] if payload.noisy_total else payload.sums
    number = float(payload.sums[0]) if payload.noisy_total else float(release.records or 0)
    matrix = np.zeros((size + 1, size + 1))
    rows, columns = np.array(design.moments).T
    matrix[rows, columns] = matrix[columns, rows] = products
    scale, values = payload.sums_scale, len(payload.sums)
    variance = scale**2 * (values + 1) * (values + 2) / 3
    first = np.concatenate([[number], matrix[:size, size]])
    return _ReleasedSums(first, np.ascontiguousarray(matrix[:size, :size]), variance, payload.noisy_total)


def _find_second_moments(sums: _ReleasedSums, number: float) -> Floats:
    """Compute the noisy second moments of one record."""
    moments = sums.product / number
    np.fill_diagonal(moments, (np.diagonal(moments) + 1) / 2)
    return moments


def _find_axes(covariance: Floats) -> tuple[Floats, Floats]:
    """Compute eigenvalues, the largest first, and unit vectors in rows whose largest entries are positive."""
    values, vectors = np.linalg.eigh(covariance)
    axes = vectors.T[::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return values[::-1], np.where(largest < 0, -axes, axes)


def _remove_noise(values: Floats, edge: float) -> Floats:
    """Remove the noise's contribution from eigenvalues; the result is descending."""
    middle = float(np.mean(values))
    gaps = values - middle
    outside = np.abs(gaps) > edge
    estimates = middle + np.where(outside, (gaps + np.sign(gaps) * np.sqrt(np.maximum(gaps**2 - edge**2, 0))) / 2, 0)
    estimates = np.maximum(estimates, 0.0)
    if not outside.all():
        left = (max(values.sum(), 0.0) - estimates[outside].sum()) / np.count_nonzero(~outside)
        estimates[~outside] = max(left, 0.0)
    return np.sort(estimates)[::-1]


def _start_chain(sums: _ReleasedSums, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Start a chain at the noisy moments less fresh noise, projected to moments of records in [-1, 1]."""
    size = len(sums.product)
    mean = np.clip(sums.first[1:] / sums.number, -0.95, 0.95)
    shift = rng.normal(0, math.sqrt(sums.variance) / sums.number, (size, size))
    values, axes = np.linalg.eigh(
        _find_second_moments(sums, sums.number) - np.outer(mean, mean) + np.triu(shift) + np.triu(shift, 1).T
    )
    deviations = np.sqrt(np.clip(values, 1e-4, 1.0))
    diagonal = (axes**2) @ deviations**2
    smaller = min(1.0, float(((1 - mean**2) / diagonal).min()) * 0.99)
    return np.ascontiguousarray(axes), np.stack([deviations * math.sqrt(smaller), mean, diagonal * smaller])


def _draw_laws(covariances: Floats, numbers: Floats, rng: np.random.Generator) -> Floats:
    """Draw covariances of the laws, given the covariances of samples from them."""
    size = covariances.shape[-1]
    lower = np.tril(rng.standard_normal(covariances.shape), -1)
    freedom = np.maximum(numbers - 1, size)[:, None] - np.arange(size)
    index = np.arange(size)
    lower[:, index, index] = np.sqrt(rng.chisquare(freedom))
    # With S = R R' and W = L L' ~ Wishart: Sigma = n R W^-1 R', and W^-1 = M M' for M = L^-T.
    root = np.linalg.cholesky(
        covariances + 1e-9 * np.trace(covariances, axis1=1, axis2=2)[:, None, None] * np.eye(size)
    )
    half = root @ np.swapaxes(np.linalg.inv(lower), 1, 2)
    return np.asarray(numbers[:, None, None] * half @ np.swapaxes(half, 1, 2))
