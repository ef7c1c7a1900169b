"""Tools for research and programs, beside the names at the top."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
