"""Posteriors of releases over a design: draws of the weights that count sampling error and privacy noise.

The counterpart of `noise_aware` for regressions, classifications and directions: one function from a release to draws,
whatever was released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.display.interval_tables import text_table
from discreet.errors import InputError
from discreet.model.design import GRID_STEPS, Design, Normal
from discreet.posterior.design.curvature import curvature_draws, curvature_estimate
from discreet.posterior.design.direction import Chosen, Method, direction_draws
from discreet.posterior.design.laws import Law, WeightedPoints
from discreet.posterior.design.linear import Layout, moment_draws
from discreet.posterior.design.logistic import LabelledPoints, NoisyGradients, logistic_draws
from discreet.posterior.design.many_classes import centred
from discreet.posterior.design.moment_normal import normal_draws, normal_estimate
from discreet.posterior.joint_draws import Mixing
from discreet.releases.kinds.factored_choice import FactoredChoice
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.kinds.noisy_sums import GroupedMoments, NoisyMoments
from discreet.releases.kinds.weight_draws import WeightDraws
from discreet.releases.release import Release
from discreet.theory.factors import DirectionFactor
from discreet.util.arrays import Floats, Ints
from discreet.util.framed import Intervals
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator

MIXING_BY_METHOD = {"slices": (1.01, 400), "walk": (1.1, 50)}
"""Largest R-hat and fewest effective draws, of the worst quantity, for intervals from chains."""


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Labelled records that are public, and no part of the private ones.

    Args:
        features: float64, shape `(records, features)`, in the units of the design's bounds.
        labels: 0 or 1 for the target's first and second state, shape `(records,)`.

    Raises:
        InputError: other shapes, or other labels.

    Example:
        >>> import discreet as dc
        >>> dc.designs.PublicRecords([[61.0, 27.5], [34.0, 22.0]], [1, 0]).features.shape
        (2, 2)
    """

    features: Floats
    labels: Ints

    def __post_init__(self) -> None:
        """Refuse what is no table of records."""
        object.__setattr__(self, "features", np.array(self.features, np.float64))
        object.__setattr__(self, "labels", np.array(self.labels, np.int64))
        if self.features.ndim != 2 or self.labels.shape != (len(self.features),) or not len(self.labels):
            raise InputError("public records are a table of features and one label for each row, at least one")
        if not (np.all(np.isfinite(self.features)) and np.all((self.labels == 0) | (self.labels == 1))):
            raise InputError("public records have finite features, and labels 0 and 1 for the target's two states")


@dataclass(frozen=True, eq=False)
class WeightPosterior(Intervals):
    """Draws of a design's weights.

    Args:
        design: public.
        weights: float64, shape `(draws, design.weights)`, in the design's coordinates; of more than two classes those
            of one after the other, which sum to 0 over them.
        variance: of the scaled target around its mean, shape `(draws,)`; None where there is no numeric target.
        method: "normal", "curvature", "resampling", "slices", "walk" or "draws".
        mixing: of the chains; None where the draws are independent.

    Raises:
        Nothing: `read_weights` makes these.

    Guarantee:
        None spent: draws say nothing that the release does not.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.Design((dc.Variable("age", bounds=(20, 60)),), dc.Variable("income", bounds=(0, 1000)))
        >>> posterior = dc.designs.WeightPosterior(design, np.array([[0.2, 0.1], [0.4, 0.1]]), None, "draws", None)
        >>> posterior.mean().round(3).tolist()
        [0.3, 0.1]
        >>> [row["name"] for row in posterior.rows(level=0.0005)]
        ['age', 'intercept']
    """

    design: Design
    weights: Floats
    variance: Floats | None
    method: str
    mixing: Mixing | None

    @property
    def slopes(self) -> tuple[Floats, Floats]:
        """Slopes and intercepts in the units of the columns, as `Design.slopes` has them.

        Returns:
            Shapes `(draws, features)` and `(draws,)`; of more than two classes `(draws, classes, features)` and
            `(draws, classes)`.
        """
        many = self.design.outputs > 1
        shape = (len(self.weights), self.design.outputs, self.design.size) if many else self.weights.shape
        return self.design.slopes(self.weights.reshape(shape))

    def mean(self) -> Floats:
        """Posterior means of the weights.

        Returns:
            Shape `(weights,)`, in the design's coordinates.
        """
        return np.asarray(self.weights.mean(axis=0))

    def interval(self, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Equal-tailed intervals of the weights.

        Args:
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(size,)` each, in the design's coordinates.

        Raises:
            InputError: a level outside (0, 1), a single draw, or chains that have not met.
        """
        return self.tails(self.weights, level)

    def tails(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """Equal-tailed intervals of what is computed from each draw of the weights.

        Args:
            values: shape `(draws, ...)`.
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(...)` each.

        Raises:
            InputError: as `interval`. Draws of chains that have not met have a mean, but their spread says nothing.
        """
        if self.mixing is not None and self.method in MIXING_BY_METHOD:
            advice = "release with more epsilon, tighter bounds or fewer features"
            require_met(self.mixing, *MIXING_BY_METHOD[self.method], advice)
        return tails(values, level)

    def tidy(self, *, level: float = 0.95) -> list[dict[str, Any]]:
        """The rows of `rows`, which has the arguments and the errors, each with its "level"."""
        return [{**row, "level": level} for row in self.rows(level=level)]

    def summary(self, *, level: float = 0.95, width: int | None = None) -> str:
        """The coefficients as aligned text, and how they were drawn.

        Args:
            level: posterior probability of each interval, between 0 and 1; errors as of `rows`.
            width: columns of the terminal, as of `columns`.
        """
        table = text_table(self.tidy(level=level), named="coefficient", width=width)
        return f"{table}\n\nposterior: {self.method}"

    def rows(self, *, level: float = 0.95) -> tuple[dict[str, float | str], ...]:
        """Effect of each column with its interval, in the units of the columns.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            For each feature, and then the intercept, `{"name", "mean", "lower", "upper"}`: change of the target, of
            the log odds of the second class, or of a count's logarithm, for one unit of the feature; of a direction,
            the vector's coordinate. Of more than two classes for each of them, `"class"` beside the name.

        Raises:
            InputError: as `interval`.
        """
        if self.design.target is None:
            drawn = self.design.vectors(self.weights)
        else:
            slopes, intercepts = self.slopes
            drawn = np.concatenate([slopes, intercepts[..., None]], axis=-1) if self.design.intercept else slopes
        names = (*self.design.names, *(["intercept"] if self.design.intercept else []))
        states = self.design.target.states if self.design.target is not None and self.design.outputs > 1 else (None,)
        heads = [({} if state is None else {"class": state}) | {"name": name} for state in states for name in names]
        drawn = drawn.reshape(len(drawn), -1)
        lower, upper = self.tails(drawn, level)
        return tuple(
            head | {"mean": float(mean), "lower": float(low), "upper": float(high)}
            for head, mean, low, high in zip(heads, drawn.mean(axis=0), lower, upper, strict=True)
        )


def tails(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Equal-tailed intervals over the first axis.

    Args:
        draws: shape `(draws, ...)`.
        level: posterior probability, between 0 and 1.

    Returns:
        (lower, upper), shape `(...)` each.

    Raises:
        InputError: a level outside (0, 1), a single draw, or so few that their range is below the level.

    Example:
        >>> lower, upper = tails(np.arange(101.0), 0.9)
        >>> round(float(lower)), round(float(upper))
        (5, 95)
    """
    require_level(level, len(draws))
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return lower, upper


def require_met(mixing: Mixing, ratio: float, least: int, advice: str) -> None:
    """Refuse intervals from chains that have not met.

    Args:
        mixing: of the chains.
        ratio: largest R-hat that is allowed.
        least: fewest effective draws.
        advice: what to do otherwise.

    Raises:
        InputError: chains that have not met.

    Example:
        >>> require_met(Mixing(4, 100, 80.0, "weight 0", 1.02), 1.1, 50, "ask for more draws")
    """
    if not (mixing.r_hat <= ratio and mixing.effective >= least):
        raise InputError(
            f"no intervals: the chains of this posterior have not met (R-hat {mixing.r_hat:.3f}, at most {ratio}; "
            f"{mixing.effective:.0f} independent draws of {least}); {advice}"
        )


def require_level(level: float, draws: int) -> None:
    """Refuse a level that a number of draws cannot tell: fewer than one of them would be beyond each end.

    Args:
        level: posterior probability, between 0 and 1.
        draws: how many there are.

    Raises:
        InputError: as `tails`.

    Example:
        >>> require_level(0.95, 40)
        >>> require_level(0.999, 40)
        Traceback (most recent call last):
        discreet.errors.InputError: 40 draws cannot tell a level of 0.999; it takes about 2,000
    """
    if not 0 < level < 1:
        raise InputError(f"a level lies between 0 and 1, got {level}")
    if draws < 2:
        raise InputError("one draw of the weights has no interval; release more draws, or moments")
    if draws * (1 - level) < 1.999:
        raise InputError(f"{draws} draws cannot tell a level of {level}; it takes about {2 / (1 - level):,.0f}")


def read_weights(
    release: Release,
    *,
    draws: int = 1000,
    rng: Seed = None,
    covariates: Law | None = None,
    public: PublicRecords | None = None,
    likelihood: Method = "clt",
    exact: bool = False,
) -> WeightPosterior:
    """Posterior draws of the weights of a regression, classification or direction, given a release over a design.

    Args:
        release: of noisy moments, gradients, draws of weights, or a factored choice of a direction.
        draws: how many. Released draws of weights are returned as they are, however many are asked for.
        rng: seed or generator; nothing here is private.
        covariates: for gradients only: the features' law, where the release has no curvature. `uniform_law(design)` is
            for features that are known to fill their bounds or sphere evenly; another law than theirs makes intervals
            confidently wrong. None reads the curvature, which needs no law.
        public: for gradients only: labelled public records.
        likelihood: for directions only: which one of the choice.
        exact: for moments with cube noise of one scale (`noisy_moments`): their exact law, by weighted resampling,
            which is refused where noise is large or features are many. Else moments are read by a normal approximation.

    Returns:
        The posterior, given everything that was released. Its prior is the release's own but for normal approximations
        (methods "normal" and "curvature"), which learn how long coefficients are from the release.

    Raises:
        InputError: a release over a network, no draws, covariates or public records for another payload or of another
            size, an exact law that is not there or has too much noise, or chains that did not mix.

    Guarantee:
        None spent: reads the release, and public records where they are given.

    Source:
        Williams and McSherry (NIPS 2010), Sections 3 and 4; the samplers' modules have the rest.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.Design((dc.Variable("age", bounds=(0, 80)),), dc.Variable("income", bounds=(0, 100)))
        >>> ages = np.linspace(0, 80, 500)
        >>> moments = dc.designs.sum_moments(dc.designs.read_rows(design, ages[:, None], ages))  # income = age
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> release = dc.simulate(dc.noisy_moments(), moments, dc.designs.Normal(design, 1.0), promise, rng=1)
        >>> row = dc.read_weights(release, draws=100, rng=1).rows()[0]
        >>> row["name"], 0.9 < row["mean"] < 1.1
        ('age', True)
    """
    rng = as_generator(rng)
    design, prior, payload = release.design, release.prior, release.unit_payload
    assert isinstance(prior, Normal)
    if not draws > 0:
        raise InputError(f"a posterior needs at least one draw, got {draws}")
    if not isinstance(payload, GradientTrace) and (covariates is not None or public is not None):
        raise InputError("a law of covariates and public records are for releases of gradients")
    if exact and not isinstance(payload, NoisyMoments):
        raise InputError("an exact posterior is offered for the mechanism noisy_moments only")
    with under_way("drawing the posterior"):
        match payload:
            case NoisyMoments() if design.target is None:
                raise InputError("moments without a target tell of no weights: PrivatePCA.from_release reads them")
            case NoisyMoments() | GroupedMoments() if not exact:
                drawn, variance = normal_draws(payload, release.records, draws, rng)
                return WeightPosterior(design, drawn, variance, "normal", None)
            case NoisyMoments():
                layout = Layout(len(design.features), design.intercept, release.records)
                noise, deviation = payload.sums_scale, prior.deviation
                drawn, variance = moment_draws(
                    payload.sums, layout, scale=noise, prior_deviation=deviation, draws=draws, rng=rng
                )
                return WeightPosterior(design, drawn, variance, "resampling", None)
            case GradientTrace():
                return _read_gradients(release, prior, draws, rng, covariates, public)
            case WeightDraws():
                variance = np.full(len(payload.weights), payload.variance)
                return WeightPosterior(design, payload.weights, variance, "draws", None)
            case FactoredChoice(kind="direction"):
                return _read_direction(release, payload, prior, draws, rng, likelihood)
            case _:
                raise InputError(release.reading_advice)


def quick_estimate(release: Release) -> Floats:
    """Posterior means of the weights of a regression at once, without a draw.

    Args:
        release: of noisy moments, of draws of weights, or of gradients: where these have no curvature, or groups so
            that weights are many, the released weights themselves.

    Returns:
        Shape (size,), in the design's coordinates.

    Raises:
        InputError: a release of something else.
    """
    match payload := release.unit_payload:
        case WeightDraws():
            return np.asarray(payload.weights.mean(axis=0))
        case NoisyMoments() | GroupedMoments() if release.design.target is not None:
            return normal_estimate(payload, release.records)
        case GradientTrace():
            if payload.curvature is not None and not release.design.groups:
                return curvature_estimate(payload)
            return centred(payload.weights, payload.design.outputs)
        case _:
            raise InputError("this release is not of a regression: it holds no moments, draws or gradients of one")


def require_known(design: Design, covariates: Law | None, public: PublicRecords | None) -> None:
    """Refuse a law of covariates or public records that are not of a design.

    Args:
        design: of a classification.
        covariates, public: as for `read_weights`.

    Raises:
        InputError: something else than a law or public records, another number of features, or another constant.
    """
    if design.predicts != "class" and not (covariates is None and public is None):
        raise InputError("a law of covariates and public records are for a regression of two classes")
    if covariates is not None:
        if not isinstance(covariates, Law):
            raise InputError("a law of covariates is one of those of posterior/design/laws.py, such as UniformSphere")
        if covariates.size != design.size:
            raise InputError(f"the law of covariates has {covariates.size} coordinates, the design {design.size}")
        constant = covariates.points[:, -1] if isinstance(covariates, WeightedPoints) else covariates.constant or 0.0
        if design.intercept and np.any(np.abs(np.asarray(constant) - design.constant) > 1 / GRID_STEPS):
            raise InputError(f"the design's constant feature is {design.constant}, the law of covariates has another")
    if public is not None:
        if not isinstance(public, PublicRecords):
            raise InputError("public records are PublicRecords(features, labels)")
        if public.features.shape[1] != len(design.features):
            raise InputError(f"public records need the design's {len(design.features)} features")


def gradients_of(release: Release) -> NoisyGradients:
    """Noisy gradients of a release, for whoever draws their posterior otherwise than `read_weights`.

    Args:
        release: of noisy gradients, or of a perturbed objective.

    Returns:
        What was told, with the noise's law.

    Raises:
        InputError: a release of something else, or one without a number of records.
    """
    payload = release.unit_payload
    if not isinstance(payload, GradientTrace) or payload.design.predicts != "class" or payload.normal:
        raise InputError("this release holds no gradients of two classes with K-norm noise")
    records, scale = _read_total(release, payload)
    return NoisyGradients(payload.points, payload.gradients, payload.scale, release.design.shape, records, scale)


def _read_gradients(
    release: Release,
    prior: Normal,
    draws: int,
    rng: np.random.Generator,
    covariates: Law | None,
    public: PublicRecords | None,
) -> WeightPosterior:
    """Draws given noisy gradients."""
    design = release.design
    if covariates is None:
        trace = release.unit_payload
        assert isinstance(trace, GradientTrace)
        if trace.curvature is not None and public is None:
            return WeightPosterior(design, curvature_draws(trace, draws, rng), None, "curvature", None)
        if design.predicts != "class" or trace.normal:
            raise InputError("this release has no curvature, and without it no posterior: fit with curvature=True")
        raise InputError(
            "a posterior given gradients alone needs the law of the features: covariates=released_covariates(...), "
            "PublicRows(...), or uniform_law(design) if they are known to fill their bounds evenly; a release of "
            "objective_perturbation with its curvature needs none, but with public records"
        )
    require_known(design, covariates, public)
    known = None if public is None else LabelledPoints(design.scaled(public.features), public.labels)
    found = logistic_draws(
        gradients_of(release), covariates, prior_deviation=prior.deviation, public=known, draws=draws, rng=rng
    )
    return WeightPosterior(design, found.weights, None, found.method, found.mixing)


def _read_direction(
    release: Release, payload: FactoredChoice, prior: Normal, draws: int, rng: np.random.Generator, likelihood: Method
) -> WeightPosterior:
    """Draws given the choice of a direction."""
    factor = DirectionFactor(payload.candidates, payload.parameters["noise_variance"], payload.parameters["tau"])
    records, scale = _read_total(release, payload)
    walked = direction_draws(
        Chosen(factor, payload.index, payload.rate),
        records,
        method=likelihood,
        draws=draws,
        rng=rng,
        prior_deviation=prior.deviation,
        count_scale=scale,
    )
    return WeightPosterior(release.design, walked.weights, None, "walk", walked.mixing)


def _read_total(release: Release, payload: GradientTrace | FactoredChoice) -> tuple[int, float | None]:
    """The number of records, public or with noise of a scale."""
    if payload.total is not None:
        return payload.total.value, payload.total.scale
    if release.records is None:
        raise InputError("the release has no number of records, neither public nor with noise")
    return release.records, None
