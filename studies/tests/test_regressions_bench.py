"""The measurement of regressions from a release runs, and knows the truth of its cases."""

from __future__ import annotations

import numpy as np
import pytest

from bench import regressions
from bench.regressions import CASES, main


def test_a_line_for_each_regression(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regressions, "POPULATION", 20_000)
    main(["--cases", "asia", "--epsilon", "3", "--runs", "1", "--records", "2000"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| asia")]
    assert [line.split("|")[2].strip() for line in lines] == [str(asked) for asked in CASES["asia"]().asked]
    numbers = [[float(part) for part in line.split("|")[5:-1]] for line in lines]
    assert np.isfinite(numbers).all() and all(error < zero for _, _, error, _, _, zero in numbers)


def test_people_follow_the_coefficients_that_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard errors of 200,000 records are below .02 for all but the groups' log odds."""
    monkeypatch.setattr(regressions, "POPULATION", 200_000)
    case = CASES["people"]()
    score, _, ill = case.asked
    np.testing.assert_allclose(case.truth(score)[0][:3], [0.5, 3, -4], atol=0.2)
    np.testing.assert_allclose(case.truth(ill)[0], [0.05, 0.3, 0.5, 1, -4], atol=0.1)
