"""Discovery pack: states, bounds and bins of columns, found in the records with noise, for a schema of later releases.

`Columns` are declared by name and type alone. Their release registers through the entry points of the package
(`discreet.util.pack_entries`), as that of a third party's pack would.
"""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
