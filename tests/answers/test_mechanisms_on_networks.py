"""Every mechanism works on Asia, Child, ALARM and naive Bayes networks of many features, or says why it does not.

From the command line and from Python, for both relations: release, one query, and an export where the posterior of all
families is cheap. What is queried is a root, so that only the families that matter are drawn. Releases made through
the command line have real noise; what is asserted of them does not depend on it, but for the factor by which noise
may exceed its scale: exp(-40) a table.
"""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.mechanisms import mechanisms_over
from networks import ASIA, network_path
from shell import Shell
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

RECORDS = 400
NETWORKS = (
    "asia",
    pytest.param("child", marks=pytest.mark.thorough),
    "30 features",
    pytest.param("100 features", marks=pytest.mark.thorough),
)
"""Of all that is asked here; ALARM is for a test of its own, and for the thorough ones."""
ALARM = pytest.param("alarm", marks=pytest.mark.thorough)
CASES = [(mechanism, relation) for mechanism in mechanisms_over("network") for relation in dc.tools.RECORD_RELATIONS]
IN_TURN = list(zip(mechanisms_over("network"), itertools.cycle(dc.tools.RECORD_RELATIONS), strict=False))
"""Each mechanism once, the two relations in turn."""
DRAWN = ("posterior_sampler", "map_estimate")
"""Mechanisms that release rows; the posterior of all families takes them seconds."""


def naive_bayes(features: int) -> dc.Tables:
    """A class of three states and ternary features, with random rows."""
    rng = np.random.default_rng(11)
    names = [f"x{k}" for k in range(features)]
    variables = tuple(dc.Variable(name, ("low", "mid", "high")) for name in ("y", *names))
    network = dc.Network(variables, {"y": (), **dict.fromkeys(names, ("y",))})
    rows = {node: rng.dirichlet([1.0, 1.0, 1.0], network.shape(node)[:-1]) for node in network.nodes}
    return dc.Tables(network, rows)


@dataclass(frozen=True)
class Case:
    """A network on disk and its made-up records."""

    name: str
    bif: Path
    parquet: Path
    theta: dc.Tables

    @property
    def root(self) -> str:
        """The first node without parents."""
        return next(node for node in self.theta.network.nodes if not self.theta.network.parents[node])


def case_of(name: str, folder: Path) -> Case:
    """Both files of a case, written into a folder."""
    bif = folder / "network.bif"
    if name.endswith("features"):
        naive_bayes(int(name.split()[0])).write(bif)
    else:
        shutil.copy(ASIA if name == "asia" else network_path(name), bif)
    theta = dc.Tables.read(bif)
    table = dc.tools.simulate_records(theta, RECORDS, rng=np.random.default_rng(4))
    pq.write_table(table, folder / "records.parquet")
    return Case(name, bif, folder / "records.parquet", theta)


@pytest.fixture(scope="module", params=[*NETWORKS, ALARM])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case_of(request.param, tmp_path_factory.mktemp("network"))


def counted(case: Case) -> dc.results.Counts:
    return dc.count(dc.read_records(case.parquet, case.theta.network.schema), case.theta.network)


@pytest.fixture(scope="module")
def counts(case: Case) -> dc.results.Counts:
    return counted(case)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{tmp_path / 'discreet-ledger.db'}")
    ledger = dc.Ledger("sqlite:///discreet-ledger.db")
    for relation in dc.tools.RECORD_RELATIONS:
        ledger.open(relation.value, dc.Guarantee(epsilon=9, delta="1e-3", relation=relation, unit="record"))
    return Shell(capfd)


def delta_of(mechanism: str) -> str:
    return "1e-6" if mechanism == "gaussian" else "0"


def command(case: Case, mechanism: str, relation: dc.Relation, delta: str | None = None, options: str = "") -> str:
    return (
        f"release {case.parquet} --network {case.bif} --account {relation.value} --epsilon 2 "
        f"--delta {delta_of(mechanism) if delta is None else delta} --mechanism {mechanism} --output r.json {options}"
    )


def charges(relation: dc.Relation) -> int:
    return len(dc.Ledger("sqlite:///discreet-ledger.db").account(relation.value).charges())


def assert_probabilities(values: list[dict[str, Any]], states: int) -> None:
    """One row for each state, means that sum to 1, intervals around them."""
    assert len(values) == states
    assert sum(row["mean"] for row in values) == pytest.approx(1, abs=1e-6)
    assert all(-1e-9 <= row["lower"] <= row["upper"] <= 1 + 1e-9 for row in values)


# -------------------------------------------------------------------------------------------------------- command line


@pytest.mark.costly("A mechanism that the shell cannot release, read or ask is found on each kind of network.")
@pytest.mark.parametrize(("mechanism", "relation"), CASES)
def test_from_the_command_line(case: Case, mechanism: str, relation: dc.Relation, run: Shell) -> None:
    found = run.json(command(case, mechanism, relation))
    assert (found["mechanism"], found["epsilon"], found["left"]) == (mechanism, "2", "7")
    made = dc.Release.load("r.json")
    assert made.private and made.mechanism == mechanism
    assert made.guarantee.relation is relation
    assert made.records == (RECORDS if relation is dc.Relation.REPLACE else None)
    assert charges(relation) == 1
    answer = run.json(f"query r.json P({case.root}) --draws 100")["answers"][0]
    assert_probabilities(answer["values"], case.theta.network.schema[case.root].size)
    code, out, err = run(f"query r.json P({case.root}) --draws 100 --method plug-in")
    assert code == 0, err
    assert case.root in out
    if case.name in ("asia", "child") and mechanism not in DRAWN:
        run.json("export r.json --output private.bif --draws 50")
        assert dc.Tables.read("private.bif").network == case.theta.network


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", DRAWN)
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_export_of_released_rows(case: Case, mechanism: str, relation: dc.Relation, run: Shell) -> None:
    if case.name != "asia":
        pytest.skip("the posterior of all rows of a larger network takes minutes")
    run.json(command(case, mechanism, relation))
    run.json("export r.json --output private.bif --draws 50")
    assert dc.Tables.read("private.bif").network == case.theta.network


def test_gaussian_noise_without_a_delta_is_refused(case: Case, run: Shell) -> None:
    for relation in dc.tools.RECORD_RELATIONS:
        assert "needs a guarantee with a delta" in run.fails(command(case, "gaussian", relation, "0"))
        assert charges(relation) == 0


@pytest.mark.parametrize("mechanism", ["laplace", "fourier", "allocated", "map_estimate"])
def test_a_delta_that_would_not_be_used_is_refused(case: Case, mechanism: str, run: Shell) -> None:
    for relation in dc.tools.RECORD_RELATIONS:
        assert "pure guarantee" in run.fails(command(case, mechanism, relation, "1e-6"))
        assert charges(relation) == 0


def test_sampling_is_offered_for_one_relation_only(case: Case, run: Shell) -> None:
    sampled = "--option sampling=0.5"
    message = run.fails(command(case, "allocated", dc.Relation.REPLACE, options=sampled))
    assert "add-remove guarantees only" in message
    assert charges(dc.Relation.REPLACE) == 0
    run.json(command(case, "allocated", dc.Relation.ADD_REMOVE, options=sampled))
    assert float(dc.Release.load("r.json").payload.sampling) == 0.5


def test_an_untrimmed_sample_costs_a_delta(case: Case, run: Shell) -> None:
    run.json(command(case, "posterior_sampler", dc.Relation.ADD_REMOVE, "1e-6", "--prior 2"))
    made = dc.Release.load("r.json")
    assert made.payload.floors == {} and made.calibration.temper < 1


# -------------------------------------------------------------------------------------------------------------- Python


@pytest.mark.costly("A mechanism that cannot be released, read or asked is found on each kind of network.")
@pytest.mark.parametrize(
    ("mechanism", "relation"),
    [each if each in IN_TURN else pytest.param(*each, marks=pytest.mark.thorough) for each in CASES],
)
def test_from_python(
    case: Case, counts: dc.results.Counts, mechanism: str, relation: dc.Relation, tmp_path: Path
) -> None:
    check_from_python(case, counts, mechanism, relation, tmp_path)


@pytest.mark.costly("Each mechanism meets a network of real size, with families of five.")
def test_alarm_from_python(tmp_path: Path) -> None:
    """A network of 37 nodes with up to four parents."""
    case = case_of("alarm", tmp_path)
    counts = counted(case)
    for mechanism, relation in IN_TURN:
        folder = tmp_path / mechanism
        folder.mkdir()
        check_from_python(case, counts, mechanism, relation, folder)


def check_from_python(
    case: Case, counts: dc.results.Counts, mechanism: str, relation: dc.Relation, folder: Path
) -> None:
    """A release is charged, written, read, and answers a query."""
    promise = dc.Guarantee(epsilon=2, delta=delta_of(mechanism), relation=relation, unit="record")
    account = dc.Ledger(f"sqlite:///{folder}/budget.db").open("a", promise)
    prior = dc.Dirichlet.uniform(counts.network)
    made = dc.release(dc.tools.MECHANISMS[mechanism](), counts, prior, promise, account=account)
    assert account.balance().epsilon_left == 0
    assert made.payload.network == case.theta.network
    again = dc.Release.loads(made.dumps())
    assert json.loads(again.dumps()) == json.loads(made.dumps())
    size = case.theta.network.schema[case.root].size
    for read in (dc.noise_aware, dc.tools.plug_in):
        posterior = read(again, draws=100, rng=np.random.default_rng(0))
        answer = dc.answer(posterior, f"P({case.root})", level=0.9)
        assert_probabilities([dict(row) for row in answer.rows], size)


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_a_choice_among_candidates_from_python(case: Case, counts: dc.results.Counts, relation: dc.Relation) -> None:
    flat = dc.Tables(counts.network, {node: np.full(a.shape, 1 / a.shape[-1]) for node, a in case.theta.items()})
    near = dc.Tables(counts.network, {node: 0.7 * case.theta[node] + 0.3 * flat[node] for node in flat})
    promise = dc.Guarantee(epsilon=50, delta=0, relation=relation, unit="record")
    prior = dc.Dirichlet.uniform(counts.network)
    made = dc.simulate(dc.research.map_estimate([flat, near]), counts, prior, promise, rng=np.random.default_rng(1))
    assert made.payload.index == 1
    posterior = dc.tools.plug_in(dc.Release.loads(made.dumps()), draws=2, rng=np.random.default_rng(0))
    assert np.array_equal(posterior.probabilities[case.root][..., 0], near[case.root])


@pytest.mark.costly("An answer that is not that of the records shows on large networks without noise.")
def test_a_large_budget_answers_what_the_records_say(case: Case, counts: dc.results.Counts) -> None:
    """At epsilon 20,000 every mechanism's posterior of a root is that of the records, to what its draws can tell."""
    table = counts.tables[case.root]
    exact = (table + 0.25) / (table.sum() + 0.25 * table.size)
    prior = dc.Dirichlet.uniform(counts.network)
    for mechanism in mechanisms_over("network"):
        if mechanism == "map_estimate" or (mechanism in DRAWN and case.name != "asia"):
            continue  # the support of the one is trimmed, whatever the budget; many draws of the other take seconds
        epsilon = 400 if mechanism == "gaussian" else 20_000
        promise = dc.Guarantee(epsilon=epsilon, delta=delta_of(mechanism), relation="replace", unit="record")
        # A hundred draws tell the mean to a tenth of a draw's deviation, at most 0.025 for 400 records.
        made = dc.simulate(
            dc.research.posterior_sampler(20) if mechanism == "posterior_sampler" else dc.tools.MECHANISMS[mechanism](),
            counts, prior, promise, rng=np.random.default_rng(2),
        )  # fmt: skip
        found = dc.noise_aware(made, draws=100, rng=np.random.default_rng(3)).probabilities[case.root].mean(axis=-1)
        assert np.max(np.abs(found - exact)) < 0.03, mechanism
