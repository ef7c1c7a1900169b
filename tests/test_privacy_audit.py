"""An audit of real releases: thousands of them, on the worst neighbours, with the operating system's entropy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from flawed_laplace import calibrated_for, half_scale, promise, redrawn
from folding import every
from tiny import TINY, counts_of

Publish = Callable[[dc.tools.Mechanism, dc.results.Counts, dc.Dirichlet, dc.Guarantee], dc.Release]


class Open:
    """An account that pays for everything: the audit needs thousands of releases and no ledger."""

    id = "0" * 32

    def charge(self, *_: object, **__: object) -> None:
        pass


def really(*what: object) -> dc.Release:
    return dc.release(*what, account=Open())


WORST = {dc.Relation.ADD_REMOVE: ([], [(0, 0)], 1000), dc.Relation.REPLACE: ([(1, 1)], [(0, 0)], 2000)}
"""Neighbours that differ in as many cells as they can, and the number of releases of each."""
FALSE_ALARM = 1e-8


def audited(mechanism: dc.tools.Mechanism, guarantee: dc.Guarantee, publish: Publish) -> float:
    """A lower bound on the epsilon that a publication really has, wrong with probability at most FALSE_ALARM.

    The event is the most telling one: in every cell where the data sets differ, the output lies on the far side. Its
    probability is bounded from below under one and from above under the other (Clopper-Pearson, half the rate each).
    """
    network, prior = TINY["two roots"], dc.Dirichlet.uniform(TINY["two roots"])
    *datasets, runs = WORST[guarantee.relation]
    low, high = (counts_of(network, records) for records in datasets)

    def far(release: dc.Release) -> bool:
        assert set(release.payload.tables) == set(network.nodes)
        triples = ((noisy, high.tables[node], low.tables[node]) for node, noisy in release.payload.tables.items())
        return all(np.all((noisy - up) * np.sign(up - down) >= 0) for noisy, up, down in triples)

    likely = sum(far(publish(mechanism, high, prior, guarantee)) for _ in range(runs))
    rare = sum(far(publish(mechanism, low, prior, guarantee)) for _ in range(runs))
    assert likely > 0
    at_least = stats.beta.ppf(FALSE_ALARM / 2, likely, runs - likely + 1)
    at_most = stats.beta.isf(FALSE_ALARM / 2, rare + 1, runs - rare)
    return float(np.log(at_least / at_most))


@pytest.mark.costly("Real releases are audited from outside, with the system's noise.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
def test_real_releases_survive_an_audit(relation: dc.Relation) -> None:
    """False alarms: 1e-8 for each relation by construction (5e-11 computed), and 3e-10 that the audit sees too little.

    Expected hits at epsilon 3: 668 and 33 of 1000 under ADD_REMOVE, 426 and 21 of 2000 under REPLACE.
    """
    assert 1 < audited(dc.laplace(), promise(3, relation), really) <= 3


@pytest.mark.costly("An audit that catches nothing would pass every release.", always=True)
@every(
    ("mutant", "relation"),
    [(redrawn(half_scale), dc.Relation.ADD_REMOVE), (calibrated_for(dc.Relation.ADD_REMOVE), dc.Relation.REPLACE)],
    ids=["half the scale", "the wrong relation"],
)
def test_the_audit_catches_twice_the_epsilon(mutant: dc.tools.Mechanism, relation: dc.Relation) -> None:
    """With a fixed seed, so that it cannot miss by chance; with exact noise it would miss once in 1000 runs."""
    rng = np.random.default_rng(11)
    assert audited(mutant, promise(3, relation), lambda *what: dc.simulate(*what, rng=rng)) > 3
