"""Linear regression from a release over a network: its sums of numbers, in the coordinates of a design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.designs.design import Design
from discreet.designs.indicators import features_of
from discreet.designs.readers.weight_posterior import WeightPosterior
from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.posterior.methods import noise_aware
from discreet.queries.number_moments import NumberMoments
from discreet.queries.regress import number_moments
from discreet.releases.release import Release
from discreet.util.arrays import Floats


@dataclass(frozen=True)
class NetworkReader:
    """Reader of a linear regression's weights from a release over a network.

    Args:
        design: of the regression: numbers between their bounds, and an indicator for each state but the first.
        target: numeric variable of the network, with its bounds.
        features: the network's variables behind the design's features.
    """

    design: Design
    target: Variable
    features: tuple[Variable, ...]

    @staticmethod
    def of(network: Network, target: str | None, features: Sequence[str] | None) -> NetworkReader:
        """Make the reader of a regression.

        Args:
            network: of the release.
            target: numeric variable of the network.
            features: others; None for all others.

        Raises:
            InputError: no numeric target, or unknown or repeated variables.
        """
        if target is None or not network.schema[target].numeric:
            raise InputError("a release over a network needs target=, the name of the numeric variable to predict")
        names = [name for name in network.nodes if name != target] if features is None else features
        columns = tuple(network.schema[name] for name in (*names, target))
        *indicated, predicted = (Variable(each.name, bounds=each.bounds) if each.numeric else each for each in columns)
        return NetworkReader(Design(features_of(indicated), predicted), predicted, columns[:-1])

    def __call__(self, release: Release, *, draws: int, rng: np.random.Generator) -> WeightPosterior:
        """Draw the weights: least squares by the moments of each draw in which that identifies them.

        Raises:
            InputError: weights are not identified in most of the draws, or as `number_moments`.
        """
        coefficients, variance = self._read(release, draws, rng).identified()
        half = np.diff(self.design.predicted(np.array([0.0, 1.0])))
        return WeightPosterior(self.design, self.design.weights_of(coefficients), variance / half**2, "draws", None)

    def estimate(self, release: Release, *, draws: int, rng: np.random.Generator) -> Floats:
        """Estimate the weights, shape `(1, size)`: `NumberMoments.estimate`; errors are those of `number_moments`."""
        return self.design.weights_of(self._read(release, draws, rng).estimate()[None])

    def _read(self, release: Release, draws: int, rng: np.random.Generator) -> NumberMoments:
        """Read the moments of numbers in every draw."""
        posterior = noise_aware(release, draws=draws, rng=rng)
        return number_moments(posterior, self.target.name, [feature.name for feature in self.features])
