"""Families and scores from JSON, for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.model.network import Network
from discreet.model.schema import Schema, Variable
from discreet.research.scores.families import FAMILIES, Family
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable, types_of
from discreet.util.arrays import numbers
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import NETWORK_BYTES

FAMILY_FIELDS = {"family", "variables", "parameters", "points", "bound", "open_ends", "lipschitz"}
TABLE_FIELDS = {"variables", "candidates", "names", "base", "range", "scores"}


def read_score_file(text: str) -> Family | ScoreTable:
    """Read a family or a table of scores from JSON, or from a JSON file.

    Args:
        text: JSON, or the name of a JSON file: `{"family": "exponential", "variables": [{"name": "wait", "bounds": [0,
            60], "bins": 120}], "parameters": {"low": 0.02, "high": 0.5}}`, and optionally "points", "bound",
            "lipschitz", "open_ends";
            or `{"variables": [{"name": "a", "states": ["no", "yes"]}], "candidates": [[0.2], [0.8]], "range": [0, 1],
            "scores": [[1, 0], [0, 1]]}`, a row for each joint state of the variables, the last fastest, and optionally
            "names" of the candidates' numbers and a "base" measure. "bins" are cut points, or a number of equally wide
            bins.

    Returns:
        The family, or the table; scores are clamped to their range.

    Raises:
        InputError: no such file, not JSON of this form, or an invalid family or score.

    Guarantee:
        None spent: reads no records.

    Example:
        >>> import discreet as dc
        >>> calls = '{"name": "calls", "bounds": [0, 9], "bins": 9}'
        >>> family = f'{{"family": "poisson", "variables": [{calls}], "parameters": {{"low": 1, "high": 5}}}}'
        >>> dc.research.read_score_file(family)
        Family('poisson', over calls, 1,024 points)
    """
    noun = "score"
    raw = read_json(
        text if text.lstrip().startswith("{") else read_text(text, noun, NETWORK_BYTES),
        f"the {noun}",
        NETWORK_BYTES,
    )
    if not isinstance(raw, dict) or not isinstance(raw.get("variables"), list):
        raise InputError("a score must be a JSON object with 'variables', and 'family' or 'scores'")
    variables = tuple(_read_variable(item) for item in raw["variables"])
    fields = FAMILY_FIELDS if "family" in raw else TABLE_FIELDS
    unknown = set(raw) - fields
    if unknown:
        raise InputError(f"a score has no field {shown(min(unknown))}; it takes {listed(tuple(sorted(fields)))}")
    if "family" not in raw:
        return _read_table(Schema(variables), raw)
    if not isinstance(raw["family"], str):
        raise InputError(f"'family' must be one of {listed(tuple(FAMILIES))}")
    if not isinstance(raw.get("parameters"), dict) or not isinstance(raw.get("open_ends", False), bool):
        raise InputError("a family needs 'parameters', an object of numbers; 'open_ends' must be true or false")
    bound, lipschitz = (raw.get(name) for name in ("bound", "lipschitz"))
    for name, value in (("bound", bound), ("Lipschitz constant", lipschitz)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError(f"the {name} of a family must be a number of nats")
    open_ends = bool(raw.get("open_ends", False))
    return Family(raw["family"], variables, raw["parameters"], raw.get("points"), bound, open_ends, lipschitz)


def _read_variable(item: Any) -> Variable:
    """Read one variable; bins may be a number."""
    if not isinstance(item, dict) or set(item) - {"name", "states", "bounds", "bins"} or "name" not in item:
        raise InputError("a variable of a score needs a name, and states or bounds and bins")
    bins = item.get("bins", ())
    if isinstance(bins, int) and not isinstance(bins, bool):
        bounds = item.get("bounds")
        if not isinstance(bounds, list) or len(bounds) != 2 or "states" in item:
            raise InputError(f"variable {shown(str(item['name']))}: a number of bins needs bounds, and no states")
        return Variable.binned(item["name"], (bounds[0], bounds[1]), bins)
    return Variable(item["name"], item.get("states", ()), bounds=item.get("bounds"), bins=bins)


def _read_table(schema: Schema, raw: Mapping[str, Any]) -> ScoreTable:
    """Read a table of scores."""
    network = Network.empty(schema)
    candidates, scores = (_read_numbers(raw.get(name), name) for name in ("candidates", "scores"))
    rows = candidates[:, None] if candidates.ndim == 1 else candidates
    span = _read_numbers(raw.get("range"), "range")
    if span.shape != (2,) or not span[0] < span[1]:
        raise InputError("a score needs a 'range', its lowest and its highest number")
    if scores.shape != (types_of(network), len(rows)):
        raise InputError(f"'scores' needs a row for each of {types_of(network):,} joint states, a number a candidate")
    low, high = span.tolist()
    steps = np.rint((np.clip(scores, low, high) - low) / (high - low) * SCORE_STEPS).astype(np.int64)
    base = _read_numbers(raw["base"], "base") if "base" in raw else np.zeros(len(rows))
    names = raw.get("names") or [f"z{at + 1}" for at in range(rows.shape[1] if rows.ndim == 2 else 0)]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("'names' must be a list of the names of the candidates' numbers")
    return ScoreTable(network, tuple(names), rows, base, steps, high - low)


def _read_numbers(value: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Read a list of numbers, or of lists of numbers."""
    array = numbers(value, f"'{name}' of a score")
    if array.ndim == 0 or not np.all(np.isfinite(array)):
        raise InputError(f"'{name}' of a score must be a list of finite numbers, or of equally long lists of them")
    return array
