"""Audit of the pack's mechanisms: vector noise is written down, a perturbed objective is compared by its density."""

from __future__ import annotations

from itertools import chain

from discreet.designs.densities import objective_loss
from discreet.designs.kinds import GroupNoise, ObjectiveNoise, VectorNoise
from discreet.designs.made_up_designs import MADE_UP
from discreet.verify.audit import Audited, Check, enumerate_losses, measure_loss
from discreet.verify.tiny_data import SMALL_CROWD_RECORDS

VECTOR_SLACK = 1e-12
"""Slack of losses of vector noise, which are quotients of integers: one step of a sensitivity shows."""
POINTS_WORDS = "densities at points"
"""Kind of check by which a perturbed objective is audited, in words."""


def _compare_densities(case: Audited) -> tuple[float, str]:
    """Measure the loss of a perturbed objective by densities at points."""
    few = {pair: units for pair, units in case.pairs.items() if max(map(len, pair)) <= 2}
    measure_loss(*case._replace(pairs=few), 0, None)
    sums = {data: MADE_UP.statistic_from(case.mechanism, case.prior.design, data) for data in set(chain(*case.pairs))}
    return objective_loss(case.mechanism, case.calibration, case.prior, sums, case.pairs, case.guarantee), POINTS_WORDS


CHECKS = (
    (VectorNoise, Check(enumerate_losses, slack=VECTOR_SLACK)),
    (GroupNoise, Check(enumerate_losses, slack=VECTOR_SLACK)),
    (ObjectiveNoise, Check(_compare_densities, continuous=True, crowd=lambda *_: SMALL_CROWD_RECORDS)),
)
"""Checks of calibrations."""
