"""Figures that others measured and public records, beside `measured`: they join a release by `combine`."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
