"""Releases by stars keep their guarantee on all small data sets, by the package's audit, and planted bugs do not."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet as dc
from discreet.noise.star import star_length
from flawed import ADD_REMOVE, REPLACE, promise
from folding import every
from star_mechanism import STAR_FLAWS, starred
from tiny import network_of

NETWORKS = {
    "two tables": network_of({"a": 2, "b": 2, "c": 2}, "a>b a>c"),
    "three tables": network_of({"a": 2, "b": 2, "c": 3, "d": 2}, "a>b a>c a>d"),
}
SMALL = {"two tables": NETWORKS["two tables"]}


@pytest.mark.costly("Shared noise that costs more than it says is found by exact laws of neighbours.", always=True)
@every(
    ("name", "epsilon", "relation"),
    [
        ("two tables", "1/10", ADD_REMOVE),
        ("two tables", "1", ADD_REMOVE),
        ("two tables", "1", REPLACE),
        ("two tables", "4", REPLACE),
        ("three tables", "1", ADD_REMOVE),
    ],
)
def test_stars_keep_their_guarantee_and_no_more(name: str, epsilon: str, relation: dc.Relation) -> None:
    for finding in dc.audit(starred(), promise(epsilon, relation), {name: NETWORKS[name]}, most=1):
        assert finding.exact and finding.holds and not finding.leak
        assert 1 - 1e-8 < finding.measured / float(finding.guarantee.epsilon) <= 1 + 1e-12


def test_a_star_is_spent_once_and_every_table_beside_it() -> None:
    ab, ac, cd = ("a", "b"), ("a", "c"), ("c", "d")
    budgets = {ab: Fraction(1, 3), ac: Fraction(1, 3), cd: Fraction(1, 4)}
    scales = {ab: 3.0, ac: 3.0, cd: 4.0}
    plan = dc.kinds.PlannedNoise("discrete_laplace", 1, budgets, scales, Fraction(1, 2), {"a": 1.0}, {ab: 1, ac: 1})
    assert plan.total == Fraction(7, 12)
    assert replace(plan, stars={}).total == Fraction(11, 12)
    with pytest.raises(dc.InputError, match="share one budget"):
        replace(plan, budgets={**budgets, ac: Fraction(1, 5)})


@pytest.mark.costly("An audit that finds nothing would pass all noise that tables share.", always=True)
@every("name", STAR_FLAWS)
def test_planted_bugs_are_found(name: str) -> None:
    for relation in (ADD_REMOVE, REPLACE):
        findings = dc.audit(STAR_FLAWS[name](), promise(1, relation), SMALL, most=1)
        assert not all(finding.holds for finding in findings)


def test_replacing_at_the_price_of_removing_is_found() -> None:
    cheap = starred(moved=1)
    assert all(finding.holds for finding in dc.audit(cheap, promise(1, ADD_REMOVE), SMALL, most=1))
    assert not any(finding.holds for finding in dc.audit(cheap, promise(1, REPLACE), SMALL, most=1))


def test_a_star_moves_by_its_largest_row_in_each_block() -> None:
    one, other = np.array([[1, -1], [0, 2]]), np.array([[0, 0, 0], [1, 1, 0]])
    assert star_length([one, other]) == 2 + 2
    assert star_length([one]) == 2 + 2
    assert star_length([np.array([[3, -1], [0, 2]]), np.array([[2, 0, 0], [-4, 3, 3]])]) == 4 + 10
    assert star_length([one, other + np.array([[0, 0, 1], [0, 0, 0]])]) == math.inf


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_a_release_by_stars_is_read(relation: dc.Relation) -> None:
    """From records to intervals, and through the file."""
    network = NETWORKS["three tables"]
    rng = np.random.default_rng(4)
    codes = {name: rng.integers(network.schema[name].size, size=500) for name in network.nodes}
    prior = dc.Dirichlet.uniform(network, 1.0)
    made = dc.simulate(starred(), dc.tools.count_codes(network, codes), prior, promise(1, relation), rng=rng)
    again = dc.Release.loads(made.dumps())
    assert again.dumps() == made.dumps() and dict(again.payload.stars) == dict(made.payload.stars)
    row = dc.noise_aware(again, draws=200, rng=rng).probabilities["b"]
    truth = np.bincount(codes["b"][codes["a"] == 0], minlength=2)
    assert abs(row[0, 0].mean() - truth[0] / truth.sum()) < 0.1
