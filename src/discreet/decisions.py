"""Decisions beside `decide`: payoffs, numbers and their losses, sequences of questions, how many draws they take."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
