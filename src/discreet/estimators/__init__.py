"""Estimators with scikit-learn's interface: they fit privately, charge a ledger, and predict with intervals.

They need scikit-learn, which is an extra. Importing one without it raises an error that names the extra.
"""

from discreet.errors import InputError
from discreet.util.lazy_imports import lazy_exports

try:
    import sklearn  # noqa: F401 - imported to learn if it is installed
except ModuleNotFoundError:
    raise InputError("private estimators need scikit-learn: pip install '.[sklearn]' in a clone of discreet") from None

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
