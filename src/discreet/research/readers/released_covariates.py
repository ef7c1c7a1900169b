"""Law of a regression's covariates, from a release of this package over the same columns."""

from __future__ import annotations

import numpy as np

from discreet.designs.design import Design
from discreet.designs.readers.laws import WeightedPoints
from discreet.errors import InputError
from discreet.posterior.protocol import NetworkPosterior
from discreet.queries.synthetic import sample
from discreet.util.randomness import Seed, as_generator


def released_covariates(
    posterior: NetworkPosterior, design: Design, *, rng: Seed = None, points: int = 4096
) -> WeightedPoints:
    """Simulate points for `read` that represent a design's features by a release over a network.

    A network without arcs is a set of one-dimensional histograms; one with arcs also has the features' dependence.

    Args:
        posterior: of a release whose network has a numeric variable with bins for each feature, of the same name.
        design: of the regression.
        rng: source of the points.
        points: number of simulated records, at the posterior's mean.

    Returns:
        Points of equal weight in the design's coordinates; the network's numbers are spread evenly over their bins.

    Raises:
        InputError: a feature that the network lacks, or has without bounds, or fewer than 100 points.

    Guarantee:
        None spent: reads a release only.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> age = dc.Variable("age", bounds=(0, 90), bins=(30, 60))
        >>> cells = dc.Tables(dc.Network.empty([age]), {"age": np.full((3, 2), 1 / 3)}, draws=2)
        >>> posterior = dc.results.PosteriorDraws(cells)
        >>> design = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),))
        >>> dc.research.released_covariates(posterior, design, rng=1, points=100).points.shape
        (100, 2)
    """
    rng = as_generator(rng)
    schema = posterior.network.schema
    for name in design.names:
        if name not in schema or not schema[name].numeric:
            raise InputError(f"the network needs feature {name!r} as a numeric variable with bins")
    if points < 100:
        raise InputError(f"a law needs at least 100 points, got {points}")
    records = sample(posterior, points, rng=rng)[0].read_all()
    features = np.column_stack([records[name].to_numpy() for name in design.names])
    return WeightedPoints(design.scaled(features), np.full(points, 1 / points))
