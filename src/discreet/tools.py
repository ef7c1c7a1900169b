"""Functions for research and programs, beside the names at the top."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, moved={"read_score": "designs.read_score"})
