"""Figures that others measured and public records, beside `measured`: they join a release by `combine`."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
