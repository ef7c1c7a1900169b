"""Moments of regressions from sums of numbers: textbook errors without noise, impossible draws, chains of lines.

Seeds are fixed. A half width over 4,000 draws is known to about 2 % (one standard error), so that a tenth is five.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.inference.bin_laws import BinLaw
from discreet.model.network import Network
from discreet.model.query_grammar import parse_query
from discreet.queries.number_moments import Completion, NumberMoments, are_possible, find_possible
from discreet.queries.query import possible_draws
from folding import every

Floats = np.ndarray
N = 5000
X, Y, Z, W = VARIABLES = tuple(dc.Variable.binned(name, (0, 100), 3) for name in "xyzw")
CHAIN = dc.Network(VARIABLES, {"x": (), "y": ("x",), "z": ("y",), "w": ("z",)})


def chain(n: int, seed: int, spread: float = 6) -> dict[str, Floats]:
    rng = np.random.default_rng(seed)
    x = rng.normal(50, 12, n)
    y = 20 + 0.6 * x + rng.normal(0, spread, n)
    z = 1.1 * y - 5 + rng.normal(0, 8, n)
    w = 30 + 0.5 * z + rng.normal(0, 7, n)
    return {name: values.clip(0, 99.9) for name, values in zip("xyzw", (x, y, z, w), strict=True)}


def read(
    data: dict[str, Floats], network: Network, epsilon: float, draws: int = 400, seed: int = 1
) -> dc.results.PosteriorDraws:
    counts = dc.count(dc.read_records(pa.table(data), network.schema), network)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(numbers_share=0.2), counts, dc.Dirichlet.uniform(network), promise, rng=seed)
    return dc.noise_aware(release, draws=draws, rng=seed)


def least_squares(columns: list[Floats], target: Floats) -> tuple[Floats, Floats]:
    """Coefficients, the intercept last, and their standard errors."""
    rows = np.column_stack([*columns, np.ones(len(target))])
    found = np.linalg.lstsq(rows, target, rcond=None)[0]
    variance = ((target - rows @ found) ** 2).sum() / (len(target) - len(found))
    return found, np.sqrt(variance * np.diag(np.linalg.inv(rows.T @ rows)))


@pytest.mark.costly("Half widths are known to 2 % by 4,000 draws of each posterior.")
@every("spread", [4.0, 12.0])
def test_without_noise_regressions_have_the_textbook_errors(spread: float) -> None:
    """With three wide bins; z follows x closely or not, so that errors of moments cancel more or less."""
    rng = np.random.default_rng(1)
    first = chain(N, 2, spread)
    group = rng.random(N) < 0.4
    second = (10 + 0.5 * first["y"] + 0.3 * first["x"] - 8 * group + rng.normal(0, spread, N)).clip(0, 99.9)
    data = {"g": np.where(group, "b", "a"), "x": first["x"], "y": first["y"], "z": second}
    network = dc.Network((dc.Variable("g", ("a", "b")), X, Y, Z), {"g": (), "x": (), "y": ("x",), "z": ("g", "x", "y")})
    posterior = read(data, network, 1e6, draws=4000)
    for target, on in (("y", ["x"]), ("z", ["x", "y"]), ("z", ["g", "x", "y"])):
        columns = [data[name] == "b" if name == "g" else data[name] for name in on]
        slopes, errors = least_squares(columns, data[target])
        fitted = dc.regress(posterior, target, on)
        low, high = fitted.interval(level=0.95)
        assert np.abs((fitted.mean() - slopes) / errors).max() < 0.5, on
        assert ((high - low) / (2 * 1.96 * errors)) == pytest.approx(np.ones(len(slopes)), abs=0.1), on
    relation = np.corrcoef(data["x"], data["y"])[0, 1]
    (row,) = posterior.answer("cor(x, y)").rows
    assert row["mean"] == pytest.approx(relation, abs=0.5 * (1 - relation**2) / np.sqrt(N))
    assert (row["upper"] - row["lower"]) * np.sqrt(N) / (2 * 1.96 * (1 - relation**2)) == pytest.approx(1, abs=0.1)


def test_regressions_of_little_data_have_intervals_that_are_no_longer_than_the_columns() -> None:
    """400 records at epsilon 1 tell nearly nothing: no draw is left out, and slopes stay within what columns allow."""
    data = chain(400, 3)
    fitted = dc.regress(read(data, CHAIN, 1), "z", ["y"])
    low, high = fitted.interval(level=0.95)
    assert fitted.left_out == 0
    assert low[0] <= least_squares([data["y"]], data["z"])[0][0] <= high[0] and high[0] - low[0] < 40


def test_impossible_draws_are_drawn_anew_from_the_possible_ones() -> None:
    """Three correlations of mean (.8, .8, .2) and deviation .2: as by rejection, to five errors of 2,000 draws."""
    rng = np.random.default_rng(4)

    def draw(number: int) -> Floats:
        made = np.tile(np.eye(3), (number, 1, 1))
        for (row, column), mean in {(0, 1): 0.8, (0, 2): 0.8, (1, 2): 0.2}.items():
            made[:, row, column] = made[:, column, row] = mean + 0.2 * rng.standard_normal(number)
        return made

    drawn, wanted = draw(2000), draw(40_000)
    wanted = wanted[are_possible(wanted)]
    assert are_possible(drawn).mean() < 0.8
    network = dc.Network((X, Y, Z), {"x": (), "y": ("x",), "z": ("x", "y")})
    known = Completion(network, ("x", "y", "z"), (1, 1, 1), frozenset([("x", "y"), ("x", "z"), ("y", "z")]))
    moved = find_possible(NumberMoments(np.zeros((2000, 3)), drawn), rng, known).covariances
    assert are_possible(moved).all()
    kept = are_possible(drawn)
    np.testing.assert_array_equal(moved[kept], drawn[kept])
    for row, column in ((0, 1), (0, 2), (1, 2)):
        found, expected = moved[:, row, column], wanted[:, row, column]
        assert abs(found.mean() - expected.mean()) < 5 * expected.std() / np.sqrt(2000)
        assert found.std() == pytest.approx(expected.std(), rel=0.1)


def test_columns_that_follow_from_each_other_stay_so() -> None:
    exact = np.tile(np.array([[1.0, 1.0], [1.0, 1.0]]), (5, 1, 1))
    network = dc.Network((X, Y), {"x": (), "y": ("x",)})
    known = Completion(network, ("x", "y"), (1, 1), frozenset([("x", "y")]))
    moved = find_possible(NumberMoments(np.zeros((5, 2)), exact), np.random.default_rng(1), known)
    np.testing.assert_array_equal(moved.covariances, exact)


@every(("mean", "spread"), [(50, 12), (40, 15), (50, 20)])
def test_numbers_inside_wide_bins_follow_parabolas(mean: float, spread: float) -> None:
    """Exact shares of normal columns in three bins: means of bins are three times as near as by the log-linear law."""
    places = np.linspace(0, 100, 30_001)
    density = np.exp(-((places - mean) ** 2) / (2 * spread**2))
    bins = np.minimum(np.searchsorted(X.edges, places, side="right") - 1, 2)
    shares = np.bincount(bins, density) / density.sum()
    exact = np.bincount(bins, density * places) / np.bincount(bins, density)
    variance = np.cov(places, aweights=density)
    law, before = (make(X, shares[:, None]) for make in (BinLaw.by_parabolas, BinLaw.of_bins))
    near, far = (shares @ np.abs(each.centres()[:, 0] - exact) for each in (law, before))
    assert near < 0.4 * far
    wide, wider = (np.sqrt(each.variance()[0] / variance) for each in (law, before))
    assert abs(wide - 1) < 0.6 * abs(wider - 1)
    # Where a bin is empty and where all shares are equal nothing is steeper than can be computed.
    odd = BinLaw.by_parabolas(X, np.array([[0.0, 1 / 3], [1.0, 1 / 3], [0.0, 1 / 3]]))
    assert np.isfinite(odd.centres()).all() and odd.centres()[:, 1] == pytest.approx(np.array([100, 300, 500]) / 6)


@pytest.mark.costly("Coverage needs some dozens of posteriors.")
def test_intervals_along_a_chain_of_little_data_hold_the_truth() -> None:
    """48 chains of 1,000 records at epsilon 1 in three bins, correlations .77 and .79.

    By a coverage of 90 %, 30 or fewer hold with a probability of 4e-7. By log-linear laws inside bins 22 did.
    """
    data = chain(1_000_000, 99)
    related = np.corrcoef(np.stack([data[name] for name in "xyz"]))
    network, hits = dc.Network((X, Y, Z), {"x": (), "y": ("x",), "z": ("y",)}), 0
    for seed in range(48):
        drawn = {name: values for name, values in chain(1000, seed).items() if name != "w"}
        (row,) = read(drawn, network, 1, seed=seed).answer("cor(x, z)").rows
        hits += row["lower"] < related[0, 2] < row["upper"]
    assert hits > 30, hits


# -------------------------------------------------------------------------------------------------------- lines apart


def test_covariances_of_a_linear_gaussian_network_are_completed() -> None:
    """A diamond with a tail, x -> (y, z) -> w -> v: all that is not in a family follows, to rounding."""
    names = ("x", "y", "z", "w", "v")
    parents = {"x": (), "y": ("x",), "z": ("x",), "w": ("y", "z"), "v": ("w",)}
    variables = tuple(dc.Variable.binned(name, (0, 10), 2) for name in names)
    network = dc.Network(variables, parents)
    lines = np.zeros((5, 5))
    for child, weights in {1: {0: 0.7}, 2: {0: -1.2}, 3: {1: 0.4, 2: 0.9}, 4: {3: 2.0}}.items():
        for parent, weight in weights.items():
            lines[child, parent] = weight
    root = np.linalg.inv(np.eye(5) - lines)
    exact = root @ np.diag([1.0, 2.0, 0.5, 3.0, 40.0]) @ root.T
    family = frozenset([("x", "y"), ("x", "z"), ("y", "z"), ("y", "w"), ("z", "w"), ("w", "v")])
    completion = Completion(network, names, (1,) * 5, family)
    partial = np.where([[completion.is_known(a, b) or a == b for b in names] for a in names], exact, 123.0)
    assert completion.fill(np.stack([partial, 4 * partial])) == pytest.approx(np.stack([exact, 4 * exact]), rel=1e-9)


def test_without_noise_a_chain_of_lines_has_its_closed_form() -> None:
    """x -> y -> z -> w: correlations multiply along the chain, though three bins tell half of them; 2 % is noise."""
    data = chain(20_000, 5)
    posterior = read(data, CHAIN, 1e5)
    related = np.corrcoef(np.stack([data[name] for name in "xyzw"]))
    for query, exact in (
        ("cor(x, z)", related[0, 1] * related[1, 2]),
        ("cor(x, w)", related[0, 1] * related[1, 2] * related[2, 3]),
        ("cov(y, w)", np.cov(data["y"], data["z"])[0, 1] * np.cov(data["z"], data["w"])[0, 1] / data["z"].var()),
    ):
        answer = dc.answer(posterior, query, assume="network")
        (row,) = answer.rows
        assert row["mean"] == pytest.approx(exact, rel=0.02), query
        assert row["lower"] < exact < row["upper"] and row["upper"] - row["lower"] < 0.1 * exact, query
        assert any("follows from lines" in reason for reason in answer.assumes)
        assert not any("sum of x z" in name for name in answer.sums)
    fitted = dc.regress(posterior, "z", ["x"], assume="network")
    slope = np.cov(data["y"], data["z"])[0, 1] / data["y"].var() * np.cov(data["x"], data["y"])[0, 1] / data["x"].var()
    assert fitted.mean()[0] == pytest.approx(slope, rel=0.02)
    assert any("follows from lines" in reason for reason in fitted.assumes)
    both = dc.regress(posterior, "z", ["x", "y"], assume="network")
    assert abs(both.mean()[0]) < 0.01  # x tells nothing of z beside y
    assert not posterior.answer("cor(x, y)").assumes or "follows" not in str(posterior.answer("cor(x, y)").assumes)


def test_states_stand_between_numbers() -> None:
    """x <- g -> z: their covariance is that of their means by states, exactly as in the network."""
    rng = np.random.default_rng(6)
    group = rng.integers(3, size=20_000)
    data = {"g": np.array(["a", "b", "c"])[group], "x": rng.normal(np.array([20, 50, 70])[group], 10).clip(0, 99)}
    data["z"] = rng.normal(np.array([60, 30, 50])[group], 12).clip(0, 99)
    network = dc.Network((dc.Variable("g", ("a", "b", "c")), X, Z), {"g": (), "x": ("g",), "z": ("g",)})
    posterior = read(data, network, 1e5)
    means = {name: np.array([data[name][group == state].mean() for state in range(3)])[group] for name in "xz"}
    (row,) = dc.answer(posterior, "cov(x, z)", assume="network").rows
    assert row["mean"] == pytest.approx(np.cov(means["x"], means["z"])[0, 1], rel=0.05)


@pytest.mark.costly("A chain of numbers by many records.")
def test_without_noise_a_number_follows_another_along_a_chain() -> None:
    """Three wide bins each: by the bins of y and z alone, w would follow x a third as much. Tolerances: 8 % of sd."""
    data = chain(20_000, 5)
    posterior = read(data, CHAIN, 1e5)
    for at in (36.0, 64.0):
        middle = 20 + 0.6 * at
        for query, exact, unit in (
            (f"E(y | x={at})", middle, data["y"].std()),
            (f"E(z | x={at})", 1.1 * middle - 5, data["z"].std()),
            (f"E(w | x={at})", 30 + 0.5 * (1.1 * middle - 5), data["w"].std()),
            (f"sd(z | x={at})", np.hypot(1.1 * 6, 8), data["z"].std()),
        ):
            (row,) = posterior.answer(query).rows
            assert row["mean"] == pytest.approx(exact, abs=0.08 * unit), query
            assert row["lower"] <= exact <= row["upper"], query
    (row,) = posterior.answer("P(z > 70 | x=64)").rows
    near = np.abs(data["x"] - 64) < 1
    assert row["mean"] == pytest.approx((data["z"][near] > 70).mean(), abs=0.04)


def test_variances_given_states_add_up_to_the_columns() -> None:
    """In every draw the variance is the mean of the variances by states and the variance of their means."""
    data = chain(2000, 7)
    data["g"] = np.where(data["x"] + np.random.default_rng(8).normal(0, 10, 2000) > 50, "b", "a")
    network = dc.Network((dc.Variable("g", ("a", "b")), X), {"g": (), "x": ("g",)})
    numbers = read({name: data[name] for name in ("g", "x")}, network, 1).numbers
    assert numbers is not None
    law, rows, grid = numbers.joint(("x", "g")), numbers.rows("x", ("g",)), numbers.grids["x"]
    means, variances = np.zeros((2, 2, law.shape[-1]))
    for state in range(2):
        bins = law[:, state] / law[:, state].sum(axis=0)
        means[state] = (bins * (grid.middles[:, None] + rows[:, state])).sum(axis=0)
        variances[state] = numbers.variance_given("x", bins, rows[:, state], ("g",))
    shares = law.sum(axis=0)
    total = (shares * (variances + (means - (shares * means).sum(axis=0)) ** 2)).sum(axis=0)
    # Clipping of offsets to their bins, and of negative variances inside, are the only differences.
    close = np.abs(total / numbers.variance("x", law.sum(axis=1)) - 1) < 0.02
    assert close.mean() > 0.9


def test_numbers_apart_in_the_network_take_no_chain() -> None:
    """x -> y <- z: given nothing else, y tells nothing of z beside x, and no chain goes through it."""
    network = dc.Network((X, Y, Z), {"x": (), "z": (), "y": ("x", "z")})
    data = chain(3000, 9)
    data["z"] = np.random.default_rng(10).normal(50, 12, 3000).clip(0, 99)
    posterior = read({name: data[name] for name in "xyz"}, network, 1e5)
    (row,) = posterior.answer("E(z | x=64)").rows
    assert row["mean"] == pytest.approx(50, abs=2)


def test_equal_weights_pass_whatever_their_number() -> None:
    """`1 / sum w^2` of n equal weights is n but for rounding, which is below n for a quarter of all n."""
    query = parse_query("P(a)", dc.Schema((dc.Variable("a", ("x", "y")),)))
    for number in range(1, 100):
        possible, share = possible_draws(query, np.ones((2, number)) / 2, np.full(number, 0.3))
        assert possible.all() and np.allclose(share, 1 / number)
