"""The research pack: mechanisms of the papers that the default dominates, with their kinds, readers and scores.

It registers itself through the entry points of the package (`discreet.util.pack_entries`), as a pack of somebody else
would: where it is not installed, the kernel reads, plans and audits all that is its own.
"""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
