"""Write the Bayesian Interchange Format in the form that every reader accepts.

Content that BIF 0.15 cannot express is in comments, because readers disagree on properties: pyAgrum 3.3 fails at those
of the network. Probabilities have the shortest text that reads back exactly. pyAgrum and pgmpy read no quoted names;
`plain_names` makes names that all three read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from discreet.errors import InputError, shown
from discreet.formats.network_content import NetworkContent

UNQUOTED_NAME = re.compile(r"[^\s{}()\[\],;|\"]+")
"""Names that need no quotes in BIF."""
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
PLAIN_STATE = re.compile(rf"{PLAIN_NAME.pattern}|[0-9]+|[0-9]+_[A-Za-z0-9_]+")
"""Names that pyAgrum 3.3 and pgmpy 1.1 read unchanged."""
KEYWORDS = {"network", "variable", "probability", "property", "type", "discrete", "table", "default"}


def format_bif(bif: NetworkContent) -> str:
    """Write BIF text.

    Names are quoted only where BIF needs it.

    Args:
        bif: variables, parents and probabilities.

    Returns:
        The text.

    Raises:
        InputError: a name holds a quote or a line break, which BIF cannot express, or a property a line break.
    """
    states = {variable.name: variable.states for variable in bif.variables}
    lines = [
        f"network {_quote(bif.name)} {{",
        *(f"  // discreet: {_check_property(line)}" for line in bif.properties),
        "}",
    ]
    for variable in bif.variables:
        lines += [f"variable {_quote(variable.name)} {{"]
        lines += [f"  type discrete [ {variable.size} ] {{ {', '.join(map(_quote, variable.states))} }};"]
        if variable.bounds is not None and variable.not_applicable is None:
            lines += [f"  // discreet-bounds {_write_floats(variable.bounds)}"]
            lines += [f"  // discreet-bins {_write_floats(variable.bins)}"] if variable.bins else []
            lines += ["  // discreet-integer"] if variable.whole else []
        lines += ["  // discreet-missing"] if variable.missing is not None else []
        lines.append("}")
    for node, parents in bif.parents.items():
        head = f"{_quote(node)} | {', '.join(map(_quote, parents))}" if parents else _quote(node)
        lines.append(f"probability ( {head} ) {{")
        if node in bif.arrays:
            rows = bif.arrays[node].reshape(-1, bif.arrays[node].shape[-1])
            for names, row in zip(product(*(states[parent] for parent in parents)), rows, strict=True):
                label = f"({', '.join(map(_quote, names))})" if parents else "table"
                lines.append(f"  {label} {', '.join(repr(float(value)) for value in row)};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def odd_names(bif: NetworkContent) -> tuple[str, ...]:
    """List the names of variables and states that other programs cannot read: pyAgrum none of them, pgmpy some."""
    names = [name for name in (variable.name for variable in bif.variables) if not _is_plain(name, PLAIN_NAME)]
    names += [state for variable in bif.variables for state in variable.states if not _is_plain(state, PLAIN_STATE)]
    return tuple(dict.fromkeys(names))


def plain_names(bif: NetworkContent) -> NetworkContent:
    """Replace names that pyAgrum and pgmpy cannot read; properties list each with its new name.

    Args:
        bif: with any names.

    Returns:
        The network with an underscore for every character except A-Z, a-z, 0-9, dot, hyphen and underscore, with
        numbers to keep names different.

    Example:
        >>> from discreet.model.schema import Variable
        >>> bif = NetworkContent((Variable("O2 level", ("<5", "?")),), {"O2 level": ()}, {})
        >>> plain = plain_names(bif)
        >>> plain.variables[0].name, plain.variables[0].states, plain.properties[1]
        ('O2_level', ('_5', '_'), "state _5 of O2_level is '<5'")
    """
    names = dict(zip(named := [v.name for v in bif.variables], _make_plain(named, PLAIN_NAME), strict=True))
    notes = [f"variable {new} is {shown(old)}" for old, new in names.items() if old != new]
    variables = []
    for variable in bif.variables:
        states = _make_plain(variable.states, PLAIN_STATE)
        pairs = zip(variable.states, states, strict=True)
        notes += [f"state {new} of {names[variable.name]} is {shown(old)}" for old, new in pairs if old != new]
        missing = None if variable.missing is None else states[-1]
        variables.append(replace(variable, name=names[variable.name], states=states, missing=missing))
    return replace(
        bif,
        variables=tuple(variables),
        parents={names[node]: tuple(names[parent] for parent in parents) for node, parents in bif.parents.items()},
        arrays={names[node]: array for node, array in bif.arrays.items()},
        properties=(*bif.properties, *notes),
    )


def _make_plain(names: Iterable[str], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Make a unique plain name for each; plain names stay."""
    listed = tuple(names)
    taken = {name for name in listed if _is_plain(name, pattern)}
    plain, counts = [], dict[str, int]()
    for name in listed:
        new = name
        if not _is_plain(name, pattern):
            stem = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            stem = stem if _is_plain(stem, pattern) else f"_{stem}"
            new = stem
            while new in taken:
                counts[stem] = counts.get(stem, 1) + 1
                new = f"{stem}_{counts[stem]}"
            taken.add(new)
        plain.append(new)
    return tuple(plain)


def _is_plain(name: str, pattern: re.Pattern[str]) -> bool:
    """Return True if other programs can read a name."""
    return pattern.fullmatch(name) is not None and name not in KEYWORDS


def _quote(name: str) -> str:
    """Write a name as BIF text."""
    if not name:
        raise InputError("a BIF network needs a name that is not empty")
    if '"' in name or "\n" in name or "\r" in name:
        raise InputError(f"name {shown(name)} has a quote or a line break, which BIF cannot express; rename it")
    plain = UNQUOTED_NAME.fullmatch(name) and "//" not in name and "/*" not in name and name != "property"
    return name if plain else f'"{name}"'


def _check_property(text: str) -> str:
    """Refuse a property with a line break: its comment ends with the line."""
    if "\n" in text or "\r" in text:
        raise InputError("a property of a BIF network cannot have a line break; remove it")
    return text


def _write_floats(values: tuple[float, ...]) -> str:
    """Write the numbers of a comment such as `discreet-bounds`."""
    return " ".join(f"{value!r}" for value in values)
