"""Types of results of the functions at the top, for annotations and documentation."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, moved={"Score": "designs.Score"})
