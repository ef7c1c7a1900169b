"""Private principal components: axes of the released second moments, or one axis by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet.designs.design import GRID_STEPS, Design, Normal, design_of
from discreet.designs.mechanisms.noisy_moments import noisy_moments
from discreet.designs.records.moments import moment_sensitivity
from discreet.designs.records.rows import Rows
from discreet.errors import InputError
from discreet.estimators.contract import PrivateEstimator, columns_of, read_inputs
from discreet.estimators.declared_designs import by_column, declared_features, of_release, scaled_blocks
from discreet.estimators.lazy_posterior import LazyPosterior
from discreet.estimators.options import generator_after, require_drawable, whole_number
from discreet.estimators.table_input import FitSource
from discreet.mechanisms.crossing import Mechanism, release, statistic_of
from discreet.posterior.read import is_read_by, read
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.releases.release import Release
from discreet.research import DirectionFactor, factored, spread_candidates
from discreet.research.readers.components import ComponentPosterior, Spectrum, quick_components
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL

HIDDEN_VARIANCE = 0.1
"""Scaled variance of the noise from which on "auto" chooses a direction. Set on seeds 0 to 3 of three data sets of
`bench.components` and confirmed on their seeds 100 to 107."""
MOST_CHOICE_FEATURES = 6
"""Most features in the measurement of `HIDDEN_VARIANCE`."""
METHODS = ("auto", "moments", "directions")
DIRECTIONS, LENGTHS, NOISE_VARIANCE, TAU, PRIOR_DEVIATION = 12, (0.1, 0.2, 0.4), 0.01, 4.0, 0.5
"""Candidates of the choice, and its model; other values are options of `PrivatePrincipalDirection`."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Principal components under differential privacy, with a posterior.

    Features are scaled from their public bounds to [-1, 1], and numbers outside are moved to the nearest bound.
    Components are those of the scaled features, so they do not depend on units.

    Args:
        n_components: number of components; None for as many as features.
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, whose
            indicators are features then. Required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: charged by every fit; required unless epsilon is given.
        epsilon, delta: instead of `guarantee`: a budget for adding or removing one record, charged to the default
            account; with `account`, for that account's relation and unit. See docs/estimators.md, "One line".
        method: "moments" releases all second moments, with noise on the whole vector: any number of components around
            the records' mean. "directions" chooses one axis through the middle of the bounds among 36 candidates
            (`PrivatePrincipalDirection` has its options). "auto" is "moments", except for one component of up to 6
            features of `centred` records whose number is public, if noise hides a variance of a tenth.
        centred: declares, and thereby publishes, that records lie around the middle of the bounds. Only "auto" reads
            it: for other records a choice would find the direction from the middle to their mean.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: declares that no unit has more than one record, if the guarantee's unit is not "record"; the
            release states that you declared it.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        components_: unit vectors in rows, by descending variance, in scaled coordinates and the order of X's columns,
            shape (n_components, features); for a choice the axis of the posterior.
        explained_variance_: variances along the components, scaled and without the noise's, shape (n_components,).
        explained_variance_ratio_: the same as shares of the sum over all axes.
        mean_: of the features, in the units of the columns, shape (features,); for a choice the middle of the bounds.
        posterior_: draws of the covariance in scaled coordinates, in the order of `release_.over.names`; drawn on
            first access.
        n_components_, n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        Each `fit` is one release and promises `guarantee`; see `noisy_moments` and `factored`.

    Source:
        Dwork, Talwar, Thakurta and Zhang (STOC 2014) for components of a noisy covariance. Williams and McSherry
        (NIPS 2010) for the choice. The module of the posterior has its sources.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="replace", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", promise)
        >>> X = 3 + np.linspace(-5, 5, 2000)[:, None] * [2.0, 1.0] / 5**0.5
        >>> paid = {"guarantee": promise, "account": account}
        >>> estimator = dc.estimators.PrivatePCA(n_components=1, bounds=(-10, 10), **paid).fit(X)
        >>> bool(abs(estimator.components_[0] @ [2.0, 1.0]) / 5**0.5 > 0.9)
        True
    """

    n_components: int | None = None
    method: str = "auto"
    centred: bool = False

    def _release(self, source: FitSource, guarantee: Guarantee, account: Account) -> None:
        """Release the moments, or choose a direction, and keep what follows."""
        if self.method not in METHODS:
            raise InputError(f"method is 'auto', 'moments' or 'directions', not {self.method!r}")
        posterior = self._plan_draws()
        inputs = read_inputs(self, source)
        design = Design(declared_features(self.bounds, inputs))
        require_drawable(self.draws, design.size**2)
        columns = columns_of(design.names, inputs, by_name=isinstance(self.bounds, Mapping))
        rows = inputs.rows(design, columns, None, self.one_record_a_unit)
        by_choice = self.method == "directions" or (self.method == "auto" and self._is_choice(rows, guarantee))
        number = self._count_components(inputs.width, by_choice)
        if by_choice:
            design = replace(design, intercept=False)
            rows = inputs.rows(design, columns, None, self.one_record_a_unit)
        elif guarantee.relation.public_number and rows.records <= design.size:
            raise InputError(f"{design.size - 1} features need more records than that; their number is public here")
        prior = Normal(design, PRIOR_DEVIATION)
        if by_choice:
            candidates = spread_candidates(design.size, DIRECTIONS, LENGTHS)
            mechanism: Mechanism = factored(DirectionFactor(candidates, NOISE_VARIANCE, TAU))
        else:
            mechanism = noisy_moments()
        released = release(mechanism, statistic_of(mechanism, rows, design), prior, guarantee, account=account)
        inputs.describe(self)
        self._columns = columns
        self._keep(released, posterior, number)

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        bounds: Mapping[str, Any] | None = None,
        n_components: int | None = None,
        draws: int = 1000,
        random_state: Any = None,
    ) -> Self:
        """Build a fitted estimator from a release alone, without records.

        Args:
            release: of principal components or a direction, such as the `release_` of another estimator.
            bounds: as in the constructor, where some columns are categories, so that `transform` takes their texts.
            n_components: as in the constructor; None for all that the release determines.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that transforms, and has no account for another fit.

        Raises:
            InputError: another kind of release, or more components than it determines.
        """
        if not is_read_by("components", release):
            raise InputError("this release is not of principal components")
        chosen = is_read_by("direction", release)
        most = 1 if chosen else len(design_of(release).features)
        estimator = of_release(
            cls,
            release,
            bounds,
            n_components=n_components,
            method="directions" if chosen else "moments",
            draws=draws,
            random_state=random_state,
        )
        number = _require_at_most(most if n_components is None else n_components, most)
        return estimator._keep(release, estimator._plan_draws(), number)

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> ComponentPosterior:
        """Draw the covariance afresh.

        Args:
            draws: number of draws, at least 100.
            random_state: None takes the estimator's own.

        Returns:
            The posterior, in scaled coordinates.

        Raises:
            InputError: too few draws.
        """
        rng = generator_after(self, random_state)
        number = whole_number(draws, "draws", 100)
        return cast(ComponentPosterior, read(self.release_, method="components", draws=number, rng=rng))

    def components_interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of the components' entries, which include the sampling error and the noise.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (n_components, features) each, as `components_`.

        Raises:
            InputError: a level outside (0, 1), too few draws for it, or chains that have not converged.
        """
        components = self.components_[:, self._columns]
        lower, upper = self.posterior_.tails(self.posterior_.components(len(components), components), level)
        return by_column(lower, self._columns), by_column(upper, self._columns)

    def explained_variance_interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of the variances along the components, in scaled coordinates.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (n_components,) each, as `explained_variance_`.

        Raises:
            InputError: as `components_interval`.
        """
        return self.posterior_.tails(self.posterior_.variances(self.n_components_), level)  # type: ignore[no-any-return]

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List a row for the variance along each component, and for each of its entries, in scaled coordinates.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            Rows of "component", from 1, "name", which is "explained variance" or that of a feature, "mean", the
            estimate, "lower", "upper" and "level".

        Raises:
            InputError: as `components_interval`.
        """
        components = self.components_[:, self._columns]
        variances = self.explained_variance_, *self.explained_variance_interval(level=level)
        entries = components, *self.posterior_.tails(self.posterior_.components(len(components), components), level)
        names = ("explained variance", *design_of(self.release_).names)
        pairs = zip(variances, entries, strict=True)
        numbers = np.stack([np.column_stack([variance, axes]) for variance, axes in pairs], axis=-1).tolist()
        return [
            {"component": component, "name": name, "mean": mean, "lower": lower, "upper": upper, "level": level}
            for component, row in enumerate(numbers, 1)
            for name, (mean, lower, upper) in zip(names, row, strict=True)
        ]

    @property
    def components_(self) -> Floats:
        """Unit vectors in rows, shape (n_components, features)."""
        return by_column(self._spectrum.axes, self._columns)[: self.n_components_]

    @property
    def explained_variance_(self) -> Floats:
        """Variances along the components, in scaled coordinates, shape (n_components,)."""
        return self._spectrum.variances[: self.n_components_]

    @property
    def explained_variance_ratio_(self) -> Floats:
        """Variances along the components as shares of the sum over all axes, shape (n_components,)."""
        total = float(self._spectrum.variances.sum())
        return self.explained_variance_ / total if total > 0 else np.zeros(self.n_components_)

    @property
    def mean_(self) -> Floats:
        """Means of the features, in the units of the columns, shape (features,)."""
        design = design_of(self.release_)
        return by_column(design.middles + design.vectors(self._spectrum.mean), self._columns)

    def transform(self, X: Any) -> Floats:
        """Project scaled and centred records on the components.

        Args:
            X: as in `fit`; nothing is charged, and the result is as private as X.

        Returns:
            Shape (records, n_components).

        Raises:
            InputError: columns other than those of the fit.
        """
        check_is_fitted(self, "release_")
        spectrum = self._spectrum
        along, width = spectrum.axes[: self.n_components_].T, len(spectrum.mean)
        return np.concatenate([(block[:, :width] - spectrum.mean) @ along for block in scaled_blocks(self, X)])

    def inverse_transform(self, X: Any) -> Floats:
        """Reconstruct records, in the units of the columns, from their coordinates along the components.

        Args:
            X: shape (records, n_components), as `transform` returns it.

        Returns:
            Shape (records, features).

        Raises:
            InputError: another shape.
        """
        check_is_fitted(self, "release_")
        coordinates = np.asarray(X, np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != self.n_components_:
            raise InputError(f"inverse_transform takes rows of {self.n_components_} numbers, one for each component")
        design, spectrum = design_of(self.release_), self._spectrum
        scaled = coordinates @ spectrum.axes[: self.n_components_] + spectrum.mean
        return by_column(design.middles + design.vectors(scaled), self._columns)

    @property
    def _n_features_out(self) -> int:
        """Number of components, which scikit-learn's mixin reads."""
        return int(self.n_components_)

    @property
    def _spectrum(self) -> Spectrum:
        """Estimate of the axes: from moments at the fit, from a choice by the posterior on first access."""
        check_is_fitted(self, "release_")
        return self.posterior_.spectrum() if self._estimate is None else self._estimate

    def _is_choice(self, rows: Rows, guarantee: Guarantee) -> bool:
        """True if "auto" chooses among directions, which only public arguments decide."""
        records, size = rows.records, len(rows.design.features)
        if not (
            self.centred
            and self.n_components == 1
            and guarantee.relation.public_number
            and 2 <= size <= MOST_CHOICE_FEATURES
        ):
            return False
        sums = size * (size + 3) // 2
        deviation = moment_sensitivity(guarantee.relation) / GRID_STEPS**2 * math.sqrt((sums + 1) * (sums + 2) / 3)
        return bool(2 * math.sqrt(size) * deviation > HIDDEN_VARIANCE * records * float(guarantee.epsilon))

    def _count_components(self, size: int, by_choice: bool) -> int:
        """Check the number of components."""
        if by_choice:
            if size < 2:
                raise InputError("a direction needs at least two features; X has 1 feature(s), n_features = 1")
            return _require_at_most(1 if self.n_components is None else self.n_components, 1)
        return _require_at_most(size if self.n_components is None else self.n_components, size)

    def _plan_draws(self) -> LazyPosterior:
        """Plan the draws; later changes of the random state do not affect them."""
        return LazyPosterior(whole_number(self.draws, "draws", 100), self.random_state, method="components")

    def _keep(self, released: Release, posterior: LazyPosterior, number: int) -> Self:
        """Set the attributes of a fit: the release, its draws, and the estimate by moments."""
        estimate = None if is_read_by("direction", released) else quick_components(released)
        self.release_, self._posterior, self.n_components_, self._estimate = released, posterior, number, estimate
        return self


def _require_at_most(number: Any, most: int) -> int:
    """Check a number of components."""
    count = whole_number(number, "n_components", 1)
    if count > most:
        raise InputError(
            f"n_components is at most {most} here: a choice has one direction, moments have as many as features"
        )
    return count
