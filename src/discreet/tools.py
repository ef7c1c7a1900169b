"""What research and programs need beside the names at the top."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
