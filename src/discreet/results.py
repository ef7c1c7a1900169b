"""Types of what the functions at the top return, for annotations and for their documentation."""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__, extras={"server": "httpcore2"})
