"""Cells that no record can fall into are exact zeros in every reader, and what that is worth."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.mechanisms.crossing import calibrate
from discreet.mechanisms.table_plans import without_large
from discreet.model.structural_zeros import clear_impossible, possible_cells
from discreet.posterior.pooled.least_squares import fit_nonnegative
from discreet.posterior.pooled.measured import read_tables
from discreet.releases.policy import RecordsPolicy
from test_privacy import BASE, Recorder
from tiny import counts_of

SEX, DEAD = dc.Variable("sex", ("f", "m")), dc.Variable("dead", ("no", "yes"))
CAUSE = dc.Variable("cause", ("heart", "cancer", "other"), applies_if="dead = yes", not_applicable="alive")
PLACE = dc.Variable("place", ("home", "hospital"), applies_if="dead = yes")
AGE = dc.Variable("age_at_death", bounds=(0, 100), bins=(30, 60), applies_if="dead = yes")
BIRTHS = dc.Variable("births", ("0", "1", "2"), applies_if="sex = f")
VARIABLES = (SEX, DEAD, CAUSE, PLACE, AGE, BIRTHS)
NETWORK = dc.Network.from_edges([("sex", "dead"), ("cause", "place"), ("cause", "age_at_death")], VARIABLES)
NONE = dc.Network.empty(VARIABLES)
IMPOSSIBLE = (
    "P(cause=heart | dead=no)",
    "P(cause=alive, place=home)",
    "P(dead=no, cause=other)",
    "P(births=1 | sex=m)",
    "P(dead=no | place=home)",
    "P(cause=alive | place=hospital)",
    "P(age_at_death=30_to_60, cause=alive)",
)


def codes(n: int = 4000, seed: int = 0) -> dict[str, Any]:
    """Codes of records that keep to the conditions."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(2, size=n)
    dead = (rng.random(n) < np.where(sex == 0, 0.25, 0.35)).astype(int)
    cause = np.where(dead == 1, rng.choice(3, n, p=[0.5, 0.3, 0.2]), 3)
    place = np.where(dead == 1, (rng.random(n) < np.where(cause == 0, 0.3, 0.6)).astype(int), 2)
    age = np.where(dead == 1, rng.choice(3, n, p=[0.1, 0.3, 0.6]), 3)
    return {"sex": sex, "dead": dead, "cause": cause, "place": place, "age_at_death": age,
            "births": np.where(sex == 0, rng.integers(3, size=n), 3)}  # fmt: skip


def released(network: dc.Network, mechanism: Any = None, relation: str = "add-remove", epsilon: float = 1) -> Any:
    """A release of such records."""
    claim = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
    counts = dc.tools.count_codes(network, codes())
    return dc.simulate(mechanism or dc.planned(), counts, dc.Dirichlet.uniform(network), claim,
                       rng=np.random.default_rng(3))  # fmt: skip


def ends(posterior: Any, query: str) -> list[tuple[float, float, float]]:
    """Mean and interval of each row."""
    return [(row["mean"], row["lower"], row["upper"]) for row in dc.answer(posterior, query, level=0.95).rows]


SMALL = dc.Network.empty((DEAD, dc.Variable("cause", ("heart",), applies_if="dead = yes")))
RELEASED = {
    "planned": dc.planned(),
    "laplace": dc.laplace(),
    "gaussian": dc.gaussian(),
    "allocated": dc.research.allocated(),
}


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("name", RELEASED)
def test_impossible_cells_are_published_as_zeros(name: str, relation: str) -> None:
    delta = "1e-6" if name == "gaussian" else 0
    claim = dc.Guarantee(epsilon="0.01", delta=delta, relation=relation, unit="record")
    impossible = ~possible_cells(SMALL.schema, SMALL.nodes)
    records = {"dead": np.array([0, 0, 1]), "cause": np.array([1, 1, 0])}
    counts = dc.tools.count_codes(SMALL, records)
    release = dc.simulate(RELEASED[name], counts, dc.Dirichlet.uniform(SMALL), claim, rng=np.random.default_rng(1))
    tables = [datum.values for datum in release.payload.measurements if datum.values.shape == impossible.shape]
    assert tables
    for table in tables:
        assert not table[impossible].any()
        assert table[~impossible].all()  # noise of scale 100 or more: with this seed none is 0


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
@pytest.mark.parametrize("name", ["planned", "laplace"])
def test_with_public_zeros_the_guarantee_holds_and_is_tight(name: str, relation: dc.Relation) -> None:
    """All outputs of a window, on all neighbours of up to three records: noise is added to a cell's count, or to 0."""
    claim = dc.Guarantee(epsilon=1, delta=0, relation=relation, unit="record")
    mechanism, prior = RELEASED[name], dc.Dirichlet.uniform(SMALL)
    calibration = mechanism.calibrate(SMALL, prior, claim)
    records = ((0, 1), (1, 0))  # a living person, and a dead one with a cause
    datasets = [each for size in range(4) for each in combinations_with_replacement(records, size)]
    lists: dict[Any, tuple[list[int], list[float]]] = {}
    for data in datasets:
        recorder = Recorder([])
        payload = mechanism.draw(counts_of(SMALL, data), prior, calibration, recorder)
        (cells,) = [table.ravel().tolist() for table in payload.tables.values()]
        # Each cell has a digit of its own for its noise; which have one is the same for all data sets.
        lists[data] = cells, recorder.scales
    seen = {tuple(cell // BASE for cell in cells) for cells, _ in lists.values()}
    assert len(seen) == 1 and [cell == 0 for cell in seen.pop()] == [True, False, False, True]
    largest = Fraction()
    for one, other in product(datasets, repeat=2):
        moved = sum(abs(a % BASE - b % BASE) / Fraction(scale) for a, b, scale in zip(
            lists[one][0], lists[other][0], lists[one][1], strict=True))  # fmt: skip
        apart = Counter(one), Counter(other)
        if relation == dc.Relation.ADD_REMOVE and len(other) == len(one) + 1 and not apart[0] - apart[1]:
            largest = max(largest, moved)
        if relation == dc.Relation.REPLACE and len(other) == len(one) and (apart[0] - apart[1]).total() == 1:
            largest = max(largest, moved)
    assert Fraction(999_999_999, 10**9) <= largest <= 1


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("network", [NETWORK, NONE], ids=["arcs", "none"])
def test_the_pooled_reader_gives_impossible_cells_no_probability(network: dc.Network, relation: str) -> None:
    posterior = dc.noise_aware(released(network, relation=relation), draws=100, rng=1)
    assert posterior.method == "pooled"
    for query in IMPOSSIBLE:
        assert ends(posterior, query) == [(0, 0, 0)], query
    assert ends(posterior, "P(cause=alive | dead=no)") == [(1, 1, 1)]
    whole, dead = ends(posterior, "P(cause=heart)")[0][0], ends(posterior, "P(cause=heart, dead=yes)")[0][0]
    assert whole == pytest.approx(dead, abs=1e-6)
    assert sum(row[0] for row in ends(posterior, "P(cause, place)")) == pytest.approx(1, abs=1e-5)
    assert ends(posterior, "P(cause | cause=applies)") == ends(posterior, "P(cause | dead=yes)")
    if posterior.replicates is not None:
        rows = posterior.replicates["cause"]
        assert not rows[~np.broadcast_to(possible_cells(network.schema, network.family("cause"))[..., None], rows.shape)
                        & (rows != 1 / rows.shape[-2])].any()  # fmt: skip


EXACT = pytest.param("exact", marks=pytest.mark.costly("Chains over records are read with zeros, too."))


@pytest.mark.parametrize("method", [EXACT, "plug-in", "given prior", "network", "estimate"])
def test_every_reader_gives_impossible_cells_no_probability(method: str) -> None:
    small = dc.Network.empty((DEAD, CAUSE))
    release = released(small, dc.laplace())
    if method == "estimate":
        means = dc.estimate(release)["cause"]
        assert means[0].tolist() == [0, 0, 0, 1] and means[1, 3] == 0
        return
    if method == "plug-in":
        posterior = dc.tools.plug_in(release, draws=50, rng=1)
    elif method == "given prior":
        posterior = dc.noise_aware(release, draws=50, rng=1, prior=dc.Dirichlet.uniform(small))
    elif method == "network":
        posterior = dc.noise_aware(release, draws=50, rng=1, trust_network=True)
    else:
        posterior = dc.noise_aware(release, draws=50, rng=1, method="exact")
    assert ends(posterior, "P(cause | dead=no)") == [(0, 0, 0)] * 3 + [(1, 1, 1)]
    assert ends(posterior, "P(cause=alive | dead=yes)") == [(0, 0, 0)]


def test_a_synthetic_living_person_has_no_cause_of_death() -> None:
    posterior = dc.noise_aware(released(NETWORK), draws=20, rng=1)
    table = dc.sample(posterior, 2000, rng=2)[0].read_all()
    columns = table.to_pydict()
    for name in ("cause", "place", "age_at_death"):
        assert [value is None for value in columns[name]] == [dead == "no" for dead in columns["dead"]]
    assert [value is None for value in columns["births"]] == [sex == "m" for sex in columns["sex"]]
    again = dc.count(dc.read_records(table, NETWORK.schema), NETWORK)
    assert again.records == 2000  # what comes out can be read again by the same declarations


def test_numbers_are_of_those_whom_they_concern_and_answers_say_so() -> None:
    drawn, rng = codes(), np.random.default_rng(5)
    ages = np.where(drawn["dead"] == 1, rng.normal(70, 8, 4000).clip(0, 100), np.nan)
    network = dc.Network.empty((DEAD, AGE))
    for stray in (np.nan, 5.0):  # numbers of the living are not read
        table = pa.table({"dead": np.array(["no", "yes"])[drawn["dead"]],
                          "age_at_death": pa.array(np.where(drawn["dead"] == 1, ages, stray))})  # fmt: skip
        claim = dc.Guarantee(epsilon=8, delta=0, relation="add-remove", unit="record")
        release = dc.simulate(dc.planned(), dc.count(dc.read_records(table, network.schema), network),
                              dc.Dirichlet.uniform(network), claim, rng=np.random.default_rng(1))  # fmt: skip
        answer = dc.answer(dc.noise_aware(release, draws=200, rng=1), "E(age_at_death)", level=0.95)
        assert answer.sums and abs(answer.rows[0]["mean"] - np.nanmean(ages)) < 1
        assert answer.concerns == ("E(age_at_death): among records with dead = yes, to which age_at_death applies",)
        assert answer.concerns[0] in str(answer)
    release = dc.simulate(dc.laplace(), dc.count(dc.read_records(table, network.schema), network),
                          dc.Dirichlet.uniform(network), claim, rng=np.random.default_rng(1))  # fmt: skip
    mean = dc.answer(dc.noise_aware(release, draws=200, rng=1), "E(age_at_death)", level=0.95).rows[0]
    assert mean["lower"] <= np.nanmean(ages) <= mean["upper"]


def test_what_applies_in_several_states_is_asked_for_by_all_of_them() -> None:
    """Evidence and targets `X=applies` are the union of the states, as counts with hardly any noise show."""
    age, sex = dc.Variable("age", ("child", "adult", "old")), dc.Variable("sex", ("f", "m"))
    job = dc.Variable("job", ("a", "b"), applies_if="age in {adult, old}")
    pay = dc.Variable("pay", bounds=(0, 100), bins=(30, 60), applies_if="age in {adult, old}")
    network = dc.Network.from_edges([("sex", "job")], (sex, age, job, pay))
    rng, n = np.random.default_rng(1), 4000
    ages, sexes = rng.choice(3, n, p=[0.2, 0.3, 0.5]), rng.integers(2, size=n)
    applies = ages > 0
    jobs = (rng.random(n) < 0.2 + 0.3 * sexes + 0.2 * (ages == 2)).astype(int)
    pays = np.clip(20 + 20 * ages + 10 * sexes + rng.normal(0, 8, n), 0, 100)
    table = pa.table({
        "sex": np.array(sex.states)[sexes], "age": np.array(age.states)[ages],
        "job": pa.array(np.array(job.values)[jobs], mask=~applies), "pay": pa.array(pays, mask=~applies),
    })  # fmt: skip
    claim = dc.Guarantee(epsilon=50, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), dc.count(dc.read_records(table, network.schema), network),
                          dc.Dirichlet.uniform(network), claim, rng=np.random.default_rng(1))  # fmt: skip
    posterior = dc.noise_aware(release, draws=100, rng=1)

    def mean(query: str) -> float:
        return float(ends(posterior, query)[0][0])

    assert mean("P(job=a | job=applies)") == pytest.approx((jobs[applies] == 0).mean(), abs=0.005)
    assert mean("P(job=a | job=applies, pay=applies)") == mean("P(job=a | job=applies)")
    assert mean("P(sex=f, job=a | job=applies)") == pytest.approx(
        ((jobs == 0) & (sexes == 0))[applies].mean(), abs=0.02
    )
    assert mean("P(job=applies | sex=f)") == pytest.approx(applies[sexes == 0].mean(), abs=0.02)
    assert mean("P(job=applies, sex=f)") == pytest.approx((applies & (sexes == 0)).mean(), abs=0.01)
    assert mean("E(pay | job=applies)") == pytest.approx(pays[applies].mean(), abs=0.3)
    assert mean("P(pay > 50 | job=applies)") == pytest.approx((pays[applies] > 50).mean(), abs=0.01)
    query = dc.tools.parse_query("P(sex | job=applies)", network.schema)
    assert str(query) == "P(sex | job=applies)" and dc.tools.parse_query(str(query), network.schema) == query
    for twice in ("P(job=applies, age=old)", "P(job=applies | age=old)", "P(age | job=applies)"):
        with pytest.raises(dc.InputError, match="'age' occurs twice"):
            dc.answer(posterior, twice)
    with pytest.raises(dc.InputError, match="here evidence is a state"):
        dc.planned(workload=["P(sex | job=applies)"]).calibrate(network, dc.Dirichlet.uniform(network), claim)


def test_what_does_not_apply_by_no_declared_condition_is_refused() -> None:
    job = dc.Variable("job", ("a", "b"), applies_if="age in {adult, old}")
    schema = dc.Schema(
        (dc.Variable("age", ("child", "adult", "old")), job, dc.Variable("note", ("x",), not_applicable="-"))
    )
    with pytest.raises(dc.InputError, match="applies by no declared state"):
        dc.tools.parse_query("P(job | note=applies)", schema)
    with pytest.raises(dc.InputError, match="no state 'applies'"):
        dc.tools.parse_query("P(job | age=applies)", schema)


def test_missing_at_random_keeps_what_does_not_apply() -> None:
    """Complete records of the living have no cause, and unknown causes are shared out among the dead."""
    dead, cause = (
        dc.Variable("dead", ("no", "yes")),
        dc.Variable("cause", ("h", "c"), applies_if="dead=yes", missing="?"),
    )
    network = dc.Network.empty((dead, cause))
    counts = dc.tools.count_codes(
        network, {"dead": [0] * 700 + [1] * 300, "cause": [2] * 700 + [0] * 120 + [1] * 30 + [3] * 150}
    )
    claim = dc.Guarantee(epsilon=50, delta=0, relation="replace", unit="record")
    release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), claim, rng=np.random.default_rng(0))
    posterior = dc.tools.assume_at_random(dc.noise_aware(release, draws=200, rng=1))
    assert posterior.network.schema["cause"].states == ("h", "c", "not applicable")
    assert ends(posterior, "P(cause | dead=no)") == [(0, 0, 0), (0, 0, 0), (1, 1, 1)]
    shares = [mean for mean, _, _ in ends(posterior, "P(cause | dead=yes)")]
    assert shares == pytest.approx([0.8, 0.2, 0], abs=0.02) and shares[2] == 0
    assert ends(posterior, "P(dead=yes)")[0][0] == pytest.approx(0.3, abs=0.02)


def test_structure_draws_the_arcs_of_conditions() -> None:
    claim = dc.Guarantee(epsilon=5, delta=0, relation="add-remove", unit="record")
    mechanism = dc.structure(2)
    counts = dc.tools.count_codes(NONE, codes(), mechanism.scopes(NONE))
    release = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(NONE), claim, rng=np.random.default_rng(1))
    chosen = release.learned_network
    assert set(NONE.arcs) <= set(chosen.arcs)
    assert dc.tools.loads(release.dumps()).learned_network == chosen


def test_a_metric_knows_no_distance_to_what_does_not_apply() -> None:
    claim = dc.Guarantee(epsilon=1, delta=0, relation="metric", unit="1 state in one column")
    small = dc.Network.empty((DEAD, CAUSE))
    with pytest.raises(dc.InputError, match="not from what does not apply"):
        calibrate(dc.laplace(), dc.Dirichlet.uniform(small), claim, RecordsPolicy("error", "error"))


def test_large_families_keep_the_column_of_the_condition() -> None:
    many = dc.Variable("many", tuple(map(str, range(50))))
    cause = dc.Variable("cause", ("h", "c"), applies_if="many = 1")
    network = dc.Network.from_edges([("dead", "cause")], (many, DEAD, cause))
    assert without_large(network, 10).parents["cause"] == ("many",)


def test_zeros_take_noise_out_of_the_tables_of_readers() -> None:
    """Least squares, plain and nonnegative, see impossible cells as known; what remains has less noise."""
    release = released(NETWORK, dc.laplace(), epsilon=0.2)
    noisy = read_tables(NETWORK, release.measurements)
    fitted = fit_nonnegative(noisy, 4000.0).tables
    for scope, table in noisy.tables.items():
        possible = possible_cells(NETWORK.schema, scope)
        if possible is not None:
            assert not table[~possible].any() and not fitted[scope][~possible].any()
            assert (
                noisy.variance(scope, scope)
                < next(m for m in release.measurements if set(m.scope) == set(scope)).variance
            )
    again = noisy.again(
        {scope: np.zeros_like(table) for scope, table in noisy.tables.items()}, np.random.default_rng(0)
    )
    for scope, table in again.tables.items():
        possible = possible_cells(NETWORK.schema, scope)
        assert possible is None or (not table[~possible].any() and table[possible].any())


def test_rows_without_any_possible_mass_are_the_example() -> None:
    law = np.zeros((2, 4, 3))
    law[:, 0] = 1
    cleared = clear_impossible(NETWORK.schema, ("dead", "cause"), law, rows=True)
    assert cleared[0, :, 0].tolist() == [0, 0, 0, 1] and cleared[1, :, 0].tolist() == [1, 0, 0, 0]
    joint = np.zeros((2, 4, 1))
    joint[0, 0] = 1
    cleared = clear_impossible(NETWORK.schema, ("dead", "cause"), joint)
    assert cleared[..., 0].sum() == pytest.approx(1) and cleared[0, 3, 0] == pytest.approx(0.5)
    assert clear_impossible(NETWORK.schema, ("dead", "cause"), cleared) is cleared  # stored draws stay to the last bit


def test_stored_draws_answer_alike(tmp_path: Path) -> None:
    posterior = dc.noise_aware(released(NETWORK), draws=40, rng=1)
    posterior.save(tmp_path / "x.draws")
    loaded = dc.results.PosteriorDraws.load(tmp_path / "x.draws")
    for query in (*IMPOSSIBLE, "P(cause, place)", "P(births)"):
        assert ends(loaded, query) == ends(posterior, query)
