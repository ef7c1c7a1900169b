"""The head of a release document: the network or design that it is over, and a design's prior, there and back.

Networks and designs declare their variables each in their own way, which is why these parts are written out; the other
parts follow from the fields of their classes, in `codec.py`.
"""

from __future__ import annotations

from typing import Any

from discreet.errors import shown
from discreet.model.design import Design
from discreet.model.limits import PARENTS, at_most, check_states
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.releases.codec import Finite, Flag, Items, Part, Positive

__all__ = ["DesignPart", "NetworkPart", "NormalPart", "read_design", "read_network", "write_design", "write_network"]


class _Variable(Part):
    name: str
    states: Items[str]
    bounds: tuple[float, float] | None = None
    bins: Items[float] | None = None


class NetworkPart(Part):
    """A network: variables with their states, and the parents of each."""

    variables: Items[_Variable]
    parents: dict[str, Items[str]]


class _Column(Part):
    name: str
    states: Items[str] | None = None
    bounds: tuple[Finite, Finite] | None = None


class DesignPart(Part):
    """A design: features with their bounds, the target, and what is known of a record's length."""

    features: Items[_Column]
    target: _Column | None = None
    norm: Positive | None = None
    intercept: Flag


class NormalPart(Part):
    """A normal prior on the weights."""

    deviation: Positive


def write_network(network: Network) -> dict[str, Any]:
    """Network to document."""
    return {
        "variables": [
            {"name": variable.name, "states": list(variable.states)}
            | ({} if variable.bounds is None else {"bounds": list(variable.bounds), "bins": list(variable.bins)})
            for variable in network.schema
        ],
        "parents": {node: list(parents) for node, parents in network.parents.items()},
    }


def read_network(part: NetworkPart) -> Network:
    """Document to network.

    Raises:
        InputError: no network, or more of anything than a file may declare.
    """
    check_states(variable.states or variable.bins or () for variable in part.variables)
    for node, parents in part.parents.items():
        at_most(PARENTS, parents, f"parents of {shown(node)}")
    variables = (
        Variable(variable.name, tuple(variable.states), bounds=variable.bounds, bins=tuple(variable.bins or ()))
        for variable in part.variables
    )
    return Network(tuple(variables), {node: tuple(parents) for node, parents in part.parents.items()})


def write_design(design: Design) -> dict[str, Any]:
    """Design to document."""
    found = {
        "features": [_column(variable) for variable in design.features],
        "target": None if design.target is None else _column(design.target),
        "norm": design.norm,
        "intercept": design.intercept,
    }
    return {name: part for name, part in found.items() if part is not None}


def read_design(part: DesignPart) -> Design:
    """Document to design.

    Raises:
        InputError: no design, or more of anything than a file may declare.
    """
    check_states(column.states or () for column in part.features)
    target = None if part.target is None else _variable(part.target)
    return Design(tuple(map(_variable, part.features)), target, part.norm, part.intercept)


def _column(variable: Variable) -> dict[str, Any]:
    """Variable of a design to document."""
    states = {"states": list(variable.states)} if variable.states else {}
    return {"name": variable.name, **states} | ({} if variable.bounds is None else {"bounds": list(variable.bounds)})


def _variable(part: _Column) -> Variable:
    """Document to variable."""
    return Variable(part.name, tuple(part.states or ()), bounds=part.bounds)
