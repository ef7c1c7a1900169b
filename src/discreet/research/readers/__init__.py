"""Readers of the pack: posteriors from the releases of its mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from discreet.designs.kinds import NoisyMoments
from discreet.posterior.read import NETWORK, OPTIONS, SEQUENTIAL, TABLES, Reader, Way
from discreet.research.kinds import Choice, FactoredChoice, ParameterDraws, ScoredChoice, WeightDraws

DRAWS, PICKED, SCORED = (ParameterDraws,), (Choice, ScoredChoice), (ScoredChoice,)
"""Draws of probabilities; choices among candidates; choices by scores alone."""
MIXED = (*TABLES, *DRAWS, *PICKED)
"""Payloads that `noise_aware` reads with the pack."""
HERE = "discreet.research.readers."


def _is_one_family(payloads: Sequence[Any]) -> bool:
    """True if all draws are of one family's parameters, with one grid and prior."""
    first, *rest = (payload.table_of_scores for payload in payloads)
    return first.log_law is not None and all(first.same_family(table) for table in rest)


def _has_ours(payloads: Sequence[Any]) -> bool:
    """True if some payload is no table, which the kernel would read."""
    return not all(isinstance(payload, TABLES) for payload in payloads)


def _is_alone(payloads: Sequence[Any]) -> bool:
    """True for a single release."""
    return len(payloads) == 1


def _predicts_nothing(payloads: Sequence[Any]) -> bool:
    """True if sums are of features alone."""
    return all(payload.design.target is None for payload in payloads)


def _chose(kind: str) -> Callable[[Sequence[Any]], bool]:
    """Make a predicate that is True for choices by scores of a kind."""
    return lambda payloads: all(payload.kind == kind for payload in payloads)


FAMILY = Way(f"{HERE}family_draws:draw_family", across=True, own_prior=True)
PARTICLES, CHOICE = Way(f"{HERE}particles:draw_particles"), Way(f"{HERE}choices:draw_choices")
AXIS, PARTS = f"{HERE}direction:", f"{HERE}components:component_draws"

READERS = (
    Reader("noise-aware", "family", "a second", NETWORK, SCORED, _is_one_family, OPTIONS, "auto"),
    Reader("noise-aware", "network", "that of the next that can", NETWORK, MIXED, _has_ours, OPTIONS, "auto"),
    Reader("family", "network", "a second", NETWORK, SCORED, _is_one_family, OPTIONS, "family", "", FAMILY),
    Reader(
        *("particles", "network", "seconds", NETWORK, DRAWS, _is_alone, OPTIONS, "particles", "", PARTICLES),
        plain=f"{HERE}particles:take_draws",
    ),
    Reader(
        *("choice", "network", "seconds to minutes", NETWORK, PICKED, None, OPTIONS, "choice", "", CHOICE),
        plain=f"{HERE}choices:repeat_choice",
    ),
    Reader("sequential", "network", "a data set's", NETWORK, MIXED, _has_ours, OPTIONS, "sequential", "", SEQUENTIAL),
    Reader("parameters", "family", "a second", f"{HERE}family_draws:draw_parameters", SCORED, _is_one_family),
    Reader(
        *(
            "released",
            "weights",
            "seconds",
            f"{HERE}released_weights:read_weights",
            (WeightDraws,),
            None,
            ("covariates",),
        ),
        quick="estimate_weights",
    ),
    Reader(
        *("direction", "weights", "seconds", AXIS + "read_direction", (FactoredChoice,), _chose("direction")),
        ("likelihood",),
        quick="chosen_direction",
    ),
    Reader("components", "weights", "seconds", PARTS, (NoisyMoments,), _predicts_nothing),
    Reader("components", "weights", "seconds", AXIS + "direction_components", (FactoredChoice,), _chose("direction")),
    Reader(
        *("choice", "states", "a second", f"{HERE}choices:coin_posterior", (FactoredChoice,), _chose("categorical")),
        ("prior",),
    ),
    Reader(
        *("laws", "weights", "seconds to minutes", f"{HERE}law_weights:draw_law_weights", (FactoredChoice,)),
        _chose("own"),
        ("score", "make_up", "prior"),
    ),
)
"""Readers of the pack; among those of the same payloads the default one is first."""
