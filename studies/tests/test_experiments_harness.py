"""What runs the experiments: seeds, checks, pages, the command's exit status, and that all experiments are complete."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import experiments
from experiments import harness, pictures
from experiments.harness import Experiment, Task, begun, command, command_by_name, second_seeds
from experiments.pages import OUTCOMES, Check, Estimate, Illustration, Page, estimate, markdown, mean_and_error
from folding import every
from painting import paint

FOLDER = Path(experiments.__file__).parent
PAGES = FOLDER.parents[1] / "docs" / "experiments"


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Two numbers, one of records that all settings share."""
    yield {"metric": "shared", "value": task.rng("records").random()}
    yield {"metric": "own", "value": task.rng(f"noise {task.setting['way']}").normal()}


def present(frame: pd.DataFrame) -> Page:
    figure, ((panel,),) = pictures.grid(1, 1)
    pictures.curves(panel, frame[frame["metric"] == "own"], "size", "way", ["a", "b"])
    pictures.log_axis(panel, [1, 10], "size")
    pictures.legend_below(figure)
    found = estimate(frame["value"])
    return Page(
        f"Reproduced: the mean is {found.mean:.3f}.",
        [Illustration("one", figure, "What is seen.")],
        [("A table.", markdown(["a"], [[1]]))],
        [Check.below("mean", found, 10, sane=100)],
        "A note.",
    )


EXAMPLE = Experiment(
    title="Made up",
    source="nowhere",
    claim="nothing",
    data="random",
    relation="none",
    guarantee="none",
    plan=lambda quick: [({"way": way, "size": size}, 2 if quick else 5) for way in "ab" for size in (1, 10)],
    measure=measure,
    present=present,
    missing=lambda: ["a peer: not installed"],
)


@pytest.fixture
def unpainted() -> None:
    """Here pictures are painted."""


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> str:
    """An experiment that no file holds."""

    def install(experiment: Experiment) -> None:
        module = ModuleType("experiments.made_up")
        module.EXPERIMENT = experiment  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "experiments.made_up", module)

    install(EXAMPLE)
    monkeypatch.setattr(harness, "NAMES", ("made_up",))
    return "made_up"


def collected(name: str, *, quick: bool, pool: ProcessPoolExecutor | None = None) -> pd.DataFrame:
    return harness.collected(name, *begun(name, quick=quick, pool=pool))


# ------------------------------------------------------------------------------------------ seeds and tables


def test_random_numbers_depend_on_purpose_repeat_set_and_experiment_alone() -> None:
    task = Task("one", {"way": "a"}, 1, 0)
    first = task.rng("records").random()
    assert replace(task, setting={"way": "b"}).rng("records").random() == first
    others = [replace(task, repeat=1), replace(task, seeds=2), replace(task, experiment="two")]
    numbers = [first, task.rng("noise").random(), *(other.rng("records").random() for other in others)]
    assert len(set(numbers)) == 5


def test_the_table_is_tidy(made_up: str) -> None:
    frame = collected(made_up, quick=True)
    assert list(frame.columns) == ["way", "size", "seeds", "repeat", "metric", "value"]
    assert len(frame) == 2 * 2 * 2 * 2 * 2
    shared = frame[frame["metric"] == "shared"].groupby(["seeds", "repeat"])["value"]
    assert (shared.nunique() == 1).all(), "all settings see the same records"
    assert frame["value"].nunique() == 4 + 8
    assert frame.equals(collected(made_up, quick=True))
    assert len(collected(made_up, quick=False)) == 2.5 * len(frame)


@pytest.mark.costly("Only a pool of processes shows that rows do not depend on who makes them.")
def test_workers_find_the_same() -> None:
    with harness.workers(2) as pool:
        apart = collected("dimitrakakis_figure_1", quick=True, pool=pool)
    assert apart.equals(collected("dimitrakakis_figure_1", quick=True))


def test_what_is_not_random_runs_once(made_up: str, monkeypatch: pytest.MonkeyPatch) -> None:
    once = replace(EXAMPLE, plan=lambda quick: [({"way": "a", "size": 1}, 0)])
    monkeypatch.setattr(sys.modules["experiments.made_up"], "EXPERIMENT", once)
    frame = collected(made_up, quick=True)
    assert frame["seeds"].tolist() == [0, 0]
    assert second_seeds(frame) == ""


def test_seed_sets_are_compared() -> None:
    def rows(seeds: int, values: list[float]) -> list[dict[str, Any]]:
        return [{"metric": "m", "seeds": seeds, "repeat": r, "value": v} for r, v in enumerate(values)]

    # Means 1 and 4, variances 1 and 4 of two values each: 3 / sqrt(1/2 + 4/2).
    near = rows(1, [1 - math.sqrt(0.5), 1 + math.sqrt(0.5)]) + rows(2, [4 - math.sqrt(2), 4 + math.sqrt(2)])
    assert "Of 1 means, 0 % differ" in second_seeds(pd.DataFrame(near)).replace("0%", "0 %")
    assert f"farthest by {3 / math.sqrt(2.5):.1f}" in second_seeds(pd.DataFrame(near))
    assert "100%" in second_seeds(pd.DataFrame(rows(1, [1, 1.1]) + rows(2, [4, 4.1])))
    assert "too few" in second_seeds(pd.DataFrame(rows(1, [1]) + rows(2, [2])))
    assert "farthest by inf" in second_seeds(pd.DataFrame(rows(1, [1, 1]) + rows(2, [2, 2]))), "constant in each set"


# ------------------------------------------------------------------------------------------ pages


def test_means_and_tables() -> None:
    assert mean_and_error([1.0, 3.0]) == "2.000 ± 1.000"
    assert Estimate(0.5).text(2) == "0.50"
    assert math.isnan(estimate([1.0]).error)
    assert markdown(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |\n"


def test_a_run_writes_page_pictures_table_and_index(made_up: str, tmp_path: Path) -> None:
    command([made_up], ["--quick", "--output", str(tmp_path), "--processes", "1"])
    text = (tmp_path / "made_up.md").read_text(encoding="utf-8")
    for part in (
        "# Made up",
        "| Relation | none |",
        "2 of each setting",
        "a peer: not installed",
        "A note.",
        "## Second",
    ):
        assert part in text
    assert "python -m experiments.made_up --quick" in text
    for path in ("figures/made_up-one.svg", "figures/made_up-one.png", "data/made_up.parquet"):
        assert (tmp_path / path).stat().st_size > 0
        assert path in text
    assert pd.read_parquet(tmp_path / "data/made_up.parquet").equals(collected(made_up, quick=True))
    assert "[Made up](made_up.md) | **Reproduced**: the mean is" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_the_same_numbers_make_the_same_files(made_up: str, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        command([made_up], ["--quick", "--output", str(tmp_path / folder), "--processes", "1"])
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == 5
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


@pytest.mark.parametrize("wrong", [["--processes", "0"], ["--output", "{file}/folder"]])
def test_bad_arguments_are_refused_before_anything_is_measured(
    wrong: list[str], made_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(harness, "begun", lambda *_, **__: pytest.fail("measured"))
    given = ["--output", str(tmp_path), *(part.format(file=tmp_path / "file") for part in wrong)]
    with pytest.raises(SystemExit) as stopped:
        command([made_up], given)
    assert stopped.value.code == 2
    assert f"{wrong[0]}: " in capsys.readouterr().err


def test_experiments_that_run_together_keep_their_rows(
    made_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ModuleType("experiments.another")
    other.EXPERIMENT = replace(EXAMPLE, title="Other", plan=lambda quick: [({"way": "c", "size": 3}, 4)])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "experiments.another", other)
    command([made_up, "another"], ["--quick", "--output", str(tmp_path), "--processes", "1"])
    for name in (made_up, "another"):
        assert pd.read_parquet(tmp_path / f"data/{name}.parquet").equals(collected(name, quick=True))
    assert set(pd.read_parquet(tmp_path / "data/another.parquet")["way"]) == {"c"}


def test_a_check_that_fails_in_one_seed_set_fails_the_command(
    made_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(frame: pd.DataFrame) -> Page:
        bad = float(frame["seeds"].iloc[0] == 2)
        return Page("Well.", checks=[Check.below("second", Estimate(bad), 0.5)])

    monkeypatch.setattr(sys.modules["experiments.made_up"], "EXPERIMENT", replace(EXAMPLE, present=picky))
    with pytest.raises(SystemExit, match=r"made_up: second: wanted at most 0\.500, found 1\.000"):
        command([made_up], ["--quick", "--output", str(tmp_path), "--processes", "1"])
    assert "| second | at most 0.500 | up to 0.500 | 0.000 | 1.000 | **no** |" in (tmp_path / "made_up.md").read_text(
        "utf-8"
    )


def test_a_check_without_power_fails_the_command(made_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds, and would hold for anything."""

    def vague(frame: pd.DataFrame) -> Page:
        return Page("Well.", checks=[Check.above("share", Estimate(0.9, 0.5), 0.8, sane=0.5, least=0.0)])

    monkeypatch.setattr(sys.modules["experiments.made_up"], "EXPERIMENT", replace(EXAMPLE, present=vague))
    with pytest.raises(SystemExit, match=r"made_up: share: without power: it would still accept from -1\.200"):
        command([made_up], ["--quick", "--output", str(tmp_path), "--processes", "1"])
    text = (tmp_path / "made_up.md").read_text("utf-8")
    assert "| check | wanted | would still pass | first seeds | second seeds | holds |" in text
    assert "from -1.200 | 0.900 ± 0.500 | 0.900 ± 0.500 | **without power** |" in text


# ------------------------------------------------------------------------------------------ by name


def test_experiments_are_run_by_name(made_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("experiments.another")
    other.EXPERIMENT = replace(EXAMPLE, title="Other")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "experiments.another", other)
    monkeypatch.setattr(harness, "NAMES", (made_up, "another"))
    options = ["--quick", "--processes", "1", "--output"]
    command_by_name(["another", "another", *options, str(tmp_path / "one")])
    assert [path.stem for path in (tmp_path / "one" / "data").iterdir()] == ["another"]
    command_by_name([*options, str(tmp_path / "all")])
    assert {path.stem for path in (tmp_path / "all" / "data").iterdir()} == {made_up, "another"}


def test_the_names_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "begun", lambda *_, **__: pytest.fail("measured"))
    command_by_name(["--list"])
    assert capsys.readouterr().out.split() == list(experiments.NAMES)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zhang_figure_11", "did you mean zhang_figure_1"),
        ("zhang", "did you mean zhang_figure_1, zhang_figure_2, zhang_table_1?"),
        ("qqq", "--list prints all names"),
        ("a\nb" * 1000, "--list prints all names"),
    ],
)
def test_unknown_names_get_one_line(
    name: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "begun", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(SystemExit) as stopped:
        command_by_name(["coverage", name])
    written = capsys.readouterr().err
    assert stopped.value.code == 2
    assert said in written and written.count("\n") == 1 and len(written) < 300


def test_verdicts_of_both_seed_sets_are_shown_where_they_differ(
    made_up: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys.modules["experiments.made_up"],
        "EXPERIMENT",
        replace(EXAMPLE, present=lambda frame: Page(f"Set {frame['seeds'].iloc[0]}.")),
    )
    command([made_up], ["--quick", "--output", str(tmp_path), "--processes", "1"])
    text = (tmp_path / "made_up.md").read_text("utf-8")
    assert "**Verdict.** Set 1." in text
    assert "Its verdict: Set 2." in text


# ------------------------------------------------------------------------------------------ the experiments


@every("name", experiments.NAMES)
def test_every_experiment_states_what_it_is(name: str) -> None:
    experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    for stated in ("title", "source", "claim", "data", "relation", "guarantee"):
        text = getattr(experiment, stated)
        assert len(text) > 3, stated
        assert "\n" not in text
        assert "|" not in text, "it stands in a table"
    quick, full = (harness.tasks(name, experiment, quick=fast) for fast in (True, False))
    assert 0 < len(quick) <= len(full)
    for task in quick:
        assert all(isinstance(value, (str, int, float, bool)) for value in task.setting.values())


@pytest.mark.costly("Each page's verdict and checks are made again from the rows that are stored.")
@every("name", experiments.NAMES)
def test_every_experiment_has_its_page(name: str) -> None:
    """As the last `make experiments` left it: its checks held, its files are there, the index quotes its verdict."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    checks = text.partition("## Checks")[2].partition("\n## ")[0]
    assert "**no**" not in checks and "**without power**" not in checks
    assert not checks or "| would still pass |" in checks
    assert "nan" not in text.split()
    verdict = next(line for line in text.splitlines() if line.startswith("**Verdict.** "))
    index = (PAGES / "README.md").read_text(encoding="utf-8").replace("**", "")
    assert f"]({name}.md) | {verdict.removeprefix('**Verdict.** ')} |" in index
    linked = [part.split(")")[0] for part in text.split("](")[1:]]
    for path in linked:
        assert (PAGES / path).is_file(), path
    frame = pd.read_parquet(PAGES / "data" / f"{name}.parquet")
    assert {"metric", "value", "seeds", "repeat"} <= set(frame.columns)
    pages = harness.presented(name, frame[frame["seeds"] < 2])
    with pytest.MonkeyPatch.context() as patch:
        paint(patch, False)  # the pictures of one set are enough
        pages += harness.presented(name, frame[frame["seeds"] != 1])
    assert pages[0].verdict == verdict.removeprefix("**Verdict.** "), "the page was made by this code"
    assert all(check.passes and check.accepts for page in pages for check in page.checks)


@every("name", experiments.NAMES)
def test_seed_sets_and_repeats_differ(name: str) -> None:
    """In what the last `make experiments` measured: no random number is the same in all repeats of both sets."""
    frame = pd.read_parquet(PAGES / "data" / f"{name}.parquet")
    random = frame[frame["seeds"] > 0]
    if random.empty:
        assert set(frame["seeds"]) == {0}
        return
    keys = [column for column in random.columns if column not in ("seeds", "repeat", "value")]
    varied = random.groupby(keys, dropna=False)["value"].nunique() > 1
    assert varied.mean() >= 0.5, "constants are exact results, which belong to no seed set"
    both = random.groupby([*keys, "repeat"], dropna=False)["value"].agg(["nunique", "count"])
    both = both[(both["count"] == 2) & varied.loc[[key[:-1] for key in both.index]].to_numpy()]
    assert (both["nunique"] == 2).mean() > 0.5, "the second set is not the first"


@every("name", experiments.NAMES)
def test_verdicts_can_be_read_at_a_glance(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    verdict = text.split("**Verdict.** ")[1].split("\n")[0]
    assert verdict.startswith(OUTCOMES)
    assert len(verdict.split()) <= 80


def test_the_list_is_complete() -> None:
    """Modules with an experiment are listed, and no page is left of one that is gone."""
    found = {
        path.stem for path in FOLDER.glob("*.py") if "\nEXPERIMENT = " in path.read_text(encoding="utf-8")
    }  # fmt: skip
    assert found == set(experiments.NAMES)
    assert {path.stem for path in PAGES.glob("*.md")} == {*found, "README"}
    assert {path.stem for path in (PAGES / "data").iterdir()} == found


def test_pictures_differ_in_dashes_and_markers() -> None:
    for key in ("linestyle", "marker", "color"):
        assert len({str(one[key]) for one in pictures.STYLES}) == len(pictures.STYLES)
    greys = [np.mean(_rgb(one["color"])) for one in pictures.STYLES]
    assert max(greys) < 0.5, "dark enough on white"


def _rgb(color: Any) -> Any:
    from matplotlib.colors import to_rgb

    return to_rgb(color)
