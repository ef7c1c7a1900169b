"""Further parts for regressions and principal components beside a `Design`: rows, sums, feature laws, posteriors."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
