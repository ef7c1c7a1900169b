"""Answer queries over HTTP and in a browser, from releases only: this pack cannot read a record."""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, __file__, extras={"client": "httpcore2", "remote_posterior": "httpcore2"}
)
