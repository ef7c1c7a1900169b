"""What regressions and principal components need beside a `Design`: rows, their sums, laws of features, posteriors."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
