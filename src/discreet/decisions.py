"""Decisions beside `decide`: payoffs, numbers and their losses, sequences of questions, how many draws they take."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
