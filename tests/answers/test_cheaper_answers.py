"""Half the digits where that is much work, and a replicate of every third draw: no answer may show what that saves."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.inference import exact_laws
from discreet.inference.exact_laws import Laws
from discreet.queries.query import noise_share

VARIABLES = tuple(dc.Variable(name, ("low", "middle", "high")) for name in "abcdef")
NETWORK = dc.Network(VARIABLES, {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("b", "d"), "f": ("d", "e")})
ASKED = ("P(a | f=low)", "P(d, b)", "P(f=high | a=low)", "P(c | b=low, f=high)", "MAP(a, d | e=middle)")


def around(centre: dc.Tables, records: float, draws: int, seed: int) -> dc.Tables:
    """Draws of rows around some, as of so many records in each."""
    rng = np.random.default_rng(seed)
    drawn = {
        node: rng.standard_gamma(np.repeat(records * centre[node], draws, axis=-1) + 1e-3) for node in NETWORK.nodes
    }
    return dc.Tables(
        NETWORK, {node: table / table.sum(axis=-2)[..., None, :] for node, table in drawn.items()}, draws=draws
    )


def posterior(records: float, draws: int = 400, seed: int = 1) -> dc.results.PosteriorDraws:
    """Whose rows are as certain as so many records in each make them."""
    centre = dc.Dirichlet.uniform(NETWORK, 0.3).draw(1, rng=np.random.default_rng(seed))
    cells, replicates = (around(centre, records, draws, seed + part) for part in (1, 2))
    return dc.results.PosteriorDraws(cells, replicates=replicates)


@pytest.fixture
def precisions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Those that laws were asked in from now on, where all is much work."""
    asked: list[object] = []
    monkeypatch.setattr(exact_laws, "LARGE_WORK", 0)
    for name in ("_compute_joint", "marginals_and_evidence"):
        own = getattr(Laws, name)

        def spied(laws: Laws, *args: object, own: object = own) -> object:
            asked.append(laws.dtype)
            return own(laws, *args)  # type: ignore[operator]

        monkeypatch.setattr(Laws, name, spied)
    return asked


@pytest.mark.parametrize("records", [2.0, 1e3, 1e5, 1e6])
def test_single_precision_is_far_below_the_error_of_the_draws(
    records: float, precisions: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any end or mean moves by less than a hundredth of the Monte Carlo error of a mean."""
    drawn = posterior(records)
    single = dc.answer_many(drawn, ASKED, level=0.9)
    every = dc.marginals(drawn, {"f": "low"}, level=0.9)
    # Of a million records an error of 1e-5 of a share may be seen: some of it is done again.
    assert set(precisions) == ({np.float32} if records < 1e6 else {np.float32, np.float64})
    monkeypatch.setattr(exact_laws, "LARGE_WORK", 2**60)
    double = dc.answer_many(drawn, ASKED, level=0.9)
    for one, other in zip((*single, *every), (*double, *dc.marginals(drawn, {"f": "low"}, level=0.9)), strict=True):
        for row, exact in zip(one.rows, other.rows, strict=True):
            assert row["state"] == exact["state"]
            error = (exact["upper"] - exact["lower"]) / 3.3 / 20
            for key in ("mean", "lower", "upper"):
                assert abs(row[key] - exact[key]) < 0.01 * error


def test_where_draws_hardly_differ_all_digits_are_kept(
    precisions: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of 1e14 records: what single precision loses would be all that an interval shows."""
    drawn = posterior(1e14)
    found = dc.marginals(drawn, {"f": "low"}, level=0.9)
    assert precisions == [np.float32, np.float64, np.float32, np.float64]
    monkeypatch.setattr(exact_laws, "LARGE_WORK", 2**60)
    assert found == dc.marginals(drawn, {"f": "low"}, level=0.9)


def test_of_a_probability_near_1_the_rest_is_kept(precisions: list[object]) -> None:
    """The rest is 1e-9, which a number near 1 in single precision has no room for."""
    coin = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("no", "yes"))), {"x": (), "y": ("x",)})
    rare = np.random.default_rng(4).uniform(1e-9, 2e-9, 200)
    cells = {"x": np.stack([1 - rare, rare]), "y": np.stack([[1 - rare, rare]] * 2)}
    rows = dc.answer(dc.results.PosteriorDraws(dc.Tables(coin, cells, draws=200)), "P(y)", level=0.9).rows
    assert set(precisions) == {np.float32}
    assert 1 - rows[0]["lower"] == pytest.approx(rows[1]["upper"], rel=1e-5)
    assert rows[1]["mean"] == pytest.approx(rare.mean(), rel=1e-5)


@pytest.mark.parametrize(("draws", "step"), [(400, 1), (700, 2), (1000, 3), (5000, 3)])
def test_every_third_replicate_is_read_beside_its_own_draw(draws: int, step: int) -> None:
    drawn = posterior(20.0, draws)
    # Twins that have most of their variance in common with their draws.
    mixed = {node: 0.7 * drawn.probabilities[node] + 0.3 * drawn.replicates[node] for node in NETWORK.nodes}
    drawn = dc.results.PosteriorDraws(drawn.probabilities, replicates=dc.Tables(NETWORK, mixed, draws=draws))
    one, other = (Laws(part).joint(("d",))[..., ::step] for part in (drawn.probabilities, drawn.replicates))
    share, error = noise_share(one, other)
    rows = dc.answer(drawn, "P(d)", level=0.9).rows
    assert [row["noise"] for row in rows] == pytest.approx(share.tolist(), abs=1e-9)
    assert [row["noise_error"] for row in rows] == pytest.approx(error.tolist(), abs=1e-9)
    assert min(share) > 0.6
