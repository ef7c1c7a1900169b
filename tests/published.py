"""The release files in `tests/data`, and how they were made.

`release-v1-*.json` were made once, by `python tests/published.py tests/data` at version 0.1.0: simulations on the
bundled network, with a table for every family. They are never made again; a change that cannot read them needs a new
format version.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import discreet as dc
from networks import asia
from tiny import counts_of

DATA = Path(__file__).parent / "data"


def example(relation: dc.Relation) -> dc.Release:
    """The release behind a committed file; random streams may change, so only the file is compared with itself."""
    theta, rng = asia(), np.random.default_rng(1)
    network = theta.network
    prior = {
        dc.Relation.ADD_REMOVE: dc.Dirichlet.uniform(network),
        dc.Relation.REPLACE: dc.Dirichlet.from_probabilities(theta, 10),
    }[relation]
    guarantee = dc.Guarantee(epsilon="0.7", delta=0, relation=relation, unit="record")
    counts = counts_of(network, rng.integers(0, 2, (500, len(network.nodes))))
    every = dict.fromkeys(network.nodes, guarantee.epsilon / len(network.nodes))
    return dc.simulate(dc.laplace(every), counts, prior, guarantee, rng=rng)


def committed(relation: dc.Relation) -> str:
    return (DATA / f"release-v1-{relation}.json").read_text(encoding="utf-8")


if __name__ == "__main__":
    for kind in dc.tools.RECORD_RELATIONS:
        example(kind).save(Path(sys.argv[1]) / f"release-v1-{kind}.json")
