"""What every mechanism of the registry owes: signatures, blindness of its calibration, and the order of payment."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.privacy.ledger import Ledger
from discreet.releases.measurement import Calibration, Released
from discreet.releases.policy import RecordsPolicy
from discreet.research.kinds.two_stages import Stages
from every_kind import CALIBRATIONS, PAYLOADS
from folding import every
from registry import DELTA, EVERY, NETWORK, NO_DELTA, RECORDS, RELATIONS, VARIANTS, Variant, arrays
from strategies import networks
from tiny import TINY, counts_of, network_of

PRIOR = dc.Dirichlet.uniform(NETWORK)
ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


CHOICES = (dc.research.Choice, dc.research.ScoredChoice, dc.research.FactoredChoice, dc.kinds.ChosenNetwork)


def pure(epsilon: object = 1, relation: dc.Relation = ADD_REMOVE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


LIMIT = dc.Guarantee(epsilon=3, delta="0.95", relation=ADD_REMOVE, unit="record")


@pytest.fixture(params=EVERY)
def variant(request: pytest.FixtureRequest) -> Variant:
    return EVERY[request.param]


@pytest.fixture
def private(variant: Variant) -> Any:
    return variant.private(5)


@pytest.fixture
def mechanism(variant: Variant) -> dc.tools.Mechanism:
    return variant.make(NETWORK)


@pytest.fixture
def account(tmp_path: Path) -> dc.results.Account:
    return Ledger(f"sqlite:///{tmp_path}/budget.db").open("a", LIMIT)


@pytest.fixture
def counts() -> dc.results.Counts:
    return counts_of(NETWORK, RECORDS)


def simulated(mechanism: dc.tools.Mechanism, statistic: Any, guarantee: dc.Guarantee, seed: int = 5) -> dc.Release:
    over = statistic.over
    prior: Any = dc.designs.Normal(over, 2.0) if isinstance(over, dc.designs.Design) else None
    prior = prior or (
        dc.discovery.NoPrior(over) if isinstance(over, dc.discovery.Columns) else dc.Dirichlet.uniform(over)
    )
    return dc.simulate(mechanism, statistic, prior, guarantee, rng=np.random.default_rng(seed))


def same_arrays(one: dc.Release, other: dc.Release) -> bool:
    first, second = arrays(one.payload), arrays(other.payload)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


# ------------------------------------------------------------------------------------------------------- signatures


def test_the_variants_are_the_registry_and_every_payload_and_calibration() -> None:
    assert {variant.mechanism for variant in EVERY.values()} == set(dc.tools.MECHANISMS)
    # Where bins are found a release is over another network than its prior was: see `test_found_bins.py`.
    assert {variant.payload for variant in EVERY.values()} == set(PAYLOADS) - {dc.kinds.FoundBins}
    made = {
        type(variant.make(NETWORK).calibrate(variant.prior.over, variant.prior, variant.promise()))
        for variant in EVERY.values()
    }  # fmt: skip
    assert made == set(CALIBRATIONS) - {dc.kinds.FoundBinsNoise}


@every("name", dc.tools.MECHANISMS)
def test_the_registry_names_its_mechanisms(name: str) -> None:
    entry = dc.tools.MECHANISMS[name]
    assert (entry.name, entry.example.name, entry.example.over) == (name, name, entry.over)
    (door,) = (door for door in (dc, dc.designs, dc.discovery, dc.research) if name in door.__all__)
    assert getattr(door, name) is entry.make
    assert bool(entry.targets) == (entry.over == "design")
    parameters = inspect.signature(entry.make).parameters
    assert set(entry.needed) <= set(entry.options) <= set(parameters)
    assert {key for key, part in parameters.items() if part.default is inspect.Parameter.empty} == set(entry.needed)


def test_options_from_text_are_those_of_the_registry() -> None:
    assert [name for name, entry in dc.tools.MECHANISMS.items() if entry.needed] == [
        "objective_perturbation", "scored", "sampled", "noisy_gradients", "factored",
    ]  # fmt: skip
    for texts, message in (
        (["steps=2"], r"needs the option records=...; it takes steps=..., records=..."),
        (["steps=2", "records=x"], "option records needs a number, got 'x'"),
        (["record=3"], "'record=3' is no option of 'noisy_gradients'"),
        (["steps"], "'steps' is no option"),
    ):
        with pytest.raises(dc.InputError, match=message):
            dc.tools.MECHANISMS["noisy_gradients"].from_text(texts)
    with pytest.raises(dc.InputError, match="it takes none"):
        dc.tools.MECHANISMS["laplace"].from_text(["epsilons=1"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"factor": "sphere", "parameters": {}, "candidates": []}', "a factor needs the fields"),
        ('{"factor": "categorical", "parameters": {"floor": "x"}, "candidates": [[1]]}', "must be numbers"),
        ('{"factor": "categorical", "parameters": {"floor": true}, "candidates": [[1]]}', "must be numbers"),
        ('{"factor": "categorical", "parameters": {"floor": 0.1, "x": 1}, "candidates": [[1]]}', "factor is invalid"),
        ('{"factor": "categorical", "parameters": {"floor": 0.1}, "candidates": [[1, 0], [1]]}', "factor is invalid"),
        ('{"factor": "categorical", "parameters": {"floor": 0.1}, "candidates": [[1, 1], [1, 0]]}', "sum to 1"),
        ("{", "not JSON"),
        ("nothing.json", "cannot read factor"),
    ],
)
def test_a_text_that_is_no_factor_is_refused(text: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.research.factored(text)


def test_options_do_not_change_the_name(variant: Variant, mechanism: dc.tools.Mechanism) -> None:
    assert mechanism.name == variant.mechanism


def test_signatures_are_those_of_the_contract(mechanism: dc.tools.Mechanism) -> None:
    *calibrated, guarantee = inspect.signature(mechanism.calibrate).parameters
    assert (len(calibrated), calibrated[1:], guarantee) == (2, ["prior"], "guarantee")
    assert list(inspect.signature(mechanism.draw).parameters) == ["statistic", "prior", "calibration", "noise"]


def test_release_takes_no_seed_and_simulate_no_account() -> None:
    assert list(inspect.signature(dc.release).parameters) == ["mechanism", "statistic", "prior", "guarantee", "account"]
    assert list(inspect.signature(dc.simulate).parameters) == ["mechanism", "statistic", "prior", "guarantee", "rng"]
    assert inspect.signature(dc.release).parameters["account"].default is inspect.Parameter.empty
    assert inspect.signature(dc.simulate).parameters["rng"].default is inspect.Parameter.empty


def test_calibration_is_given_no_counts_and_does_not_depend_on_them(
    variant: Variant, mechanism: dc.tools.Mechanism, account: dc.results.Account
) -> None:
    seen: list[tuple[object, ...]] = []

    def spy(*arguments: object) -> Calibration:
        seen.append(arguments)
        return mechanism.calibrate(*arguments)

    watched, prior = replace(mechanism, calibrate=spy), variant.prior
    releases = [
        dc.release(watched, variant.private(records), prior, variant.promise(), account=account)
        for records in (0, 5, 45)
    ]
    assert seen == [(prior.over, prior, variant.promise())] * 3
    assert releases[0].calibration == releases[1].calibration == releases[2].calibration


# ---------------------------------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize("name", NO_DELTA)
def test_a_delta_that_would_not_be_used_is_refused(name: str, account: dc.results.Account) -> None:
    asked = dc.Guarantee(epsilon=1, delta=DELTA, relation=ADD_REMOVE, unit="record")
    with pytest.raises(dc.InputError, match="pure guarantee; ask for delta 0"):
        dc.release(EVERY[name].make(NETWORK), EVERY[name].private(5), EVERY[name].prior, asked, account=account)
    assert account.charges() == ()


def test_gaussian_noise_is_refused_without_a_delta(counts: dc.results.Counts, account: dc.results.Account) -> None:
    with pytest.raises(dc.InputError, match="needs a guarantee with a delta"):
        dc.release(dc.gaussian(), counts, PRIOR, pure(), account=account)
    assert account.charges() == ()


def test_a_relation_that_an_option_does_not_hide_is_refused() -> None:
    refused = [variant for variant in VARIANTS.values() if variant.relations != RELATIONS]
    assert [variant.relations for variant in refused] == [(ADD_REMOVE,)]
    for variant in refused:
        with pytest.raises(dc.InputError, match="an add-remove guarantee"):
            variant.make(NETWORK).calibrate(NETWORK, PRIOR, variant.promise(1, REPLACE))


# --------------------------------------------------------------------------------------------------- what comes out


@every("relation", RELATIONS)
def test_a_release_describes_itself(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, relation: dc.Relation
) -> None:
    if relation not in variant.relations:
        return
    release = simulated(mechanism, private, variant.promise(1, relation))
    assert release.guarantee == variant.promise(1, relation)
    assert release.mechanism == mechanism.name
    assert release.policy == private.policy
    assert release.records == (private.records if relation is REPLACE else None)
    assert release.calibration == mechanism.calibrate(variant.prior.over, variant.prior, release.guarantee)
    assert 0 < release.calibration.total <= 1
    assert type(release.payload) is variant.payload
    if mechanism.over == "network":
        assert release.payload.network == variant.prior.over
        if variant.prior.over == NETWORK:
            check_shapes(release.payload)


def check_shapes(payload: Released) -> None:
    """Integers for counts and contrasts, probabilities for draws and candidates; a table has its family's shape."""
    match payload:
        case dc.kinds.NoisyCounts():
            assert set(payload.scales) == set(payload.tables) >= set(NETWORK.maximal_families)
            for node, table in payload.tables.items():
                assert (table.shape, table.dtype) == (NETWORK.shape(node), np.int64)
            for node in NETWORK.nodes:
                assert (payload.table(node).shape, payload.table(node).dtype) == (NETWORK.shape(node), np.int64)
        case dc.kinds.NoisyTables():
            assert set(payload.scales) == set(payload.tables)
            for scope, table in payload.tables.items():
                assert list(scope) == [node for node in NETWORK.nodes if node in scope]
                assert (table.shape, table.dtype) == (tuple(NETWORK.schema[name].size for name in scope), np.int64)
            for node in NETWORK.nodes:
                assert (payload.table(node).shape, payload.table(node).dtype) == (NETWORK.shape(node), np.int64)
        case dc.research.TwoStageCounts():
            check_shapes(payload.first)
            check_shapes(payload.second)
        case dc.research.NoisyCoefficients():
            assert tuple(payload.components) == NETWORK.downward_closure
            for subset, array in payload.components.items():
                assert array.shape == tuple(NETWORK.schema[name].size - 1 for name in subset)
                assert array.dtype == np.int64
        case dc.research.ParameterDraws():
            for node, cells in payload.cells.items():
                assert cells.shape == (*NETWORK.shape(node), payload.cells.draws)
                assert np.all((cells >= payload.floors.get(node, 0.0) * (1 - 1e-12)) & (cells <= 1))
                np.testing.assert_allclose(cells.sum(axis=-2), 1, atol=1e-8)
        case dc.research.Choice():
            assert all(tables.network == NETWORK for tables in payload.candidates)
        case dc.kinds.ChosenNetwork():
            assert payload.chosen.variables == NETWORK.variables
            assert payload.chosen.parents == payload.parents


@every("relation", RELATIONS)
def test_json_reads_back_as_the_same_release(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, relation: dc.Relation
) -> None:
    if relation not in variant.relations:
        return
    release = simulated(mechanism, private, variant.promise("1/3", relation))
    again = dc.Release.loads(release.dumps())
    assert again.dumps() == release.dumps()
    assert again.calibration == release.calibration
    assert type(again.payload) is variant.payload
    assert same_arrays(again, release)


@pytest.mark.parametrize("name", VARIANTS)
@every("sizes", [{"only": 1, "b": 2}, {"b": 2, "only": 1}])
@every("arcs", ["", "only>b", "b>only"])
@every("records", [[], [(0, 0), (0, 0)]])
def test_a_node_with_one_state_is_no_exception(
    name: str, sizes: dict[str, int], arcs: str, records: list[tuple[int, int]]
) -> None:
    variant, network = VARIANTS[name], network_of(sizes, arcs)
    account = Ledger("sqlite://").open("a", LIMIT)
    counts, prior = counts_of(network, records), dc.Dirichlet.uniform(network)
    made = dc.release(variant.make(network), counts, prior, variant.promise(), account=account)
    assert dc.Release.loads(made.dumps()).dumps() == made.dumps()
    for relation in variant.relations:
        simulated(variant.make(network), counts, variant.promise(1, relation))


def test_the_same_generator_draws_the_same_simulation(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any
) -> None:
    one, two, other = (simulated(mechanism, private, variant.promise("0.01"), seed) for seed in (5, 5, 6))
    assert one.dumps() == two.dumps()
    assert one.id != other.id
    assert variant.payload in CHOICES or not same_arrays(one, other)


@pytest.mark.system_noise
def test_real_releases_differ(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, account: dc.results.Account
) -> None:
    """Two at this budget agree by chance once in 10^9 runs at most; choices among three, 45 times running, in 10^20."""
    one, *others = (
        dc.release(mechanism, private, variant.prior, variant.promise("0.003"), account=account)
        for _ in range(46 if variant.payload in CHOICES else 2)
    )
    assert all(one.id != other.id for other in others)
    assert any(not same_arrays(one, other) for other in others)


# ---------------------------------------------------------------------------------------------- the order of payment


def test_a_release_is_charged_once_in_full_and_before_the_draw(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, account: dc.results.Account
) -> None:
    charged_at_draw: list[int] = []

    def spy(*arguments: object) -> object:
        charged_at_draw.append(len(account.charges()))
        return mechanism.draw(*arguments)

    release = dc.release(replace(mechanism, draw=spy), private, variant.prior, variant.promise("0.7"), account=account)
    (charge,) = account.charges()
    assert charged_at_draw == [1]
    assert (charge.release, charge.mechanism, charge.guarantee) == (release.id, mechanism.name, variant.promise("0.7"))
    assert release.private is True


def test_a_draw_that_raises_has_been_paid_for(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, account: dc.results.Account
) -> None:
    with pytest.raises(ZeroDivisionError):
        dc.release(
            replace(mechanism, draw=lambda *_: 1 / 0), private, variant.prior, variant.promise(), account=account
        )  # fmt: skip
    assert account.balance().epsilon_spent == 1
    assert account.balance().delta_spent == Fraction(variant.delta)


def test_a_calibration_that_raises_costs_nothing_and_draws_nothing(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, account: dc.results.Account
) -> None:
    broken = replace(mechanism, calibrate=lambda *_: 1 / 0, draw=lambda *_: pytest.fail("drawn"))
    with pytest.raises(ZeroDivisionError):
        dc.release(broken, private, variant.prior, variant.promise(), account=account)
    assert account.charges() == ()


Asked = tuple[dc.tools.Mechanism, Any, Any, dc.Guarantee]
Refusal = Callable[[Variant, dc.tools.Mechanism, Any], Asked]


def overspending(mechanism: dc.tools.Mechanism) -> dc.tools.Mechanism:
    """A mechanism whose noise reports more than it was given."""

    def calibrate(over: Any, prior: Any, guarantee: dc.Guarantee) -> Any:
        honest = mechanism.calibrate(over, prior, guarantee)
        more = Fraction(1, 10**30)
        if isinstance(honest, dc.kinds.NoiseWithPairs):
            return replace(honest, second=guarantee.epsilon - honest.plan.total - (honest.total_epsilon or 0) + more)
        if isinstance(honest, Stages):
            return replace(honest, second_epsilon=guarantee.epsilon - honest.first_epsilon + more)
        return replace(honest, reported=guarantee.epsilon + more)

    return replace(mechanism, calibrate=calibrate)


def elsewhere(prior: Any) -> Any:
    """A prior over something else."""
    return (
        dc.designs.Normal(dc.designs.Design(prior.over.features), 1.0)
        if isinstance(prior, dc.designs.Normal)
        else ANOTHER
    )


def treated(statistic: Any, policy: RecordsPolicy) -> Any:
    """The statistic of records with which something else was done."""
    match statistic:
        case dc.results.Counts():
            return dc.results.Counts(statistic.tables, policy, statistic.joints)
        case dc.designs.Gradients():
            return dc.designs.Gradients(replace(statistic.rows, policy=policy))
        case _:
            return replace(statistic, policy=policy)


def dropped(statistic: Any) -> Any:
    """Incomplete ones were left out."""
    return treated(statistic, RecordsPolicy("drop", "error"))


def claimed(statistic: Any) -> Any:
    """The curator says that none is of the same unit as another."""
    return treated(statistic, RecordsPolicy("error", "error", one_record_a_unit=True))


ANOTHER = dc.Dirichlet.uniform(TINY["chain"])
REFUSED: dict[str, tuple[str, Refusal]] = {
    "another network": (
        "different networks|another network",
        lambda v, m, c: (m, c, elsewhere(v.prior), v.promise()),
    ),
    "another statistic": ("draws from", lambda v, m, c: (m, v.unlike(), v.prior, v.promise())),
    "dropping under replace": (
        "missing='keep'",
        lambda v, m, c: (m, dropped(c), v.prior, v.promise(1, REPLACE)),
    ),
    "too little": ("epsilon is too small", lambda v, m, c: (m, c, v.prior, v.promise("1e-20"))),
    "too much": ("epsilon is too large", lambda v, m, c: (m, c, v.prior, v.promise("1e12"))),
    "overspending": ("would spend more", lambda v, m, c: (overspending(m), c, v.prior, v.promise())),
    "the limit": ("cannot pay", lambda v, m, c: (m, c, v.prior, v.promise("3.0000001"))),
    "relation": ("add-remove guarantee", lambda v, m, c: (m, c, v.prior, v.promise(1, REPLACE))),
    "unit": ("protects one record", lambda v, m, c: (m, claimed(c), v.prior, v.promise(unit="patient"))),
    "a unit that nobody stands for": (
        "tells them apart",
        lambda v, m, c: (m, treated(c, RecordsPolicy("error", "error")), v.prior, v.promise(unit="patient")),
    ),
    "counts beyond the noise": (
        "larger than 9,007,199,254,740,992",
        lambda v, m, c: (m, dc.results.Counts(c.tables.map(lambda t: t * 2**53), c.policy), v.prior, v.promise()),
    ),
}
OTHER_WORDS = {
    # Named tables keep their own budgets: the account refuses.
    ("too little", "laplace, all tables"): "more than the guarantee's",
    ("too much", "laplace, all tables"): "cannot pay",
    ("too much", "gaussian"): "promises nothing",
    # Its delta alone pays for some noise: only the account can refuse so little epsilon, and it has enough.
    ("too little", "gaussian"): "not refused",
    ("too little", "objective_perturbation"): "takes an epsilon from",
    ("too much", "objective_perturbation"): "takes an epsilon from",
}


@pytest.mark.parametrize("name", EVERY)
@every("case", REFUSED)
def test_whatever_is_refused_costs_nothing(name: str, account: dc.results.Account, case: str) -> None:
    message, arguments = REFUSED[case]
    variant = EVERY[name]
    words = OTHER_WORDS.get((case, name), message)
    if words == "not refused" or (case == "counts beyond the noise" and name not in VARIANTS):
        return
    with pytest.raises(dc.DiscreetError, match=words):
        what, private, prior, guarantee = arguments(variant, variant.make(NETWORK), variant.private(5))
        what = replace(what, draw=lambda *_: pytest.fail("drawn"))
        dc.release(what, private, prior, guarantee, account=account)
    assert account.charges() == ()


def test_a_simulation_says_so_and_touches_no_ledger(
    variant: Variant, mechanism: dc.tools.Mechanism, private: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dc.results.Account, "charge", lambda *_: pytest.fail("charged"))
    monkeypatch.setattr(Ledger, "__init__", lambda *_: pytest.fail("opened"))
    release = simulated(mechanism, private, variant.promise())
    assert release.private is False
    assert '"private": false' in release.dumps()


# ---------------------------------------------------------------------------------------- laplace: budget of each node


@pytest.mark.parametrize(("relation", "moved"), [(dc.Relation.ADD_REMOVE, 1), (dc.Relation.REPLACE, 2)])
def test_scales_follow_the_budget_of_each_node(counts: dc.results.Counts, relation: dc.Relation, moved: int) -> None:
    shares = {"a": "0.2", "b": Fraction(1, 3), "c": 0.4}
    release = simulated(dc.laplace(shares), counts, pure(1, relation))
    assert release.calibration.sensitivity == moved
    assert release.calibration.epsilons == {"a": Fraction(1, 5), "b": Fraction(1, 3), "c": Fraction(2, 5)}
    assert list(release.calibration.scales) == list(NETWORK.nodes)
    for node, epsilon in release.calibration.epsilons.items():
        scale = Fraction(release.calibration.scales[node])
        assert moved / epsilon <= scale <= moved / epsilon * (1 + Fraction(1, 10**12))
        assert release.payload.scales[node] == float(scale)
    assert Fraction("0.93333") < release.calibration.reported <= Fraction(14, 15)


@pytest.mark.parametrize(("relation", "moved"), [(dc.Relation.ADD_REMOVE, 1), (dc.Relation.REPLACE, 2)])
@pytest.mark.parametrize(("name", "measured"), [("complete, three states", "c"), ("chain", "bc"), ("two roots", "ab")])
def test_families_in_no_other_share_the_guarantee_alike_by_default(
    name: str, measured: str, relation: dc.Relation, moved: int
) -> None:
    calibration = dc.laplace().calibrate(TINY[name], dc.Dirichlet.uniform(TINY[name]), pure("0.5", relation))
    assert calibration.epsilons == dict.fromkeys(measured, Fraction(1, 2 * len(measured)))
    assert calibration.scales == dict.fromkeys(measured, 2.0 * len(measured) * moved)
    assert calibration.reported == Fraction(1, 2)


def test_the_tables_named_are_those_measured(counts: dc.results.Counts) -> None:
    for names in ("c", "ac", "bc", "abc"):
        shares = dict.fromkeys(reversed(names), "0.1")
        assert list(simulated(dc.laplace(shares), counts, pure()).payload.tables) == list(names)


@pytest.mark.costly("Families that are summed from a wrong table are found on made-up networks.")
@given(network=networks(max_nodes=4), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_families_that_are_not_measured_are_sums_of_those_that_are(
    network: dc.Network, seed: int, data: st.DataObject
) -> None:
    """Without noise: every family's counts come back, each cell the sum of as many as `terms` says, from the fewest."""
    sizes = [variable.size for variable in network.variables]
    records = np.random.default_rng(seed).integers(0, sizes, (30, len(sizes)))
    tables = counts_of(network, map(tuple, records.tolist())).tables
    more = data.draw(st.lists(st.sampled_from(network.nodes), unique=True))
    measured = [node for node in network.nodes if node in network.maximal_families or node in more]
    payload = dc.kinds.NoisyCounts(network, {node: tables[node] for node in measured}, dict.fromkeys(measured, 1.0))
    for node in network.nodes:
        source = payload.source(node)
        assert np.array_equal(payload.table(node), tables[node])
        assert source == node if node in measured else set(network.family(node)) < set(network.family(source))
        assert payload.terms(node) * tables[node].size == tables[source].size
        holding = [other for other in measured if set(network.family(node)) <= set(network.family(other))]
        assert payload.terms(node) == min(tables[other].size for other in holding) // tables[node].size


def test_parents_in_another_order_are_put_in_theirs() -> None:
    network = network_of({"a": 2, "b": 3, "c": 2, "d": 2}, "a>c b>c b>d a>d c>d")
    assert (network.family("c"), network.family("d")) == (("a", "b", "c"), ("b", "a", "c", "d"))
    counts = counts_of(network, [(1, 0, 1, 0), (0, 2, 1, 1), (1, 2, 0, 0), (1, 2, 0, 1)])
    payload = simulated(dc.laplace(), counts, pure(1000)).payload  # noise that never shows
    assert list(payload.tables) == ["d"]
    for node in network.nodes:
        assert np.array_equal(payload.table(node), counts.tables[node])


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"a": "0.5", "b": "0.3", "c": "0.2000001"}, "sum to 1.0000001, more than the guarantee's 1"),
        ({"a": "0.5", "b": "0.5"}, r"every node whose family lies in no other.* missing or unknown: \['c'\]"),
        ({"a": "0.5", "b": "0.3", "c": "0.1", "d": "0.1"}, r"missing or unknown: \['d'\]"),
        ({"a": "0.5", "b": "0.5", "c": 0}, "greater than 0"),
        ({"a": "0.9", "b": "0.9", "c": "-0.8"}, "greater than 0"),
        ({"a": "0.5", "b": "0.3", "c": float("nan")}, "finite number"),
    ],
)
def test_budgets_that_do_not_fit_are_refused(
    counts: dc.results.Counts, account: dc.results.Account, shares: dict[str, object], message: str
) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.release(dc.laplace(shares), counts, PRIOR, pure(), account=account)
    assert account.charges() == ()


def test_budgets_may_leave_some_over_but_the_guarantee_is_charged(
    counts: dc.results.Counts, account: dc.results.Account
) -> None:
    dc.release(dc.laplace(dict.fromkeys("abc", "0.1")), counts, PRIOR, pure("0.9"), account=account)
    assert account.balance().epsilon_spent == Fraction(9, 10)


def test_a_table_with_one_state_can_be_measured(account: dc.results.Account) -> None:
    network = network_of({"only": 1, "b": 2}, "only>b")
    counts, prior = counts_of(network, [(0, 1), (0, 0)]), dc.Dirichlet.uniform(network)
    alone = dc.release(dc.laplace(), counts, prior, pure(), account=account).payload
    assert {node: table.shape for node, table in alone.tables.items()} == {"b": (1, 2)}
    assert alone.table("only").shape == (1,)
    both = dc.release(dc.laplace({"only": "0.5", "b": "0.5"}), counts, prior, pure(), account=account).payload
    assert {node: table.shape for node, table in both.tables.items()} == {"only": (1,), "b": (1, 2)}
