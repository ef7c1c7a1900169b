"""What regressions and principal components need beside a `Design`: rows, their sums, laws of features, posteriors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
