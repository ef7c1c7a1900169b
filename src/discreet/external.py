"""Figures measured by others and public records; `external_table` and `combine` join them to releases."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
