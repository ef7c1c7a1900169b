"""Vectors that are named: means of the draws, and a bound on their squared distance that holds in any dimension."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import discreet as dc
from discreet.deciding.decide_vector import VectorDecision
from discreet.deciding.draw_bounds import response_error
from releases import guarantee, simulated
from shell import RELEASE as RELEASE_ASIA
from shell import Shell, opened
from sources import PEER_WARNINGS
from tiny import network_of

pytestmark = PEER_WARNINGS

NETWORK = network_of({"a": 2, "b": 3}, "a>b")
COIN = network_of({"x": 2}, "")
TWO = dc.results.PosteriorDraws(dc.Tables(COIN, {"x": [[0.2, 0.6], [0.8, 0.4]]}, draws=2))
WIDE = dc.Variable("age", bounds=(0, 30), bins=(10, 20))


def posterior(draws: int = 500, seed: int = 1) -> dc.results.PosteriorDraws:
    return dc.results.PosteriorDraws(dc.Dirichlet.uniform(NETWORK, 2.0).draw(draws, rng=np.random.default_rng(seed)))


def test_two_draws_by_hand() -> None:
    """Means .4 and .6, squared distances .08 from both draws; the bands are as wide as 0 to 1: .6^2 for each number."""
    found = dc.decisions.decide_vector(TWO, "P(x)", level=0.5)
    assert found.response == pytest.approx((0.4, 0.6))
    assert (found.expected, found.regret) == pytest.approx((0.08, 2 * 0.36))
    assert (found.effective, found.fresh) == (2, False)
    assert [row["name"] for row in found.rows] == ["P(x=s0)", "P(x=s1)"]
    assert (found.rows[0]["lower"], found.rows[0]["upper"]) == pytest.approx((0.3, 0.5))
    assert str(found).startswith("0.4, 0.6: loses at most 0.72 but for a chance of 0.05, if it was fixed before")


def test_no_vector_has_less_loss_under_the_draws() -> None:
    made = posterior(40)
    rows = np.array([made.probabilities["b"][1, state] for state in range(3)])
    found = dc.decisions.decide_vector(made, "P(b | a=s1)")
    assert found.response == pytest.approx(rows.mean(axis=1))
    for other in np.random.default_rng(3).dirichlet(np.ones(3), 200):
        assert found.expected <= ((rows - other[:, None]) ** 2).sum(axis=0).mean()


def test_parts_are_those_of_numbers_and_functions() -> None:
    people = dc.Network.empty([WIDE, dc.Variable("ill", ("no", "yes"))])
    made = dc.results.PosteriorDraws(dc.Dirichlet.uniform(people, 2.0).draw(300, rng=2))
    parts = ["E(age)", "P(ill=yes)", lambda cells: cells["ill"][1], "P(age, ill)", "P(age, ill=yes)"]
    found = dc.decisions.decide_vector(made, parts)
    assert len(found.response) == 3 + 6 + 3
    for place, query in enumerate(parts[:3]):
        alone = dc.decisions.decide_number(made, query, "squared")
        row = found.rows[place]
        assert found.response[place] == pytest.approx(alone.response)
        assert (row["lower"], row["upper"]) == pytest.approx((alone.lower, alone.upper))
    assert sum(found.response[3:9]) == pytest.approx(1)
    assert found.response[9:] == pytest.approx([found.response[place] for place in (4, 6, 8)])
    assert dc.decisions.vector_diameter(people, parts) == pytest.approx(math.sqrt(30**2 + 1 + 1 + 2 + 2))
    one = dc.decisions.decide_vector(made, "E(age)")
    alone = dc.decisions.decide_number(made, "E(age)", "squared", failure=0.025)
    assert one.regret <= alone.regret * (1 + 1e-12)  # half of the failure is for what knows of the spread
    assert one.expected == pytest.approx(alone.expected)


def test_the_bound_is_the_smaller_of_two_and_counts_queries() -> None:
    """N = 400, 5 queries: of six chances that sum to 1 it is `2 (1 + sqrt(ln(200)))^2 / 800`."""
    made = posterior(400)
    found = dc.decisions.decide_vector(made, "P(a, b)", queries=5)
    assert found.regret == pytest.approx(2 * (1 + math.sqrt(math.log(5 / 0.025))) ** 2 / 800)
    assert found.regret == pytest.approx(2 * dc.decisions.vector_error(400, 5, 0.025))
    still = dc.decisions.decide_vector(made, [lambda cells: np.full(400, 0.3)] * 2, queries=5)
    log = math.log(8 / (0.05 / 5 / 2 / 2))
    assert still.regret == pytest.approx(2 * (7 * log / (3 * 399)) ** 2)


@pytest.mark.parametrize("states", [2, 40])
def test_the_bound_holds_and_is_close_for_vectors_far_apart(states: int) -> None:
    """Corners of a simplex, N = 100, half of a failure of .5: it fails in less than 25 % of 2,000 sets of draws.

    False alarm below 1e-12. In either dimension it is within ten times the mean of what it bounds (measured: 9.2 and
    4.9): a bound that grew with the states would not be.
    """
    draws = np.random.default_rng(states).multinomial(100, np.full(states, 1 / states), 2000) / 100
    lost = ((draws - 1 / states) ** 2).sum(axis=1)
    bound = 2 * dc.decisions.vector_error(100, 1, 0.25)
    assert binom.sf(int((lost > bound).sum()) - 1, 2000, 0.25) > 1e-12
    assert lost.mean() < bound < 10 * lost.mean()


def test_a_distribution_of_many_states_has_a_far_smaller_bound_than_a_list() -> None:
    """A list of 121 vectors, with losses up to 2, has .26 at 1,000 draws; the vector itself .0085 whatever they are."""
    assert 2 * response_error(1000, 121, 1, 0.05) == pytest.approx(0.2605, abs=5e-4)
    assert 2 * dc.decisions.vector_error(1000, 1, 0.025) == pytest.approx(0.00853, abs=5e-5)
    assert dc.decisions.decide_vector(posterior(1000), "P(a, b)").regret < 0.00854


REFUSED = [
    ([], {}, "at least one query"),
    ("MAP(b)", {}, "a query for one probability"),
    (["P(b)", "P(c)"], {}, "c"),
    (lambda cells: np.zeros(3), {}, "one number for each of the 20 draws"),
    (lambda cells: np.full(20, 2.0), {}, "outside its bounds 0 to 1"),
    ("P(b)", {"queries": 0}, "queries"),
    ("P(b)", {"failure": 1.0}, "failure"),
    ("P(b)", {"level": 0.0}, "a level"),
]


def test_what_makes_no_sense_is_refused() -> None:
    for quantities, options, message in REFUSED:
        with pytest.raises(dc.InputError, match=message):
            dc.decisions.decide_vector(posterior(20), quantities, **options)
    impossible = dc.results.PosteriorDraws(
        dc.Tables(NETWORK, {"a": [[1.0], [0.0]], "b": np.full((2, 3, 1), 1 / 3)}, draws=1)
    )
    with pytest.raises(dc.InputError, match="evidence may be impossible"):
        dc.decisions.decide_vector(impossible, "P(b | a=s1)")


def test_a_vector_has_no_more_numbers_than_an_answer_has_rows() -> None:
    """Of variables enough their joint states would not fit into memory: they are counted, not listed."""
    wide = network_of({f"v{at}": 2 for at in range(40)}, "")
    drawn = dc.results.PosteriorDraws(dc.Dirichlet.uniform(wide).draw(5, rng=1))
    everything = f"P({', '.join(wide.nodes)})"
    with pytest.raises(dc.InputError, match=r"has more than 4,096 states; ask for fewer variables"):
        dc.decisions.decide_vector(drawn, everything)
    twelve = f"P({', '.join(wide.nodes[:12])})"
    assert len(dc.decisions.decide_vector(drawn, twelve).response) == 4096
    with pytest.raises(dc.InputError, match=r"a vector has at most 4,096 numbers; ask for fewer at once"):
        dc.decisions.vector_diameter(wide, [twelve, "P(v0=s0)"])


def test_a_responder_names_vectors_with_new_draws_each() -> None:
    release = simulated(dc.Tables(COIN, {"x": [0.7, 0.3]}), 100, guarantee(1, "replace"), np.random.default_rng(1))
    responder = dc.decisions.Responder(dc.noise_aware(release, draws=200, rng=4), queries=2)
    found = [responder.vector("P(x)"), responder.vector(["P(x=s0)"], level=0.5)]
    assert [answer.failure for answer in found] == [0.025, 0.025] and all(answer.fresh for answer in found)
    assert found[0].response[0] != found[1].response[0]
    assert responder.regret == pytest.approx(found[0].regret + found[1].regret)
    with pytest.raises(dc.InputError, match="was to have 2 queries"):
        responder.vector("P(x)")
    fixed = dc.decisions.Responder(posterior(20), quantities=("P(b=s0)",))
    with pytest.raises(dc.InputError, match="ask `decide_vector` with the number of queries"):
        fixed.vector("P(b)")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    shell.json(RELEASE_ASIA)
    return shell


def test_the_command_names_a_vector(run: Shell) -> None:
    asked = "decide r.json --quantity 'P(lung | smoke=yes)' --quantity 'P(bronc=yes)' --together --draws 200 --seed 1"
    (told,) = run.json(asked)["decisions"]
    made = dc.noise_aware(dc.load("r.json"), draws=200, rng=1)
    here = dc.decisions.decide_vector(made, ["P(lung | smoke=yes)", "P(bronc=yes)"], fresh=False)
    assert told == here.document("P(lung | smoke=yes); P(bronc=yes)")
    assert isinstance(here, VectorDecision) and (told["kind"], len(told["values"])) == ("vector", 3)
    within = run.json("decide r.json --quantity P(lung) --together --within 0.01 --seed 1")
    assert within["draws"] == math.ceil(2 * (1 + math.sqrt(math.log(2 / 0.05))) ** 2 / 0.02)
    assert within["decisions"][0]["regret"] <= 0.01
    for refused, message in (
        ('--query P(lung) --payoffs \'{"a": {"yes": 1, "no": 0}}\' --together', "and so is --together"),
        ("--quantity P(lung=yes) --loss absolute --together", "a vector is answered under squared distance"),
        ("--quantity MAP(lung) --together", "a number needs a query"),
    ):
        code, _, err = run(f"decide r.json {refused}")
        assert code == 2 and message in err
