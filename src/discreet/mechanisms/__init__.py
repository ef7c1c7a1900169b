"""The private wing, the only way out: from counts to a release, with exact noise."""

from collections.abc import Callable, Mapping
from typing import Any

from discreet.mechanisms.allocated import allocated
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.fourier import fourier
from discreet.mechanisms.gaussian import gaussian
from discreet.mechanisms.laplace import laplace
from discreet.mechanisms.map_estimate import map_estimate
from discreet.mechanisms.planned import planned
from discreet.mechanisms.posterior_sampler import posterior_sampler

__all__ = ["MECHANISMS"]

MECHANISMS: Mapping[str, Callable[[], Mechanism[Any]]] = {
    "planned": planned,
    "laplace": laplace,
    "fourier": fourier,
    "gaussian": gaussian,
    "allocated": allocated,
    "posterior_sampler": posterior_sampler,
    "map_estimate": map_estimate,
}
"""The closed registry: every mechanism with its default options, by name."""
