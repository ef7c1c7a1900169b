"""Choices by a score of one's own: tables of scores and of a family's parameters, factors, and what a choice says."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("discreet", __file__)
