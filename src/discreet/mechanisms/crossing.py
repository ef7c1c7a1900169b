"""The crossing: the only function that makes anything derived from records public.

`release` calibrates without data, charges the ledger, and only then lets a mechanism touch the statistic. If the
process dies after the charge, budget is lost and nothing is published; there is no order of events in which something
is published that nobody paid for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.mechanisms.noise import ExactNoise, Noise, SimulatedNoise
from discreet.model.network import Network
from discreet.model.over import Over, Prior
from discreet.model.schema import Scope
from discreet.privacy.guarantee import Guarantee, Relation, for_each
from discreet.privacy.ledger import Account
from discreet.records.counts import Counts, count
from discreet.releases.combined import refuse_counting_twice
from discreet.releases.measurement import Calibration, Released
from discreet.releases.metric_unit import distance_of
from discreet.releases.policy import RecordsPolicy
from discreet.releases.release import Release
from discreet.releases.release_head import require_readable
from discreet.util.progress import under_way
from discreet.util.randomness import as_generator


class Statistic(Protocol):
    """Private statistic that a mechanism draws from, over a public network or what a pack brings.

    Attributes:
        over: the network, or what else it is over.
        policy: what was done with the records of a unit.
        records: their number; private under ADD_REMOVE.
    """

    @property
    def over(self) -> Any:
        """See the class."""

    @property
    def policy(self) -> RecordsPolicy:
        """See the class."""

    @property
    def records(self) -> int:
        """See the class."""


@dataclass(frozen=True)
class Mechanism:
    """Map from a private statistic to a published payload: `calibrate` sees no data, `draw` sees it once.

    Options are bound when a mechanism is made, so all of them share these signatures. Over a network the statistic is
    `Counts`, and the prior is `Dirichlet`.

    Args:
        name: as in the registry, the ledger and the release.
        calibrate: from the network, the prior and the guarantee to the noise; it cannot see data.
        draw: from the counts, the prior, the calibration and a source of noise to the payload; it sees the data once.
        statistic: the kind of statistic that `draw` takes.
        require: refuses counts that the draw could not take, before anything is charged.
        scopes: sets of variables of a network that it may measure beside the families and what `planned` would.
        over: the domain of what it is over: "network", or another that a pack brings.
        of_records: how its statistic is made of records, or of what its domain takes in their place, and of what they
            are over; None for counts of a network's tables.
        only: the network that it is over, where it brings its own; None where it takes any.
        numbers: how many numbers its payload has, at most or nearly; else the size of what it is over.
        suited: the mechanism to take in its place for a statistic that lacks what it releases, by what is public of it;
            None where this one is.
        several: whether its releases can be read by units that have several records.
        finds_bins: whether it takes counts of columns whose bins are yet to be found.
        settle: from the prior, the calibration and the payload to the prior and the calibration over what the payload
            is over, where that follows from the payload.
        metric: whether it takes guarantees under a metric, which speak of changes and not of records; `calibrate` then
            sees to it that the unit is the one that its losses are in.

    Raises:
        Nothing: the functions that make mechanisms check their options, and `calibrate` what it is given.

    Guarantee:
        None by itself: `release` promises what it charges, by the proof in the docstring of the function that made the
            mechanism.

    Example:
        >>> import discreet as dc
        >>> mechanism = dc.gaussian()
        >>> mechanism.name, mechanism.over, mechanism.statistic.__name__
        ('gaussian', 'network', 'Counts')
    """

    name: str
    calibrate: Callable[[Any, Any, Guarantee], Any]
    draw: Callable[[Any, Any, Any, Noise], Released]
    statistic: type[Any] = Counts
    require: Callable[[Any], None] = lambda _statistic: None
    scopes: Callable[[Any], Iterable[Scope]] = lambda _over: ()
    over: str = "network"
    of_records: Callable[[Any, Any], Statistic] | None = None
    only: Network | None = None
    metric: bool = False
    several: bool = True
    numbers: Callable[[Any, Any], int] = lambda *both: both[0].size
    suited: Callable[[Any], Mechanism | None] = lambda _statistic: None
    finds_bins: bool = False
    settle: Callable[[Any, Any, Any], tuple[Prior, Any]] = lambda *parts: parts[:2]


def statistic_of(
    mechanism: Mechanism,
    records: Any,
    over: Over,
    progress: Callable[[int, int], None] | None = None,
) -> Statistic:
    """Make the private statistic that a mechanism draws from: counts, sums, or rows of records.

    Args:
        mechanism: made by one of the registry's functions.
        records: private, of any source; or rows of a design.
        over: the public network, or what else is of the mechanism's domain.
        progress: as of `count`.

    Returns:
        The statistic: private, for the mechanism only.

    Raises:
        InputError: another kind of description than the mechanism's, or records that do not fit it.

    Guarantee:
        None spent: nothing leaves.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> import pyarrow as pa
        >>> records = dc.read_records(pa.table({"rain": ["no", "yes"], "wet": ["no", "yes"]}), network.schema)
        >>> dc.tools.statistic_of(dc.planned(), records, network)
        Counts(2 families, private)
    """
    if over.domain != mechanism.over:
        raise InputError(f"mechanism {mechanism.name!r} is over a {mechanism.over}, and something else was given")
    if mechanism.of_records is not None:
        return mechanism.of_records(records, over)
    return count(records, cast(Network, over), scopes=mechanism.scopes(over), progress=progress)


def release(
    mechanism: Mechanism, statistic: Statistic, prior: Prior, guarantee: Guarantee, *, account: Account
) -> Release:
    """Publish a private statistic: calibrate the noise without data, charge the account, then draw.

    Args:
        mechanism: from the registry.
        statistic: private counts, or sums over a design's records.
        prior: public, over the same network, or what else the statistic is over.
        guarantee: what is promised; charged in full.
        account: pays; its ledger is written before the draw. What its handle asks for a second time, under the key of a
            request, is refused: a second draw would have to be paid, too.

    Returns:
        The release, safe to publish.

    Raises:
        BudgetError: the account cannot pay.
        InputError: the parts do not fit together, the guarantee cannot be met, or no reader would take the release.
            Nothing is charged on either error.

    Guarantee:
        `guarantee`, for the records behind `statistic`, by the mechanism's own proof; the noise comes from the
        operating system, and there is no argument through which it could be seeded.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> counts = dc.tools.count_codes(network, {"rain": [0, 0, 1], "wet": [0, 1, 1]})
        >>> prior = dc.Dirichlet.uniform(network)
        >>> account = dc.Ledger("sqlite://").open("visits", promise)  # in memory; name a file or a server to keep it
        >>> released = dc.release(dc.laplace(), counts, prior, promise, account=account)
        >>> released.private, account.balance().epsilon_left
        (True, Fraction(0, 1))
        >>> dc.release(dc.laplace(), counts, prior, promise, account=account)
        Traceback (most recent call last):
        discreet.errors.BudgetError: account 'visits' cannot pay: epsilon asked 1, spent 1 of 1, left 0; ...
    """
    mechanism = _find_suited(mechanism, statistic)
    statistic.policy.check_claim(guarantee)
    with under_way("releasing"):
        calibration = _calibrate(mechanism, statistic, prior, guarantee)
        release_id, payer = secrets.token_hex(16), account.id
        refuse_counting_twice(prior, [payer])
        rho = loss_of(calibration, statistic.policy)
        account.charge(release_id, mechanism.name, guarantee, rho=rho, anew=True)
        ids = release_id, payer or account.id
        payload = mechanism.draw(statistic, prior, calibration, ExactNoise())
    return _describe(ids, mechanism, statistic, prior, guarantee, (calibration, payload), private=True)


def simulate(
    mechanism: Mechanism,
    statistic: Statistic,
    prior: Prior,
    guarantee: Guarantee,
    *,
    rng: int | np.random.Generator,
) -> Release:
    """Draw a release with noise from a seed, for tests and experiments on records that are not private.

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

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> counts = dc.tools.count_codes(network, {"rain": [0, 0, 1], "wet": [0, 1, 1]})
        >>> prior = dc.Dirichlet.uniform(network)
        >>> made_up = dc.simulate(dc.laplace(), counts, prior, promise, rng=1)
        >>> made_up.private, made_up.mechanism, made_up.payload.tables["wet"].shape
        (False, 'laplace', (2, 2))
        >>> again = dc.simulate(dc.laplace(), counts, prior, promise, rng=1)
        >>> bool((again.payload.tables["wet"] == made_up.payload.tables["wet"]).all())
        True
    """
    rng, mechanism = as_generator(rng), _find_suited(mechanism, statistic)
    calibration = _calibrate(mechanism, statistic, prior, guarantee)
    payload = mechanism.draw(statistic, prior, calibration, SimulatedNoise(rng))
    ids = rng.bytes(16).hex(), None
    return _describe(ids, mechanism, statistic, prior, guarantee, (calibration, payload), private=False)


def require_mechanism(mechanism: object) -> None:
    """Refuse a mechanism's name, or the function that makes it, in place of the mechanism."""
    if not isinstance(mechanism, Mechanism):
        name = mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", type(mechanism).__name__)
        raise InputError(f"a mechanism was expected, such as laplace() or planned(), not {shown(name)}")


def _find_suited(mechanism: Mechanism, statistic: Statistic) -> Mechanism:
    """Take the mechanism that suits a statistic, by what is public of it."""
    require_mechanism(mechanism)
    fits = isinstance(statistic, mechanism.statistic)
    return (mechanism.suited(statistic) if fits else None) or mechanism


def _calibrate(mechanism: Mechanism, statistic: Statistic, prior: Prior, guarantee: Guarantee) -> Calibration:
    """Refuse whatever can be refused before the charge, and calibrate."""
    if not isinstance(statistic, mechanism.statistic):
        raise InputError(
            f"mechanism {mechanism.name!r} draws from {mechanism.statistic.__name__}, "
            f"not from {type(statistic).__name__}"
        )
    if not isinstance(prior, Prior):
        raise InputError("a release needs a prior: Dirichlet over a network, or Normal over a design")
    if statistic.over != prior.over:
        raise InputError("the counts and the prior are over different networks or designs")
    check_relation(mechanism, guarantee)
    if isinstance(statistic, Counts) and statistic.wide is not None and not mechanism.finds_bins:
        raise InputError(
            f"mechanism {mechanism.name!r} finds no bins: declare bins of {listed(statistic.wide.names)}, or release "
            "with planned()"
        )
    calibration = calibrate(mechanism, prior, guarantee, statistic.policy)
    mechanism.require(statistic)
    if calibration.scopes and isinstance(statistic, Counts):
        statistic.require([*calibration.scopes, *mechanism.scopes(prior.over)])
    return calibration


def calibrate(mechanism: Mechanism, prior: Prior, guarantee: Guarantee, policy: RecordsPolicy) -> Calibration:
    """Calibrate noise to a budget, for units that may have several records, without data.

    Args:
        mechanism: any.
        prior: public, over what the mechanism is over.
        guarantee: wanted for units.
        policy: what is done with their records.

    Returns:
        The calibration for one step of a unit: what `for_each` leaves it.

    Raises:
        InputError: a guarantee that cannot be met, or a release that no reader would take.
    """
    policy.check(guarantee)
    if guarantee.relation is Relation.METRIC and any(each.not_applicable for each in prior.over.schema):
        raise InputError("a metric says how far values are from each other, and not from what does not apply")
    if policy.steps > 1 and not mechanism.several:
        raise InputError(
            f"mechanism {mechanism.name!r} is read as if every record were a unit of its own; keep one record of each "
            "(max_records=1), or take another mechanism"
        )
    within = for_each(guarantee, policy.steps)
    calibration: Calibration = mechanism.calibrate(prior.over, prior, within)
    if calibration.total > within.epsilon:
        raise InputError(f"mechanism {mechanism.name!r} would spend more than the guarantee allows")
    require_readable(
        mechanism.numbers(prior.over, calibration),
        mechanism=mechanism.name,
        guarantee=guarantee,
        policy=policy,
        prior=prior,
        calibration=calibration,
    )
    return calibration


def loss_of(calibration: Calibration, policy: RecordsPolicy) -> Fraction | None:
    """Compute the Gaussian loss of a release for units that may have several records.

    Args:
        calibration: for one step of a unit.
        policy: what is done with their records.

    Returns:
        It, as an account takes it; None for that of the guarantee. A unit that moves by so many steps moves the mean of
        a Gaussian release by as many times as much.
    """
    loss = calibration.gaussian_loss
    return None if loss is None else loss * policy.steps**2


def check_relation(mechanism: Mechanism, guarantee: Guarantee) -> None:
    """Refuse a guarantee under a metric for a mechanism that does not declare support for it, or of no known distance.

    Args:
        mechanism: any.
        guarantee: wanted.

    Raises:
        InputError: as it says.
    """
    distance_of(guarantee)
    if guarantee.relation is Relation.METRIC and not mechanism.metric:
        raise InputError(
            f"mechanism {mechanism.name!r} protects records, and takes no guarantee under a metric; ask for an "
            "add-remove or a replace guarantee"
        )


def _describe(
    ids: tuple[str, str | None],
    mechanism: Mechanism,
    statistic: Statistic,
    prior: Prior,
    guarantee: Guarantee,
    measured: tuple[Calibration, Released],
    *,
    private: bool,
) -> Release:
    """Make the release, with its id and its account's.

    Of the statistic it has the public policy, and the number of records where that is public.
    """
    prior, calibration = mechanism.settle(prior, *measured)
    return Release(
        id=ids[0],
        date=datetime.now(UTC).date(),
        private=private,
        guarantee=guarantee,
        mechanism=mechanism.name,
        policy=statistic.policy,
        records=statistic.records // statistic.policy.steps if guarantee.relation.public_number else None,
        prior=prior,
        calibration=calibration,
        payload=measured[1],
        account=ids[1],
    )
