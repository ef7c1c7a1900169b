"""Laws of pairs: exact ones are those of the whole joint, made-up ones are near them, and always the same."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import discreet as dc
from discreet.inference import exact_laws as module
from discreet.inference.exact_laws import pair_laws
from oracle import full_joint, random_draws, small, with_draws

NETWORK = small(("a", 3, ()), ("b", 2, ("a",)), ("c", 2, ("b",)), ("d", 3, ("a", "c")), ("seen 0", 2, ("c",)))


def theta() -> dc.Tables:
    cells = random_draws(NETWORK, 1, seed=1)
    return dc.Tables(NETWORK, {node: cells[node][..., 0] for node in NETWORK.nodes})


def truth(pair: tuple[str, ...]) -> np.ndarray:
    whole = full_joint(with_draws(theta()))[..., 0]
    summed = whole.sum(axis=tuple(axis for axis, name in enumerate(NETWORK.nodes) if name not in pair))
    kept = [name for name in NETWORK.nodes if name in pair]
    return summed.transpose([kept.index(name) for name in pair])


@pytest.mark.parametrize("together", [1, 3, 16])
def test_exact_laws_are_those_of_the_joint(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRSTS_TOGETHER", together)
    pairs = list(permutations(NETWORK.nodes, 2))
    found = pair_laws(theta(), pairs)
    assert list(found) == pairs
    for pair in pairs:
        np.testing.assert_allclose(found[pair], truth(pair), atol=1e-12)


def test_a_state_that_is_impossible_has_no_share() -> None:
    never = dc.Tables(NETWORK, {**theta(), "a": [0.25, 0.0, 0.75]})
    law = pair_laws(never, [("a", "d"), ("d", "a")])
    assert np.array_equal(law["a", "d"][1], np.zeros(3)) and law["a", "d"].sum() == pytest.approx(1)
    np.testing.assert_allclose(law["d", "a"], law["a", "d"].T, atol=1e-12)


@pytest.mark.parametrize("why", ["large", "refused"])
def test_laws_out_of_reach_are_shares_of_made_up_records(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2**22 records: six deviations of a share of a half, and the same records every time."""

    def refused(*_: object) -> None:
        raise dc.InputError("too large")

    if why == "large":
        monkeypatch.setattr(module, "MOST_EXACT_CELLS", 1)
    else:
        monkeypatch.setattr(module.Laws, "marginals", refused)
    pairs = [("a", "b"), ("d", "b"), ("c", "d")]
    found, again = pair_laws(theta(), pairs), pair_laws(theta(), pairs)
    for pair in pairs:
        assert 0 < np.abs(found[pair] - truth(pair)).max() < 6 * np.sqrt(0.25 / 2**22)
        assert np.array_equal(found[pair], again[pair])
