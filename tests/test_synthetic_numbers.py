"""Synthetic numbers from released sums: means by row, quantiles, correlations and types are those of the release."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.inference.bin_laws import BinLaw
from discreet.model.number_grid import NumberGrid
from discreet.queries.synthetic_numbers import TiltedColumn, _complete_links
from folding import every
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

PROMISE = dc.Guarantee(epsilon=100, delta=0, relation="add-remove", unit="record")
N = 20_000
DEVIATIONS = 5
"""Standard errors of a check: less than one false alarm in a million."""


def made_up(kind: str) -> tuple[dc.Network, dict[str, np.ndarray]]:
    """Two causes of a number, and another number that depends on it and on the second cause."""
    rng = np.random.default_rng(7)
    first, second = (rng.random(N) < share for share in (0.4, 0.5))
    if kind == "integer":
        x = np.clip(np.round((20 + 10 * first + rng.gamma(2, 8, N)) / 5) * 5, 0, 99)
    else:
        x = np.minimum(np.exp(2.8 + 0.5 * first + 0.4 * rng.standard_normal(N)), 99.0)
    z = np.clip(50 + 0.5 * (x - x.mean()) + 15 * second + 4 * rng.standard_normal(N), 0, 99.9)
    network = dc.Network(
        (
            dc.Variable("first", ("no", "yes")),
            dc.Variable("second", ("no", "yes")),
            dc.Variable("x", bounds=(0, 100), bins=(25, 50), type="integer" if kind == "integer" else "real"),
            dc.Variable("z", bounds=(0, 100), bins=(40, 60)),
        ),
        {"first": (), "second": (), "x": ("first",), "z": ("x", "second")},
    )
    return network, {"first": first, "second": second, "x": x, "z": z}


def table_of(network: dc.Network, columns: dict[str, np.ndarray]) -> pa.Table:
    texts = {name: np.where(columns[name], "yes", "no") for name in ("first", "second")}
    numbers = {
        name: columns[name].astype(int) if network.schema[name].type == "integer" else columns[name] for name in "xz"
    }
    return pa.table({**texts, **numbers})


@cache
def posterior_of(kind: str, epsilon: int = 100, share: str | None = None, seed: int = 1) -> dc.results.PosteriorDraws:
    network, columns = made_up(kind)
    counts = dc.count(dc.read_records(table_of(network, columns), network.schema), network)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    released = dc.simulate(
        dc.planned(numbers_share=share), counts, dc.Dirichlet.uniform(network), promise, rng=np.random.default_rng(seed)
    )
    return dc.noise_aware(released, draws=200, rng=np.random.default_rng(2))


@cache
def synthetic(kind: str) -> dict[str, np.ndarray]:
    made = dc.sample(posterior_of(kind), 200_000, rng=3)[0].read_all()
    states = {name: np.array(made[name].to_pylist()) == "yes" for name in ("first", "second")}
    return states | {name: made[name].to_numpy().astype(float) for name in "xz"}


def asked(kind: str, query: str) -> float:
    return dc.answer(posterior_of(kind), query).rows[0]["mean"]


def near(sample: np.ndarray, mean: float, slack: float = 0.0) -> bool:
    return abs(sample.mean() - mean) < DEVIATIONS * sample.std() / np.sqrt(sample.size) + slack


@pytest.mark.costly("Means need many synthetic records.")
@every("kind", ["real", "integer"])
@every("name", ["x", "z"])
def test_means_are_those_of_the_answers(kind: str, name: str) -> None:
    """The mean of all draws is made of means by draw, so answers differ by a little of their own width."""
    made, posterior, row = synthetic(kind), posterior_of(kind), "first" if name == "x" else "second"
    for query, held in [(f"E({name})", made["x"] >= 0), (f"E({name} | {row}=yes)", made[row])]:
        told = dc.answer(posterior, query).rows[0]
        assert near(made[name][held], told["mean"], slack=0.15 * (told["upper"] - told["lower"])), query


@every("kind", ["real", "integer"])
def test_means_by_row_are_those_of_the_records(kind: str) -> None:
    """The family of z is (x, second), that of x is (first): each row has its own mean inside the bins."""
    (network, columns), made = made_up(kind), synthetic(kind)
    for name, row in (("x", "first"), ("z", "second")):
        for state in (False, True):
            true = columns[name][columns[row] == state]
            error = DEVIATIONS * true.std() / np.sqrt(true.size)
            assert near(made[name][made[row] == state], true.mean(), slack=error)
    assert network.schema["x"].type == kind


def test_bins_alone_are_further_off() -> None:
    """What the sums are for: without them the same release has other means."""
    _, columns = made_up("real")
    made = dc.sample(posterior_of("real", share="0"), 100_000, rng=3)[0].read_all()["x"].to_numpy()
    error = abs(made.mean() - columns["x"].mean())
    assert error > 10 * abs(synthetic("real")["x"].mean() - columns["x"].mean())


@every("kind", ["real", "integer"])
def test_quantiles_are_those_of_the_records(kind: str) -> None:
    """Up to a leaf: x has 16 leaves in a bin of 25."""
    _, columns = made_up(kind)
    leaf = 25 / posterior_of(kind).numbers.evidence.payload.leaves("x")
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert abs(np.quantile(synthetic(kind)["x"], share) - np.quantile(columns["x"], share)) <= 1.5 * leaf


@pytest.mark.costly("Correlations need many synthetic records.")
@every("kind", ["real", "integer"])
def test_correlation_is_that_of_the_records(kind: str) -> None:
    """Bins alone would flatten it: places inside the bins depend on each other. The mean of five releases."""
    _, columns = made_up(kind)
    true = np.corrcoef(columns["x"], columns["z"])[0, 1]
    errors = []
    for share, seed in (*((None, seed) for seed in range(1, 6)), ("0", 1)):
        made = dc.sample(posterior_of(kind, share=share, seed=seed), 100_000, rng=3)[0].read_all()
        errors.append(np.corrcoef(made["x"].to_numpy(), made["z"].to_numpy())[0, 1] - true)
    assert abs(np.mean(errors[:5])) < 0.02
    assert abs(errors[5]) > 0.03


def test_types_are_those_of_the_columns() -> None:
    made = dc.sample(posterior_of("integer"), 1000, rng=3)[0].read_all()
    assert made.schema.field("x").type == pa.int64()
    assert made.schema.field("z").type == pa.float64()
    assert min(made["x"].to_pylist()) >= 0 and max(made["x"].to_pylist()) <= 99


def test_a_set_has_the_numbers_of_its_own_draw() -> None:
    """Little epsilon: draws differ by far more than sampling. The choice of draws comes first from the generator."""
    posterior = posterior_of("real", 1)
    picked = np.random.default_rng(5).permutation(posterior.draws)[:6]
    column = posterior.numbers.column("z")
    means = 20 + column.offsets[0, picked]
    sets = [made.read_all()["z"].to_numpy() for made in dc.sample(posterior, 100_000, sets=6, rng=5)]
    assert all(near(made[made < 40], mean, slack=0.1) for made, mean in zip(sets, means, strict=True))
    assert np.ptp(means) > 1


def test_missing_numbers_stay_missing() -> None:
    rng = np.random.default_rng(1)
    x = np.where(rng.random(5000) < 0.3, np.nan, rng.uniform(0, 9.99, 5000) ** 2)
    network = dc.Network((dc.Variable("x", bounds=(0, 100), bins=(20, 50), missing="none"),), {"x": ()})
    records = dc.read_records(pa.table({"x": pa.array(x, from_pandas=True)}), network.schema, missing="keep")
    released = dc.simulate(dc.planned(), dc.count(records, network), dc.Dirichlet.uniform(network), PROMISE, rng=1)
    made = dc.sample(dc.noise_aware(released, draws=100, rng=1), 50_000, rng=1)[0].read_all()["x"]
    assert abs(made.null_count / 50_000 - 0.3) < 0.03
    assert abs(np.nanmean(x) - np.mean(made.drop_null().to_numpy())) < 1.0


@every("type", ["real", "integer"])
@every("wanted", [-0.9, -0.3, 0.0, 0.45, 0.8])
def test_a_tilted_column_has_the_wanted_mean(type: str, wanted: float) -> None:
    """Between two tilts, in a bin with an empty leaf and a heap, of whole numbers and others."""
    variable = dc.Variable("x", bounds=(0, 63), bins=(32,), type=type)
    grid = NumberGrid(variable)
    edges = grid.leaf_edges(4)
    law = BinLaw(
        edges, np.array([[0.1, 0.0, 0.3, 0.1, 0.2, 0.1, 0.1, 0.1]]).T, np.full((8, 1), 1e-9), type == "integer"
    )
    column = TiltedColumn(grid, dc.Schema((variable,)), grid.bin_of_leaf(4), law, {(): np.full((2, 1), 16 * wanted)})
    rng = np.random.default_rng(4)
    codes = {"x": rng.integers(0, 2, 100_000)}
    numbers = column.draw(column.place(codes, rng), rng.random(100_000)).astype(float)
    for bin in (0, 1):
        assert near(numbers[codes["x"] == bin], grid.middles[bin] + 16 * wanted - grid.shift, slack=1e-3)
    assert np.all((numbers >= edges[4 * codes["x"]]) & (numbers < edges[4 * codes["x"] + 4]))


def test_a_seed_gives_the_same_records() -> None:
    first, second = (dc.sample(posterior_of("real"), 1000, rng=9)[0].read_all() for _ in range(2))
    assert first.equals(second)
    with pytest.raises(dc.InputError, match="a draw of its own"):
        dc.sample(posterior_of("real"), 10, sets=1000)


@pytest.mark.costly("a release of six columns")
def test_columns_of_different_families_depend_on_each_other_inside_their_bins() -> None:
    """In a chain of numbers, correlations of neighbours are right, and of others at most what bins alone lose.

    Bins as wide as 2.5 standard deviations hide most of the dependence. Places inside them that depended on their
    neighbours' alone lost .14 of the correlation of two steps, and links stronger than .5 became weaker.
    """
    rng, n, columns = np.random.default_rng(4), 20_000, 6
    z = np.empty((columns, n))
    z[0] = rng.standard_normal(n)
    for at in range(1, columns):
        z[at] = 0.8 * z[at - 1] + 0.6 * rng.standard_normal(n)
    z = np.clip(50 + 10 * z, 0, 99.9)
    variables = [dc.Variable.binned(f"z{at}", (0, 100), 4) for at in range(columns)]
    network = dc.Network(tuple(variables), {f"z{at}": (f"z{at - 1}",) if at else () for at in range(columns)})
    table = pa.table({f"z{at}": z[at] for at in range(columns)})
    counts = dc.count(dc.read_records(table, network.schema), network)
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), PROMISE, rng=rng)
    made = dc.sample(dc.noise_aware(release, draws=200, rng=1), 100_000, rng=3)[0].read_all()
    found, true = (np.corrcoef([data[name].to_numpy() for name in made.column_names]) for data in (made, table))
    assert abs(np.diag(found - true, 1)).max() < 0.05
    assert np.diag(found - true, 2).min() > -0.1, np.diag(found - true, 2)


def test_links_are_completed_along_their_columns() -> None:
    """A chain has products of links between its ends; links that no law has are made weaker."""
    chain = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    np.testing.assert_allclose(_complete_links(chain)[0, 2], 0.81)
    wrong = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(wrong)[0] < 0
    assert np.linalg.eigvalsh(_complete_links(wrong))[0] > 0
