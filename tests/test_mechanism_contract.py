"""What every mechanism of the registry owes: signatures, blindness of its calibration, and the order of payment."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.privacy.ledger import Ledger
from discreet.privacy.release import Calibration, RecordsPolicy
from tiny import TINY, counts_of, network_of

NETWORK = TINY["complete, three states"]
RECORDS = [(0, 1, 1), (1, 2, 0), (1, 0, 0), (0, 0, 1), (1, 1, 1)]
PRIOR = dc.Dirichlet.uniform(NETWORK)
RELATIONS = tuple(dc.Relation)


def promise(epsilon: object = 1, relation: dc.Relation = dc.Relation.ADD_REMOVE, unit: str = "record") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit=unit)


@pytest.fixture(params=dc.MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> dc.Mechanism:
    return dc.MECHANISMS[request.param]()


@pytest.fixture
def account(tmp_path: Path) -> dc.Account:
    return Ledger(f"sqlite:///{tmp_path}/budget.db").open("a", promise(3))


@pytest.fixture
def counts() -> dc.Counts:
    return counts_of(NETWORK, RECORDS)


def simulated(mechanism: dc.Mechanism, counts: dc.Counts, guarantee: dc.Guarantee, seed: int = 5) -> dc.Release:
    return dc.simulate(mechanism, counts, PRIOR, guarantee, rng=np.random.default_rng(seed))


# ------------------------------------------------------------------------------------------------------- signatures


def test_the_registry_names_its_mechanisms(mechanism: dc.Mechanism) -> None:
    assert dc.MECHANISMS[mechanism.name]().name == mechanism.name


def test_signatures_are_those_of_the_contract(mechanism: dc.Mechanism) -> None:
    assert list(inspect.signature(mechanism.calibrate).parameters) == ["network", "prior", "guarantee"]
    assert list(inspect.signature(mechanism.draw).parameters) == ["statistic", "prior", "calibration", "noise"]


def test_release_takes_no_seed_and_simulate_no_account() -> None:
    assert list(inspect.signature(dc.release).parameters) == ["mechanism", "statistic", "prior", "guarantee", "account"]
    assert list(inspect.signature(dc.simulate).parameters) == ["mechanism", "statistic", "prior", "guarantee", "rng"]
    assert inspect.signature(dc.release).parameters["account"].default is inspect.Parameter.empty
    assert inspect.signature(dc.simulate).parameters["rng"].default is inspect.Parameter.empty


def test_calibration_is_given_no_counts_and_does_not_depend_on_them(
    mechanism: dc.Mechanism, account: dc.Account
) -> None:
    seen: list[tuple[object, ...]] = []

    def spy(*arguments: object) -> Calibration:
        seen.append(arguments)
        return mechanism.calibrate(*arguments)

    watched = replace(mechanism, calibrate=spy)
    releases = [
        dc.release(watched, counts_of(NETWORK, records), PRIOR, promise(), account=account)
        for records in ([], RECORDS, RECORDS * 9)
    ]
    assert seen == [(NETWORK, PRIOR, promise())] * 3
    assert releases[0].calibration == releases[1].calibration == releases[2].calibration


# --------------------------------------------------------------------------------------------------- what comes out


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_describes_itself(mechanism: dc.Mechanism, counts: dc.Counts, relation: dc.Relation) -> None:
    release = simulated(mechanism, counts, promise(1, relation))
    assert release.guarantee == promise(1, relation)
    assert release.mechanism == mechanism.name
    assert release.policy == counts.policy
    assert release.records == (len(RECORDS) if relation is dc.Relation.REPLACE else None)
    assert 0 < release.calibration.reported <= 1
    assert set(release.payload.scales) == set(NETWORK.nodes)
    for node in NETWORK.nodes:
        assert release.payload.tables[node].shape == NETWORK.shape(node)
        assert release.payload.tables[node].dtype == np.int64


@pytest.mark.parametrize("relation", RELATIONS)
def test_json_reads_back_as_the_same_release(mechanism: dc.Mechanism, counts: dc.Counts, relation: dc.Relation) -> None:
    release = simulated(mechanism, counts, promise("1/3", relation))
    again = dc.Release.loads(release.dumps())
    assert again.dumps() == release.dumps()
    assert again.calibration == release.calibration
    for node in NETWORK.nodes:
        assert np.array_equal(again.payload.tables[node], release.payload.tables[node])


def test_the_same_generator_draws_the_same_simulation(mechanism: dc.Mechanism, counts: dc.Counts) -> None:
    one, two, other = (simulated(mechanism, counts, promise(), seed).dumps() for seed in (5, 5, 6))
    assert one == two
    assert one != other


def test_real_releases_differ(mechanism: dc.Mechanism, counts: dc.Counts, account: dc.Account) -> None:
    one, two = (dc.release(mechanism, counts, PRIOR, promise("0.001"), account=account) for _ in range(2))
    assert one.id != two.id
    assert any(not np.array_equal(one.payload.tables[node], two.payload.tables[node]) for node in NETWORK.nodes)


# ---------------------------------------------------------------------------------------------- the order of payment


def test_a_release_is_charged_once_in_full_and_before_the_draw(
    mechanism: dc.Mechanism, counts: dc.Counts, account: dc.Account
) -> None:
    charged_at_draw: list[int] = []

    def spy(*arguments: object) -> object:
        charged_at_draw.append(len(account.charges()))
        return mechanism.draw(*arguments)

    release = dc.release(replace(mechanism, draw=spy), counts, PRIOR, promise("0.7"), account=account)
    (charge,) = account.charges()
    assert charged_at_draw == [1]
    assert (charge.release, charge.mechanism, charge.guarantee) == (release.id, mechanism.name, promise("0.7"))
    assert release.private is True


def test_a_draw_that_raises_has_been_paid_for(mechanism: dc.Mechanism, counts: dc.Counts, account: dc.Account) -> None:
    with pytest.raises(ZeroDivisionError):
        dc.release(replace(mechanism, draw=lambda *_: 1 / 0), counts, PRIOR, promise(), account=account)
    assert account.balance().epsilon_spent == 1


def test_a_calibration_that_raises_costs_nothing_and_draws_nothing(
    mechanism: dc.Mechanism, counts: dc.Counts, account: dc.Account
) -> None:
    broken = replace(mechanism, calibrate=lambda *_: 1 / 0, draw=lambda *_: pytest.fail("drawn"))
    with pytest.raises(ZeroDivisionError):
        dc.release(broken, counts, PRIOR, promise(), account=account)
    assert account.charges() == ()


Refusal = Callable[[dc.Mechanism, dc.Counts], tuple[dc.Mechanism, dc.Counts, dc.Dirichlet, dc.Guarantee]]


def overspending(mechanism: dc.Mechanism) -> dc.Mechanism:
    """A mechanism whose noise reports more than it was given."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Calibration:
        honest = mechanism.calibrate(network, prior, guarantee)
        return replace(honest, reported=guarantee.epsilon + Fraction(1, 10**30))

    return replace(mechanism, calibrate=calibrate)


REFUSED: dict[str, tuple[str, Refusal]] = {
    "another network": ("different networks", lambda m, c: (m, c, dc.Dirichlet.uniform(TINY["chain"]), promise())),
    "dropping under replace": (
        "missing='error'",
        lambda m, c: (m, dc.Counts(c.tables, RecordsPolicy("drop", "error")), PRIOR, promise(1, dc.Relation.REPLACE)),
    ),
    "too little": ("epsilon is too small", lambda m, c: (m, c, PRIOR, promise("1e-20"))),
    "too much": ("epsilon is too large", lambda m, c: (m, c, PRIOR, promise("1e12"))),
    "overspending": ("would spend more", lambda m, c: (overspending(m), c, PRIOR, promise())),
    "the limit": ("cannot pay", lambda m, c: (m, c, PRIOR, promise("3.0000001"))),
    "relation": ("add-remove guarantee", lambda m, c: (m, c, PRIOR, promise(1, dc.Relation.REPLACE))),
    "unit": ("protects one record", lambda m, c: (m, c, PRIOR, promise(unit="patient"))),
    "counts beyond the noise": (
        "larger than 9,007,199,254,740,992",
        lambda m, c: (m, dc.Counts(c.tables.map(lambda t: t * 2**53), c.policy), PRIOR, promise()),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_whatever_is_refused_costs_nothing(mechanism: dc.Mechanism, account: dc.Account, case: str) -> None:
    message, arguments = REFUSED[case]
    with pytest.raises(dc.DiscreetError, match=message):
        what, counts, prior, guarantee = arguments(mechanism, counts_of(NETWORK, RECORDS))
        dc.release(what, counts, prior, guarantee, account=account)
    assert account.charges() == ()


def test_a_simulation_says_so_and_touches_no_ledger(
    mechanism: dc.Mechanism, counts: dc.Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dc.Account, "charge", lambda *_: pytest.fail("charged"))
    monkeypatch.setattr(Ledger, "_transaction", lambda *_: pytest.fail("opened"))
    release = simulated(mechanism, counts, promise())
    assert release.private is False
    assert '"private": false' in release.dumps()


# ---------------------------------------------------------------------------------------- laplace: budget of each node


@pytest.mark.parametrize(("relation", "moved"), [(dc.Relation.ADD_REMOVE, 1), (dc.Relation.REPLACE, 2)])
def test_scales_follow_the_budget_of_each_node(counts: dc.Counts, relation: dc.Relation, moved: int) -> None:
    shares = {"a": "0.2", "b": Fraction(1, 3), "c": 0.4}
    release = simulated(dc.laplace(shares), counts, promise(1, relation))
    assert release.calibration.sensitivity == moved
    assert release.calibration.epsilons == {"a": Fraction(1, 5), "b": Fraction(1, 3), "c": Fraction(2, 5)}
    assert list(release.calibration.scales) == list(NETWORK.nodes)
    for node, epsilon in release.calibration.epsilons.items():
        scale = Fraction(release.calibration.scales[node])
        assert moved / epsilon <= scale <= moved / epsilon * (1 + Fraction(1, 10**12))
        assert release.payload.scales[node] == float(scale)
    assert Fraction("0.93333") < release.calibration.reported <= Fraction(14, 15)


@pytest.mark.parametrize(("relation", "moved"), [(dc.Relation.ADD_REMOVE, 1), (dc.Relation.REPLACE, 2)])
def test_nodes_share_the_guarantee_alike_by_default(relation: dc.Relation, moved: int) -> None:
    calibration = dc.laplace().calibrate(NETWORK, PRIOR, promise("0.5", relation))
    assert calibration.epsilons == dict.fromkeys(NETWORK.nodes, Fraction(1, 6))
    assert calibration.scales == dict.fromkeys(NETWORK.nodes, 6.0 * moved)
    assert calibration.reported == Fraction(1, 2)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"a": "0.5", "b": "0.3", "c": "0.2000001"}, "sum to 1.0000001, more than the guarantee's 1"),
        ({"a": "0.5", "b": "0.5"}, r"every node of the network once; missing or unknown: \['c'\]"),
        ({"a": "0.5", "b": "0.3", "c": "0.1", "d": "0.1"}, r"missing or unknown: \['d'\]"),
        ({"a": "0.5", "b": "0.5", "c": 0}, "greater than 0"),
        ({"a": "0.9", "b": "0.9", "c": "-0.8"}, "greater than 0"),
        ({"a": "0.5", "b": "0.3", "c": float("nan")}, "finite number"),
    ],
)
def test_budgets_that_do_not_fit_are_refused(
    counts: dc.Counts, account: dc.Account, shares: dict[str, object], message: str
) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.release(dc.laplace(shares), counts, PRIOR, promise(), account=account)
    assert account.charges() == ()


def test_budgets_may_leave_some_over_but_the_guarantee_is_charged(counts: dc.Counts, account: dc.Account) -> None:
    dc.release(dc.laplace(dict.fromkeys("abc", "0.1")), counts, PRIOR, promise("0.9"), account=account)
    assert account.balance().epsilon_spent == Fraction(9, 10)


def test_a_node_with_one_state_is_no_exception(account: dc.Account) -> None:
    network = network_of({"only": 1, "b": 2}, "only>b")
    counts = counts_of(network, [(0, 1), (0, 0)])
    release = dc.release(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise(), account=account)
    assert release.payload.tables["only"].shape == (1,)
