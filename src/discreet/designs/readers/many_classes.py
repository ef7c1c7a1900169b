r"""Posterior of a multinomial regression from a perturbed minimum and the noisy curvature there.

The curvature of K classes is a sum over pairs k < l of `(e_k - e_l)(e_k - e_l)' (x) G_kl`, where G_kl holds sums of
products of the coordinates weighted by `p_k p_l`. Each G_kl is released with noise and drawn separately
(`noisy_gram.py`); the sum of the draws is always positive semidefinite. The equations are those of
`weight_posterior.py`,

    H w + Lambda w = H theta + error,    error of covariance H + Cov(b),

for the slopes of all classes at once, in features centred at a common point. The predictors at that point are
eliminated from the equations and drawn given the slopes. H is 0 along the direction in which the weights of all classes
move alike, and the release is uninformative about it: weights are centred to sum to 0 over the classes.

Source: derived here; McCullagh and Nelder (1989), Section 5.2, for the curvature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.designs.design import GRID_STEPS
from discreet.designs.kinds.gradient_trace import GradientTrace
from discreet.designs.readers.noisy_gram import GramDraws, NoisySums, SlopeLaw, cut_normal, gram_draws, slope_law
from discreet.designs.response import Classes, response_of
from discreet.util.arrays import Floats

PREDICTOR_VARIANCE = 4.0
"""Prior variance of the part of a linear predictor that all features explain: about the largest that responses
resolve."""
INTERCEPT_DEVIATION = 5.0
"""Prior standard deviation of a linear predictor at the features' means."""
EIGENVECTOR_WORK, LEAST_CURVATURES = 1e8, 30
"""Bound on the work of the eigenvectors of the drawn curvatures, about a second, and the least number of curvatures."""


def many_estimate(trace: GradientTrace, rng: np.random.Generator) -> Floats:
    """Compute the mean slopes of all classes, and the intercepts at the mean predictors given these slopes.

    Args:
        trace: release with a curvature, of more than two classes.
        rng: source of the drawn Gram matrices.

    Returns:
        Weights in the design's coordinates, class after class, the intercept of each last, centred to sum 0 over the
        classes; shape (weights,).
    """
    known = _derive_predictor_law(trace, rng)
    return centred(known.weights(known.law.mean[None], None)[0], trace.design.outputs)


def many_draws(trace: GradientTrace, draws: int, rng: np.random.Generator) -> Floats:
    """Draw the weights of all classes: slopes, then the predictors at the features' centre given the slopes.

    Args:
        trace: release with a curvature, of more than two classes.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        Weights in the design's coordinates, class after class, the intercept of each last, centred to sum 0 over the
        classes; shape (draws, weights).
    """
    known = _derive_predictor_law(trace, rng)
    slopes, _ = known.law.draw(draws, rng)
    return centred(known.weights(slopes, rng), trace.design.outputs)


def centred(weights: Floats, outputs: int) -> Floats:
    """Centre weights over the outputs, so that they sum to 0 and predicted probabilities stay; same shape.

    Args:
        weights: output after output, shape (..., outputs * size); not changed.
        outputs: number of outputs; weights of a single output are returned as they are.

    Example:
        >>> centred(np.array([1.0, 2.0, 3.0, 6.0]), outputs=2).tolist()  # two classes of two weights
        [-1.0, -2.0, 1.0, 2.0]
    """
    if outputs == 1:
        return weights
    by_output = weights.reshape(*weights.shape[:-1], outputs, -1)
    return np.asarray((by_output - by_output.mean(axis=-2, keepdims=True)).reshape(weights.shape))


@dataclass(frozen=True, eq=False)
class _PredictorLaw:
    """Law of the weights of all classes given a release: of the slopes, and of the predictors at the centre given them.

    Args:
        law: law of the slopes, in the order (classes, features).
        centre: common centre of the features, shape (features,).
        constant: the design's constant feature; 0 without an intercept, and then there are no predictors at the centre
            to draw.
        cross: curvature between the predictors at the centre and the slopes, averaged over the drawn curvatures, shape
            (classes, classes * features).
        pulled: left sides H w + Lambda w of the predictors' equations, averaged over the drawn curvatures, shape
            (classes,).
        curvature: curvature of the predictors, shape (classes, classes).
        noise: noise variance of each left side.
        there: predictors at the centre under the released weights, shape (classes,).
        record_effect: change of a mean response by one record.
        sums: pairs of classes, each with its noisy sums.
    """

    law: SlopeLaw
    centre: Floats
    constant: float
    cross: Floats
    pulled: Floats
    curvature: Floats
    noise: float
    there: Floats
    record_effect: float
    sums: tuple[tuple[tuple[int, int], NoisySums], ...]

    def _draw_pair_weight(
        self, pair: tuple[int, int], pair_sums: NoisySums, draws: int, rng: np.random.Generator
    ) -> Floats:
        """Draw the true weight of a pair of classes given the noisy one, and enter it for both classes.

        Returns:
            Shape (draws, classes), 0 for all other classes; the noisy weight itself if it has no noise.
        """
        added = np.zeros((draws, len(self.pulled)))
        added[:, pair] = (pair_sums.weight / weight_ratios(pair_sums, draws, rng))[:, None]
        return added

    def weights(self, slopes: Floats, rng: np.random.Generator | None) -> Floats:
        """Convert slopes to weights of the design: draw predictors at the centre given slopes, or take means.

        The predictors are normal given the slopes. Then the change of the mean response, not of the predictor, is
        extrapolated linearly from the released weights, times the noisy over the drawn weight of records, and mapped
        back. Means are floored at a share, uniform on (0, 1), of one record's effect on them.

        Args:
            slopes: shape (draws, classes * features).
            rng: source of randomness; None takes the mean predictors, a weight ratio of 1 and a share of 1/2.

        Returns:
            Shape (draws, classes * size), class after class, the intercept last, not centred over the classes; without
            an intercept the slopes themselves.
        """
        classes, width = len(self.pulled), len(self.centre)
        by_class = slopes.reshape(len(slopes), classes, width)
        if not self.constant:
            return slopes
        # Normal equations: pulled = cross slopes + curvature predictors + error of covariance curvature + noise I, with
        # prior N(0, INTERCEPT_DEVIATION^2) of each predictor.
        gain = self.curvature @ np.linalg.pinv(self.curvature + self.noise * np.eye(classes), hermitian=True)
        precision = gain @ self.curvature + np.eye(classes) / INTERCEPT_DEVIATION**2
        covariance = np.linalg.pinv((precision + precision.T) / 2, hermitian=True)
        middle = (self.pulled - slopes @ self.cross.T) @ (covariance @ gain).T
        share, ratio = np.full(len(slopes), 0.5), np.ones((len(slopes), classes))
        if rng is not None:
            middle = middle + rng.multivariate_normal(np.zeros(classes), covariance, len(slopes), method="eigh")
            share = rng.random(len(slopes))
            drawn = sum(self._draw_pair_weight(pair, pair_sums, len(slopes), rng) for pair, pair_sums in self.sums)
            ratio = np.diag(self.curvature) / drawn
        # Extrapolate the mean responses linearly, not the predictors (`_bend_predictor` in `weight_posterior.py`).
        at = self.there[:, None]
        least = share * min(self.record_effect, 1 / classes)
        middle = Classes(classes).bent(at, (middle.T - at) * ratio.T, least).T
        constant = (middle - by_class @ self.centre) / self.constant
        return np.concatenate([by_class, constant[:, :, None]], axis=2).reshape(len(slopes), -1)


def _derive_predictor_law(trace: GradientTrace, rng: np.random.Generator) -> _PredictorLaw:
    """Derive the law of the slopes of all classes, and of the predictors at the centre given the slopes.

    The equations of the predictors at the common centre (the pairs' estimated means, averaged by weight) are eliminated
    by a Schur complement with a ridge. Slopes are scaled by the root of their mean curvature, alike for all classes,
    and the scaled curvatures' eigenvalues are floored at 1e-9. Without an intercept nothing is centred or eliminated.

    Args:
        trace: release with a curvature, of more than two classes.
        rng: source of the drawn Gram matrices.
    """
    design, response = trace.design, response_of(trace.design)
    classes, width, constant = design.outputs, len(design.features), design.constant
    sums = [sums_of(trace, pair) for pair in range(len(response.pairs))]
    grams = [gram_draws(pair_sums, rng) for pair_sums in sums]
    most = int(max(LEAST_CURVATURES, EIGENVECTOR_WORK // (classes * width) ** 3))
    centre = np.average([gram.means for gram in grams], axis=0, weights=[pair_sums.weight for pair_sums in sums])
    slopes, cross, curvature = _assemble_curvature(response.pairs, sums, grams, centre, most)
    at = trace.weights.reshape(classes, design.size)
    pulls = trace.gradients[-1].reshape(classes, design.size)
    noise = np.tile(trace.variance * np.ones(width), classes)
    force, predictors, pulled = pulls[:, :width].ravel(), np.zeros(classes), np.zeros(classes)
    if constant:
        force = (pulls[:, :width] - pulls[:, -1:] / constant * centre).ravel()
        noise = np.tile(trace.variance * (1 + (centre / constant) ** 2), classes)
        predictors, pulled = at[:, -1] * constant + at[:, :width] @ centre, pulls[:, -1] / constant
    released_slopes = at[:, :width].ravel()
    # Left sides H w + Lambda w: those of the slopes, and those of the predictors at the centre.
    pull = slopes @ released_slopes + np.einsum("mks,k->ms", cross, predictors) + force
    middle = cross @ released_slopes + curvature @ predictors + pulled
    loose = trace.variance / constant**2 if constant else 0.0
    if constant:
        # Schur complement: eliminate the predictors. The ridge is the ratio of noise to curvature, so that predictors
        # whose curvature is dominated by noise explain nothing.
        ridge = (loose / np.trace(curvature) * classes + 1e-6 * np.trace(curvature)) * np.eye(classes)
        projection = np.swapaxes(cross, 1, 2) @ np.linalg.pinv(curvature + ridge, hermitian=True)
        pull = pull - np.einsum("msk,mk->ms", projection, middle)
        noise = noise + loose * (projection**2).sum(axis=2).mean(axis=0)
        slopes = slopes - projection @ cross
    scales = np.sqrt(np.maximum(np.einsum("mss->s", slopes) / len(slopes), 1e-300)).reshape(classes, width)
    scales = np.tile(np.sqrt((scales**2).mean(axis=0)), classes)
    eigenvalues, axes = np.linalg.eigh(slopes / scales[:, None] / scales)
    nothing = np.zeros(classes * width)
    gram = GramDraws(nothing, nothing, np.zeros_like(eigenvalues), scales, np.maximum(eigenvalues, 1e-9), axes)
    ones = np.ones(len(eigenvalues))
    law = slope_law(
        gram,
        gram.along(pull / scales),
        gram.variance_along(noise / scales**2),
        sampling=ones,
        unit=ones * np.trace(curvature) / classes * PREDICTOR_VARIANCE / width,
        volume=np.log(gram.eigenvalues + gram.variance_along(convexity_of(trace) / scales**2)).sum(axis=1),
    )
    spread = response.slopes(response.means(predictors[:, None])).sum()
    unit = float(max(spread, 1e-12) / sum(pair_sums.weight for pair_sums in sums))
    tied, pulled = cross.mean(axis=0), middle.mean(axis=0)
    pairs = tuple(zip(response.pairs, sums, strict=True))
    return _PredictorLaw(law, centre, constant, tied, pulled, curvature, loose, predictors, unit, pairs)


def _assemble_curvature(
    pairs: tuple[tuple[int, int], ...], sums: list[NoisySums], grams: list[GramDraws], centre: Floats, most: int
) -> tuple[Floats, Floats, Floats]:
    """Assemble draws of the curvature, with features centred at a common point, from the Gram matrices of the pairs.

    The curvature is `sum over pairs k < l of (e_k - e_l)(e_k - e_l)' (x) G_kl`, with G_kl the pair's drawn matrix plus
    `weight * offset offset'`, offset being the pair's drawn means less the centre; 0 if the pair is not centred.

    Args:
        pairs: pairs of classes (k, l), k < l, the last two classes last.
        sums: noisy sums of each pair.
        grams: drawn Gram matrices of each pair.
        centre: common centre of the features, shape (features,).
        most: largest number of draws; it is also limited by the least number of matrices of a pair.

    Returns:
        Blocks of the curvature: slopes, shape (draws, classes * features, classes * features); predictors by slopes,
        shape (draws, classes, classes * features); predictors, shape (classes, classes), the same in all draws.
    """
    classes, width = pairs[-1][1] + 1, len(centre)
    draws = min(most, *(len(gram.eigenvalues) for gram in grams))
    slopes = np.zeros((draws, classes, width, classes, width))
    cross, curvature = np.zeros((draws, classes, classes, width)), np.zeros((classes, classes))
    for (first, second), pair_sums, gram in zip(pairs, sums, grams, strict=True):
        axes, values = gram.axes[:draws], gram.eigenvalues[:draws]
        offset = gram.drawn_means[:draws] - centre if pair_sums.linear is not None else np.zeros((draws, width))
        products = (axes * values[:, None]) @ np.swapaxes(axes, 1, 2) * gram.scales[:, None] * gram.scales
        products = products + pair_sums.weight * offset[:, :, None] * offset[:, None]
        # Multinomial curvature: sum over pairs (k, l) of (e_k - e_l)(e_k - e_l)' times the pair's products.
        for k, l, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
            slopes[:, k, :, l, :] += sign * products
            cross[:, k, l] += sign * pair_sums.weight * offset
            curvature[k, l] += sign * pair_sums.weight
    return (
        slopes.reshape(draws, classes * width, classes * width),
        cross.reshape(draws, classes, classes * width),
        curvature,
    )


def sums_of(trace: GradientTrace, pair: int) -> NoisySums:
    """Extract the noisy sums of products of one pair of outputs, weighted by the slopes of their mean responses.

    The weight is floored at its noise deviation. Squares of features outside groups are `(released + weight) / 2`; the
    square of a group's indicator is the indicator itself, and products within a group are 0 with variance 0.

    Args:
        trace: release with a curvature.
        pair: position of the pair in the response's `pairs`; 0 if there is one output.

    Returns:
        The sums with their noise variances, unit: weight of a record, which is the slope; `linear` is None without an
        intercept.
    """
    assert trace.curvature is not None
    design, width = trace.design, len(trace.design.features)
    unit = response_of(design).steepest_pair
    (weight,), linear, cross = (block[pair] / GRID_STEPS * unit for block in trace.curvature.parts(design))
    variances = trace.curvature_variances(unit)
    weight = max(float(weight), float(np.sqrt(variances[0])))
    # A group's indicator is 0 or 1 and equals its square, and products of two indicators of a group are 0. Other
    # squares are released as sums of 2 u^2 - 1.
    alone, first = list(design.alone), len(linear) - len(design.alone)
    squares, square_variance = linear[:width].copy(), np.full(width, variances[1])
    squares[alone], square_variance[alone] = (linear[first:] + weight) / 2, (variances[1] + variances[0]) / 4
    products, product_variance = np.zeros((2, width, width))
    products[design.pairs], product_variance[design.pairs] = cross, variances[2]
    upper = np.triu_indices(width, 1)
    return NoisySums(
        weight=weight,
        weight_variance=variances[0],
        linear=linear[:width] if design.intercept else None,
        squares=squares,
        products=products[upper],
        linear_variance=variances[1],
        square_variance=square_variance,
        product_variance=product_variance[upper],
    )


def weight_ratios(sums: NoisySums, draws: int, rng: np.random.Generator) -> Floats:
    """Draw ratios of the estimated weight to draws of the true one, shape (draws,), positive.

    The true weight is normal around the estimated one with its noise deviation s, cut to `[s / 1000, weight + 20 s]`.

    Args:
        sums: noisy sums of a pair; without noise in the weight all ratios are 1, and no random number is used.
        draws: number of draws.
        rng: source of randomness.
    """
    deviation = math.sqrt(sums.weight_variance)
    if not deviation:
        return np.ones(draws)
    weight, spread = np.array([sums.weight]), np.array([deviation])
    _, drawn = cut_normal(weight, spread, 1e-3 * deviation, sums.weight + 20 * deviation, rng.random((draws, 1)))
    return np.asarray(sums.weight / drawn[:, 0])


def convexity_of(trace: GradientTrace) -> float:
    """Compute Lambda, the convexity of the regulariser: the ratio of gradient to weight at the released minimum.

    It is read from the weight of largest absolute value and the last gradient; 0 if all weights are 0.
    """
    longest = int(np.argmax(np.abs(trace.weights)))
    return float(trace.gradients[-1][longest] / trace.weights[longest]) if trace.weights[longest] else 0.0
