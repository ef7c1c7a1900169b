"""Research pack: published mechanisms that the default dominates, with their kinds, readers and scores.

It registers through the entry points of the package (`discreet.util.pack_entries`), as a third party's pack would.
Without it, the kernel reads, plans and audits its own mechanisms.
"""

from discreet.util.lazy_imports import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
