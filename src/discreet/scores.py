"""Choices by a score of one's own: tables of scores and of a family's parameters, factors, and what a choice says."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
