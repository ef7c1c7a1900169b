"""The private wing, the only way out: from counts to a release, with exact noise."""

from collections.abc import Callable, Mapping

from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.laplace import laplace

__all__ = ["MECHANISMS"]

MECHANISMS: Mapping[str, Callable[[], Mechanism]] = {"laplace": laplace}
"""The closed registry: every mechanism with its default options, by name."""
