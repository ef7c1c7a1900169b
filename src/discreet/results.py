"""Types of what the functions at the top return, for annotations and for their documentation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
