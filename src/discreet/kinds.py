"""Kinds of releases: the payload of each, with the calibration of its noise."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
