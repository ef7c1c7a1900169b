"""Functions for decisions beside `decide`: payoffs, numbers and their losses, sequences of questions, draw counts."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
