"""Prior mean of each row: a log-linear fit to margins of the child and some parents, leaving the row out.

The effects of single parents on the child are fitted first, then, with three parents or more, the joint effects of all
but one of them. The fit is proportional fitting of the rows' laws, weighted by their records, to the child's law in
every *slice*: the rows that agree in some of the parents. A slice of few records determines its law poorly, so it is
smoothed by `s` pseudo-records around the prediction of the fit of smaller margins. Each slice draws its `s` by the
likelihood of its counts, as rows draw their concentrations, with weights that are learned for each margin.

A row's own records are left out to first order: from the counts of its slices, from the fit, and from the smaller
margins by the row's share of the slice. The fit is kept from one sweep of the chains to the next and continues by one
round in each, because counts move little in between.

Source: Deming and Stephan (1940); log-linear models without their highest interaction: Bishop, Fienberg and Holland
(1975), chapter 3.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet.posterior.pooled.cell_weights import LEAST_MEAN
from discreet.util.arrays import Floats

Array = npt.NDArray[np.floating]
Axes = tuple[int, ...]

SLICE_RECORDS: npt.NDArray[np.float64] = 4.0 ** np.arange(-1.0, 7.0)
"""Grid of pseudo-records of a slice: from slices with a law of their own to slices that follow the prediction."""
WORTH_SLICES = 2.0
"""Prior sample size of the weights of `SLICE_RECORDS`, in slices."""
FIRST_ROUNDS, PICKING_SWEEPS = 4, 5
"""Rounds of fitting in the first sweep; sweeps between two draws of the pseudo-records."""
LEAST_FIT, LEAST_RECORDS = 1e-12, 1e-3
"""Least probability and least records in a denominator."""


class RowMeans:
    """Prior means of all rows of a family; the fit is kept and continued by each call of `renew`.

    Args:
        totals: records of each row, shape `(*parents, draws)`.
        states: number of states of the child.
    """

    def __init__(self, totals: Array, states: int) -> None:
        """Prepare the margins: those of single parents, then those of all but one parent.

        With two parents these are the same, and are fitted once. With fewer than two there are none.
        """
        self._n, self._states = totals[None], states
        parents = totals.ndim - 1
        self._every = tuple(range(1, parents + 1))
        self._all = self._n.sum(axis=self._every, keepdims=True)
        # One parent alone has no margin beside the table itself and the child's; of two these are all but one.
        kept_sizes = sorted({1, parents - 1}) if parents > 1 else []
        self._levels = [
            _Level(self._n, [tuple(axis for axis in self._every if axis not in margin_axes) for margin_axes in sets])
            for sets in (list(combinations(self._every, size)) for size in kept_sizes)
        ]

    def renew(self, counts: Array, rng: np.random.Generator) -> Array:
        """Continue the fit with new counts and return the prior mean of each row, computed without the row itself.

        With one parent the mean is `(records of the state in other rows + 1 / states) / (records of other rows + 1)`.
        With two or more this is the prediction for the margins of single parents, and their fit is that for the margins
        of all but one; each level of margins is fitted by one more round, FIRST_ROUNDS in the first call.

        Args:
            counts: records of each cell, shape `(child, *parents, draws)`.
            rng: source of randomness for the pseudo-records of slices; not used with fewer than two parents.

        Returns:
            Probabilities, at least LEAST_MEAN, which may raise their sum above 1 a little, type and shape of the
            counts; uniform for a node without parents.
        """
        if not self._every:
            return np.full_like(counts, 1 / self._states)
        # The child's law over all rows, with one pseudo-record; `apart` leaves each row out.
        whole = counts.sum(axis=self._every, keepdims=True)
        law = (whole + 1 / self._states) / (self._all + 1)
        apart = (whole - counts + 1 / self._states) / (self._all - self._n + 1)
        for level in self._levels:
            law, apart = level.renew(counts, law, apart, rng)
        return np.asarray(np.maximum(apart, LEAST_MEAN, out=apart))


class _Level:
    """Log-linear fit to the margins over equally many parents; keeps its fit between calls.

    Args:
        n: records of each row, shape `(1, *parents, draws)`.
        sets: for each margin, the axes (of an array with the child's axis first) to sum over.
    """

    def __init__(self, n: Array, sets: list[Axes]) -> None:
        """Prepare the records of each slice, the share that each row has of its slice, and equal weights of sizes.

        A share divides by at least LEAST_RECORDS. Each margin and draw has its own weights of the sizes SLICE_RECORDS.
        Nothing is fitted yet.
        """
        self._n, self._sets = n, sets
        self._records = [n.sum(axis=axes, keepdims=True) for axes in sets]
        self._shares = [n / np.maximum(records, LEAST_RECORDS) for records in self._records]
        self._weights = [np.full((len(SLICE_RECORDS), n.shape[-1]), 1 / len(SLICE_RECORDS)) for _ in sets]
        self._sizes: list[Array] = []
        self._fit: Array | None = None
        self._sweep = 0

    def renew(self, counts: Array, law: Array, apart: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Run one more round of proportional fitting to this level's margins, FIRST_ROUNDS in the first call.

        The first call starts at `law`, later ones at the kept fit. A step multiplies the fit by `(counts + s
        prediction) / (fitted counts (1 + s / n))` of the slice, s being its pseudo-records and n its records; slices
        without records are left out. The denominator is at least LEAST_FIT, and n at least LEAST_RECORDS. Every round
        ends with rows normalised, then raised to LEAST_FIT.

        Args:
            counts: records of each cell, shape `(child, *parents, draws)`.
            law: prediction of each row by smaller margins, broadcast to the counts.
            apart: the same prediction computed without the row itself, broadcast to the counts.
            rng: source of randomness for the pseudo-records of slices.

        Returns:
            The prediction of each row by this level's margins, and the same without the row itself, both of the shape
            of the counts. The first array is the kept fit and changes in the next call.
        """
        margins = [self._prepare_margin(index, counts, law, rng) for index in range(len(self._sets))]
        self._sweep += 1
        rounds = 1
        if self._fit is None:
            self._fit, rounds = np.broadcast_to(law, counts.shape).copy(), FIRST_ROUNDS
        for _ in range(rounds):
            for axes, records, (counted, prediction, size) in zip(self._sets, self._records, margins, strict=True):
                # Proportional fitting: fit *= (counts + s prediction) / (fitted counts (1 + s / n)), by slice.
                fitted = (self._fit * self._n).sum(axis=axes, keepdims=True)
                fitted *= 1 + size / np.maximum(records, LEAST_RECORDS)
                np.maximum(fitted, LEAST_FIT, out=fitted)
                self._fit *= np.where(records > 0, (counted + size * prediction) / fitted, 1)
            self._fit /= self._fit.sum(axis=0)
            np.maximum(self._fit, LEAST_FIT, out=self._fit)
        return self._fit, self._leave_out(counts, margins, apart)

    def _prepare_margin(
        self, index: int, counts: Array, law: Array, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Return a margin's counts by slice, the prediction of smaller margins, and each slice's pseudo-records.

        The pseudo-records of a margin and the weights of their sizes are drawn and kept in the first call and in every
        PICKING_SWEEPS-th after it; between these the kept ones are returned.

        Args:
            index: position of the margin among the level's.
            counts: records of each cell, shape `(child, *parents, draws)`.
            law: prediction of each row by smaller margins, broadcast to the counts.
            rng: source of randomness.

        Returns:
            Counts of the slices; their predicted law, the mean of their rows' weighted by records plus LEAST_RECORDS,
            or `law` itself if it is the same in all rows; and their pseudo-records, with an axis of length 1 for the
            child. Summed axes have length 1.
        """
        axes = self._sets[index]
        counted, prediction = counts.sum(axis=axes, keepdims=True), law
        if law.shape[1:-1] != (1,) * (law.ndim - 2):
            prediction = (law * (self._n + LEAST_RECORDS)).sum(axis=axes, keepdims=True)
            prediction /= prediction.sum(axis=0)
        if self._sweep % PICKING_SWEEPS == 0:
            picked, self._weights[index] = _draw_slice_records(counted, prediction, self._weights[index], rng)
            self._sizes[index : index + 1] = [picked.astype(counts.dtype)[None]]
        return counted, prediction, self._sizes[index]

    def _leave_out(self, counts: Array, margins: list[tuple[Array, Array, Array]], apart: Array) -> Array:
        """Compute each row's prediction without the row's own records, to first order.

        For each margin in turn the fit is multiplied by wanted / fitted of the slice and normalised. Wanted is the
        slice's counts less the row's own, plus the pseudo-records' prediction; fitted likewise, at least LEAST_FIT. The
        row's share of the slice says how far each pseudo-record's law moves from that of the slice (its records at
        least LEAST_RECORDS where they divide) to the row's own (prediction without the row, or fit). So a row that is
        alone in its slice gets the prediction of smaller margins. Slices without records are left out.

        Args:
            counts: records of each cell, shape `(child, *parents, draws)`.
            margins: for each margin, the result of `_prepare_margin`.
            apart: prediction by smaller margins without the row itself, broadcast to the counts.

        Returns:
            Probabilities, shape of the counts; a new array, as the kept fit is not changed.
        """
        assert self._fit is not None
        expected, fit = self._fit * self._n, self._fit
        for axes, share, (counted, prediction, size) in zip(self._sets, self._shares, margins, strict=True):
            # Fit *= target margin / fitted margin, both without the row's own records (proportional fitting).
            fitted = expected.sum(axis=axes, keepdims=True)
            law = fitted / np.maximum(fitted.sum(axis=0), LEAST_RECORDS)
            wanted = counted - counts + size * (prediction + share * (apart - prediction))
            rest = np.maximum(fitted - expected, 0)
            rest += size * (law + share * (fit - law))
            np.maximum(rest, LEAST_FIT, out=rest)
            fit = fit * np.where(fitted.sum(axis=0) > 0, wanted / rest, 1)
            fit /= fit.sum(axis=0)
        return fit


def _draw_slice_records(
    counted: Array, prediction: Array, weights: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the pseudo-records of each slice given its counts, and then the weights of their sizes (Gibbs steps).

    A size s from SLICE_RECORDS has a probability in proportion to its weight times the Dirichlet-multinomial likelihood
    of the slice's counts, with concentrations `s max(prediction, LEAST_MEAN)`. The new weights are from
    Dirichlet(WORTH_SLICES / number of sizes + number of slices with records that drew the size), in each posterior
    draw.

    Args:
        counted: counts of the slices, shape `(child, *slices, draws)`.
        prediction: law of the pseudo-records, broadcast to the counts.
        weights: current weights of the sizes in SLICE_RECORDS, shape (sizes, draws).
        rng: source of randomness.

    Returns:
        Pseudo-records of each slice, entries of SLICE_RECORDS, shape `(*slices, draws)`; new weights, shape (sizes,
        draws).
    """
    n = counted.sum(axis=0)
    sizes = SLICE_RECORDS.reshape(-1, *(1,) * n.ndim)
    concentrations = sizes[:, None] * np.maximum(prediction, LEAST_MEAN).astype(np.float64)
    # Dirichlet-multinomial log-likelihood of the slice's counts under s pseudo-records of the predicted law.
    chances = _compute_log_gamma_ratio(concentrations, counted).sum(axis=1)
    chances -= _compute_log_gamma_ratio(sizes, n)
    chances -= chances.max(axis=0)
    np.exp(chances, out=chances)
    draws = n.shape[-1]
    chances *= weights.reshape(len(sizes), *(1,) * (n.ndim - 1), draws)
    np.cumsum(chances, axis=0, out=chances)
    which = (rng.random(n.shape) * chances[-1] >= chances[:-1]).sum(axis=0)
    used = np.bincount(
        (which * draws + np.arange(draws)).ravel(), (n > 0).astype(np.float64).ravel(), len(sizes) * draws
    )
    gammas = rng.standard_gamma(WORTH_SLICES / len(sizes) + used.reshape(len(sizes), draws))
    return SLICE_RECORDS[which], gammas / np.maximum(gammas.sum(axis=0), LEAST_FIT)


def _compute_log_gamma_ratio(a: Floats, n: Array) -> Floats:
    """Compute `log Gamma(a + n) - log Gamma(a)` to .002, by Stirling's series for both arguments plus one.

    Args:
        a: concentrations, above 0.
        n: counts, at least 0, of a shape that broadcasts with `a`.
    """

    def stirling(x: Floats) -> Floats:
        """Compute `log Gamma(x + 1)` up to a constant, by `(x + 1/2) log(x + 1) - x + 1 / (12 (x + 1))`."""
        return np.asarray((x + 0.5) * np.log(x + 1) - x + 1 / (12 * (x + 1)))

    # log Gamma(x) = log Gamma(x + 1) - log x for both arguments.
    top = a + n
    return np.asarray(stirling(top) - stirling(a) + np.log(a / top))
