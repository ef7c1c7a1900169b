"""Figures that others measured and public records, beside `measured`: they join a release by `combine`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
