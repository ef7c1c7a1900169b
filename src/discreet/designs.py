"""Further parts for regressions and principal components beside a `Design`: rows, sums, feature laws, posteriors."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
