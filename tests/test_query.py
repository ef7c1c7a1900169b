"""The text of queries: what is read, what is refused, and that every query reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.model.query_grammar import MostProbable, Probability
from folding import every
from strategies import ODD_NAMES, networks, variables

ODD = dc.Schema(
    (
        dc.Variable("LVH report", ("yes", "no")),
        dc.Variable("O2", ("<5", "5-12", ">=7.5")),
        dc.Variable("Asy/Patch", ("a, b", "x=1", "(y)", " lead", "p|q")),
        dc.Variable("a, b", ("A", "=")),
        dc.Variable("f(x)|y=1", ("A", "B")),
        dc.Variable(" lead", ("MAP", "P")),
    )
)


@every(
    ("text", "targets", "evidence"),
    [
        ("P(O2)", [("O2", None)], []),
        ("  P ( O2 , LVH report )  ", [("O2", None), ("LVH report", None)], []),
        ("P(O2=<5)", [("O2", "<5")], []),
        ("P(O2 = >=7.5 | LVH report=yes)", [("O2", ">=7.5")], [("LVH report", "yes")]),
        ("P(Asy/Patch|O2=5-12,LVH report = no)", [("Asy/Patch", None)], [("O2", "5-12"), ("LVH report", "no")]),
        ("P(O2, LVH report=no | Asy/Patch=x=1)", [("O2", None), ("LVH report", "no")], [("Asy/Patch", "x=1")]),
        ('P("O2"="<5" | "a, b"=A)', [("O2", "<5")], [("a, b", "A")]),
        ('P("f(x)|y=1" | Asy/Patch="a, b")', [("f(x)|y=1", None)], [("Asy/Patch", "a, b")]),
        ('P(" lead"=MAP | Asy/Patch=" lead")', [(" lead", "MAP")], [("Asy/Patch", " lead")]),
        ('P(O2 | Asy/Patch="(y)")', [("O2", None)], [("Asy/Patch", "(y)")]),
        ('P(O2 | Asy/Patch="p|q", "a, b"==)', [("O2", None)], [("Asy/Patch", "p|q"), ("a, b", "=")]),
        ("P(O2 |)", [("O2", None)], []),
    ],
)
def test_probabilities_are_read(text: str, targets: list, evidence: list) -> None:
    assert dc.tools.parse_query(text, ODD) == Probability(tuple(targets), tuple(evidence))


@every(
    ("text", "targets", "evidence"),
    [
        ("MAP(O2)", ["O2"], []),
        ('MAP(O2, "a, b" | LVH report=yes)', ["O2", "a, b"], [("LVH report", "yes")]),
        ("MPE(| O2=<5)", [], [("O2", "<5")]),
        ("MPE ( )", [], []),
        ("MPE(|)", [], []),
    ],
)
def test_explanations_are_read(text: str, targets: list, evidence: list) -> None:
    assert dc.tools.parse_query(text, ODD) == MostProbable(tuple(targets), tuple(evidence))


@every(
    ("text", "reason"),
    [
        ("", "write P"),
        ("O2", "write P"),
        ("P(O2", "write P"),
        ("Q(O2)", "write P"),
        ("p(O2)", "write P"),
        ("P()", "at least one variable"),
        ("P(| O2=<5)", "at least one variable"),
        ("P(O2 | LVH report)", "needs a state"),
        ("P(O2 | LVH report=yes | a=b)", "did not expect"),
        ("P(O2,)", "missing after the last comma"),
        ("P(O2 | LVH report=yes,)", "missing after the last comma"),
        ("P(O2, | LVH report=yes)", "missing after the last comma|did not expect"),
        ("P(,O2)", "did not expect"),
        ("P(O2,,LVH report)", "did not expect"),
        ('P("O2" LVH report)', "did not expect"),
        ('P("O2" "a, b")', "did not expect"),
        ("P(O2=)", "a state is missing"),
        ("P(O2=|LVH report=yes)", "a state is missing"),
        ("P(=<5)", "did not expect"),
        ("P((O2))", "did not expect"),
        ("P(O2))", "did not expect"),
        ('P("O2)', "cannot read"),
        ("P(LVH reports)", "no variable 'LVH reports'; did you mean 'LVH report'"),
        ("P(zzzzzz)", "no variable 'zzzzzz'$"),
        ("P(O2 | LVH=yes)", "no variable 'LVH'"),
        ("P(O2=5)", "'O2' has no state '5'; its states: <5, 5-12, >=7.5"),
        ("P(LVH report | O2=no)", "'O2' has no state 'no'"),
        ("P(O2, O2)", "'O2' occurs twice"),
        ("P(O2 | O2=<5)", "'O2' occurs twice"),
        ("P(O2 | LVH report=yes, LVH report=no)", "'LVH report' occurs twice"),
        ("MAP(O2=<5)", "MAP finds the states"),
        ("MAP()", "to explain some variables"),
        ("MAP(| O2=<5)", "to explain some variables"),
        ("MPE(O2)", "to explain some variables"),
        ("MPE(O2 | LVH report=yes)", "to explain some variables"),
        ("MAP(O2 | O2=<5)", "'O2' occurs twice"),
    ],
)
def test_refused_texts(text: str, reason: str) -> None:
    with pytest.raises(dc.InputError, match=reason):
        dc.tools.parse_query(text, ODD)


def test_nothing_is_left_to_explain() -> None:
    schema = dc.Schema((dc.Variable("a", ("x", "y")), dc.Variable("b", ("x", "y"))))
    with pytest.raises(dc.InputError, match="nothing is left to explain"):
        dc.tools.parse_query("MPE(| a=x, b=y)", schema)


@given(st.data(), networks())
def test_text_reads_back(data: st.DataObject, network: dc.Network) -> None:
    """For every name that BIF can express: `strategies.names` draws no double quotes."""
    schema = network.schema
    shuffled = data.draw(st.permutations(schema.names))
    cut = data.draw(st.integers(0, len(shuffled)))

    def state_of(name: str) -> str:
        return data.draw(st.sampled_from(schema[name].states))

    evidence = tuple((name, state_of(name)) for name in shuffled[cut:])
    query: Probability | MostProbable
    if data.draw(st.booleans()) and len(evidence) < len(schema):
        query = MostProbable(tuple(shuffled[:cut]), evidence)
    elif cut:
        query = Probability(
            tuple((name, state_of(name) if data.draw(st.booleans()) else None) for name in shuffled[:cut]), evidence
        )
    else:
        return
    assert dc.tools.parse_query(str(query), schema) == query


@every("name", ODD_NAMES)
def test_odd_names_read_back(name: str) -> None:
    schema = dc.Schema((dc.Variable(name, (name, "other")), dc.Variable("z", ("no", name))))
    for query in (
        Probability(((name, None),)),
        Probability(((name, name), ("z", name))),
        Probability((("z", None),), ((name, name),)),
        MostProbable((name,), (("z", name),)),
        MostProbable((), ((name, name),)),
    ):
        assert dc.tools.parse_query(str(query), schema) == query


@given(st.data())
def test_states_of_any_text_read_back(data: st.DataObject) -> None:
    schema = dc.Schema((data.draw(variables("x")), dc.Variable("y", ("no", "yes"))))
    for state in schema["x"].states:
        for query in (Probability((("x", state),)), Probability((("y", None),), (("x", state),))):
            assert dc.tools.parse_query(str(query), schema) == query
