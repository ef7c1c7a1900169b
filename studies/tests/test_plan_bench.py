"""`bench.plan`: its questions, its made-up tables, and what it says of a plan."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from bench.plan import Compared, compare, pick_questions, report, see_releases, survey_like
from discreet.accuracy import plan_accuracy
from experiments.networks import asia


def test_ten_questions_are_asked_two_of_them_about_rare_states() -> None:
    queries = pick_questions(asia())
    assert len(set(queries)) == 10 and queries == pick_questions(asia())
    assert sum("|" not in query for query in queries) == 3
    assert sum(query.endswith(("| tub=yes)", "| asia=yes)")) for query in queries) == 2


@pytest.mark.parametrize("kind", ["survey", "insurer"])
def test_made_up_tables_have_rare_states(kind: str) -> None:
    theta = survey_like(kind)
    single = dc.Tables(theta.network, {node: table[..., None] for node, table in theta.items()}, draws=1)
    shares = [row["mean"] for row in dc.marginals(dc.results.PosteriorDraws(single)).tidy()]
    assert sum(share < 0.03 for share in shares) >= 6
    assert len(pick_questions(theta)) == 10


def test_a_plan_is_compared_with_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NOISELESS_RELEASES": 1, "LEAST_RELEASES": 2, "MOST_RELEASES": 2, "WIDTH_DRAWS": 50}.items():
        monkeypatch.setattr(plan_accuracy, name, value)
    coin = dc.Tables(dc.Network.empty([dc.Variable("coin", ("heads", "tails"))]), {"coin": [0.5, 0.5]})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    seen = see_releases(coin, ["P(coin)"], promise, 500, 3)
    found, taken = compare(coin, ["P(coin)"], seen, promise, 500)
    (one,) = found
    assert one.seen.shape == (3,) and 0.5 < one.quotient < 2 and taken > 0
    text = report("coin", found, taken)
    assert text.startswith("coin: ") and "P(coin)" in text


def test_what_is_off_is_more_than_chance() -> None:
    def compared(predicted: float, seen: list[float]) -> Compared:
        return Compared("P(a)", predicted, 0.1, (0.08, 0.12), 0.04, np.array(seen), np.array(seen) / 3)

    assert compared(0.1, [0.1, 0.11, 0.09]).close
    assert compared(0.2, [0.1, 0.11, 0.09]).off
    assert not compared(0.2, [0.05, 0.3, 0.1]).off and not compared(0.2, [0.05, 0.3, 0.1]).close
    assert compared(0.1, [0.1, 0.11, 0.2, 0.3]).held == 0.5
