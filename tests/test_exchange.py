"""What goes to other packages means the same there, and comes back: with pgmpy, pyAgrum, ArviZ, pandas themselves."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

import discreet as dc
from folding import every
from networks import asia, theta_of
from strategies import same, thetas

pytestmark = pytest.mark.filterwarnings("ignore")

ALIKE = 1e-9
"""Largest difference of two exact answers: rounding alone."""
SIX_DIGITS = 5e-6
"""Of each number of an XMLBIF file that pyAgrum writes."""


@cache
def peer(name: str) -> Any:
    """A module of another package, or skip the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed (the dev extra)")


def listed_parents(theta: dc.Tables) -> dict[str, tuple[str, ...]]:
    return dict(theta.network.parents)


def same_probabilities(one: dc.Tables, other: dc.Tables, atol: float) -> bool:
    """Whether two tables say the same, whatever the order of parents."""
    assert set(one.network.nodes) == set(other.network.nodes)
    for node in one.network.nodes:
        family, theirs = one.network.family(node), other.network.family(node)
        table = other[node].transpose([theirs.index(name) for name in family])
        if any(one.network.schema[name].states != other.network.schema[name].states for name in family):
            return False
        if not np.allclose(one[node], table, rtol=0, atol=atol):
            return False
    return True


# ------------------------------------------------------------------------------------------ tables


@settings(max_examples=40)
@given(thetas())
def test_tables_go_to_pyagrum_and_back(theta: dc.Tables) -> None:
    peer("pyagrum")
    net = theta.to_pyagrum()
    again = dc.Tables.from_pyagrum(net)
    assert again.network.schema.names == theta.network.schema.names
    assert same(again, theta) and listed_parents(again) == listed_parents(theta)
    for node in theta.network.nodes:
        codes = [size - 1 for size in theta.network.shape(node)]
        last = dict(zip(theta.network.family(node), codes, strict=True))
        assert net.cpt(node)[last] == theta[node][tuple(codes)]


@settings(max_examples=40)
@given(thetas())
def test_tables_go_to_pgmpy_and_back(theta: dc.Tables) -> None:
    peer("pgmpy.models")
    model = theta.to_pgmpy()
    assert model.check_model()
    again = dc.Tables.from_pgmpy(model)
    assert same(again, theta) and listed_parents(again) == listed_parents(theta)
    known = dc.Tables.from_pgmpy(model, theta.network.schema)
    assert known.network == theta.network and same(known, theta)
    for node in theta.network.nodes:
        states = {name: theta.network.schema[name].states[-1] for name in theta.network.family(node)}
        assert model.get_cpds(node).get_value(**states) == theta[node].ravel()[-1]


def test_a_cpd_may_order_the_states_of_its_parents_as_it_likes() -> None:
    peer("pgmpy.models")
    table = importlib.import_module("pgmpy.factors.discrete").TabularCPD
    model = importlib.import_module("pgmpy.models").DiscreteBayesianNetwork([("a", "b")])
    a = table("a", 2, [[0.2], [0.8]], state_names={"a": ["no", "yes"]})
    b = table("b", 2, [[0.1, 0.6], [0.9, 0.4]], ["a"], [2], state_names={"a": ["yes", "no"], "b": ["x", "y"]})
    model.add_cpds(a, b)
    theta = dc.Tables.from_pgmpy(model)
    assert theta["b"].tolist() == [[0.6, 0.4], [0.1, 0.9]]  # given no, then yes
    turned = dc.Schema((dc.Variable("a", ("yes", "no")), dc.Variable("b", ("y", "x"))))
    theta = dc.Tables.from_pgmpy(model, turned)
    assert theta["a"].tolist() == [0.8, 0.2] and theta["b"].tolist() == [[0.9, 0.1], [0.4, 0.6]]
    aged = dc.Schema((dc.Variable("a", ("no", "yes"), bounds=(0, 9), bins=(5,)), dc.Variable("b", ("x", "y"))))
    assert dc.Tables.from_pgmpy(model, aged).network.schema["a"].bins == (5,)


def test_models_whose_tables_say_no_probabilities() -> None:
    peer("pgmpy.models")
    table = importlib.import_module("pgmpy.factors.discrete").TabularCPD

    def told(*tables: Any, variables: Any = None) -> str:
        model = importlib.import_module("pgmpy.models").DiscreteBayesianNetwork([("a", "b")])
        model.add_cpds(*tables)
        with pytest.raises(dc.InputError) as caught:
            dc.Tables.from_pgmpy(model, variables)
        return str(caught.value)

    both = dc.Schema((dc.Variable("a", ("no", "yes")), dc.Variable("b", ("x", "y"))))
    a = table("a", 2, [[0.2], [0.8]], state_names={"a": ["no", "yes"]})
    names = {"a": ["no", "yes"], "b": ["x", "y"]}
    assert told(a, variables=both) == ("the pgmpy model has no CPD of 'b'; add it, or read the structure alone")
    odd = table("b", 2, [[0.1, 0.6], [0.9, 0.3]], ["a"], [2], state_names=names)
    assert told(a, odd) == "a row of 'b' sums to 0.9 instead of 1, given a=yes"
    numbered = table("b", 2, [[0.1, 0.6], [0.9, 0.4]], ["a"], [2])
    assert told(a, numbered) == "the pgmpy table of 'b' has other states of 'a' than that variable has"
    with pytest.raises(dc.InputError, match="expected a DiscreteBayesianNetwork of pgmpy, got Tables"):
        dc.Tables.from_pgmpy(asia())


def test_a_net_whose_tables_are_not_filled() -> None:
    gum = peer("pyagrum")
    net = asia().network.to_pyagrum()
    assert dc.Network.from_pyagrum(net) == asia().network
    with pytest.raises(dc.InputError, match="the table of 'asia' in the pyAgrum network is not filled"):
        dc.Tables.from_pyagrum(net)
    net = gum.fastBN("a->b")
    net.cpt("a").fillWith([0.5, -0.5])
    with pytest.raises(dc.InputError, match="a row of 'a' has a number outside 0 to 1"):
        dc.Tables.from_pyagrum(net)
    with pytest.raises(dc.InputError, match="expected a BayesNet of pyAgrum, got Tables"):
        dc.Tables.from_pyagrum(asia())


def test_draws_are_no_model() -> None:
    draws = dc.Dirichlet.uniform(asia().network).draw(3, rng=1)
    for act in (draws.to_pgmpy, draws.to_pyagrum, draws.to_frame, draws.text):
        with pytest.raises(dc.InputError, match="needs one table per node, these have 3 draws; give one draw"):
            act()


# ------------------------------------------------------------------------------------------ XMLBIF


def readable(theta: dc.Tables) -> bool:
    """Whether every name keeps its blanks in the other programs."""
    schema = theta.network.schema
    every_name = [part for variable in schema for part in (variable.name, *variable.states)]
    return all(name == " ".join(name.split()) for name in every_name)


@settings(max_examples=30)
@given(theta=thetas())
def test_what_we_write_in_xmlbif_is_read_by_others(tmp_path_factory: pytest.TempPathFactory, theta: dc.Tables) -> None:
    assume(readable(theta))
    gum, files = peer("pyagrum"), peer("pgmpy.readwrite")
    path = tmp_path_factory.mktemp("written") / "x.bifxml"
    theta.write(path, properties=("made; by 'me' = twice", "<&>"))
    assert same_probabilities(theta, dc.Tables.from_pyagrum(gum.loadBN(str(path))), 0)
    model = files.XMLBIFReader(str(path)).get_model()
    assert same_probabilities(theta, dc.Tables.from_pgmpy(model), 0)


@every("name", ["asia", "survey", "alarm"])
def test_what_others_write_in_xmlbif_is_read_by_us(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    gum, files = peer("pyagrum"), peer("pgmpy.readwrite")
    theta, path = theta_of(name), tmp_path_factory.mktemp("theirs") / "x.bifxml"
    theta.to_pyagrum().saveBIFXML(str(path))
    assert same_probabilities(theta, dc.Tables.read(path), SIX_DIGITS)
    assert same_probabilities(dc.Tables.from_pyagrum(gum.loadBN(str(path))), dc.Tables.read(path), SIX_DIGITS)
    theta.network.to_pyagrum().saveBIFXML(str(path))
    assert dc.Network.read(path) == theta.network
    files.XMLBIFWriter(theta.to_pgmpy()).write(str(path))
    assert same_probabilities(theta, dc.Tables.read(path), 0)


# ------------------------------------------------------------------------------------------ answers


@cache
def believed(name: str) -> dc.Tables:
    """The posterior's mean of made-up records."""
    theta = theta_of(name)
    counts = dc.count(
        dc.read_records(dc.tools.simulate_records(theta, 500, rng=7), theta.network.schema), theta.network
    )
    promise = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(theta.network), promise, rng=8)
    return dc.estimate(release)


def asked(theta: dc.Tables) -> Iterator[tuple[str, dict[str, str]]]:
    """Some targets and evidence: marginals, and each target given two others."""
    nodes = theta.network.nodes
    for at in range(0, len(nodes), max(1, len(nodes) // 8)):
        yield nodes[at], {}
        others = (nodes[at - 1], nodes[at - len(nodes) // 2])
        yield nodes[at], {name: theta.network.schema[name].states[0] for name in dict.fromkeys(others)}


def ours(theta: dc.Tables, target: str, evidence: dict[str, str]) -> list[float]:
    """The exact answer here: of one draw, which is its mean."""
    one = dc.Tables(theta.network, {node: array[..., None] for node, array in theta.items()}, draws=1)
    given_text = ", ".join(f'"{name}"="{state}"' for name, state in evidence.items())
    query = f'P("{target}"{" | " if evidence else ""}{given_text})'
    rows = dc.answer(dc.results.PosteriorDraws(one), query).rows
    found = {row["state"][target]: row["mean"] for row in rows}
    return [found[state] for state in theta.network.schema[target].states]


@pytest.mark.costly("Networks that another package reads otherwise are found by answers of both.")
@pytest.mark.parametrize("name", ["asia", "child", "alarm"])
def test_an_exact_answer_is_the_same_on_both_sides(name: str) -> None:
    gum, inference = peer("pyagrum"), peer("pgmpy.inference")
    theta = believed(name)
    net, eliminate = theta.to_pyagrum(), inference.VariableElimination(theta.to_pgmpy())
    for target, evidence in asked(theta):
        wanted = ours(theta, target, evidence)
        tree = gum.LazyPropagation(net)
        tree.setEvidence(evidence)
        tree.makeInference()
        assert np.allclose(tree.posterior(target).toarray(), wanted, rtol=0, atol=ALIKE)
        factor = eliminate.query([target], evidence=evidence, show_progress=False)
        places = [factor.state_names[target].index(state) for state in theta.network.schema[target].states]
        assert np.allclose(np.asarray(factor.values)[places], wanted, rtol=0, atol=ALIKE)


# ------------------------------------------------------------------------------------------ ArviZ


def test_draws_go_to_arviz_and_through_a_file(tmp_path: Path) -> None:
    arviz = peer("arviz")
    cells = dc.Dirichlet.uniform(asia().network).draw(200, rng=3)
    posterior = dc.results.PosteriorDraws(cells)
    dc.tools.to_arviz(posterior).to_netcdf(str(tmp_path / "a.nc"))
    read = arviz.from_netcdf(str(tmp_path / "a.nc")).posterior
    for node, array in cells.items():
        kept = read[node]
        assert kept.dims == ("chain", "draw", *(f"{name}=" for name in cells.network.family(node)))
        assert kept.sizes["chain"] == 4 and kept.sizes["draw"] == 50
        assert np.array_equal(kept.stack(all=("draw", "chain")).values, array)
        for name in cells.network.family(node):
            assert tuple(kept.coords[f"{name}="].values) == cells.network.schema[name].states
    told = arviz.summary(read, round_to="none", kind="stats", hdi_prob=0.9)
    assert len(told) == sum(array[..., 0].size for array in cells.values())
    assert cells.network.family("dysp") == ("either", "bronc", "dysp")
    named = {"either": "no", "bronc": "yes", "dysp": "yes"}
    codes = tuple(cells.network.schema[name].code(state) for name, state in named.items())
    row, drawn = told.loc["dysp[no, yes, yes]"], cells["dysp"][codes]
    assert row["mean"] == pytest.approx(posterior.mean()["dysp"][codes], abs=ALIKE)
    assert row["sd"] == pytest.approx(np.std(drawn, ddof=1), abs=ALIKE)
    chosen = read["dysp"].sel({"either=": "no", "bronc=": "yes", "dysp=": "yes"})
    assert np.array_equal(chosen.values.T.ravel(), drawn)


def test_draws_come_back_from_arviz() -> None:
    arviz = peer("arviz")
    cells = dc.Dirichlet.uniform(asia().network).draw(40, rng=3)
    chains = dc.results.Mixing(4, sweeps=20, effective=40.0, worst="P(asia)", r_hat=1.0)
    for mixing in (None, chains):
        sent = dc.tools.to_arviz(dc.results.PosteriorDraws(cells, "exact", mixing=mixing))
        back = dc.tools.from_arviz(sent, cells.network)
        assert same(back.probabilities, cells) and back.probabilities.draws == 40
    answer = dc.answer(back, "P(lung | smoke=yes)")
    assert answer.rows == dc.answer(dc.results.PosteriorDraws(cells), "P(lung | smoke=yes)").rows
    # Dimensions and states in any order are found by their names.
    turned = sent.posterior["dysp"].transpose("dysp=", "draw", "bronc=", "chain", "either=")
    sent.posterior["dysp"] = turned.sel({"either=": ["no", "yes"]})
    assert same(dc.tools.from_arviz(sent, cells.network).probabilities, cells)

    group = sent.posterior

    def told(**changed: Any) -> str:
        with pytest.raises(dc.InputError) as caught:
            dc.tools.from_arviz(arviz.InferenceData(posterior=group.drop_vars("dysp").assign(changed)), cells.network)
        return str(caught.value)

    said = "rows of 'dysp' fall below 0 or do not sum to 1: these are no draws of probabilities"
    assert told(dysp=2 * group["dysp"]) == told(dysp=3 * group["dysp"] - 1) == said
    one_chain = group["dysp"].isel({"chain": 0})
    assert "needs the dimensions chain, draw, 'either=', 'bronc=', 'dysp='" in told(dysp=one_chain)
    cell, without = group["dysp"], group.drop_dims("dysp=")
    other = without.assign(dysp=(cell.dims, cell.values)).assign_coords({"dysp=": ["x", "y"]})
    with pytest.raises(dc.InputError, match="'dysp=' of 'dysp' has other coordinates than the states yes, no"):
        dc.tools.from_arviz(arviz.InferenceData(posterior=other), cells.network)
    with pytest.raises(dc.InputError, match="the posterior has no variable 'asia'"):
        dc.tools.from_arviz(arviz.InferenceData(posterior=group.drop_vars("asia")), cells.network)
    with pytest.raises(dc.InputError, match="expected an InferenceData of ArviZ with a group posterior, got Tables"):
        dc.tools.from_arviz(asia(), cells.network)


# ------------------------------------------------------------------------------------------ frames


@given(thetas(max_nodes=3))
@settings(max_examples=20)
def test_a_frame_has_every_cell_with_its_names(theta: dc.Tables) -> None:
    rows = theta.to_frame("arrow").to_pylist()
    assert len(rows) == sum(array.size for array in theta.values())
    for node, array in theta.items():
        own = [row for row in rows if row["node"] == node]
        assert [row["value"] for row in own] == array.ravel().tolist()
        states = theta.network.schema[node].states
        assert [row["state"] for row in own] == list(states) * (array.size // len(states))
        *parents, _ = theta.network.family(node)
        first = ", ".join(f"{parent}={theta.network.schema[parent].states[0]}" for parent in parents)
        assert own[0]["given"] == first


def test_a_frame_is_of_pandas_or_polars_too() -> None:
    theta = asia()
    pandas, polars = theta.to_frame(), theta.to_frame("polars")
    assert list(pandas.columns) == polars.columns == ["node", "given", "state", "value"]
    row = pandas[(pandas.node == "lung") & (pandas.given == "smoke=no") & (pandas.state == "yes")]
    assert row.value.tolist() == [theta["lung"][1, 0]] and polars["value"].to_list() == pandas.value.tolist()
    with pytest.raises(dc.InputError, match="a frame is of pandas, polars or arrow"):
        theta.to_frame("r")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ synthetic records


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet", "csv", "arrow"])
def test_synthetic_records_are_counted_alike_wherever_they_were(tmp_path: Path, kind: str) -> None:
    network = dc.Network(
        (dc.Variable("a", ("<5", "5, 6", '"')), dc.Variable("b c", ("yes", "é")), dc.Variable("n", ("0", "1"))),
        {"a": (), "b c": ("a",), "n": ("b c", "a")},
    )
    posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(network).draw(5, rng=2))
    (stream,) = dc.sample(posterior, 2000, sets=1, rng=4)
    table = stream.read_all()
    source: Any = tmp_path / f"records.{kind}"
    if kind in ("pandas", "polars"):
        source = table.to_pandas() if kind == "pandas" else peer("polars").from_arrow(table)
    else:
        dc.tools.write_records(table.to_reader(), source)
    source = peer("pyarrow.feather").read_table(source) if kind == "arrow" else source
    counts = dc.count(dc.read_records(source, network.schema), network)
    wanted = dc.count(dc.read_records(table, network.schema), network)
    assert same(counts.tables, wanted.tables)
    codes = [table.column(name).to_pylist() for name in network.family("n")]
    shape = network.shape("n")
    by_hand = np.zeros(shape, int)
    for states in zip(*codes, strict=True):
        at = tuple(network.schema[name].code(str(one)) for name, one in zip(network.family("n"), states, strict=True))
        by_hand[at] += 1
    assert np.array_equal(counts.tables["n"], by_hand) and by_hand.sum() == 2000
