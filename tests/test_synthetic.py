"""Synthetic records: their law, their types, their edges, their files."""

from __future__ import annotations

import datetime
import tracemalloc
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import discreet as dc
from discreet.inference import sampling
from discreet.inference.bin_laws import BinLaw
from discreet.model.query_grammar import NumberRange, parse_evidence
from discreet.queries.synthetic import (
    format_of,
    sample,
    sample_codes,
    sample_set,
    simulate_records,
    stream_records,
    write_records,
)
from discreet.util.option_texts import FileFormat
from folding import every
from networks import asia, theta_of
from oracle import full_joint, random_draws, with_draws
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

FALSE_ALARM = 1e-8


def chi_square(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Probability of a larger statistic; cells with an expected count below 20 are taken together."""
    expected = probabilities * observed.sum()
    large = expected >= 20
    pooled = np.append(observed[large], observed[~large].sum()), np.append(expected[large], expected[~large].sum())
    kept = pooled[1] > 0
    statistic = np.sum((pooled[0][kept] - pooled[1][kept]) ** 2 / pooled[1][kept])
    return float(stats.chi2.sf(statistic, kept.sum() - 1))


def joint_counts(table: pa.Table, schema: dc.Schema) -> np.ndarray:
    codes = [np.array([variable.code(state) for state in table[variable.name].to_pylist()]) for variable in schema]
    sizes = tuple(variable.size for variable in schema)
    return np.bincount(np.ravel_multi_index(codes, sizes), minlength=int(np.prod(sizes)))


@every("source", ["asia", "random"])
def test_frequencies_are_those_of_the_joint(source: str) -> None:
    """One chi-square test each over all 256 joint states; the bundled network has states that must never occur."""
    theta = asia()
    if source == "random":
        cells = random_draws(theta.network, 1, seed=1)
        theta = dc.Tables(theta.network, {node: cells[node][..., 0] for node in cells})
    joint = full_joint(with_draws(theta)).ravel()
    observed = joint_counts(simulate_records(theta, 40_000, rng=np.random.default_rng(2)), theta.network.schema)
    assert observed.sum() == 40_000
    assert not observed[joint == 0].any()
    assert chi_square(observed, joint) > FALSE_ALARM


def test_the_chi_square_would_notice_swapped_states() -> None:
    theta = asia()
    swapped = dc.Tables(theta.network, {n: t[..., ::-1] if n == "bronc" else t for n, t in theta.items()})
    observed = joint_counts(simulate_records(swapped, 40_000, rng=np.random.default_rng(2)), theta.network.schema)
    assert chi_square(observed, full_joint(with_draws(theta)).ravel()) < FALSE_ALARM


def test_parents_in_any_order_and_sizes() -> None:
    """A child listed before its parents, whose parents are in another order than the schema."""
    parts = (dc.Variable("c", ("x", "y")), dc.Variable("a", ("0", "1", "2")), dc.Variable("b", ("s", "t")))
    network = dc.Network(parts, {"c": ("b", "a"), "a": (), "b": ("a",)})
    cells = random_draws(network, 1, seed=3)
    theta = dc.Tables(network, {node: cells[node][..., 0] for node in cells})
    table = simulate_records(theta, 30_000, rng=np.random.default_rng(4))
    assert table.column_names == ["c", "a", "b"]
    joint = full_joint(with_draws(theta)).ravel()
    assert chi_square(joint_counts(table, network.schema), joint) > FALSE_ALARM


def numeric() -> dc.Tables:
    """Ages in three bins and a price with named bins, which depend on each other."""
    age = dc.Variable("age", bounds=(0, 120), bins=(18, 65))
    price = dc.Variable("price", ("low", "high"), bounds=(-1.5, 3), bins=(0.25,))
    network = dc.Network((age, price), {"age": (), "price": ("age",)})
    return dc.Tables(network, {"age": [0.2, 0.5, 0.3], "price": [[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]]})


def test_numbers_fall_into_their_bins_by_the_smooth_law() -> None:
    theta = numeric()
    n = 20_000
    table = simulate_records(theta, n, rng=np.random.default_rng(5))
    codes = sample_codes(theta, n, np.random.default_rng(5))
    assert table.schema.types == [pa.float64(), pa.float64()]
    for variable in theta.network.schema:
        values = table[variable.name].to_numpy()
        edges = np.array([variable.bounds[0], *variable.bins, variable.bounds[1]])
        assert np.all((values >= edges[0]) & (values <= edges[-1]))
        assert np.array_equal(np.searchsorted(variable.bins, values, side="right"), codes[variable.name])
        law = BinLaw.of_bins(
            variable, full_joint(with_draws(theta)).sum(axis=1 if variable.name == "age" else 0).reshape(-1, 1)
        )
        # Kolmogorov-Smirnov over all bins together: false alarm 1e-8.
        assert stats.kstest([law.up_to(value)[0] for value in values], "uniform").pvalue > FALSE_ALARM
    counts = np.zeros((3, 2))
    np.add.at(counts, (codes["age"], codes["price"]), 1)
    assert counts[0, 1] == 0
    assert chi_square(counts.ravel(), full_joint(with_draws(theta)).ravel()) > FALSE_ALARM


def test_numbers_of_narrow_bins_stay_in_them() -> None:
    """Seconds since 1970 in bins of a microsecond: a sum that is rounded up must not reach the next bin."""
    start = 1_700_000_000.0
    cuts = (start + 1e-6, start + 2e-6)
    clock = dc.Variable("clock", ("first", "second", "third"), bounds=(start, start + 3e-6), bins=cuts)
    theta = dc.Tables(dc.Network((clock,), {"clock": ()}), {"clock": [0.0, 1.0, 0.0]})
    values = simulate_records(theta, 1000, rng=np.random.default_rng(6))["clock"].to_numpy()
    assert np.all((values >= clock.bins[0]) & (values < clock.bins[1]))


def test_records_pass_their_own_schema() -> None:
    """What is sampled can be read and counted again."""
    for theta in (numeric(), asia(), theta_of("child")):
        table = simulate_records(theta, 500, rng=np.random.default_rng(7))
        counts = dc.count(dc.read_records(table, theta.network.schema, missing="error"), theta.network)
        codes = sample_codes(theta, 500, np.random.default_rng(7))
        for node in theta.network.nodes:
            expected = np.zeros(theta.network.shape(node), np.int64)
            np.add.at(expected, tuple(codes[name] for name in theta.network.family(node)), 1)
            assert np.array_equal(counts.tables[node], expected)


def test_no_records() -> None:
    for theta in (asia(), numeric()):
        table = simulate_records(theta, 0, rng=np.random.default_rng(8))
        assert table.num_rows == 0
        assert table.column_names == list(theta.network.nodes)
        assert table.schema == simulate_records(theta, 3, rng=np.random.default_rng(8)).schema


def test_seeds() -> None:
    first, second, other = (simulate_records(asia(), 50, rng=np.random.default_rng(seed)) for seed in (9, 9, 10))
    assert first == second
    assert first != other


def test_a_negative_number_of_records() -> None:
    with pytest.raises(dc.InputError, match="cannot sample -1 records"):
        simulate_records(asia(), -1, rng=np.random.default_rng(0))


def test_states_of_probability_0_are_never_drawn() -> None:
    """Zeros before, between and after: also where the generator returns exactly 0 or just below 1."""

    class Edges(np.random.Generator):
        def random(self, size: int) -> np.ndarray:
            return np.resize([0.0, 0.5, np.nextafter(1.0, 0.0)], size)

    network = dc.Network((dc.Variable("x", tuple("abcde")),), {"x": ()})
    for positive in product((False, True), repeat=5):
        if any(positive):
            row = np.array(positive) / sum(positive)
            codes = sample_codes(dc.Tables(network, {"x": row}), 30, Edges(np.random.PCG64(0)))["x"]
            assert np.all(row[codes] > 0)


def test_looking_up_probabilities_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sample_codes(asia(), 1000, np.random.default_rng(11))
    monkeypatch.setattr(sampling, "PROBABILITIES_AT_ONCE", 17)
    parts = sample_codes(asia(), 1000, np.random.default_rng(11))
    assert all(np.array_equal(whole[node], parts[node]) for node in whole)


# ------------------------------------------------------------------------------------------ sets from a posterior


def certain(draws: int) -> dc.results.PosteriorDraws:
    """Two independent variables; in draw s both are surely in state s."""
    states = tuple(str(state) for state in range(draws))
    network = dc.Network((dc.Variable("a", states), dc.Variable("b", states)), {"a": (), "b": ()})
    return dc.results.PosteriorDraws(dc.Tables(network, {"a": np.eye(draws), "b": np.eye(draws)}, draws=draws))


def coin(draws: int, rng: np.random.Generator) -> dc.results.PosteriorDraws:
    """A coin of which nothing is known: its probability is uniform."""
    network = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
    return dc.results.PosteriorDraws(dc.Dirichlet.uniform(network, 1.0).draw(draws, rng=rng))


def test_the_records_of_a_set_have_the_joint_law_of_its_draw() -> None:
    """Over blocks of all sizes; one chi-square test over 256 joint states."""
    theta = asia()
    (stream,) = sample(dc.results.PosteriorDraws(with_draws(theta)), 40_000, rng=np.random.default_rng(12), block=7_001)
    batches = list(stream)
    assert [batch.num_rows for batch in batches] == [7_001] * 5 + [40_000 - 5 * 7_001]
    observed = joint_counts(pa.Table.from_batches(batches), theta.network.schema)
    joint = full_joint(with_draws(theta)).ravel()
    assert not observed[joint == 0].any()
    assert chi_square(observed, joint) > FALSE_ALARM


def test_every_set_is_of_one_joint_draw_and_no_two_sets_of_the_same() -> None:
    tables = [stream.read_all() for stream in sample(certain(9), 20, rng=np.random.default_rng(13), sets=9, block=6)]
    assert all(table["a"] == table["b"] for table in tables)
    assert all(len(set(table["a"].to_pylist())) == 1 for table in tables)
    assert sorted(table["a"][0].as_py() for table in tables) == [str(state) for state in range(9)]


def test_records_of_a_set_share_what_is_not_known() -> None:
    """Two flips of an unknown coin agree with probability 2/3, of the mean coin 1/2; binomial, false alarm 1e-8."""
    rng = np.random.default_rng(14)
    flips = [stream.read_all()["coin"].to_pylist() for stream in sample(coin(3000, rng), 2, rng=rng, sets=3000)]
    agree = sum(first == second for first, second in flips)
    assert stats.binomtest(agree, 3000, 2 / 3).pvalue > FALSE_ALARM
    assert stats.binomtest(agree, 3000, 1 / 2).pvalue < FALSE_ALARM


def test_one_set_by_itself_is_of_the_mean_of_all_draws() -> None:
    """Two draws that have a and b in the same state; their mean has both states, and a tells b."""
    table = sample(certain(2), 4_000, rng=np.random.default_rng(14))[0].read_all()
    joint = joint_counts(table, certain(2).network.schema).reshape(2, 2)
    # No arc joins a and b: the network's rows are all that a mean of rows can hold, whatever draws have in common.
    assert chi_square(joint.ravel(), np.full(4, 0.25)) > FALSE_ALARM
    chain = dc.Network(certain(2).network.variables, {"a": (), "b": ("a",)})
    rows = np.stack([np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.0, 1.0]])], axis=-1)
    posterior = dc.results.PosteriorDraws(dc.Tables(chain, {"a": np.eye(2), "b": rows}, draws=2))
    table = sample(posterior, 4_000, rng=np.random.default_rng(15))[0].read_all()
    joint = joint_counts(table, chain.schema).reshape(2, 2)
    # P(b | a) is that of the draws that have a: rows of impossible parents count for nothing.
    assert joint[0, 1] == joint[1, 0] == 0
    assert chi_square(joint[[0, 1], [0, 1]], np.full(2, 0.5)) > FALSE_ALARM


def test_sets_differ_even_where_their_probabilities_do_not() -> None:
    posterior = dc.results.PosteriorDraws(
        dc.Tables(asia().network, lambda node: with_draws(asia())[node].repeat(2, -1), draws=2)
    )
    first, second = (stream.read_all() for stream in sample(posterior, 100, rng=np.random.default_rng(15), sets=2))
    assert first != second


def test_a_seed_gives_the_same_sets_in_any_order_of_reading() -> None:
    def read(seed: int, order: tuple[int, ...]) -> list[pa.Table]:
        rng = np.random.default_rng(seed)
        streams = sample(coin(10, rng), 50, rng=rng, sets=3, block=20)
        tables = {index: streams[index].read_all() for index in order}
        return [tables[index] for index in range(3)]

    assert read(16, (0, 1, 2)) == read(16, (2, 0, 1))
    assert read(16, (0, 1, 2)) != read(17, (0, 1, 2))


def test_many_columns_take_smaller_blocks() -> None:
    parts = tuple(dc.Variable(f"v{index}", ("x", "y")) for index in range(1000))
    network = dc.Network(parts, {part.name: () for part in parts})
    cells = dc.Tables(network, lambda _: np.full((2, 1), 0.5), draws=1)
    (stream,) = sample(dc.results.PosteriorDraws(cells), 5000, rng=np.random.default_rng(18))
    assert [batch.num_rows for batch in stream] == [2097, 2097, 806]


@every("theta", [asia(), numeric()], ids=["asia", "numeric"])
def test_streams_have_one_schema_and_may_be_empty(theta: dc.Tables) -> None:
    posterior = dc.results.PosteriorDraws(with_draws(theta))
    wanted = simulate_records(theta, 1, rng=np.random.default_rng(19)).schema
    for n in (0, 3):
        (stream,) = sample(posterior, n, rng=np.random.default_rng(19))
        assert stream.schema == wanted
        assert stream.read_all().num_rows == n


def test_records_given_evidence_have_the_law_given_it() -> None:
    """In blocks of any size, of which none is full of what is kept; one chi-square test over the 64 states left."""
    theta = asia()
    posterior, rng = dc.results.PosteriorDraws(with_draws(theta)), np.random.default_rng(30)
    (stream,) = sample(posterior, 20_000, given="smoke=yes, dysp=no", rng=rng, block=3_000)
    batches = list(stream)
    assert [batch.num_rows for batch in batches] == [3_000] * 6 + [2_000]
    observed = joint_counts(pa.Table.from_batches(batches), theta.network.schema)
    joint, schema = full_joint(with_draws(theta)).ravel(), theta.network.schema
    states = dict(zip(schema.names, np.unravel_index(np.arange(joint.size), [v.size for v in schema]), strict=True))
    held = (states["smoke"] == schema["smoke"].code("yes")) & (states["dysp"] == schema["dysp"].code("no"))
    joint = np.where(held, joint, 0.0)
    assert not observed[joint == 0].any()
    assert chi_square(observed, joint / joint.sum()) > FALSE_ALARM


@every("given", ["x > 3, x <= 12.5", "x < 3", "k = 4", "k > 4, x < 15", "x >= 3, k <= 3"])
def test_numbers_given_evidence_lie_in_its_range(given: str) -> None:
    """The share that has it is that among all records, 5 standard deviations either way (1e-6)."""
    x, k = dc.Variable("x", bounds=(0, 20), bins=(5, 10)), dc.Variable("k", bounds=(0, 9), bins=(4,), type="integer")
    network = dc.Network((x, k), {"x": (), "k": ("x",)})
    theta = dc.Tables(network, {"x": [0.2, 0.5, 0.3], "k": [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]})
    posterior = dc.results.PosteriorDraws(with_draws(theta))
    parsed = parse_evidence(given, theta.network.schema)

    def holds(table: pa.Table) -> np.ndarray:
        kept = np.ones(table.num_rows, bool)
        for name, seen in parsed:
            assert isinstance(seen, NumberRange)
            column = table[name].to_numpy()
            kept &= (column > seen.low if seen.above else column >= seen.low) & (
                column < seen.high if seen.below else column <= seen.high
            )
        return kept

    table = sample(posterior, 2_000, given=given, rng=np.random.default_rng(31))[0].read_all()
    everybody = sample(posterior, 20_000, rng=np.random.default_rng(32))[0].read_all()
    matching = everybody.filter(pa.array(holds(everybody)))
    assert table.num_rows == 2_000
    assert holds(table).all()
    assert 100 < matching.num_rows < 20_000
    for name in theta.network.nodes:
        first, second = (each[name].to_numpy().astype(float) for each in (table, matching))
        error = np.hypot(first.std() / len(first) ** 0.5, second.std() / len(second) ** 0.5)
        assert abs(first.mean() - second.mean()) <= 5 * error + 1e-12, name


def test_evidence_of_dates_and_of_what_applies_is_kept() -> None:
    """Days are whole, so that the last one is in; a job applies to two of three ages."""
    day = dc.Variable("day", bounds=("2020-01-01", "2020-12-31"), bins=("2020-07-01",), type="date")
    age = dc.Variable("age", ("child", "adult", "old"))
    job = dc.Variable("job", ("desk", "field"), applies_if="age in {adult, old}", not_applicable="none")
    network = dc.Network((day, age, job), {"day": (), "age": (), "job": ("age",)})
    rows = {"day": [0.5, 0.5], "age": [0.4, 0.3, 0.3], "job": [[0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]}
    posterior = dc.results.PosteriorDraws(with_draws(dc.Tables(network, rows)))
    dated = (
        sample(posterior, 2_000, given="day >= 2020-06-01, day <= 2020-07-31", rng=2)[0].read_all()["day"].to_pylist()
    )
    assert (min(dated), max(dated)) == (datetime.date(2020, 6, 1), datetime.date(2020, 7, 31))
    working = sample(posterior, 2_000, given="job=applies", rng=3)[0].read_all()
    assert set(working["age"].to_pylist()) == {"adult", "old"} and working["job"].null_count == 0


def test_evidence_that_is_too_rare_is_refused_before_a_record_is_made() -> None:
    network = dc.Network((dc.Variable("a", ("no", "yes")),), {"a": ()})
    rare = dc.results.PosteriorDraws(dc.Tables(network, {"a": np.array([[0.9999], [0.0001]])}, draws=1))
    with pytest.raises(dc.InputError, match=r"records with a=yes are too rare to be made: \d+ of 65,536 have it"):
        sample(rare, 1, given="a=yes", rng=33)
    assert sample(rare, 0, given="a=yes", rng=33)[0].read_all().num_rows == 0
    half = coin(1, np.random.default_rng(34))
    with pytest.raises(dc.InputError, match="ask for fewer records"):
        sample_set(half, 1_000, 0, given="coin=heads", rng=33, most=1_000)
    for given, message in (("a=maybe", "maybe"), ("b=yes", "b"), ("a=", "a=")):
        with pytest.raises(dc.InputError, match=message):
            sample(rare, 1, given=given, rng=33)


def test_what_cannot_be_made_is_refused() -> None:
    posterior = coin(5, np.random.default_rng(20))
    for sets in (0, -1, 6):
        with pytest.raises(dc.InputError, match=f"asked for {sets} sets, the posterior has 5 draws"):
            sample(posterior, 10, rng=np.random.default_rng(0), sets=sets)
    with pytest.raises(dc.InputError, match="cannot sample -1 records"):
        sample(posterior, -1, rng=np.random.default_rng(0))
    with pytest.raises(dc.InputError, match="a block needs at least one record, got 0"):
        sample(posterior, 10, rng=np.random.default_rng(0), block=0)


# ------------------------------------------------------------------------------------------ files


def awkward() -> dc.Tables:
    """Names that formats like to trip over, and numbers with all their digits."""
    states = ('a,"b"', " padded ", "two\nlines", "ä;\t|", "NULL", "0")
    name = dc.Variable('the "name", quoted', states)
    clock = dc.Variable(
        "clock", ("early", "late"), bounds=(1_700_000_000.0, 1_700_000_000.000003), bins=(1_700_000_000.000001,)
    )
    network = dc.Network((name, clock), {name.name: (), "clock": (name.name,)})
    return dc.Tables(network, {name.name: np.full(6, 1 / 6), "clock": np.full((6, 2), 0.5)})


def stream_of(theta: dc.Tables, n: int, seed: int, block: int = 100) -> pa.RecordBatchReader:
    """One set."""
    (stream,) = sample(dc.results.PosteriorDraws(with_draws(theta)), n, rng=np.random.default_rng(seed), block=block)
    return stream


def failing(theta: dc.Tables, error: BaseException) -> pa.RecordBatchReader:
    """A stream that breaks off after its first batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from stream_of(theta, 10, seed=21)
        raise error

    return pa.RecordBatchReader.from_batches(stream_of(theta, 0, seed=21).schema, batches())


def source(path: Path) -> object:
    """What `read_records` takes for a file; an Arrow file is read by Arrow."""
    return pa.ipc.open_file(path).read_all() if path.suffix in (".arrow", ".feather") else path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".feather"])
@pytest.mark.parametrize("theta", [asia(), numeric(), awkward()], ids=["asia", "numeric", "awkward"])
def test_a_written_file_is_read_as_records_without_a_fault(tmp_path: Path, theta: dc.Tables, suffix: str) -> None:
    path = tmp_path / f"s{suffix}"
    seen: list[int] = []
    assert write_records(stream_of(theta, 450, seed=22), path, progress=seen.append) == 450
    assert seen == [100, 200, 300, 400, 450]
    assert [part.name for part in tmp_path.iterdir()] == [path.name]
    schema = theta.network.schema
    records = dc.read_records(source(path), schema)
    assert not [part for part in dc.check(records) if part.missing or part.unknown or part.out_of_bounds]
    counts = dc.count(records, theta.network)
    same = dc.count(dc.read_records(stream_of(theta, 450, seed=22).read_all(), schema), theta.network)
    assert all(np.array_equal(counts.tables[node], same.tables[node]) for node in theta.network.nodes)


@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
def test_binary_files_hold_every_digit_and_the_schema(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"s{kind}"
    write_records(stream_of(awkward(), 300, seed=23), path)
    found = pq.read_table(path) if kind == ".parquet" else pa.ipc.open_file(path).read_all()
    assert found == stream_of(awkward(), 300, seed=23).read_all()


def test_a_format_is_told_by_the_end_of_a_name_in_any_case() -> None:
    assert [format_of(f"records{end}") for end in (".CSV", ".Parquet", ".feather")] == ["csv", "parquet", "arrow"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_no_records_are_a_file_with_columns(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"s{suffix}"
    assert write_records(stream_of(numeric(), 0, seed=24), path) == 0
    counts = dc.count(dc.read_records(source(path), numeric().network.schema), numeric().network)
    assert sum(counts.tables["age"]) == 0


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_file_is_whole_or_not_there(tmp_path: Path, suffix: str, error: BaseException) -> None:
    path = tmp_path / f"s{suffix}"
    with pytest.raises(type(error)):
        write_records(failing(asia(), error), path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("what was there", encoding="utf-8")
    with pytest.raises(type(error)):
        write_records(failing(asia(), error), path, replace=True)
    assert path.read_text(encoding="utf-8") == "what was there"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    write_records(stream_of(asia(), 2, seed=25), path)
    before = path.read_bytes()
    unread = stream_of(asia(), 3, seed=25)
    with pytest.raises(dc.InputError, match=r"'.*s.csv' exists; name a new file, or ask for it to be replaced"):
        write_records(unread, path)
    assert path.read_bytes() == before
    with path.open("rb") as reader:
        assert write_records(unread, path, replace=True) == 3
        assert reader.read() == before  # whoever reads the old file reads on in it
    assert path.read_bytes().count(b"\n") == 4
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_turns_up_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    with pytest.raises(dc.InputError, match=r"'.*s.csv' exists"):
        write_records(stream_of(asia(), 3, seed=28), path, progress=lambda _: path.touch())
    assert path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dc.InputError, match=r"a name ends in .parquet, .csv, .arrow, .feather"):
        write_records(stream_of(asia(), 1, seed=26), tmp_path / "s.txt")
    with pytest.raises(dc.InputError, match=r"cannot write '.*': No such file or directory"):
        write_records(stream_of(asia(), 1, seed=26), tmp_path / "none" / "s.csv")
    with (tmp_path / "sink").open("wb") as sink, pytest.raises(dc.InputError, match="no format 'cvs'; there are: "):
        stream_records(stream_of(asia(), 1, seed=26), sink, "cvs")
    broken = dc.Network((dc.Variable("two\nlines", ("x",)),), {"two\nlines": ()})
    with pytest.raises(
        dc.InputError, match=r"a line of CSV cannot hold the name 'two\\nlines'; write Parquet or Arrow"
    ):
        write_records(stream_of(dc.Tables(broken, {"two\nlines": [1.0]}), 1, seed=26), tmp_path / "s.csv")
    assert [part.name for part in tmp_path.iterdir()] == ["sink"]


@pytest.mark.parametrize("kind", get_args(FileFormat))
def test_any_number_of_records_takes_little_memory(tmp_path: Path, kind: str) -> None:
    """A million records of eight columns are 64 MB of codes, and 75 MB of text."""
    before, arrow = pa.total_allocated_bytes(), [0]
    tracemalloc.start()
    write_records(
        stream_of(asia(), 1_000_000, seed=27, block=65_536),
        tmp_path / f"s.{kind}",
        progress=lambda _: arrow.append(pa.total_allocated_bytes() - before),
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * 2**20
    assert max(arrow) < 24 * 2**20
