"""Private principal components, several at once: the axes of the released second moments, or one axis by a choice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError
from discreet.estimators.accounts import promised
from discreet.estimators.contract import PrivateEstimator, columns_of, read_given
from discreet.estimators.declared_designs import (
    by_column,
    declared_features,
    of_release,
    scaled_blocks,
)
from discreet.estimators.drawn_later import DrawnLater
from discreet.estimators.options import generator_after, refuse_options, require_drawable, whole_number
from discreet.mechanisms.crossing import Mechanism, release, statistic_of
from discreet.mechanisms.noisy_moments import noisy_moments
from discreet.model.design import GRID_STEPS, Design, Normal
from discreet.posterior.read import is_read_by, read
from discreet.privacy.guarantee import Guarantee, Number
from discreet.privacy.ledger import Account
from discreet.records.moments import moment_sensitivity
from discreet.records.rows import Rows
from discreet.releases.release import Release
from discreet.research import DirectionFactor, factored, spread_candidates
from discreet.research.readers.components import ComponentPosterior, Spectrum, quick_components
from discreet.util.option_texts import DEFAULT_LEVEL

Floats = npt.NDArray[np.float64]

HIDDEN_VARIANCE = 0.1
"""Scaled variance: where noise alone would show as much, "auto" chooses. Set on seeds 0 to 3 of three sets of
`bench.components` and confirmed on their seeds 100 to 107."""
MOST_CHOICE_FEATURES = 6
"""Features up to which that was measured."""
METHODS = ("auto", "moments", "directions")
DIRECTIONS, LENGTHS, NOISE_VARIANCE, TAU, PRIOR_DEVIATION = 12, (0.1, 0.2, 0.4), 0.01, 4.0, 0.5
"""What is chosen among, and by which law; other values are options of `PrivatePrincipalDirection`."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Principal components under differential privacy, with a posterior.

    Features are moved from their public bounds to [-1, 1], numbers outside to the nearest bound, and components are
    those of the scaled features: no feature counts more for its unit.

    Args:
        n_components: how many; None for as many as features.
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, whose
            indicators are features then. Required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: pays for every fit; required unless epsilon is given.
        epsilon, delta: in the place of `guarantee`, for adding or removing one record, paid by the default account
            unless `account` is given, whose relation and unit it then is for; see docs/estimators.md, "One line".
        method: "moments" releases all second moments, with noise on the whole vector: components around the records'
            own mean, as many as wanted. "directions" chooses one axis through the middle of the bounds among 36
            candidates (`PrivatePrincipalDirection` has its options). "auto" is "moments" but for one component of
            up to 6 features of `centred` records whose number is public, where noise hides a variance of a tenth.
        centred: your word, which is thereby public, that records lie around the middle of the bounds. Only "auto" asks:
            where they do not, a choice finds the way from the middle to their mean.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: your word that no unit has more than one record, where the guarantee is for another unit than
            "record"; releases say whose word it is.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        components_: unit vectors in rows, the widest first, in scaled coordinates and the order of X's columns, shape
            (n_components, features); of moments there at once, of a choice the axis of the posterior.
        explained_variance_: along them, scaled, less what noise adds to it, shape (n_components,).
        explained_variance_ratio_: the same as shares of the sum over all axes.
        mean_: of the features, in the units of the columns, shape (features,); of a choice the middle of the bounds.
        posterior_: draws of the covariance in scaled coordinates, in the order of `release_.design.names`; drawn when
            it is first looked at.
        n_components_, n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` looks at arguments, as scikit-learn has it.

    Guarantee:
        Each `fit` is one release and promises `guarantee`; see `noisy_moments` and `factored`.

    Source:
        Dwork, Talwar, Thakurta and Zhang (STOC 2014) for components of a noisy covariance; the module of the posterior
        has the rest. Williams and McSherry (NIPS 2010) for the choice.

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
    bounds: tuple[Any, Any] | Mapping[str, Any] | None = None
    guarantee: Guarantee | None = None
    account: Account | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    method: str = "auto"
    centred: bool = False
    draws: int = 1000
    random_state: Any = None
    one_record_a_unit: bool = False

    def fit(self, X: Any, y: Any = None, *, table: str | None = None, **options: Any) -> Self:
        """Sum, charge the account, release, and estimate; the posterior is drawn when it is asked for.

        Args:
            X: array or frame of numbers, shape (records, features); or a table: a path or glob, a URL, an Arrow, Ibis
                or Spark table, or `Records`.
            y: not read.
            table: name of the table where X is the URL of a database.
            options: none is taken; sample weights are refused by an error of ours.

        Returns:
            The estimator.

        Raises:
            InputError: an argument that is missing or wrong, or records that do not fit; nothing is charged.
            BudgetError: the account cannot pay; nothing is charged.
        """
        refuse_options(options)
        guarantee, account = promised(self)
        if self.method not in METHODS:
            raise InputError(f"method is 'auto', 'moments' or 'directions', not {self.method!r}")
        later = self._plan_draws()
        given = read_given(self, X, None, table=table)
        design = Design(declared_features(self.bounds, given))
        require_drawable(self.draws, design.size**2)
        columns = columns_of(design.names, given, by_name=isinstance(self.bounds, Mapping))
        rows = given.rows(design, columns, None, self.one_record_a_unit)
        by_choice = self.method == "directions" or (self.method == "auto" and self._is_choice(rows, guarantee))
        number = self._count_components(given.width, by_choice)
        if by_choice:
            design = replace(design, intercept=False)
            rows = given.rows(design, columns, None, self.one_record_a_unit)
        elif guarantee.relation.public_number and rows.records <= design.size:
            raise InputError(f"{design.size - 1} features need more records than that; their number is public here")
        prior = Normal(design, PRIOR_DEVIATION)
        if by_choice:
            candidates = spread_candidates(design.size, DIRECTIONS, LENGTHS)
            mechanism: Mechanism = factored(DirectionFactor(candidates, NOISE_VARIANCE, TAU))
        else:
            mechanism = noisy_moments()
        released = release(mechanism, statistic_of(mechanism, rows, design), prior, guarantee, account=account)
        given.describe(self)
        self._columns = columns
        return self._keep(released, later, number)

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
        """A fitted estimator of a release alone, for whoever has no records.

        Args:
            release: of principal components or a direction, such as the `release_` of another estimator.
            bounds: as in the constructor, where some columns are categories, so that `transform` takes their texts.
            n_components: as in the constructor; None for all that the release tells of.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that transforms, and has no account to be fitted with.

        Raises:
            InputError: a release of something else, or more components than it tells of.
        """
        if not is_read_by("components", release):
            raise InputError("this release is not of principal components")
        chosen = is_read_by("direction", release)
        most = 1 if chosen else len(release.design.features)
        made = of_release(
            cls,
            release,
            bounds,
            n_components=n_components,
            method="directions" if chosen else "moments",
            draws=draws,
            random_state=random_state,
        )
        number = _require_at_most(most if n_components is None else n_components, most)
        return made._keep(release, made._plan_draws(), number)

    @property
    def posterior_(self) -> ComponentPosterior:
        """Draws of the covariance, made when they are first asked for."""
        check_is_fitted(self, "release_")
        return self._later.drawn(self.release_)  # type: ignore[no-any-return]

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> ComponentPosterior:
        """Fresh draws of the covariance.

        Args:
            draws: how many, at least 100.
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
        """Intervals of the components' entries, which count the sampling error and the noise.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (n_components, features) each, as `components_`.

        Raises:
            InputError: a level outside (0, 1), too few draws for it, or chains that have not met.
        """
        own = self.components_[:, self._columns]
        lower, upper = self.posterior_.tails(self.posterior_.components(len(own), own), level)
        return by_column(lower, self._columns), by_column(upper, self._columns)

    def explained_variance_interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Intervals of the variances along the components, in scaled coordinates.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (n_components,) each, as `explained_variance_`.

        Raises:
            InputError: as `components_interval`.
        """
        return self.posterior_.tails(self.posterior_.variances(self.n_components_), level)

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """A row for the variance along each component, and one for each of its entries, in scaled coordinates.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            Rows of "component", from 1, "name", which is "explained variance" or that of a feature, "mean", the
            estimate, "lower", "upper" and "level".

        Raises:
            InputError: as `components_interval`.
        """
        own = self.components_[:, self._columns]
        variances = self.explained_variance_, *self.explained_variance_interval(level=level)
        entries = own, *self.posterior_.tails(self.posterior_.components(len(own), own), level)
        names = ("explained variance", *self.release_.design.names)
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
        design = self.release_.design
        return by_column(design.middles + design.vectors(self._spectrum.mean), self._columns)

    def transform(self, X: Any) -> Floats:
        """Scaled records less the mean, along the components.

        Args:
            X: as in `fit`; nothing is charged, and what is returned is as private as X.

        Returns:
            Shape (records, n_components).

        Raises:
            InputError: other columns than those of the fit.
        """
        check_is_fitted(self, "release_")
        spectrum = self._spectrum
        along, width = spectrum.axes[: self.n_components_].T, len(spectrum.mean)
        return np.concatenate([(block[:, :width] - spectrum.mean) @ along for block in scaled_blocks(self, X)])

    def inverse_transform(self, X: Any) -> Floats:
        """Records in the units of the columns, from their places along the components.

        Args:
            X: shape (records, n_components), as `transform` returns it.

        Returns:
            Shape (records, features).

        Raises:
            InputError: another shape.
        """
        check_is_fitted(self, "release_")
        places = np.asarray(X, np.float64)
        if places.ndim != 2 or places.shape[1] != self.n_components_:
            raise InputError(f"inverse_transform takes rows of {self.n_components_} numbers, one for each component")
        design, spectrum = self.release_.design, self._spectrum
        scaled = places @ spectrum.axes[: self.n_components_] + spectrum.mean
        return by_column(design.middles + design.vectors(scaled), self._columns)

    @property
    def _n_features_out(self) -> int:
        """Number of components, as scikit-learn's mixin asks for it."""
        return int(self.n_components_)

    @property
    def _spectrum(self) -> Spectrum:
        """The estimate of the axes: of moments at once, of a choice from the posterior when it is first asked for."""
        check_is_fitted(self, "release_")
        return self.posterior_.spectrum() if self._at_once is None else self._at_once

    def _is_choice(self, rows: Rows, guarantee: Guarantee) -> bool:
        """Whether "auto" chooses among directions: by what is public."""
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
        """Check how many components there can be."""
        if by_choice:
            if size < 2:
                raise InputError("a direction needs at least two features; X has 1 feature(s), n_features = 1")
            return _require_at_most(1 if self.n_components is None else self.n_components, 1)
        return _require_at_most(size if self.n_components is None else self.n_components, size)

    def _plan_draws(self) -> DrawnLater:
        """Plan the draws; nothing that happens to the random state after a fit can change them."""
        return DrawnLater(whole_number(self.draws, "draws", 100), self.random_state, method="components")

    def _keep(self, released: Release, later: DrawnLater, number: int) -> Self:
        """Set what a fit leaves: the release, its draws, and the estimate, which moments have at once."""
        at_once = None if is_read_by("direction", released) else quick_components(released)
        self.release_, self._later, self.n_components_, self._at_once = released, later, number, at_once
        return self


def _require_at_most(number: Any, most: int) -> int:
    """Check a number of components."""
    found = whole_number(number, "n_components", 1)
    if found > most:
        raise InputError(
            f"n_components is at most {most} here: a choice tells of one direction, moments of as many as features"
        )
    return found
