"""The scikit-learn faces: estimators that fit privately, charge a ledger, and predict with intervals.

They need scikit-learn, which is an extra; whoever imports one without it is told so here, once for all of them.
"""

from discreet.errors import InputError
from discreet.util.lazy_imports import lazy_exports

try:
    import sklearn  # noqa: F401 - whether it is there is the question
except ModuleNotFoundError:
    raise InputError("private estimators need scikit-learn: pip install '.[sklearn]' in a clone of discreet") from None

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
