"""The crossing: the one function through which anything derived from records becomes public.

`release` calibrates without data, charges the ledger, and only then lets a mechanism touch the statistic. If the
process dies after the charge, budget is lost and nothing is published; there is no order of events in which something
is published that nobody paid for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.noise import ExactNoise, Noise, SimulatedNoise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.privacy.calibration import Calibration, PlannedNoise
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.privacy.ledger import Account
from discreet.privacy.payload import Payload
from discreet.privacy.release import Release
from discreet.sensitive.counts import Counts

__all__ = ["Mechanism", "release", "simulate"]


C = TypeVar("C", bound=Calibration)


@dataclass(frozen=True)
class Mechanism(Generic[C]):
    """A way from counts to a payload. Options are bound when it is made, so all mechanisms share these signatures.

    Args:
        name: as in the registry, the ledger and the release.
        calibrate: from the network, the prior and the guarantee to the noise; it cannot see data.
        draw: from the counts, the prior, the calibration and a source of noise to the payload; it sees the data once.
    """

    name: str
    calibrate: Callable[[Network, Dirichlet, Guarantee], C]
    draw: Callable[[Counts, Dirichlet, C, Noise], Payload]


def release(
    mechanism: Mechanism[C], statistic: Counts, prior: Dirichlet, guarantee: Guarantee, *, account: Account
) -> Release:
    """Publish a statistic: calibrate, charge the account, then draw.

    Args:
        mechanism: from the registry.
        statistic: private counts.
        prior: public, over the same network.
        guarantee: what is promised; charged in full.
        account: pays; its ledger is written before the draw.

    Returns:
        The release, safe to publish.

    Raises:
        BudgetError: the account cannot pay.
        InputError: the parts do not fit together, or the guarantee cannot be met. Nothing is charged on either error.

    Guarantee:
        `guarantee`, for the records behind `statistic`, by the mechanism's own proof; the noise comes from the
        operating system, and there is no argument through which it could be seeded.
    """
    calibration = _calibrate(mechanism, statistic, prior, guarantee)
    number = secrets.token_hex(16)
    account.charge(number, mechanism.name, guarantee)
    payload = mechanism.draw(statistic, prior, calibration, ExactNoise())
    return _describe(number, mechanism, statistic, prior, guarantee, calibration, payload, private=True)


def simulate(
    mechanism: Mechanism[C], statistic: Counts, prior: Dirichlet, guarantee: Guarantee, *, rng: np.random.Generator
) -> Release:
    """The same release with seeded noise, for tests and experiments on records that are not private.

    Args:
        mechanism: from the registry.
        statistic: counts of made-up or public records.
        prior: public, over the same network.
        guarantee: what a real release would promise.
        rng: source of the noise.

    Returns:
        A release stamped `private=False`; no ledger is touched.

    Raises:
        InputError: the parts do not fit together, or the guarantee cannot be met.

    Guarantee:
        None: whoever knows the seed can subtract the noise.
    """
    calibration = _calibrate(mechanism, statistic, prior, guarantee)
    payload = mechanism.draw(statistic, prior, calibration, SimulatedNoise(rng))
    number = rng.bytes(16).hex()
    return _describe(number, mechanism, statistic, prior, guarantee, calibration, payload, private=False)


def _calibrate(mechanism: Mechanism[C], statistic: Counts, prior: Dirichlet, guarantee: Guarantee) -> C:
    """All that can be refused, refused before anything is charged."""
    if statistic.network != prior.network:
        raise InputError("the counts and the prior are over different networks")
    if guarantee.relation is Relation.REPLACE and statistic.policy.missing == "drop":
        raise InputError(
            "dropping incomplete records changes the number of records, which is public when replacing a record is the "
            "relation; use missing='error', or an add-remove guarantee"
        )
    calibration = mechanism.calibrate(prior.network, prior, guarantee)
    if calibration.total > guarantee.epsilon:
        raise InputError(f"mechanism {mechanism.name!r} would spend more than the guarantee allows")
    if isinstance(calibration, PlannedNoise):
        statistic.require(calibration.scales)
    return calibration


def _describe(
    number: str,
    mechanism: Mechanism[C],
    statistic: Counts,
    prior: Dirichlet,
    guarantee: Guarantee,
    calibration: C,
    payload: Payload,
    *,
    private: bool,
) -> Release:
    """The document; of the statistic it takes the public policy, and the number of records where that is public."""
    return Release(
        id=number,
        date=datetime.now(UTC).date(),
        private=private,
        guarantee=guarantee,
        mechanism=mechanism.name,
        policy=statistic.policy,
        records=statistic.records if guarantee.relation is Relation.REPLACE else None,
        prior=prior,
        calibration=calibration,
        payload=payload,
    )
