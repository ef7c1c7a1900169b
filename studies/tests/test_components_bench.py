"""`bench.components`: what it measures with, on axes whose errors are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench import components


def test_errors_of_known_axes() -> None:
    made = components.sample("spiked 4", 3)
    best = components.leading(np.cov(made.records.T), 4)
    assert components.scores(best, made.records, 2) == pytest.approx((0.0, 1.0), abs=1e-6)
    # Signs and the basis of a plane do not matter; a third axis in place of the second is all wrong.
    turned = np.array([[0.6, 0.8], [0.8, -0.6]]) @ best[:2]
    assert components.scores(turned, made.records, 2) == pytest.approx((0.0, 1.0), abs=1e-6)
    sine, share = components.scores(best[[0, 2]], made.records, 2)
    assert sine == pytest.approx(1.0)
    assert 0.5 < share < 0.9
    assert all(math.isnan(value) for value in components.scores(best[:1], made.records, 2))


def test_made_up_sets_have_their_covariance() -> None:
    for name in components.MADE_UP:
        made = components.sample(name, 1)
        assert made.truth is not None
        assert np.abs(made.records).max() <= 1
        assert np.linalg.norm(np.cov(made.records.T) - made.truth) < 0.15 * np.linalg.norm(made.truth)
    assert components.sample("iris", 0).truth is None


def test_it_prints_its_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(components.METHODS, "directions", lambda records, *_: np.empty((0, records.shape[1])))
    components.main(["--quick"])
    components.main(["--quick", "--coverage"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in printed] == [
        "| set",
        "|---|---|---|---|---|---|---|---|",
        "| spiked 4",
        "| set",
        "|---|---|---|---|---|---|---|---|",
        "| spiked 4",
    ]
