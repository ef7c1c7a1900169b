"""`bench.synthesizers`: what is asked, of which records, and what becomes of a peer that fails. No peer is run here."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from bench import synthesizers
from bench.synthesizers import METHODS, Task, World, measure, report, world_of
from discreet.inference.sampling import sample_codes
from experiments.networks import asia

ROOT = Path(__file__).parents[2]


def of(method: str, *, epsilon: float = 1.0, limit: float = 5.0) -> Task:
    """A run on records of asia."""
    return Task("asia", method, epsilon, 0, limit)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> World:
    """A thousand records of asia, whatever is asked for."""
    theta = asia()
    codes = sample_codes(theta, 1000, np.random.default_rng(1))
    world = World(theta.network, codes, synthesizers._law_of(theta))
    monkeypatch.setattr(synthesizers, "world_of", lambda name, seed: world)
    return world


def test_the_truth_has_no_error_and_a_wrong_share_counts_in_every_cell(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(world: World, epsilon: float, rng: np.random.Generator, limit: float) -> Iterator[tuple[str, object]]:
        yield "model", world.law
        yield "records", lambda names: world.law(names) + 0.01

    monkeypatch.setattr(synthesizers, "METHODS", {"told": told})
    found = {(row["part"], row["size"]): row["error"] for row in measure(of("told"))}
    assert found == {
        ("model", 2): 0,
        ("model", 3): 0,
        ("records", 2): pytest.approx(4 * 0.01),
        ("records", 3): pytest.approx(8 * 0.01),
    }


QUICK = {"ours, chosen", "ours, none, delta"}
"""Each with and without a network, and a delta."""


@pytest.mark.costly("That records of a model lie further off than it does shows on average over several.")
@pytest.mark.parametrize(
    "method",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough)
        for name in METHODS
        if name.startswith("ours")
    ],
)
def test_our_methods_are_nearer_with_more_budget_and_their_records_add_their_own_error(
    small: World, method: str
) -> None:
    def errors(epsilon: float, seed: int) -> dict[tuple[str, int], float]:
        task = Task("asia", method, epsilon, seed, 5.0)
        return {(row["part"], row["size"]): row["error"] for row in measure(task)}

    # One set of records may lie nearer to the truth than what it is drawn from: on average they do not.
    little, much = errors(0.01, 0), [errors(30.0, seed) for seed in range(8)]
    for size in (2, 3):
        model, records = (np.mean([found[part, size] for found in much]) for part in ("model", "records"))
        assert model < 0.5 * little["model", size]
        assert model < records


def test_a_law_counts_records() -> None:
    network = dc.Network.empty((dc.Variable("a", ("x", "y")), dc.Variable("b", ("x", "y", "z"))))
    law = synthesizers._counted(network, {"a": np.array([0, 1, 1, 1]), "b": np.array([2, 0, 0, 1])})
    assert law(("b", "a")).tolist() == [[0, 0.5], [0, 0.25], [0.25, 0]]


@pytest.mark.parametrize("name", synthesizers.TABLES)
def test_tables_fit_their_networks(name: str) -> None:
    if name != "breast cancer" and "DISCREET_DATA" not in os.environ:
        pytest.skip(f"the table {name} is in $DISCREET_DATA/uci, which is not set")
    one, other = world_of(name, 0), world_of(name, 1)
    sizes = {len(column) for column in one.codes.values()}
    assert len(sizes) == 1 and min(sizes) > 500
    for variable in one.network.schema:
        share = one.law((variable.name,))
        assert share.sum() == pytest.approx(1) and share.min() > 0.005, variable.name
        assert not np.array_equal(one.codes[variable.name], other.codes[variable.name])
    assert len(one.network.arcs) >= 6


def test_all_pairs_are_asked_of_few_variables_and_the_same_ones_of_many() -> None:
    few, many = tuple("abcdefgh"), tuple(f"v{place}" for place in range(37))
    assert synthesizers._sets(few, 2) == list(combinations(few, 2))
    asked = synthesizers._sets(many, 3)
    assert len(set(asked)) == synthesizers.TRIPLES
    assert asked == synthesizers._sets(many, 3)


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """Environments whose interpreter is a line of shell."""
    for environment in ("dpmm", "opendp"):
        python = folder / environment / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(synthesizers, "ENVIRONMENTS", folder)


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("echo no such option >&2; exit 3", "no such option"),
        ("exit 1", "nothing"),
        ("exec sleep 60", "not done in 1 s"),
    ],
)
def test_a_peer_that_fails_or_takes_too_long_is_told_in_the_report(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, why: str
) -> None:
    fake(tmp_path, monkeypatch, does)
    rows = measure(of("dpmm AIM", limit=1.0))
    assert [row["why"] for row in rows] == [why]
    told = report([*rows, *measure(of("ours, none"))])
    assert f"* dpmm AIM, asia, epsilon 1: {why}" in told
    assert re.search(r"^\| asia \| 1 \| 0\.\d{4} / 0\.\d{4} \| - / - \|$", told, re.MULTILINE)


def test_several_seeds_have_a_mean_and_its_error() -> None:
    rows = [
        {
            "data": "asia",
            "method": "ours, none",
            "epsilon": 1.0,
            "seed": seed,
            "part": part,
            "size": size,
            "error": error,
        }
        for part in ("model", "records")
        for size in (2, 3)
        for seed, error in enumerate((0.1, 0.3))
    ]
    assert "| asia | 1 | 0.2000 ± 0.1000 / 0.2000 ± 0.1000 |" in report(rows)


def test_what_a_peer_makes_up_is_counted(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records come back as they are: the peer's shares are those of the records, which stand ten times."""
    repeat = (
        "import numpy, sys; z = numpy.load(sys.argv[1]); "
        "numpy.savez(sys.argv[2], codes=numpy.tile(z['codes'], (int(z['rows']) // len(z['codes']), 1)))"
    )
    fake(tmp_path, monkeypatch, f'exec {sys.executable} -c "{repeat}" "$3" "$4"')
    read = dict(METHODS["OpenDP AIM"](small, 1.0, np.random.default_rng(0), 60.0))
    for names in (("asia", "tub"), ("smoke", "lung", "bronc")):
        expected = synthesizers._counted(small.network, small.codes)(names)
        np.testing.assert_allclose(read["model"](names), expected, atol=1e-12)
        assert np.abs(read["records"](names) - expected).sum() < 0.1


def test_environments_are_pinned_without_addresses() -> None:
    files = sorted((ROOT / "studies" / "bench" / "environments").glob("*.txt"))
    assert [file.stem for file in files] == ["diffprivlib", "dpmm", "opendp"]
    for file in files:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        assert lines and all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines), file.name
