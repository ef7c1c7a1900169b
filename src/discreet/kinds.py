"""What releases hold: the payload of each kind, with the calibration of its noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
