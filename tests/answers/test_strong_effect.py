"""A strong effect that the release's own table holds is answered as the table says."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from design_cases import promise

RECORDS = 8000


def released() -> tuple[dc.Release, float]:
    """A release of a family of three parents, the noise a thousandth of a record, and a share that its table holds."""
    rng = np.random.default_rng(3)
    a = rng.choice(4, RECORDS, p=[0.4, 0.3, 0.21, 0.09])
    g = np.clip(rng.integers(0, 10, RECORDS) + a // 2, 0, 9)
    c = rng.integers(0, 4, RECORDS)
    odds = np.array([-2.6, -1.5, -0.2, 1.6])[a] + 0.08 * (g - 5) + 0.2 * (c - 1.5)
    codes = {"a": a, "g": g, "c": c, "d": (rng.random(RECORDS) < 1 / (1 + np.exp(-odds))).astype(int)}
    sizes = {"a": 4, "g": 10, "c": 4, "d": 2}
    variables = [dc.Variable(name, tuple(f"{name}{code}" for code in range(size))) for name, size in sizes.items()]
    arcs = [("a", "g"), ("a", "c"), ("a", "d"), ("g", "d"), ("c", "d")]
    network = dc.Network.from_edges(arcs, variables)
    counts = dc.tools.count_codes(network, codes)
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise(1000), rng=1)
    return release, float(codes["d"][a == 3].mean())


@pytest.mark.costly("An answer that leaves its table by a fraction of its deviation shows in thousands of draws.")
def test_a_strong_effect_is_answered_as_its_table_says() -> None:
    """718 records: the answer is .21 deviations of sampling below the share, as rows of 18 records lean on others.

    A deviation is .013, and its mean has an error of .016 of that (4,000 draws, which differ between processors), so
    that it passes .3 with a chance below 1e-7. The share of noise is a correlation of draws: within four standard
    errors of none.
    """
    release, share = released()
    (row,) = dc.noise_aware(release, rng=1, draws=4000).answer("P(d=d1 | a=a3)").rows
    assert row["lower"] <= share <= row["upper"]
    assert abs(row["mean"] - share) < 0.3 * (row["upper"] - row["lower"]) / 4
    assert row["noise"] < 4 * row["noise_error"]
