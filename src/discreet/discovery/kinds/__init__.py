"""Kinds of the pack: what was found of columns, and the noise by which it was."""

from discreet.discovery.kinds.found_columns import DomainNoise as DomainNoise
from discreet.discovery.kinds.found_columns import FoundDomain as FoundDomain

KINDS = (DomainNoise, FoundDomain)
"""Calibration and payload that the pack brings."""
