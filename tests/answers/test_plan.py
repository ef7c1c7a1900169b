"""The plan: errors of mechanisms on made-up records, and the counts of records that are in memory as codes."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.cli.cli import main
from discreet.mechanisms import mechanisms_over
from discreet.verify.plan import SAMPLING_ALONE
from networks import asia
from tiny import TINY, counts_of, network_of

NETWORK = TINY["chain"]
THETA = dc.Tables(
    NETWORK, {"a": [0.3, 0.7], "b": [[0.9, 0.1], [0.2, 0.8]], "c": [[0.5, 0.5], [0.6, 0.4]]}
)  # fmt: skip


def promise(epsilon: object = 1, relation: str = "add-remove", delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def rows(guarantee: dc.Guarantee, records: int = 2000, **options: object) -> dict[str, dc.results.ExpectedError]:
    found = dc.plan(THETA, guarantee, records, rng=np.random.default_rng(3), **options)
    return {row.mechanism: row for row in found}


@pytest.mark.costly("A mechanism that plans cannot foretell is found by simulating all of them.")
def test_every_mechanism_has_a_row_after_the_sampling_error() -> None:
    found = rows(promise(delta="1e-6"), repeats=2)
    assert list(found) == [SAMPLING_ALONE, *mechanisms_over("network")]
    for name, row in found.items():
        assert row.refused is None
        assert 0 < row.cells < 0.5
        assert 0 < row.marginals < 0.5
        assert all(error >= 0 for error in row.errors)
        pure = name in ("laplace", "fourier", "allocated", "map_estimate")
        assert row.guarantee is None or row.guarantee.delta == (0 if pure else promise(delta="1e-6").delta)


def test_what_is_refused_says_why_and_has_no_numbers() -> None:
    row = rows(promise(), repeats=1)["gaussian"]
    assert "needs a guarantee with a delta" in (row.refused or "")
    assert math.isnan(row.cells)
    assert math.isnan(row.marginals)


@pytest.mark.costly("Foretold errors that do not fall are found by simulating each epsilon.")
@pytest.mark.parametrize(
    "name", ["laplace", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("fourier", "allocated"))]
)
def test_errors_fall_with_epsilon_to_the_sampling_error(name: str) -> None:
    only = {name: dc.tools.MECHANISMS[name]()}
    small, large, huge = (rows(promise(e), repeats=8, mechanisms=only) for e in (0.02, 1, 200))
    assert small[name].cells > 3 * large[name].cells > 3 * 0.9 * huge[name].cells
    # The posterior mean has Monte Carlo error, too: 200 draws.
    assert huge[name].cells == pytest.approx(huge[SAMPLING_ALONE].cells, abs=0.003)


def test_the_sampling_error_is_that_of_the_conjugate_posterior() -> None:
    """Mean absolute error of a proportion: sqrt(2 p (1 - p) / (pi n)) in the mean over many data sets."""
    coin = network_of({"a": 2})
    theta = dc.Tables(coin, {"a": [0.3, 0.7]})
    found = dc.plan(theta, promise(), 400, rng=np.random.default_rng(5), repeats=400, mechanisms={})
    wanted = math.sqrt(2 * 0.21 / (math.pi * 400))
    # The standard error of the mean of 400 half-normal errors is 0.75 / 20 of it; 6 of them: 1e-9.
    assert found[0].cells == pytest.approx(wanted, rel=6 * 0.0378)
    assert found[0].cells == pytest.approx(found[0].marginals)
    assert found[0].errors[0] == pytest.approx(0.0378 * wanted, rel=0.3)


def test_what_cannot_be_compared_is_refused() -> None:
    rng = np.random.default_rng(0)
    drawn = dc.Dirichlet.uniform(NETWORK).draw(2, rng=rng)
    for theta, records, repeats in ((THETA, 0, 1), (THETA, 1, 0), (drawn, 1, 1)):
        with pytest.raises(dc.InputError, match="at least one record and one repeat"):
            dc.plan(theta, promise(), records, rng=rng, repeats=repeats)


# ------------------------------------------------------------------------------------------------------- from the shell


def test_the_command_prints_a_row_for_each_mechanism_and_relation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    THETA.write(tmp_path / "chain.bif")
    words = ["plan", "--network", str(tmp_path / "chain.bif"), "--epsilon", "1", "--records", "500", "--repeats", "1"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["source"] == "the network file's probabilities"
    assert [part["mechanism"] for part in told["expected"]] == [SAMPLING_ALONE, *mechanisms_over("network")] * 2
    assert {part["relation"] for part in told["expected"]} == {"add-remove", "replace"}
    for part in told["expected"]:
        assert (part["cells"] is None) == (part["mechanism"] == "gaussian") == (part["refused"] is not None)
    assert main([*words, "--relation", "replace"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^replace +laplace +0\.", text, re.MULTILINE)
    assert "add-remove" not in text
    assert "500 records made up from the network file's probabilities, 1 times" in text


def test_a_network_without_probabilities_gets_random_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "n.bif"
    path.write_text("network n { } variable x { type discrete [ 2 ] { a, b }; } probability ( x ) { }")
    assert main(["plan", "--network", str(path), "--epsilon", "1", "--records", "100", "--repeats", "1"]) == 0
    assert "made up from random probabilities" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", "0", "--records", "10"], "epsilon must be greater than 0"),
        (["--epsilon", "1", "--records", "0"], "at least one record"),
        (["--epsilon", "1", "--records", "10", "--relation", "both"], "unknown relation"),
    ],
)
def test_bad_words_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    asia().write(tmp_path / "asia.bif")
    assert main(["plan", "--network", str(tmp_path / "asia.bif"), *words]) == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- records as codes


def test_codes_are_counted_like_records() -> None:
    rng = np.random.default_rng(1)
    for network in TINY.values():
        codes = {variable.name: rng.integers(0, variable.size, 50) for variable in network.variables}
        counted = dc.tools.count_codes(network, codes)
        slow = counts_of(network, zip(*(codes[node].tolist() for node in network.nodes), strict=True))
        assert all(np.array_equal(counted.tables[node], slow.tables[node]) for node in network.nodes)
        assert counted.records == 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.array([0, 2])}, "column 'a' holds a code that is no state"),
        ({"a": np.array([0, -1])}, "column 'a' holds a code that is no state"),
        ({"a": np.array([0])}, "one code for each record"),
        ({"a": None}, r"missing: \['a'\]"),
    ],
)
def test_codes_that_are_no_records_are_refused(change: dict[str, object], message: str) -> None:
    codes = {node: np.array([0, 1]) for node in NETWORK.nodes} | change
    with pytest.raises(dc.InputError, match=message):
        dc.tools.count_codes(NETWORK, {node: column for node, column in codes.items() if column is not None})


def test_no_records_are_counted_too() -> None:
    counted = dc.tools.count_codes(NETWORK, {node: np.zeros(0, np.int64) for node in NETWORK.nodes})
    assert counted.records == 0
