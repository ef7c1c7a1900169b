"""A stored page is what is measured: the first repeat of some settings of each page is made again.

`make experiments-check` does everything; here each page has what costs little and needs nothing but the
package, a minute of CPU together. As all tests of this folder they run where something they read has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments import NAMES
from experiments.harness import command_by_name, differences, first_tasks, measured
from experiments.shipped import SHIPPED
from tidy import ROOT

DATA = ROOT / "docs" / "experiments" / "data"
Setting = Mapping[str, Any]


def where(**wanted: Any) -> Callable[[Setting], bool]:
    """Settings with these values."""
    return lambda setting: wanted.items() <= setting.items()


ON_ASIA = where(network="asia", method=SHIPPED)
SOME: Mapping[str, Callable[[Setting], bool]] = {
    "audits": where(population="asia", epsilon=0.3),
    "chowdhury_allocation": where(part="shipped", mechanism="laplace()", at=1),
    "chowdhury_figure_2": ON_ASIA,
    "chowdhury_table_1": ON_ASIA,
    "chowdhury_table_2": ON_ASIA,
    "coverage": where(truths="prior", mechanism="planned"),
    "dimitrakakis_distinguishability": where(part="partition"),
    "dimitrakakis_examples": where(part="trimmed"),
    "dimitrakakis_figure_1": where(),
    "dimitrakakis_regret": where(game="epsilon 1"),
    "errata": lambda setting: setting["claim"].startswith(("D Lemma 2", "Z Theorem")),
    "missing_values": where(law="asia", epsilon=1.0),
    "scaling": where(varied="epsilon", at=0.1),
    "williams_figure_2": lambda setting: setting["part"] != "errors",
    "williams_figure_3b": where(),
    "williams_figure_4": where(part="panel", epsilon=0.1),
    "williams_tables": where(set="SYNTH", part="learned"),
    "wrong_networks": where(population="made up, right", epsilon=3.0),
    "zhang_figure_1": lambda setting: setting.get("epsilon", 5.0) == 5.0,
    "zhang_figure_2": where(population="made up", part="draws"),
    "zhang_table_1": where(),
}
"""Which settings of a page; all of them where that costs little."""
LEFT = {
    "peers": "other libraries stand in every setting, and are not installed here",
    "planned_noise": "private-pgm stands in every setting, and is not installed here",
    "williams_figure_3a": "the least setting takes 13 seconds of CPU",
}
"""Pages that `make experiments-check` alone measures again, and why."""
FRESH = "dimitrakakis_figure_1"
"""A page without randomness, whose settings take some hundredths of a second each."""


def test_every_page_is_measured_again_or_said_to_be_left() -> None:
    assert set(SOME) | set(LEFT) == set(NAMES) and not set(SOME) & set(LEFT)


@pytest.mark.costly("A page that no longer is what the code measures is found by measuring some of it.")
@pytest.mark.parametrize("name", SOME)
def test_a_stored_page_is_what_is_measured(name: str) -> None:
    """A page that fails is made again: `python -m experiments --quick NAME`."""
    stored, chosen = pd.read_parquet(DATA / f"{name}.parquet"), [t for t in first_tasks(name) if SOME[name](t.setting)]
    assert chosen, "no such setting"
    lines = [line for task in chosen for line in differences(stored, task, measured(task))]
    assert not lines, "\n".join(lines[:20])


def changed(tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> list[str]:
    """What is told of a page whose stored rows were changed, by the command line."""
    (tmp_path / "data").mkdir(exist_ok=True)
    change(pd.read_parquet(DATA / f"{FRESH}.parquet")).to_parquet(tmp_path / "data" / f"{FRESH}.parquet", index=False)
    try:
        command_by_name(["--check", FRESH, "--output", str(tmp_path), "--processes", "1"])
    except SystemExit as end:
        return str(end.code).splitlines()[1:]
    return []


@pytest.mark.parametrize("value", [1 + 4e-4, math.nan, math.inf])
def test_one_changed_value_is_named(tmp_path: Path, value: float) -> None:
    """Of a hundred stored numbers the one that is another, with its setting and columns."""
    place = 7

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        assert frame["value"][place]
        return frame.assign(value=frame["value"].where(frame.index != place, frame["value"] * value))

    stored = pd.read_parquet(DATA / f"{FRESH}.parquet").iloc[place]
    (line,) = changed(tmp_path, change)
    assert line.startswith(f"{FRESH}: prior {stored['prior']}, step {stored['step']}: ")
    assert f"metric {stored['metric']}, at nan: stored " in line
    assert line.endswith(f"measured {stored['value']:.6g}")


def test_an_unchanged_page_is_not_named(tmp_path: Path) -> None:
    """Nor one that another machine's last digits are in, or whose numbers are none on both sides."""
    assert changed(tmp_path, lambda frame: frame) == []
    assert changed(tmp_path, lambda frame: frame.assign(value=frame["value"] * (1 + 1e-7))) == []
    task = first_tasks(FRESH)[0]
    rows = [{**row, "value": math.nan} for row in measured(task)]
    assert differences(pd.DataFrame(rows), task, rows) == []


def test_rows_that_are_gone_or_new_are_named(tmp_path: Path) -> None:
    (line,) = changed(tmp_path, lambda frame: frame.drop(index=3))
    assert line.startswith(f"{FRESH}: ") and " rows that are not the " in line
    assert len(changed(tmp_path, lambda frame: frame.assign(metric=frame["metric"] + "!"))) == len(first_tasks(FRESH))
    assert len(changed(tmp_path, lambda frame: frame[:0])) == len(first_tasks(FRESH))


def test_rows_of_a_setting_are_not_those_of_one_with_more_columns() -> None:
    """Columns that a setting lacks are empty in its rows."""
    task = first_tasks(FRESH)[0]
    rows = measured(task)
    others = [{**row, "more": 1, "value": row["value"] + 1} for row in rows]
    assert differences(pd.DataFrame([*others, *rows]), task, rows) == []
