"""Drawings of networks: text for a terminal, SVG, and `discreet show`."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import discreet as dc
from design_releases import PUBLISHED, committed
from discreet.display import network_svg as drawing
from discreet.display.graph_layout import GAP_PIXELS, TRUNK_PIXELS, generations, layout
from discreet.display.text_tables import columns_of, cut
from discreet.errors import printable
from folding import every
from networks import ASIA, asia, network_path
from shell import RELEASE, Shell, opened, stdin
from sources import PEER_WARNINGS
from strategies import networks

pytestmark = PEER_WARNINGS
SVG = "{http://www.w3.org/2000/svg}"
STATES = ("no", "yes")


def of_arcs(count: int, *arcs: tuple[int, int]) -> dc.Network:
    """A network of two-state nodes v0, v1, ..."""
    variables = [dc.Variable(f"v{i}", STATES) for i in range(count)]
    return dc.Network.from_edges([(f"v{i}", f"v{j}") for i, j in arcs], variables)


def made_up(count: int, seed: int) -> dc.Network:
    """A network of many nodes, each with up to four parents among the dozen before it."""
    rng = np.random.default_rng(seed)
    arcs = []
    for node in range(1, count):
        before = np.arange(max(0, node - 12), node)
        arcs += [(int(i), node) for i in rng.permutation(before)[: rng.integers(0, 5)]]
    return of_arcs(count, *arcs)


LARGE = {
    "a star": of_arcs(250, *((0, i) for i in range(1, 250))),
    "a sink": dc.Network.from_edges(
        [(f"v{i}", "v0") for i in range(1, 26)], [dc.Variable(f"v{i}", STATES) for i in range(26)]
    ),
    "a chain": of_arcs(250, *((i, i + 1) for i in range(249))),
    "no arcs": of_arcs(250),
    "made up": made_up(250, 3),
    "complete": of_arcs(16, *combinations(range(16), 2)),
    "one node": of_arcs(1),
}
ODD = dc.Network.from_edges(
    [("<5 & \"6\"", "a -> b"), ("a -> b", "雪" * 40), ("\x1b[31m", "a -> b"), ("x" * 300, "雪" * 40)],
    [dc.Variable(name, ("<&>", "\x00")) for name in ("<5 & \"6\"", "a -> b", "雪" * 40, "\x1b[31m", "x" * 300, "]]>")],
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def parsed(network: dc.Network) -> ElementTree.Element:
    """The picture, as any reader of XML takes it."""
    return ElementTree.fromstring(network.to_svg())


def boxes(tree: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Left, upper, right and lower edge of each node."""
    found = []
    for group in tree.iter(f"{SVG}g"):
        if group.get("class") == "node":
            rect = group.find(f"{SVG}rect")
            assert rect is not None
            x, y, width, height = (float(rect.get(name) or "") for name in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def titles(tree: ElementTree.Element, kind: str) -> list[str]:
    return [str(group.findtext(f"{SVG}title")) for group in tree.iter(f"{SVG}g") if group.get("class") == kind]


# ------------------------------------------------------------------------------------------ text


def test_asia_as_text() -> None:
    assert asia().network.to_text().splitlines() == [
        "8 nodes, 8 arcs, 18 free parameters",
        "",
        "layer 1",
        "  asia    2",
        "  smoke   2",
        "layer 2",
        "  tub     2  <- asia",
        "  lung    2  <- smoke",
        "  bronc   2  <- smoke",
        "layer 3",
        f"  either  2  <- {', '.join(asia().network.parents['either'])}",
        "layer 4",
        "  xray    2  <- either",
        f"  dysp    2  <- {', '.join(asia().network.parents['dysp'])}",
    ]


def test_nodes_without_arcs_come_last() -> None:
    assert of_arcs(3, (0, 2)).to_text().splitlines()[-2:] == ["without arcs", "  v1  2"]
    assert of_arcs(1).to_text() == "1 node, 0 arcs, 1 free parameter\n\nwithout arcs\n  v0  2"


@every("network", [pytest.param(network, id=name) for name, network in {**LARGE, "odd": ODD}.items()])
def test_text_fits_a_terminal_and_names_every_node(network: dc.Network) -> None:
    lines = network.to_text().splitlines()
    assert max(map(columns_of, lines)) <= 100
    assert all(line == line.rstrip() and line.isprintable() for line in lines)
    if network is not ODD:
        found = [line.split()[0] for line in lines if re.match(r"  \S", line)]
        assert sorted(found) == sorted(network.nodes)
        arcs = re.findall(r"v\d+", " ".join(re.sub(r"^.*<-", "", line) for line in lines[2:] if not "<-" not in line))
        wrapped = re.findall(r"v\d+", " ".join(line for line in lines if re.match(r" {6}", line)))
        assert len(arcs) + len(wrapped) == len(network.arcs)


@given(networks())
def test_parents_stand_in_earlier_layers(network: dc.Network) -> None:
    layer = {name: number for number, names in enumerate(generations(network.parents)) for name in names}
    assert set(layer) == set(network.nodes)
    assert all(layer[parent] < layer[child] for parent, child in network.arcs)
    assert all(layer[name] == max((layer[p] + 1 for p in network.parents[name]), default=0) for name in network.nodes)


def test_names_are_cut_by_the_columns_they_take() -> None:
    assert columns_of("abc") == 3 and columns_of("雪") == 2 and columns_of(unicodedata.normalize("NFD", "é")) == 1
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abc..."
    assert cut("雪" * 10, 8) == "雪雪..." and printable("a\x1b\u202e") == r"a\x1b\u202e"


# ------------------------------------------------------------------------------------------ SVG


@every("network", [pytest.param(network, id=name) for name, network in {**LARGE, "odd": ODD}.items()])
def test_a_picture_has_every_node_apart_and_every_arc_downwards(network: dc.Network) -> None:
    tree = parsed(network)
    width, height = float(tree.get("width") or ""), float(tree.get("height") or "")
    found = boxes(tree)
    assert len(found) == len(network.nodes)
    assert all(0 <= left < right <= width and 0 <= top < bottom <= height for left, top, right, bottom in found)
    for one, other in combinations(found, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert sorted(titles(tree, "arc")) == sorted(printable(f"{parent} -> {child}") for parent, child in network.arcs)
    for path in tree.iter(f"{SVG}path"):
        heights = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)(?=[CV ]|$)", str(path.get("d")).split("l")[0])]
        assert heights == sorted(heights)


@every(("name", "network"), LARGE.items())
def test_a_picture_is_no_wider_than_it_must_be(name: str, network: dc.Network) -> None:
    tree = parsed(network)
    assert float(tree.get("width") or "") <= 3000, name
    assert len(network.to_svg()) < 1_000_000


@given(networks())
def test_any_network_is_drawn_as_valid_xml(network: dc.Network) -> None:
    tree = parsed(network)
    assert len(boxes(tree)) == len(network.nodes) and len(titles(tree, "arc")) == len(network.arcs)


@given(networks())
def test_cells_keep_their_distance(network: dc.Network) -> None:
    widths = {name: 20.0 + 10 * index for index, name in enumerate(network.nodes)}
    places = layout(network.parents, widths)
    assert all(places.rows[parent] < places.rows[child] for parent, child in network.arcs)
    assert all(places.branch(parent, child) in places.x for parent, child in network.arcs)
    for row in range(places.height):
        cells = sorted((x, widths[name] if places.rows[name] == row else TRUNK_PIXELS)
                       for (name, at), x in places.x.items() if at == row)  # fmt: skip
        for (left, size), (right, other) in pairwise(cells):
            assert right - left >= (size + other) / 2 + GAP_PIXELS - 1e-9


def test_a_tree_is_drawn_without_crossings() -> None:
    tree = nx.balanced_tree(3, 3, create_using=nx.DiGraph)
    order = np.random.default_rng(2).permutation(40).tolist()
    network = of_arcs(40, *((order[i], order[j]) for i, j in tree.edges))
    places = layout(network.parents, dict.fromkeys(network.nodes, 40.0))
    links = [((places.x[p, places.rows[c] - 1], places.x[c, places.rows[c]]), places.rows[c]) for p, c in network.arcs]
    crossed = [1 for (one, row), (other, at) in combinations(links, 2)
               if row == at and (one[0] - other[0]) * (one[1] - other[1]) < 0]  # fmt: skip
    assert crossed == []


def test_pictures_are_the_same_for_the_same_network() -> None:
    again = dc.Network(asia().network.variables, dict(asia().network.parents))
    assert again.to_svg() == asia().network.to_svg()
    assert made_up(60, 1).to_svg() == made_up(60, 1).to_svg() != made_up(60, 2).to_svg()


def test_a_picture_says_what_it_shows() -> None:
    network = asia().network
    tree = parsed(network)
    assert tree.get("role") == "img"
    assert [part.tag for part in list(tree)[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert tree.findtext(f"{SVG}title") == "Bayesian network of 8 nodes and 8 arcs"
    assert "smoke -> lung; " in str(tree.findtext(f"{SVG}desc"))
    assert parsed(of_arcs(1)).findtext(f"{SVG}title") == "Bayesian network of 1 node and 0 arcs"
    assert str(parsed(of_arcs(1)).findtext(f"{SVG}desc")).endswith("from parent to child: none")
    assert "smoke: yes, no" in titles(tree, "node")
    assert [part.text for part in tree.iter(f"{SVG}text")] == list(network.nodes)
    # Shades of grey alone, and nothing that is loaded from elsewhere.
    shades = set(re.findall(r"#[0-9a-f]{6}", network.to_svg()))
    assert shades and all(shade[1:3] == shade[3:5] == shade[5:7] for shade in shades)
    assert "href" not in network.to_svg() and "script" not in network.to_svg()


def test_a_picture_that_would_take_minutes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    network = of_arcs(60, *((i, i + 1) for i in range(59)), *((i, 50 + i % 10) for i in range(48)))
    assert network.to_svg()
    monkeypatch.setattr("discreet.display.graph_layout.MOST_DRAWN_CELLS", 1000)
    with pytest.raises(dc.InputError, match=r"a drawing of [0-9,]+ nodes and pieces of lines exceeds 1,000"):
        network.to_svg()
    assert network.to_text()


def test_names_in_a_picture_are_text_and_nothing_else() -> None:
    tree = parsed(ODD)
    assert titles(tree, "node")[0] == '<5 & "6": <&>, \\x00'
    labels = [part.text for part in tree.iter(f"{SVG}text")]
    assert labels[0] == '<5 & "6"' and labels[3] == r"\x1b[31m" and labels[5] == "]]>"
    assert labels[4] == "x" * 21 + "..." and max(columns_of(label or "") for label in labels) <= drawing.LABEL_COLUMNS


@every("name", ["alarm", "hailfinder", "win95pts"])
def test_real_networks_are_drawn(name: str) -> None:
    network = dc.Network.read(network_path(name))
    tree = parsed(network)
    assert len(boxes(tree)) == len(network.nodes) and len(titles(tree, "arc")) == len(network.arcs)
    assert max(map(columns_of, network.to_text().splitlines())) <= 100


# ------------------------------------------------------------------------------------------ discreet show


def test_show_a_network_of_every_kind(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    network = asia().network
    wanted = f"{network.to_text()}\n"
    run.json(RELEASE)
    run.json("combine r.json --output c.json")
    variables = [{"name": part.name, "states": list(part.states)} for part in network.schema]
    Path("s.json").write_text(json.dumps({"variables": variables}))
    Path("arcs.txt").write_text("\n".join(f"{parent} -> {child}" for parent, child in network.arcs))
    for source in ("asia.bif", "r.json", "c.json", "arcs.txt --schema s.json"):
        assert run(f"show {source}") == (0, wanted, ""), source
    for content in (ASIA.read_bytes(), Path("r.json").read_bytes()):
        stdin(monkeypatch, content)
        assert run("show -") == (0, wanted, "")
    assert run("show none --schema s.json")[1] == dc.Network.empty(network.schema).to_text() + "\n"
    shutil.copy("r.json", "nameless")
    assert run("show nameless")[1] == wanted


def test_show_as_json(run: Shell) -> None:
    Path("s.json").write_text(
        '{"variables": [{"name": "age", "bounds": [0, 90], "bins": [18]}, {"name": "x", "states": ["a", "b"]}]}'
    )
    assert run.json("show naive-bayes:x --schema s.json") == {
        "nodes": [
            {"name": "age", "states": ["0_to_18", "18_to_90"], "bounds": [0, 90], "bins": [18], "parents": ["x"]},
            {"name": "x", "states": ["a", "b"], "parents": []},
        ],
        "arcs": [["x", "age"]],
        "parameters": 3,
    }


def test_show_writes_a_picture(run: Shell) -> None:
    picture = asia().network.to_svg()
    assert run("show asia.bif --svg asia.svg") == (0, "wrote asia.svg\n", "")
    assert Path("asia.svg").read_text() == picture
    assert "exists; give a new file, or --replace" in run.fails("show asia.bif --svg asia.svg")
    assert run.json("show asia.bif --svg asia.svg --replace")["svg"] == "asia.svg"
    assert run("show asia.bif --svg -") == (0, picture, "")
    assert "cannot both go to stdout" in run.fails("show asia.bif --svg - --json")
    assert "cannot write into folder" in run.fails("show asia.bif --svg no/such/asia.svg")
    assert "is a folder" in run.fails("show asia.bif --svg . --replace")
    # What cannot be read leaves no picture.
    assert "No such file" in run.fails("show no.bif --svg no.svg") and not Path("no.svg").exists()


def test_what_cannot_be_shown(run: Shell) -> None:
    run.json(RELEASE)
    Path("s.json").write_text('{"variables": [{"name": "a", "states": ["x"]}]}')
    Path("design.json").write_text(committed(PUBLISHED[0]))
    Path("broken.json").write_text('{"format": 1}')
    assert "a release has its own schema; leave out --schema" in run.fails("show r.json --schema s.json")
    assert "a release over a design has no network" in run.fails("show design.json")
    assert "cannot read network or release 'd.csv': No such file" in run.fails("show d.csv")
    run.fails("show broken.json")
    assert "the network 'none' needs variables: add --schema FILE" in run.fails("show none")
