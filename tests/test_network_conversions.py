"""Networks of networkx, pgmpy and pyAgrum, and back; with the packages where installed, and with stand-ins."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings

import discreet as dc
from folding import every
from networks import asia
from strategies import networks

AB = (dc.Variable("a", ("no", "yes")), dc.Variable("b", ("low", "middle", "high")), dc.Variable("c d", ("<5", "é")))
NETWORK = dc.Network(AB, {"a": (), "b": ("c d", "a"), "c d": ()})
PEERS = {"pgmpy": "pgmpy.models", "pyagrum": "pyagrum"}


def peer(name: str) -> Any:
    """A package, or skip the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(PEERS[name])
    except ImportError:
        pytest.skip(f"{name} is not installed (the dev extra)")


def table(node: str, states: list[Any], *evidence: str) -> SimpleNamespace:
    """What is read of a CPD of pgmpy."""
    return SimpleNamespace(variable=node, variables=[node, *evidence], state_names={node: states})


class Model(nx.DiGraph):
    """What is read of a pgmpy model, which is a graph, too."""

    tables: tuple[SimpleNamespace, ...] = ()

    def get_cpds(self) -> tuple[SimpleNamespace, ...]:
        return self.tables


# ------------------------------------------------------------------------------------------ networkx


@settings(max_examples=40)
@given(networks())
def test_a_graph_becomes_the_network_again(network: dc.Network) -> None:
    graph = network.to_networkx()
    again = dc.Network.from_networkx(graph, network.schema)
    assert again == network and dict(again.parents) == dict(network.parents)
    assert {name: graph.nodes[name]["states"] for name in graph} == {v.name: v.states for v in network.schema}
    assert set(graph.edges) == set(network.graph.edges) == set(network.arcs)


def test_a_graph_may_be_changed_and_have_fewer_nodes() -> None:
    graph = NETWORK.to_networkx()
    graph.remove_node("a")
    assert dict(dc.Network.from_networkx(graph, AB).parents) == {"a": (), "b": ("c d",), "c d": ()}
    assert NETWORK.parents["b"] == ("c d", "a")


@every(
    ("graph", "told"),
    [
        (nx.Graph([("a", "b")]), "expected a networkx.DiGraph, got Graph; arcs have a direction, and occur once"),
        (nx.MultiDiGraph([("a", "b")]), "expected a networkx.DiGraph, got MultiDiGraph"),
        ([("a", "b")], "expected a networkx.DiGraph, got list"),
        (nx.DiGraph([("a", "x")]), "the graph has a node 'x' that is no variable of the schema; declare it there"),
        (nx.DiGraph([(1, 2)]), "the graph has a node '1' that is no variable"),
        (nx.DiGraph([("a", "a")]), "edge 1: an arc from 'a' to itself"),
        (nx.DiGraph([("a", "b"), ("b", "a")]), "the network has a cycle: a -> b -> a"),
    ],
)
def test_graphs_that_are_no_networks(graph: Any, told: str) -> None:
    with pytest.raises(dc.InputError) as caught:
        dc.Network.from_networkx(graph, AB)
    assert str(caught.value).startswith(told)


# ------------------------------------------------------------------------------------------ pgmpy


def model(*tables: SimpleNamespace) -> Model:
    made = Model([("a", "b"), ("c", "b")])
    made.tables = tables
    return made


def test_a_model_has_the_states_and_orders_of_its_cpds() -> None:
    made = model(table("b", [0, 1, 2], "c", "a"), table("a", ["no", "yes"]), table("c", ["x"]))
    network = dc.Network.from_pgmpy(made)
    assert network.schema.names == ("a", "b", "c") and network.parents["b"] == ("c", "a")
    assert network.schema["b"].states == ("0", "1", "2") and network.schema["a"].states == ("no", "yes")


def test_a_schema_says_what_a_model_without_cpds_does_not() -> None:
    schema = dc.Schema(tuple(dc.Variable(name, ("x", "y")) for name in ("d", "c", "b", "a")))
    network = dc.Network.from_pgmpy(model(), schema)
    assert network.schema == schema and dict(network.parents) == {"d": (), "c": (), "b": ("a", "c"), "a": ()}


def test_models_that_are_no_networks() -> None:
    def told(made: Any, variables: Any = None) -> str:
        with pytest.raises(dc.InputError) as caught:
            dc.Network.from_pgmpy(made, variables)
        return str(caught.value)

    assert told(nx.DiGraph()) == "expected a DiscreteBayesianNetwork of pgmpy, got DiGraph"
    assert told(None) == "expected a DiscreteBayesianNetwork of pgmpy, got NoneType"
    assert told(model()) == "the pgmpy model has no states of 'a'; give its CPD, or a schema"
    assert "the CPD of 'b' has other parents" in told(model(table("b", ["x"], "a")))
    assert "the CPD of 'z' has other parents" in told(model(table("z", ["x"], "a")))
    assert "node 'c' that is no variable of the schema" in told(model(), AB)
    numbered = Model([(0, 1)])
    numbered.tables = (table(0, ["x"]), table(1, ["y"], 0))  # type: ignore[arg-type]
    assert told(numbered) == "the pgmpy model has a node '0' that is not text; rename it"
    cyclic = Model([("a", "b"), ("b", "a")])
    cyclic.tables = (table("a", ["x"], "b"), table("b", ["x"], "a"))
    assert "cycle" in told(cyclic)
    assert "declared twice" in told(model(table("a", [1, "1"]), table("b", ["x"], "a", "c"), table("c", ["x"])))


@pytest.mark.filterwarnings("ignore")
def test_networks_go_to_pgmpy_and_back() -> None:
    models = peer("pgmpy")
    for network in (NETWORK, asia().network, dc.Network.empty(AB)):
        made = network.to_pgmpy()
        assert isinstance(made, models.DiscreteBayesianNetwork)
        assert set(made.edges()) == set(network.arcs) and made.get_cpds() == []
        again = dc.Network.from_pgmpy(made)
        assert again == network and dict(again.parents) == dict(network.parents)
        # A copy of theirs has the arcs in an order of its own, and no attributes.
        assert set(dc.Network.from_pgmpy(made.copy(), network.schema).arcs) == set(network.arcs)


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_pgmpy_with_cpds() -> None:
    models = peer("pgmpy")
    factors = importlib.import_module("pgmpy.factors.discrete")
    made = models.DiscreteBayesianNetwork([("a", "b"), ("c d", "b")])
    names = {variable.name: list(variable.states) for variable in AB}
    made.add_cpds(
        factors.TabularCPD("a", 2, [[0.5], [0.5]], state_names={"a": names["a"]}),
        factors.TabularCPD("c d", 2, [[0.5], [0.5]], state_names={"c d": names["c d"]}),
        factors.TabularCPD("b", 3, [[1 / 3] * 4] * 3, ["c d", "a"], [2, 2], state_names=names),
    )
    network = dc.Network.from_pgmpy(made)
    assert network.parents["b"] == ("c d", "a") and {v.name: v.states for v in AB} == {
        v.name: v.states for v in network.schema
    }


# ------------------------------------------------------------------------------------------ pyAgrum


class Net:
    """What is read of a pyAgrum network."""

    def __init__(self, **names: str) -> None:
        self.names = names

    def nodes(self) -> set[int]:
        return set(range(len(self.names)))

    def variable(self, number: int) -> SimpleNamespace:
        return SimpleNamespace(name=lambda: list(self.names)[number], labels=lambda: ("x", "y"))

    def cpt(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(names=(name, *self.names[name].split()))


def test_a_net_has_its_labels_and_the_orders_of_its_tables() -> None:
    network = dc.Network.from_pyagrum(Net(b="c a", a="", c="a"))
    assert network.nodes == ("b", "a", "c")
    assert dict(network.parents) == {"b": ("c", "a"), "a": (), "c": ("a",)}
    assert network.schema["c"].states == ("x", "y")


def test_what_is_no_net() -> None:
    for wrong in (None, nx.DiGraph([("a", "b")]), "net"):
        with pytest.raises(dc.InputError, match=r"^expected a BayesNet of pyAgrum, got "):
            dc.Network.from_pyagrum(wrong)


@pytest.mark.filterwarnings("ignore")
def test_networks_go_to_pyagrum_and_back() -> None:
    pyagrum = peer("pyagrum")
    for network in (NETWORK, asia().network, dc.Network.empty(AB)):
        made = network.to_pyagrum()
        assert isinstance(made, pyagrum.BayesNet)
        again = dc.Network.from_pyagrum(made)
        assert again == network and dict(again.parents) == dict(network.parents)
    # Its other kinds of variables have labels, too.
    net = pyagrum.BayesNet()
    net.add(pyagrum.RangeVariable("r", "", 1, 3))
    assert dc.Network.from_pyagrum(net).schema["r"].states == ("1", "2", "3")


# ------------------------------------------------------------------------------------------ packages


@every(("method", "told"), [("to_pgmpy", "pgmpy>=1.1,<1.3"), ("to_pyagrum", "pyagrum>=3.0")])
def test_a_package_that_is_missing_is_named(method: str, told: str) -> None:
    name = {"to_pgmpy": "pgmpy", "to_pyagrum": "pyagrum"}[method]
    with pytest.MonkeyPatch.context() as patch:
        for module in [part for part in sys.modules if part.partition(".")[0] == name]:
            patch.delitem(sys.modules, module)
        patch.setitem(sys.modules, name, None)
        with pytest.raises(dc.InputError) as caught:
            getattr(NETWORK, method)()
        theta = dc.Dirichlet.uniform(NETWORK).mean()
        with pytest.raises(dc.InputError, match="is not installed; pip install"):
            getattr(theta, method)()
    assert f"is not installed; pip install '{told}'" in str(caught.value)


def test_the_versions_are_those_of_the_project() -> None:
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert '"pgmpy>=1.1,<1.3"' in text and '"pyagrum>=3.0"' in text


THERE_AND_BACK = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import discreet as dc
network = dc.Network.read(sys.argv[2])
same = {}
for name in ("pgmpy", "pyagrum"):
    try:
        made = getattr(network, f"to_{name}")()
    except dc.InputError as error:
        same[name] = str(error)
        continue
    again = getattr(dc.Network, f"from_{name}")(made)
    same[name] = again == network and dict(again.parents) == dict(network.parents)
print(json.dumps(same))
"""


def test_the_peers_of_another_interpreter() -> None:
    """`$DISCREET_PEERS` may have other versions of the packages than this interpreter."""
    python = os.environ.get("DISCREET_PEERS")
    if python is None:
        pytest.skip("$DISCREET_PEERS names no interpreter that has pgmpy and pyAgrum")
    source, bif = Path(dc.__file__).parents[1], Path(dc.__file__).parent / "cli" / "asia.bif"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", THERE_AND_BACK, str(source), str(bif)], capture_output=True, text=True, env=kept, check=False
    )
    if "No module named" in done.stderr:
        pytest.skip(f"the interpreter of $DISCREET_PEERS lacks what discreet needs: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-500:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert any(part is True for part in found.values()) and False not in found.values(), found
