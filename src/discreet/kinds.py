"""Kinds of releases: the payload of each, with the calibration of its noise."""

from discreet.util.lazy_imports import lazy_exports

_MOVED = "GradientTrace GroupedMoments NoisyMoments NoisyTotal"
__getattr__, __dir__, __all__ = lazy_exports(
    __name__, __file__, moved={name: f"designs.{name}" for name in _MOVED.split()}
)
