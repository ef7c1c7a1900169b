"""`bench.growth`: its lines, and the picture of what grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.growth import PLACES, Measured, cases, measured


def test_a_line_says_what_was_measured() -> None:
    line = measured(("random", 12, 2, 2, 500, 20))
    assert line.cells == 2 + 4 + 10 * 8  # a root, a node of one parent, and ten of two
    assert min(line.draw, line.ask, line.more, line.memory) > 0
    assert line.sampled is None
    assert str(line).split()[:6] == ["random", "12", "2", "2", "500", "20"]


def test_answers_past_exact_inference_state_their_error() -> None:
    line = Measured(("far", 100, 3, 2, 500, 20), 800, 0.1, 0.2, 3.0, 0.4, 0.5, 0.6, None, 0.00171)
    assert str(line).endswith("sampled, standard error 0.0017")


def test_every_table_grows_in_the_number_that_it_is_called_after() -> None:
    for name, place in PLACES.items():
        rows = cases(name, 100)
        assert len({row[place] for row in rows}) == len(rows) > 2
        assert len({(*row[:place], *row[place + 1 :]) for row in rows}) == 1


def test_the_picture_has_a_panel_for_each_number(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib (extra bench)")
    from bench.pictures import draw_growth

    lines = [(100, 0.5, 0.2), (1000, 5.0, 0.3), (10_000, 50.0, 0.9)]
    draw_growth({"nodes": lines, "rows": lines}, tmp_path / "g.svg")
    text = (tmp_path / "g.svg").read_text()
    for word in ("nodes", "rows", "CPU seconds", "peak GiB", "10k"):
        assert f">{word}<" in text
    draw_growth({"nodes": lines}, tmp_path / "g.png")
    assert (tmp_path / "g.png").stat().st_size > 1000
