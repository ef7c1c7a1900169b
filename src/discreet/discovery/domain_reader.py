"""Reader of a found domain, which has states, bounds and bins, and no posterior."""

from __future__ import annotations

from typing import Any, NoReturn

from discreet.discovery.declared_columns import NO_POSTERIOR
from discreet.discovery.kinds.found_columns import FoundDomain
from discreet.errors import InputError
from discreet.posterior.read import Reader


def read_domain(evidence: Any, *, draws: int, rng: Any) -> NoReturn:
    """Refuse to draw: a domain measures no probabilities that anything is asked about.

    Args:
        evidence: a release of a domain.
        draws, rng: not used.

    Raises:
        InputError: always.
    """
    raise InputError(NO_POSTERIOR)


READERS = (Reader("domain", "structure", "nothing", "discreet.discovery.domain_reader:read_domain", (FoundDomain,)),)
"""Reader of the pack."""
