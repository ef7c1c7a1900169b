"""`discreet.model.tables`: one read-only array per family, of the family's shape, made once and only when needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from folding import every
from networks import asia, theta_of
from strategies import counts_over, networks, same, thetas

RAIN, WET = dc.Variable("rain", ("no", "some", "much")), dc.Variable("wet", ("no", "yes"))
NETWORK = dc.Network((WET, RAIN), {"wet": ("rain",), "rain": ()})
ARRAYS = {"wet": [[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]], "rain": [0.5, 0.25, 0.25]}


def test_tables_are_a_mapping_in_the_order_of_the_network() -> None:
    tables = dc.Tables(NETWORK, ARRAYS)
    assert list(tables) == ["wet", "rain"] and len(tables) == 2 and tables.draws is None
    assert tables.network is NETWORK
    assert tables["wet"].tolist() == ARRAYS["wet"] and tables["rain"].tolist() == ARRAYS["rain"]
    assert "rain" in tables and "snow" not in tables
    assert tables.get("snow") is None


@given(networks().flatmap(counts_over))
def test_arrays_are_read_only_copies(tables: dc.Tables) -> None:
    own = {node: array.copy() for node, array in tables.items()}
    copied = dc.Tables(tables.network, own)
    for node, array in own.items():
        array += 1
        assert np.array_equal(copied[node], tables[node])
        with pytest.raises(ValueError, match="read-only"):
            copied[node][...] = 0


@given(thetas(), st.data())
def test_a_function_is_called_once_for_each_node_that_is_read(theta: dc.Tables, data: st.DataObject) -> None:
    calls: list[str] = []

    def source(node: str) -> np.ndarray:
        calls.append(node)
        return theta[node]

    tables = dc.Tables(theta.network, source)
    assert calls == []
    wanted = data.draw(st.lists(st.sampled_from(theta.network.nodes)))
    for node in wanted:
        assert tables[node] is tables[node]
        assert np.array_equal(tables[node], theta[node])
    assert calls == list(dict.fromkeys(wanted))


def test_asking_which_nodes_there_are_makes_no_table() -> None:
    tables = dc.Tables(NETWORK, lambda node: pytest.fail(f"made {node}"))
    assert "rain" in tables and list(tables) == ["wet", "rain"] and len(tables) == 2


@given(networks(), st.integers(1, 4))
def test_an_axis_of_draws_is_the_last_of_every_table(network: dc.Network, draws: int) -> None:
    tables = dc.Tables(network, lambda node: np.ones((*network.shape(node), draws)), draws=draws)
    assert all(tables[node].shape == (*network.shape(node), draws) for node in network.nodes)
    assert tables.draws == tables.map(lambda array: array / 2).draws == draws


@given(networks().flatmap(counts_over))
def test_map_changes_every_cell_and_no_shape(tables: dc.Tables) -> None:
    assert same(tables.map(lambda array: 2 * array), {node: array + array for node, array in tables.items()})


def test_the_representation_shows_no_number() -> None:
    assert repr(dc.Tables(NETWORK, {"wet": np.full((3, 2), 4711), "rain": [4711] * 3})) == "Tables(2 families)"
    assert repr(dc.Tables(NETWORK, lambda node: np.zeros(1), draws=7)) == "Tables(2 families, 7 draws)"


# ------------------------------------------------------------------------------------------ files


@given(thetas(), st.sampled_from(("theta.bif", "theta.bif.gz")))
def test_what_is_written_reads_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, theta: dc.Tables, name: str
) -> None:
    path = tmp_path_factory.mktemp("tables") / name
    theta.write(path, name="a network", properties=("made by a test",))
    again = dc.Tables.read(path)
    assert again.network == theta.network and same(again, theta)
    if name.endswith(".bif"):
        text = path.read_text(encoding="utf-8")
        assert text == theta.text(name="a network", properties=("made by a test",))
        assert text.startswith('network "a network" {\n  // discreet: made by a test\n}\n')


def test_a_table_is_read_by_the_names_of_the_parents_states() -> None:
    theta = theta_of("asia")
    either = dict(zip(theta.network.family("either"), ("yes", "no", "yes"), strict=True))
    index = tuple(theta.network.schema[name].code(state) for name, state in either.items())
    assert theta["either"][index] == 1.0
    assert asia()["xray"].tolist() == [[0.98, 0.02], [0.05, 0.95]]


# ------------------------------------------------------------------------------------------ refusals


@every(
    ("arrays", "message"),
    [
        ({"rain": ARRAYS["rain"]}, r"missing or unknown: \['wet'\]"),
        ({**ARRAYS, "snow": [1.0]}, r"missing or unknown: \['snow'\]"),
        ({**ARRAYS, "rain": [0.5, 0.5]}, r"'rain' needs shape \(3,\) for the axes \('rain',\), got \(2,\)"),
        (
            {**ARRAYS, "wet": np.ones((2, 3))},
            r"'wet' needs shape \(3, 2\) .* \('rain', 'wet'\), got \(2, 3\)",
        ),
        ({**ARRAYS, "wet": np.ones((3, 2, 1))}, r"'wet' needs shape \(3, 2\) .* got \(3, 2, 1\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, object], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.Tables(NETWORK, arrays)  # type: ignore[arg-type]


def test_draws_that_do_not_fit_are_refused() -> None:
    with pytest.raises(dc.InputError, match=r"'wet' needs shape \(3, 2, 5\) for the axes .*'draws'\), got \(3, 2, 4\)"):
        dc.Tables(NETWORK, lambda node: np.ones((*NETWORK.shape(node), 4)), draws=5)["wet"]


def test_an_unknown_node_is_refused_by_name() -> None:
    with pytest.raises(dc.InputError, match="no table 'snow'"):
        dc.Tables(NETWORK, ARRAYS)["snow"]


def test_map_refuses_a_change_of_shape() -> None:
    with pytest.raises(dc.InputError, match="'wet' needs shape"):
        dc.Tables(NETWORK, ARRAYS).map(lambda array: array.sum(axis=-1))


def test_a_file_without_probabilities_has_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "bare.bif"
    path.write_text("variable rain { type discrete [ 1 ] { no }; } probability ( rain ) { }", encoding="utf-8")
    with pytest.raises(dc.InputError, match=r"bare\.bif: no probabilities of 'rain'; add its rows"):
        dc.Tables.read(path)


def test_several_draws_are_not_one_file(tmp_path: Path) -> None:
    draws = dc.Tables(NETWORK, lambda node: np.ones((*NETWORK.shape(node), 2)), draws=2)
    with pytest.raises(dc.InputError, match="draws"):
        draws.text()
    with pytest.raises(dc.InputError, match="draws"):
        draws.write(tmp_path / "draws.bif")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_bif_cannot_express_is_refused(tmp_path: Path) -> None:
    network = dc.Network((dc.Variable('5"', ("no",)),), {'5"': ()})
    with pytest.raises(dc.InputError, match="name '5\"' has a quote or a line break"):
        dc.Tables(network, {'5"': [1.0]}).write(tmp_path / "quote.bif")
    assert list(tmp_path.iterdir()) == []
