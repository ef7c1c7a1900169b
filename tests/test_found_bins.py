"""Bins that a release finds between wide bounds: the search, its privacy, what is charged, and what answers say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dc
from discreet.mechanisms import bin_search
from discreet.mechanisms.bin_search import FALSE_ALARM, find_bins, noise_tail
from discreet.mechanisms.noise import Noise
from discreet.model.round_numbers import FOUND_BINS, is_wide, round_numbers, typical_network, with_bins
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.queries.documents import answer_document, read_answer
from discreet.releases.kinds.found_bins import FoundBins, FoundBinsNoise, RoundCounts
from discreet.releases.policy import RecordsPolicy
from discreet.verify.made_up import NETWORKS
from discreet.verify.script import Script, ScriptedAnswers
from flawed import ADD_REMOVE, REPLACE, for_adding, misdrawn, promise
from folding import every
from shell import Shell, charges, opened
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

WAGE = dc.Variable("wage", bounds=(0, 1e7))
CITY = dc.Variable("city", ("no", "yes"))
NETWORK = dc.Network((CITY, WAGE), {"city": (), "wage": ("city",)})
TINY = dc.Network(
    (dc.Variable("a", ("no", "yes")), dc.Variable("x", bounds=(0, 60), type="integer")), {"a": (), "x": ("a",)}
)
ALONE = dc.Network.empty(TINY.variables[1:])
TWO = dc.Network(
    (dc.Variable("x", bounds=(0, 60), type="integer", missing="none"), dc.Variable("y", bounds=(-5, 9))),
    {"x": (), "y": ()},
)


def people(number: int = 8000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    lives = rng.integers(2, size=number)
    return pd.DataFrame({"city": np.array(CITY.states)[lives], "wage": rng.lognormal(7 + 0.4 * lives, 0.6).round(2)})


def simulated(frame: Any, network: dc.Network = NETWORK, seed: int = 2, epsilon: object = 1, **how: Any) -> dc.Release:
    counts = dc.count(dc.read_records(frame, network.schema, **how), network)
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise(epsilon, ADD_REMOVE), rng=seed)


# -------------------------------------------------------------------------------------------------------- round numbers


def test_round_numbers_lie_between_the_bounds_on_both_sides_of_0() -> None:
    assert round_numbers((-2, 3), "integer") == (-1.0, 0.0, 1.0, 2.0)
    cuts = round_numbers((-1e4, 1e4), "real")
    assert cuts == tuple(-cut for cut in cuts[::-1]) and len(cuts) == 2 * 64 + 1 - 0
    assert [cut for cut in round_numbers((0, 200), "integer") if cut > 9] == [10, 15, 20, 30, 40, 50, 60, 80, 100, 150]
    assert round_numbers((50, 120), "real") == (60.0, 80.0, 100.0)
    for bounds in ((0, 5e-324), (0, 1.7e308), (-1.7e308, 1e-300)):
        cuts = round_numbers(bounds, "real")
        assert all(bounds[0] < cut < bounds[1] for cut in cuts)


def test_a_network_takes_columns_with_bounds_alone() -> None:
    assert is_wide(NETWORK.schema["wage"]) and NETWORK.schema["wage"] == with_bins(WAGE)
    assert not is_wide(typical_network(NETWORK).schema["wage"])
    near = dc.Network.empty([dc.Variable("age", bounds=(18, 90)), dc.Variable("sons", bounds=(0, 3), type="integer")])
    assert near.schema["age"] == dc.Variable.binned("age", (18, 90), FOUND_BINS)
    assert near.schema["sons"].states == ("0", "1", "2", "3")
    one = dc.Variable("all", ("one bin",), bounds=(0, 1e6))
    assert dc.Network.empty([one]).schema["all"] == one
    gaps = dc.Network.empty([replace(WAGE, missing="none")]).schema["wage"]
    assert gaps.states[-1] == "none" and gaps.size == len(gaps.edges) and is_wide(gaps)


@every("bounds", [(5, 5), (5, 1), (0, math.inf), (0, math.nan), (-math.inf, 0)])
def test_bounds_without_width_are_refused_in_a_line(bounds: tuple[float, float]) -> None:
    with pytest.raises(dc.InputError, match="finite and strictly increasing") as refused:
        dc.Network.empty([dc.Variable("wage", bounds=bounds)])
    assert "\n" not in str(refused.value)


# ----------------------------------------------------------------------------------------------------------- the search


def test_the_tail_of_noise_is_that_of_its_law() -> None:
    reach = 1500
    for scale in (0.4, 3.0, 10.0):
        law = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
        both = law / law.sum()
        for number in (1, 2, 4, 8):
            for at in (0, 1, int(6 * scale), int(11 * scale)):
                exact = both[len(both) // 2 + at :].sum()
                assert noise_tail(np.array([at]), number, scale)[0] == pytest.approx(exact, rel=1e-9)
            both = np.convolve(both, both)
    assert noise_tail(np.array([-1, 0]), 8, 1e12) == pytest.approx([0.5, 0.5])


def noisy(counts: Any, scale: float, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(counts + DiscreteLaplace(scale).simulate(np.shape(counts), rng), np.int64)


def test_noise_alone_is_no_range_and_a_noisy_cell_no_top() -> None:
    """Of 400 columns of noise alone 1 in 10,000 at each end may seem occupied; P(2 or more) < 1 %."""
    variable, rng = with_bins(WAGE), np.random.default_rng(3)
    cells = len(variable.edges) - 1
    ranges = [bin_search._find_range(noisy(np.zeros(cells, np.int64), 20.0, rng), 20.0) for _ in range(400)]
    assert sum(found != (0, cells) for found in ranges) <= 1 and FALSE_ALARM == 0.0001
    counts = np.histogram(people().wage, variable.edges)[0]
    last = np.flatnonzero(counts)[-1]
    tops = [bin_search._find_range(noisy(counts, 10.0, rng), 10.0)[1] for _ in range(400)]
    assert sum(top > last + 1 for top in tops) <= 1


def test_bins_hold_few_records_and_are_narrow() -> None:
    variable = with_bins(dc.Variable("x", bounds=(-1e6, 1e6)))
    rng = np.random.default_rng(4)
    for numbers in (rng.normal(0, 20, 9000), rng.exponential(100, 9000), np.repeat([1.0, 900.0], 4500), -people().wage):
        counts = np.histogram(numbers, variable.edges)[0]
        found = find_bins(variable, noisy(counts, 10.0, rng), 10.0)
        low, *_, high = found.edges
        assert 2 <= len(found.bins) + 1 <= FOUND_BINS and high <= 4 * np.abs(numbers).max()
        assert np.diff(found.edges).max() <= 0.3 * (high - low)
        assert ((numbers < low) | (numbers >= high)).mean() < 0.02


def test_whole_numbers_have_whole_bins() -> None:
    for numbers in (np.zeros(5000), np.repeat([0, 1], 2500), np.random.default_rng(5).poisson(40, 9000)):
        variable = with_bins(dc.Variable("x", bounds=(0, 1e6), type="integer"))
        found = find_bins(variable, np.histogram(numbers, variable.edges)[0], 5.0)
        assert found.type == "integer" and found.bounds is not None and found.bounds[1] >= numbers.max()
        assert all(edge == int(edge) for edge in found.edges)


def test_where_nothing_is_seen_the_bounds_stay() -> None:
    for frame in (people(0), people(30)):
        release = simulated(frame, epsilon="0.1")
        assert release.network.schema["wage"].bounds == WAGE.bounds
        assert release.payload.clipped(1) == {}
    gaps = dc.Network.empty([dc.Variable("wage", bounds=(0, 1e7), missing="none")])
    table = pa.table({"wage": pa.array([None] * 500, pa.float64())})
    release = simulated(table, gaps, missing="keep")
    assert release.network.schema["wage"].bounds == WAGE.bounds
    assert release.network.schema["wage"].missing == "none"


# ---------------------------------------------------------------------------------------------------------- the release


def test_a_release_finds_bins_by_default_and_reads_the_same_from_every_source(tmp_path: Path) -> None:
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    import duckdb

    with duckdb.connect(str(tmp_path / "people.db")) as database:
        database.execute("create table people as select * from frame")
    first = simulated(frame)
    assert isinstance(first.payload, FoundBins) and isinstance(first.calibration, FoundBinsNoise)
    (low, high), names = first.network.schema["wage"].bounds, [column.number for column in first.payload.columns]  # type: ignore[misc]
    assert low == 0 and 5_000 < high < 40_000 and names == ["wage"]
    assert first.prior.over == first.payload.over == first.network
    for source, how in (
        (str(tmp_path / "people.csv"), {}),
        (str(tmp_path / "people.parquet"), {}),
        (f"duckdb:///{tmp_path}/people.db", {"table": "people"}),
    ):
        again = simulated(source, **how)
        assert again.dumps()[200:] == first.dumps()[200:], source
    read = dc.Release.loads(first.dumps())
    assert read.dumps() == first.dumps()
    assert {row["variables"] for row in read.tidy() if str(row["states"]).startswith("from ")} == {"wage"}
    assert "bins found of 'wage'" in str(read.payload.summary(read.calibration))


def test_both_stages_are_one_charge(tmp_path: Path) -> None:
    counts, prior = dc.count(dc.read_records(people(), NETWORK.schema), NETWORK), dc.Dirichlet.uniform(NETWORK)
    book = dc.Ledger(f"sqlite:///{tmp_path}/ledger.db")
    account = book.open("people", promise(2, ADD_REMOVE))
    release = dc.release(dc.planned(), counts, prior, promise(1, ADD_REMOVE), account=account)
    (charge,) = account.charges()
    assert charge.release == release.id and account.balance().epsilon_spent == 1
    assert isinstance(release.calibration, FoundBinsNoise)
    assert release.calibration.total <= 1 and float(release.calibration.reported) == pytest.approx(0.1)


def refusals() -> Iterator[tuple[Callable[[], Any], str]]:
    """What is refused, of a release over wide bounds."""

    def released(
        mechanism: dc.tools.Mechanism | None = None,
        frame: Any = None,
        prior: Any = None,
        epsilon: object = 1,
        **how: Any,
    ) -> Callable[[], Any]:
        def run() -> Any:
            counts = dc.count(dc.read_records(people(50) if frame is None else frame, NETWORK.schema, **how), NETWORK)
            account = dc.Ledger("sqlite://").open("people", promise(2, ADD_REMOVE))
            try:
                return dc.release(
                    mechanism or dc.planned(),
                    counts,
                    prior or dc.Dirichlet.uniform(NETWORK),
                    promise(epsilon, ADD_REMOVE),
                    account=account,
                )
            finally:
                assert account.balance().epsilon_spent == 0

        return run

    skewed = dc.Dirichlet(
        dc.Tables(NETWORK, {node: 1.0 + np.indices(NETWORK.shape(node)).sum(0) for node in ("city", "wage")})
    )
    for mechanism in (dc.laplace(), dc.structure()):
        yield released(mechanism), "finds no bins: declare bins of wage, or release with planned"
    yield released(prior=skewed), "bins that are yet to be found have no prior of their own"
    yield released(epsilon=3), "cannot pay"
    yield released(epsilon="1e-17"), "epsilon is too small"
    yield released(frame=people(9).assign(wage=2e7)), "out of bounds in column 'wage'"
    yield released(frame=people(9).assign(wage=[math.nan] * 9)), "missing value, an unknown state"
    yield lambda: dc.planned(bins_share=0), "finding bins costs a share of epsilon above 0"
    yield lambda: dc.planned(bins_share=1), "bins_share is a share of epsilon for bins, from 0 to below 1"
    yield (
        lambda: dc.count(dc.read_records(people(9), NETWORK.schema), NETWORK, cell_limit=10),
        "the table of 'wage' given 1 parents has 20 cells",
    )


@every(("refused", "words"), list(refusals()))
def test_what_is_refused_is_one_line_and_costs_nothing(refused: Callable[[], Any], words: str) -> None:
    with pytest.raises(dc.DiscreetError, match=words) as error:
        refused()
    assert "\n" not in str(error.value)


def test_the_prior_of_found_bins_says_what_the_declared_one_did() -> None:
    counts = dc.count(dc.read_records(people(), NETWORK.schema), NETWORK)
    for prior, total in (
        (dc.Dirichlet.uniform(NETWORK, 0.5), None),
        (
            dc.Dirichlet.per_node(NETWORK, {node: 10 / NETWORK.cells(NETWORK.family(node)) for node in NETWORK.nodes}),
            10,
        ),
    ):
        release = dc.simulate(dc.planned(), counts, prior, promise(1, ADD_REMOVE), rng=6)
        for table in release.dirichlet.alpha.values():
            assert table.sum() == pytest.approx(total or 0.5 * table.size)


def test_counts_of_codes_are_released_between_round_numbers() -> None:
    codes = dc.tools.count_codes(NETWORK, {"city": [0, 1], "wage": [3, 5]})
    release = dc.simulate(dc.planned(), codes, dc.Dirichlet.uniform(NETWORK), promise(1, ADD_REMOVE), rng=1)
    assert release.network == NETWORK and not isinstance(release.payload, FoundBins)


# ------------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.costly("Both stages, exactly, over all neighbours: whether they keep the promise together.", always=True)
@every("relation", [ADD_REMOVE, REPLACE])
def test_both_stages_keep_their_guarantee(relation: dc.Relation) -> None:
    (found,) = dc.audit(dc.planned(), promise(1, relation), {"found": TINY}, most=1)
    assert found.exact and found.holds and not found.leak and found.pairs > 100
    assert 0.95 < found.measured <= 1 + 1e-9


@pytest.mark.costly("Units of several records add to both stages, and gaps to none.", always=True)
def test_units_of_several_records_and_gaps_keep_their_guarantee() -> None:
    policy = RecordsPolicy("error", "clip", unit_column="who", max_records=3)
    for network, how in ((ALONE, {"policy": policy}), (TWO, {})):
        (found,) = dc.audit(dc.planned(), promise(1, ADD_REMOVE), {"found": network}, most=1, **how)  # type: ignore[arg-type]
        assert found.exact and found.holds and not found.leak and found.measured > 0.9


def first_stage(network: dc.Network, data: Any, calibration: FoundBinsNoise) -> list[np.ndarray]:
    """What the first stage gives to the source of noise, with the scale that it asks for."""
    script = Script(ScriptedAnswers())
    dc.planned().draw(
        NETWORKS.statistic_from(dc.planned(), network, data), dc.Dirichlet.uniform(network), calibration, script
    )  # type: ignore[arg-type]
    calls = script.laplace[: calibration.columns]
    assert all(scale == calibration.scale for _, scale, _ in calls)
    return [values for values, _, _ in calls]


@every("relation", [ADD_REMOVE, REPLACE])
def test_a_record_moves_the_first_stage_by_what_it_costs(relation: dc.Relation) -> None:
    """Over all neighbours of data sets of up to two records, at both ends of some cells, beyond them, and missing."""
    calibration = dc.planned().calibrate(TWO, dc.Dirichlet.uniform(TWO), promise(1, relation))
    gap = TWO.schema["x"].size - 1
    kinds = [(x, y) for x in (-3.0, 0.0, 7.0, 8.0, 70.0, gap) for y in (-9.0, 0.0, 0.5, 20.0)]
    largest = 0.0
    for size in (0, 1):
        for rest in combinations_with_replacement(kinds[::5], size):
            with_one = [first_stage(TWO, [*rest, record], calibration) for record in kinds]
            others = [first_stage(TWO, rest, calibration)] if relation is ADD_REMOVE else with_one
            for values in with_one:
                for other in others:
                    moved = sum(int(np.abs(u - v).sum()) for u, v in zip(values, other, strict=True))
                    largest = max(largest, moved / calibration.scale)
                    assert moved / calibration.scale <= calibration.reported
    assert largest == pytest.approx(float(calibration.reported)) == pytest.approx(0.15)
    assert calibration.reported + calibration.epsilon == 1 and calibration.total <= 1


def two_columns_at_the_price_of_one() -> dc.tools.Mechanism:
    def half(own: FoundBinsNoise) -> FoundBinsNoise:
        return replace(own, scale=own.scale / own.columns)

    return misdrawn(dc.planned(), half)


def bins_of_the_records() -> dc.tools.Mechanism:
    """Of tables alone, whose counts are the same whatever the bounds: the bins say it, and nothing else."""
    alone = dc.planned(numbers_share=0)

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: FoundBinsNoise, noise: Noise) -> Any:
        honest = find_bins

        def peek(variable: dc.Variable, noisy: np.ndarray, scale: float) -> dc.Variable:
            top = int(np.flatnonzero(counts.tables[variable.name])[-1:].sum()) + 3
            return replace(
                honest(variable, noisy, scale), states=(), bounds=(0, 49 if top % 2 else 60), bins=(20.0, 30.0)
            )

        bin_search.find_bins = peek  # type: ignore[assignment]
        try:
            return alone.draw(counts, prior, own, noise)
        finally:
            bin_search.find_bins = honest

    return replace(alone, draw=draw)


def a_first_stage_without_noise() -> dc.tools.Mechanism:
    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: FoundBinsNoise, noise: Noise) -> Any:
        made = dc.planned().draw(counts, prior, own, noise)
        assert isinstance(made, FoundBins)
        exact = [replace(column, counts=counts.tables[column.number][: len(column.counts)]) for column in made.columns]
        return replace(made, columns=tuple(exact))

    return replace(dc.planned(), draw=draw)


def half_the_noise_of_the_second_stage() -> dc.tools.Mechanism:
    return misdrawn(dc.planned(), lambda own: replace(own, epsilon=2 * own.epsilon))


FLAWS: dict[str, tuple[Callable[[], dc.tools.Mechanism], dc.Network]] = {
    "two columns at the price of one": (two_columns_at_the_price_of_one, TWO),
    "bins of the records": (bins_of_the_records, ALONE),
    "a first stage without noise": (a_first_stage_without_noise, ALONE),
    "half the noise of the second stage": (half_the_noise_of_the_second_stage, ALONE),
    "replacing at the price of adding": (lambda: for_adding(dc.planned()), ALONE),
}


@pytest.mark.costly("An audit that finds nothing would pass any search for bins.", always=True)
@every("name", FLAWS)
def test_planted_bugs_are_found(name: str) -> None:
    make, network = FLAWS[name]
    relation = REPLACE if "replacing" in name else ADD_REMOVE
    (found,) = dc.audit(make(), promise(1, relation), {"found": network}, most=1)
    assert not found.holds


# ------------------------------------------------------------------------------------------------------------- answers


@every("weights", ["record", "unit"])
def test_how_many_lie_beyond_is_said_of_what_was_counted(weights: str) -> None:
    """Records of units that count as they are, and units whose records share a count, which tables hold in steps."""
    frame = people(40_000).assign(wage=lambda known: np.where(known.index % 250, known.wage, 6e5), who=range(40_000))
    frame["who"] //= 2
    how = {"unit_column": "who", "max_records": 2, "weights": weights}
    policy = dc.read_records(frame, NETWORK.schema, **how).policy
    release = simulated(frame, **how)
    (sentence,) = dc.answer(dc.noise_aware(release, draws=100, rng=1), "E(wage)").clipped
    about = int(sentence.partition("; about ")[2].partition(" ")[0].replace(",", ""))
    assert (policy.steps, policy.steps_of_one) == ((2, 1) if weights == "record" else (2, 2))
    (column,) = release.payload.columns  # type: ignore[attr-defined]
    beyond = np.array(column.edges[:-1]) >= release.network.schema["wage"].edges[-1]
    assert about == round(max(column.counts[beyond].sum() / policy.steps_of_one, 0)) > 0


def test_answers_are_of_the_clipped_column_and_say_how_many_lie_beyond() -> None:
    frame = people(40_000).assign(wage=lambda known: np.where(known.index % 500, known.wage, 6e5))
    release = simulated(frame)
    low, high = release.network.schema["wage"].bounds or (0, 0)
    assert high < 1e5, high
    (row,) = release.payload.columns[0].outside(release.network.schema["wage"], 1)  # type: ignore[attr-defined]
    beyond = int((frame.wage >= high).sum())
    assert row["lower"] <= beyond <= row["upper"] and row["upper"] - row["lower"] < 400 and beyond >= 80
    posterior = dc.noise_aware(release, draws=400, rng=1)
    answer = dc.answer(posterior, "E(wage | city=yes)")
    (sentence,) = answer.clipped
    assert sentence.startswith(f"wage counts as {low:g} to {high:g}, whatever is beyond; about ")
    assert sentence in str(answer.summary()) and "above" in sentence
    assert read_answer(json.loads(json.dumps(answer_document(answer)))) == answer
    (told,) = answer.tidy()
    clipped = np.minimum(frame.wage, high)[frame.city == "yes"]
    assert told["lower"] < clipped.mean() < told["upper"]
    assert dc.answer(posterior, "P(city=yes)").clipped == ()
    assert sentence in dc.regress(posterior, "wage", on=["city"]).assumes


def test_the_number_beyond_has_an_interval_that_holds() -> None:
    """In 400 releases of the first stage 95 % intervals hold the number in 372 to 392: P < 1 % beyond."""
    variable, rng = with_bins(dc.Variable("x", bounds=(-1e6, 1e6))), np.random.default_rng(7)
    numbers = rng.standard_t(1.5, 20_000) * 30
    counts = np.histogram(numbers, variable.edges)[0]
    held = []
    for _ in range(200):
        part = RoundCounts("x", variable.edges, noisy(counts, 20.0, rng), 20.0)
        found = find_bins(variable, part.counts, 20.0)
        low, *_, high = found.edges
        truths = {"below": (numbers < low).sum(), "above": (numbers >= high).sum()}
        held += [row["lower"] <= truths[row["states"].split()[0]] <= row["upper"] for row in part.outside(found, 1)]
    assert len(held) == 400 and 372 <= sum(held) <= 392
    (one, *_), (three, *_) = (part.outside(found, steps) for steps in (1, 3))
    assert three["value"] == pytest.approx(one["value"] / 3)


def test_payloads_that_do_not_fit_are_refused() -> None:
    made = simulated(people())
    payload, (column,) = made.payload, made.payload.columns  # type: ignore[attr-defined]
    for wrong, words in (
        ((replace(column, edges=column.edges[1:]),), "rising ends, and a count each"),
        ((replace(column, number="city"),), "numeric columns, each once"),
        ((column, column), "numeric columns, each once"),
        ((), "of a column at least"),
        (
            (replace(column, edges=tuple(edge / 1e6 for edge in column.edges)),),
            "must begin and end where cells of it do",
        ),
    ):
        with pytest.raises(dc.InputError, match=words):
            replace(payload, columns=wrong)  # type: ignore[type-var]
    assert not payload.agrees(replace(made.calibration, scale=1.0))  # type: ignore[type-var]


# ----------------------------------------------------------------------------------------------------------- the shell


PROJECT = """
arcs = ["city -> wage"]
[source]
data = "people.csv"
[account]
name = "add-remove"
[[variables]]
name = "city"
states = ["no", "yes"]
[[variables]]
name = "wage"
bounds = [0, 1e7]
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def test_a_project_file_with_bounds_alone_gets_bins(run: Shell) -> None:
    people().to_csv("people.csv", index=False)
    Path("study.toml").write_text(PROJECT)
    plan = "plan --network study.toml --epsilon 1 --records 800 --mechanism planned --repeats 1 --relation add-remove"
    words = "bins of wage are found first, with epsilon 0.1, a share of 0.1; the tables are those of 10 bins"
    assert words in run(plan)[1]
    assert run.json(plan)["plans"]["add-remove"]["bins"]["epsilon"].startswith("0.09999999")
    code, out, err = run("release study.toml --epsilon 1 --output r.json")
    assert code == 0 and "bins found of 'wage'" in out + err and charges() == 1
    _, answer, _ = run('query r.json "E(wage)" --draws 200')
    assert "wage counts as 0 to " in answer and "are above" in answer
    assert "declare bins of wage" in run.fails("release study.toml --epsilon 1 --mechanism laplace --output l.json")
    assert charges() == 1


@pytest.mark.costly("Another place of the plan says that bins are to be found; it makes up many releases.")
def test_a_plan_for_an_accuracy_says_that_bins_are_found(run: Shell) -> None:
    Path("study.toml").write_text(PROJECT)
    assert "finding them takes" in run('plan "P(city)" --within 0.05 --network study.toml --records 8000')[1]


# -------------------------------------------------------------------------------------- after the charge, and before


@every("bounds", [(-1000.0, -1.0), (-273.0, -0.1), (5.0, 4000.0), (-1e6, 1e6)])
def test_bins_are_found_on_either_side_of_0(bounds: tuple[float, float]) -> None:
    """Of noise alone, and of records near one end; a hundred draws of the noise each."""
    wide = with_bins(dc.Variable("x", bounds=bounds))
    rng = np.random.default_rng(3)
    for counts in (np.zeros(wide.size, np.int64), np.eye(wide.size, dtype=np.int64)[-2] * 5000):
        for _ in range(100):
            found = find_bins(wide, noisy(counts, 20.0, rng), 20.0)
            assert bounds[0] <= found.edges[0] < found.edges[-1] <= bounds[1] and found.size <= FOUND_BINS


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_a_table_that_changes_between_its_counts_is_refused_in_words_that_are_true(
    relation: dc.Relation, tmp_path: Path
) -> None:
    """The charge stays; under `replace` a table of another length is refused, too."""
    path = tmp_path / "people.parquet"
    people(800).to_parquet(path)
    records = dc.read_records(path, NETWORK.schema)
    counts = dc.count(records, NETWORK)
    if relation is REPLACE:
        people(500).to_parquet(path)
    else:
        people(800).assign(city="nowhere").to_parquet(path)
    account = dc.Ledger("sqlite://").open("people", promise(1, relation))
    with pytest.raises(dc.InputError, match="changed after it was counted; the charge stays") as refused:
        dc.release(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise(1, relation), account=account)
    assert "nothing was spent" not in str(refused.value) and account.balance().epsilon_left == 0


def test_a_state_of_bins_that_are_yet_to_be_found_is_refused_before_the_charge() -> None:
    counts = dc.count(dc.read_records(people(800), NETWORK.schema), NETWORK)
    account = dc.Ledger("sqlite://").open("people", promise(1, ADD_REMOVE))
    state = typical_network(NETWORK).schema["wage"].values[0]
    prior = dc.Dirichlet.uniform(NETWORK)
    with pytest.raises(dc.InputError, match="state"):
        mechanism = dc.planned(workload=[f'P(city | wage="{state}")'])
        dc.release(mechanism, counts, prior, promise(1, ADD_REMOVE), account=account)
    assert account.balance().epsilon_left == 1


@pytest.mark.costly("A plan makes up many releases.")
def test_a_plan_is_over_bins_as_they_may_be_found() -> None:
    """From Python as from the shell: not over all round numbers, of which no release is made."""
    wide, typical = (
        dc.plan_accuracy(network, ["P(city)"], None, 2000, guarantee=promise(1, ADD_REMOVE), rng=0)
        for network in (NETWORK, typical_network(NETWORK))
    )
    assert wide.questions == typical.questions
