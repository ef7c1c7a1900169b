"""Research pack: published mechanisms that the default dominates, with their kinds, readers and scores.

It registers through the entry points of the package (`discreet.util.pack_entries`), as a third party's pack would.
Without it, the kernel reads, plans and audits its own mechanisms.
"""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
