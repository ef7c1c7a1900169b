"""Functions for regressions and principal components: rows, their sums, laws of features, posteriors."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
