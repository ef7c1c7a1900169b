"""The mechanism that a label of a page stands for: `planned` as it comes, or with all of epsilon for the plan.

Pages and benches take `planned` from here alone, so that what is called the default is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import discreet as dc

__all__ = ["CALLS", "NO_PAIRS", "SHIPPED", "planned"]

SHIPPED, NO_PAIRS = "shipped default", "no pairs (audit=0)"
CALLS: Mapping[str, str] = {SHIPPED: "`dc.planned()`", NO_PAIRS: "`dc.planned(pairs_share=0)`"}
"""What each label says that it runs. Stored measurements have the labels: their word is that of `--audit 0`."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {SHIPPED: {}, NO_PAIRS: {"pairs_share": 0}}


def planned(label: str, **more: Any) -> dc.tools.Mechanism:
    """The mechanism of a label.

    Args:
        label: `SHIPPED` or `NO_PAIRS`.
        more: options that the page names beside the label.
    """
    return dc.planned(**OPTIONS[label], **more)
