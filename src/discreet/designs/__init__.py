"""Designs pack: regressions and principal components of records, released directly and not read off a network.

A `Design` is a public list of features, with a target or without. Its statistics, mechanisms, kinds of releases and
readers register through the entry points of the package (`discreet.util.pack_entries`), as a third party's pack would.
"""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
