"""Regressions from a posterior's draws: against the joint, least squares, and scipy's maximum likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import discreet as dc
from discreet.inference import sampling
from discreet.inference.bin_laws import BinLaw
from discreet.inference.sampling import drawn_points
from discreet.queries import column_moments
from discreet.queries import regress as module
from discreet.queries.documents import read_regression, regression_document
from discreet.queries.regress import logit_fits
from oracle import full_joint, random_draws, small, stacked

NETWORK = small(("a", 3, ()), ("b", 2, ("a",)), ("c", 2, ("b",)), ("d", 2, ("a", "c")), ("e", 2, ("d",)))
DRAWS = 5


def posterior(seed: int = 1, concentration: float = 1.0, draws: int = DRAWS) -> dc.results.PosteriorDraws:
    return dc.results.PosteriorDraws(random_draws(NETWORK, draws, seed, concentration))


def columns(law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every joint state of NETWORK: [a=s1, a=s2, b=s1, c=s1, 1] and d, shape (states, ...)."""
    a, b, c, d, _ = np.indices(law.shape[:-1]).reshape(5, -1)
    return np.column_stack([a == 1, a == 2, b == 1, c == 1, np.ones_like(a)]).astype(float), d.astype(float)


def most_likely(z: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of the weighted maximum likelihood, by another method than ours."""

    def loss(beta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = z @ beta
        shares = 1 / (1 + np.exp(-eta))
        return float((weights * (np.logaddexp(0, eta) - y * eta)).sum()), z.T @ (weights * (shares - y))

    return minimize(loss, np.zeros(z.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10}).x


# ------------------------------------------------------------------------------------------------- against the joint


def test_linear_coefficients_are_least_squares_of_the_joint() -> None:
    drawn = posterior()
    law = full_joint(drawn.probabilities)
    found = dc.regress(drawn, "d", ["a", "b", "c"])
    assert found.names == ("a=s1", "a=s2", "b=s1", "c=s1", "intercept") and found.left_out == 0
    z, y = columns(law)
    for draw in range(DRAWS):
        root = np.sqrt(law[..., draw].ravel())
        exact = np.linalg.lstsq(z * root[:, None], y * root, rcond=None)[0]
        np.testing.assert_allclose(found.coefficients[draw], exact, atol=1e-9)


def test_logistic_coefficients_are_the_most_likely_of_the_joint() -> None:
    drawn = posterior(2, 2.0)
    law = full_joint(drawn.probabilities)
    found = dc.regress(drawn, "d", ["a", "b", "c"], kind="logistic")
    z, y = columns(law)
    for draw in range(DRAWS):
        exact = most_likely(z, y, law[..., draw].ravel())
        np.testing.assert_allclose(found.coefficients[draw], exact, atol=5e-4)  # the ridge, and what BFGS leaves


def test_covariates_may_come_in_any_order_and_after_the_target() -> None:
    drawn = posterior()
    one = dc.regress(drawn, "b", ["e", "a", "d"])
    other = dc.regress(drawn, "b", ["d", "e", "a"])
    order = [other.names.index(name) for name in one.names]
    np.testing.assert_allclose(one.coefficients, other.coefficients[:, order], atol=1e-10)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_many_states_are_regressed_by_pairs_or_by_made_up_records(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pairs exactly; the made-up records know the target's chance, and so their error is small."""
    drawn = posterior(3, 2.0)
    exact = dc.regress(drawn, "d", ["a", "b", "c"], kind=kind)  # type: ignore[arg-type]
    monkeypatch.setattr(column_moments, "MOST_JOINT_STATES", 10)
    found = dc.regress(drawn, "d", ["a", "b", "c"], kind=kind)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.coefficients, exact.coefficients, atol=1e-9 if kind == "linear" else 0.15)
    monkeypatch.setattr(module, "MOST_POINT_VALUES", 2 * module.MADE_UP_POINTS * 5)  # two draws at once
    again = dc.regress(drawn, "d", ["a", "b", "c"], kind=kind)  # type: ignore[arg-type]
    np.testing.assert_allclose(again.coefficients, found.coefficients, rtol=1e-9)
    monkeypatch.setattr(sampling, "PROBABILITIES_AT_ONCE", 3 * 3 * module.MADE_UP_POINTS)  # of three draws
    again = dc.regress(drawn, "d", ["a", "b", "c"], kind=kind)  # type: ignore[arg-type]
    np.testing.assert_allclose(again.coefficients, exact.coefficients, atol=1e-9 if kind == "linear" else 0.15)


def test_made_up_records_know_the_chance_given_all_others() -> None:
    drawn = posterior(4)
    law = full_joint(drawn.probabilities)
    ((part, codes, chances),) = drawn_points(drawn.probabilities, "c", NETWORK.nodes, 50)
    assert part == slice(0, DRAWS) and chances.shape == (DRAWS, 50)
    for draw in range(DRAWS):
        a, b, d, e = (codes[name][draw] for name in "abde")
        both = law[a, b, :, d, e, draw]
        np.testing.assert_allclose(chances[draw], both[:, 1] / both.sum(axis=1), rtol=1e-9)


def test_made_up_records_have_the_shares_of_their_draw() -> None:
    drawn = posterior(5)
    law = full_joint(drawn.probabilities).sum(axis=(2, 3, 4))
    ((_, codes, _),) = drawn_points(drawn.probabilities, "d", ("a", "b"), 20_000)
    for draw in range(DRAWS):
        shares = np.bincount(codes["a"][draw] * 2 + codes["b"][draw], minlength=6) / 20_000
        np.testing.assert_allclose(shares, law[..., draw].ravel(), atol=0.02)  # five deviations


# ---------------------------------------------------------------------------------------------------------- numbers


def binned(bins: int) -> dc.Schema:
    return dc.Schema(
        (
            dc.Variable.binned("x", (-4, 4), bins),
            dc.Variable.binned("w", (-4, 4), bins),
            dc.Variable("sex", ("f", "m")),
            dc.Variable.binned("y", (-8, 8), 2 * bins),
            dc.Variable("ill", ("no", "yes")),
        )
    )


def made_up(n: int) -> dict[str, np.ndarray]:
    """Numbers whose regressions are known: y = 1 + 2 x - w + .5 [m] + noise; log odds -1 + x - .5 w + [m]."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=n).clip(-4, 4)
    w = (0.6 * x + 0.8 * rng.normal(size=n)).clip(-4, 4)
    sex = rng.random(n) < 1 / (1 + np.exp(-x))
    y = 0.5 * (1 + 2 * x - w + 0.5 * sex + rng.normal(size=n))
    ill = rng.random(n) < 1 / (1 + np.exp(1 - x + 0.5 * w - sex))
    return {"x": x, "w": w, "sex": sex, "y": y, "ill": ill}


def shares_of(
    schema: dc.Schema, data: dict[str, np.ndarray], names: tuple[str, ...], target: str
) -> dc.results.PosteriorDraws:
    """Exact shares of records under a complete network, as one draw."""
    codes = {
        name: np.searchsorted(schema[name].bins, data[name], side="right") if schema[name].numeric else data[name]
        for name in (*names, target)
    }
    order = (*names, target)
    network = dc.Network(tuple(schema[name] for name in order), {name: order[:i] for i, name in enumerate(order)})
    tables = {}
    for i, name in enumerate(order):
        sizes = [schema[part].size for part in order[: i + 1]]
        flat = np.ravel_multi_index([np.asarray(codes[part], int) for part in order[: i + 1]], sizes)
        counts = np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes) + 1e-9
        tables[name] = counts / counts.sum(axis=-1, keepdims=True)
    return dc.results.PosteriorDraws(stacked([dc.Tables(network, tables)]))


@pytest.mark.parametrize(("bins", "error"), [(8, 0.06), (20, 0.006)])
def test_bins_do_not_flatten_slopes(bins: int, error: float) -> None:
    """Standard errors of 400,000 records are below .003; least squares of the bins' middles is off by .15 and .03."""
    schema, data = binned(bins), made_up(400_000)
    found = dc.regress(shares_of(schema, data, ("x", "w", "sex"), "y"), "y", ["x", "w", "sex"])
    z = np.column_stack([data["x"], data["w"], data["sex"], np.ones_like(data["x"])])
    exact = np.linalg.lstsq(z, data["y"], rcond=None)[0]
    np.testing.assert_allclose(exact, [1, -0.5, 0.25, 0.5], atol=0.02)
    np.testing.assert_allclose(found.mean(), exact, atol=error)


def test_the_law_inside_bins_is_the_stated_one() -> None:
    schema, data = binned(4), made_up(100_000)
    drawn = shares_of(schema, data, ("x",), "ill")
    laws = full_joint(drawn.probabilities)
    for inside in ("log-linear", "uniform"):
        found = dc.regress(drawn, "ill", ["x"], inside=inside)  # type: ignore[arg-type]
        shares = laws.sum(axis=1)
        means = BinLaw.of_bins(schema["x"], shares, inside).means()[:, 0]  # type: ignore[arg-type]
        root = np.sqrt(shares[:, 0])
        z = np.column_stack([means, np.ones(4)])
        exact = np.linalg.lstsq(z * root[:, None], laws[:, 1, 0] / shares[:, 0] * root, rcond=None)[0]
        np.testing.assert_allclose(found.mean(), exact, atol=1e-9)


def test_means_of_bins_are_those_of_their_law() -> None:
    variable = dc.Variable("n", bounds=(0, 30), bins=(3, 7, 15), type="integer")
    law = BinLaw.of_bins(variable, np.array([[0.4], [0.3], [0.2], [0.1]]))
    assert float((law.means()[:, 0] * [0.4, 0.3, 0.2, 0.1]).sum()) == pytest.approx(float(law.mean()[0]))
    assert np.all(law.means()[:, 0] >= law.lowest) and np.all(law.means()[:, 0] <= law.highest)


# ------------------------------------------------------------------------------------------------------- degenerate


def test_classes_that_a_state_parts_end_where_a_millionth_of_the_records_says() -> None:
    hits = np.array([[0.25, 0.0]])
    (found,) = logit_fits(np.array([[[0.0], [1.0]]]), np.array([[0.5, 0.5]]), hits)
    assert -20 < found[0] < -8 and abs(found[1]) < 1e-4
    (rare,) = logit_fits(np.array([[[0.0], [1.0]]]), np.array([[1 - 1e-12, 1e-12]]), np.array([[0.5, 0.75e-12]]))
    np.testing.assert_allclose(rare, [np.log(3), 0], atol=1e-4)


def test_classes_below_zero_have_no_coefficient_and_states_are_kept_from_it() -> None:
    """What noise may say of a state: fewer than no records of its second class."""
    columns, weights = np.array([[[0.0], [1.0]]]), np.array([[0.5, 0.5]])
    assert np.isnan(logit_fits(columns, weights, np.array([[0.25, -0.1]]))).all()
    column = module.RegressionColumn(NETWORK.schema["b"])
    hits = module._clip_hits(np.array([[0.25, -0.1]]), weights, [column], [np.array([0, 1])])
    np.testing.assert_array_equal(hits, [[0.25, 0.0]])
    np.testing.assert_array_equal(module._clip_hits(hits, weights, [column], [np.array([0, 1])]), hits)


def test_states_stay_inside_where_another_covariate_is_clipped() -> None:
    """Clipping b=s0 takes from a=s1 what kept it above 0; it is clipped again, and nothing stays outside."""
    columns = [module.RegressionColumn(NETWORK.schema["b"])] * 2
    codes = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    weights = np.full((1, 4), 0.25)
    hits = module._clip_hits(np.array([[-0.2, 0.24, 0.1, -0.05]]), weights, columns, codes)
    for code in codes:
        for state in (0, 1):
            assert 0 <= hits[0, code == state].sum() <= weights[0, code == state].sum()


def test_fits_that_do_not_converge_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEWTON_STEPS", 1)
    with pytest.raises(dc.InputError, match="the columns 'a=s1', 'a=s2' have no fit that converges under"):
        dc.regress(posterior(3), "d", ["a"], kind="logistic")


def test_draws_that_leave_a_coefficient_open_are_left_out_and_most_of_them_are_refused() -> None:
    cells = posterior(6, draws=10).probabilities
    for share, kind in ((3, "linear"), (3, "logistic"), (6, "linear"), (6, "logistic")):
        tables = {name: np.array(cells[name]) for name in NETWORK.nodes}
        tables["a"][2, :share] = 0.0
        tables["a"] /= tables["a"].sum(axis=0)
        drawn = dc.results.PosteriorDraws(dc.Tables(NETWORK, tables, draws=10))
        if share == 6:
            with pytest.raises(dc.InputError, match=r"the columns 'a=s2' do not vary, .* under 6 of 10 draws; leave"):
                dc.regress(drawn, "d", ["a", "c"], kind=kind)  # type: ignore[arg-type]
            continue
        found = dc.regress(drawn, "d", ["a", "c"], kind=kind)  # type: ignore[arg-type]
        assert found.left_out == pytest.approx(0.3) and found.coefficients.shape == (7, 4)
        assert np.isfinite(found.coefficients).all()


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_columns_that_follow_from_each_other_are_named(kind: str) -> None:
    cells = {name: np.array(table) for name, table in posterior(7).probabilities.items()}
    cells["c"] = np.zeros_like(cells["c"])
    cells["c"][0, 0] = cells["c"][1, 1] = 1.0  # c is b
    drawn = dc.results.PosteriorDraws(dc.Tables(NETWORK, cells, draws=DRAWS))
    with pytest.raises(dc.InputError, match="the columns 'b=s1', 'c=s1' do not vary, or follow"):
        dc.regress(drawn, "d", ["a", "b", "c"], kind=kind)  # type: ignore[arg-type]


def test_covariances_that_no_law_has_leave_coefficients_open() -> None:
    own = np.array([[[1.0, 0.9], [0.9, 1.0]], [[1.0, 1.1], [1.1, 1.0]], [[-0.1, 0.0], [0.0, 1.0]]])
    moments = column_moments.ColumnMoments(own, own, np.zeros((3, 2)))
    np.testing.assert_array_equal(moments.unidentified, [[False, False], [True, True], [True, False]])
    slopes = moments.slopes(np.ones((3, 2)))
    np.testing.assert_allclose(slopes[0], np.linalg.solve(own[0], np.ones(2)))
    assert np.isnan(slopes[1:]).all()


def test_a_state_of_less_than_no_records_counts_as_the_pair_s_law_says() -> None:
    """Noise may leave a state a negative share: both kinds of means given it are sums over the pair's law."""
    law = np.array([[[0.3], [0.21]], [[0.2], [0.3]], [[-0.004], [-0.006]]])
    shares, values = law.sum(axis=1), np.array([[[10.0]], [[60.0]]])
    state, number = np.eye(3)[:, 2:, None], module.RegressionColumn(dc.Variable("y", bounds=(0, 100), bins=(20,)))
    given = [column_moments.average_given(law, values), number.given(law, "uniform")]
    indicator = module.RegressionColumn(NETWORK.schema["b"]).given(law, "uniform")
    assert given[0][2] == pytest.approx(40)
    mean = float((law.sum(axis=0) * values[:, 0]).sum())
    product = float((law[2] * values[:, 0]).sum()) - mean * float(shares[2, 0])
    for found in given:
        np.testing.assert_allclose(column_moments.covariance(shares, state, found), [[[product]]])
    np.testing.assert_allclose(column_moments.average_given(law, np.array([[[0.0]], [[1.0]]])), indicator)


REFUSED = [
    (("d", []), {}, "needs at least one covariate"),
    (("d", ["a", "a"]), {}, "names variable 'a' twice"),
    (("d", ["d"]), {}, "names variable 'd' twice"),
    (("d", ["z"]), {}, "no variable 'z'"),
    (("a", ["d"]), {}, "needs a target of numbers with bounds and bins, or two states; 'a' has 3 states"),
    (("a", ["d"]), {"kind": "logistic"}, "needs a target of two states; 'a' has 3 states"),
    (("d", ["a"]), {"kind": "probit"}, "a regression is linear or logistic, not 'probit'"),
    (("d", ["a"]), {"assume": "nothing"}, "of a regression assume network or robust, not 'nothing'"),
    (("d", ["a"]), {"assume": "robust"}, "this posterior believes its network"),
    (("d", ["a"]), {"inside": "cubic"}, "numbers lie inside bins by"),
]


@pytest.mark.parametrize(("given", "options", "message"), REFUSED)
def test_what_is_no_regression_is_refused(given: tuple[str, list[str]], options: dict[str, str], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.regress(posterior(), *given, **options)  # type: ignore[arg-type]


def test_variables_that_have_no_coefficient_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = dc.Network(
        (dc.Variable("one", ("only",)), dc.Variable("gap", ("no", "yes"), missing="?"), dc.Variable("y", ("0", "1"))),
        {"one": (), "gap": (), "y": ()},
    )
    drawn = dc.results.PosteriorDraws(random_draws(odd, 3, 1))
    with pytest.raises(dc.InputError, match="'one' has fewer than two states"):
        dc.regress(drawn, "y", ["one"])
    with pytest.raises(dc.InputError, match="values of 'gap' may be missing; regress on complete records"):
        dc.regress(drawn, "y", ["gap"])
    monkeypatch.setattr(module, "MOST_COEFFICIENTS", 1)
    with pytest.raises(dc.InputError, match="at most 1 coefficients, this one would have 2"):
        dc.regress(posterior(), "d", ["a"])


def test_a_regression_on_numbers_is_assumed_and_says_by_which_law() -> None:
    """Nothing measured where in their bins numbers are; what is categorical rests on its tables."""
    rng = np.random.default_rng(12)
    x, z = (dc.Variable(name, bounds=(0, 9), bins=(3, 6)) for name in "xz")
    network = dc.Network((x, z, dc.Variable("s", ("no", "yes"))), {"x": (), "z": ("x",), "s": ("z",)})
    first = rng.integers(3, size=2000)
    codes = {"x": first, "z": np.minimum(first + rng.integers(2, size=2000), 2), "s": rng.integers(2, size=2000)}
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="person")
    counts = dc.tools.count_codes(network, codes)
    made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    drawn = dc.noise_aware(made, draws=60, rng=rng)
    cases = (("z", ["x"], "linear"), ("s", ["z"], "linear"), ("z", ["x", "s"], "linear"), ("s", ["z"], "logistic"))
    for target, on, kind in cases:
        for inside in ("log-linear", "uniform"):
            found = dc.regress(drawn, target, on, kind=kind, inside=inside)
            (line,) = found.assumes
            assert found.basis == "assumed"
            assert line.startswith("x, z: numbers" if "x" in on else "z: numbers")
            assert f"by the {inside} law, which nothing measured; in tests 95 % intervals" in line
            assert f"assumed: {line}" in found.summary() and line in repr(found)
            told = regression_document(found, 0.95, draws=True)
            assert told["assumes"] == [line] and read_regression(told).assumes == (line,)
    discrete = small(("a", 2, ()), ("b", 2, ("a",)))
    counts = dc.tools.count_codes(discrete, {name: rng.integers(2, size=900) for name in "ab"})
    plain = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(discrete), promise, rng=rng)
    found = dc.regress(dc.noise_aware(plain, draws=60, rng=rng), "b", ["a"])
    assert (found.basis, found.assumes) == ("measured", ())
    # Draws that nobody knows the origin of say their law, and not what they rest on.
    alone = dc.regress(dc.results.PosteriorDraws(drawn.probabilities), "z", ["x"])
    assert alone.basis is None and len(alone.assumes) == 1
