"""Predictions: the probabilities of one variable for every record of a table, given its other values.

This module reads a table of evidence, groups equal records, and computes them in blocks; probabilities and intervals
are defined as in `queries/query.py`. The records are the analyst's own. Still, errors do not quote their values: they
name a column and a position.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet.display.renderers import IntervalTable
from discreet.display.text_tables import with_noun
from discreet.errors import InputError
from discreet.inference.exact_laws import CHUNK_BYTES, Laws, joint_cost
from discreet.model.graphs import requisite
from discreet.model.network import Network
from discreet.model.query_grammar import Probability
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.posterior.basis import Mark
from discreet.posterior.joint_draws import PosteriorDraws, law_of
from discreet.posterior.protocol import NetworkPosterior
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.credible import check_level, credible_interval
from discreet.queries.documents import Document, named_ends
from discreet.queries.query import answer
from discreet.util.arrays import Floats
from discreet.util.frames import arrow_column, arrow_table, read_guarded
from discreet.util.lazy_imports import lazy_import
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.progress import under_way
from discreet.util.tabular import Block, Result

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import interchange
else:
    pa, pc, interchange = map(lazy_import, ("pyarrow", "pyarrow.compute", "pyarrow.interchange"))

Codes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.intp]

MOST_SHOWN_RECORDS = 20
"""Largest number of records that the text of a prediction shows."""
MISSING, UNKNOWN, OUTSIDE = -1, -2, -3
"""Codes of a missing value, of a value that is not a state of its variable, and of a number outside its bounds."""


@dataclass(frozen=True, eq=False)
class Prediction(Result):
    """Posterior probabilities of the states of a variable, for every record.

    Args:
        target: predicted variable.
        states: states of the target, in the order of the arrays' columns.
        level: posterior probability of each interval.
        mean: posterior mean of `P(target | evidence of the record)`, float64, shape (records, states), read-only.
        lower: lower end of each probability's interval, same shape.
        upper: upper end, same shape.
        left_out: for every record the fraction of the draws in which its evidence is impossible, shape (records,); its
            numbers do not use them.
        basis: for every record the basis of its numbers given the variables it has values of, as in `Answer.basis`;
            "prior" if its evidence is too rare, that is, if it observes a variable and the interval of every state is
            at least as wide as the level. Empty if the posterior was not made from a release. The probability of a
            record's evidence is not computed here: `Answer.evidence` of a single query has it.

    Raises:
        Nothing.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ends = np.array([[0.8, 0.2]]), np.array([[0.7, 0.1]]), np.array([[0.9, 0.3]])
        >>> found = dc.results.Prediction("lung", ("yes", "no"), 0.95, *ends, left_out=np.zeros(1))
        >>> found.most_probable, found.table().column_names[:3]
        (('yes',), ['lung', 'P(lung=yes)', 'P(lung=yes) lower'])
    """

    target: str
    states: tuple[str, ...]
    level: float
    mean: Floats
    lower: Floats
    upper: Floats
    left_out: Floats
    basis: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        """Make the arrays `mean`, `lower`, `upper` and `left_out` read-only in place, without a copy."""
        for array in (self.mean, self.lower, self.upper, self.left_out):
            array.flags.writeable = False

    @property
    def most_probable(self) -> tuple[str, ...]:
        """State with the largest mean for every record; the first of several that are equal."""
        return tuple(self.states[code] for code in self.mean.argmax(axis=1))

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each record and state, record by record.

        Returns:
            Rows of "record", counted from 1, "state", "mean", "lower", "upper", "level"; and "basis", unless `basis` is
            empty.
        """
        ends, bases = (self.mean.tolist(), self.lower.tolist(), self.upper.tolist()), self.basis or repeat(None)
        return [
            {"record": number, "state": state, "mean": mean, "lower": lower, "upper": upper, "level": self.level}
            | ({} if basis is None else {"basis": basis})
            for number, (*numbers, basis) in enumerate(zip(*ends, bases, strict=False), 1)
            for state, mean, lower, upper in zip(self.states, *numbers, strict=True)
        ]

    def content(self) -> Iterator[str | Block]:
        """Yield a head, a table of the first MOST_SHOWN_RECORDS records, and for more a line on where they are."""
        rows, most = self.tidy(), MOST_SHOWN_RECORDS * len(self.states)
        yield f"{self.target} of {with_noun(len(self.mean), 'record')}"
        yield IntervalTable(rows[:most])
        yield from ["the others are in `to_frame` and `table`"] if len(rows) > most else []

    def table(self) -> pa.Table:
        """Convert the prediction to an Arrow table with a row for each record.

        Returns:
            The most probable state in a text column named like the target; then for every state its mean, lower and
            upper end, float64, in columns such as `P(lung=yes)`, `P(lung=yes) lower` and `P(lung=yes) upper`; and the
            basis of the numbers in a text column such as `lung basis`, unless `basis` is empty.
        """
        columns = {self.target: pa.array(self.most_probable, pa.string())}
        for code, state in enumerate(self.states):
            name = f"P({self.target}={state})"
            columns[name] = pa.array(self.mean[:, code])
            columns[f"{name} lower"] = pa.array(self.lower[:, code])
            columns[f"{name} upper"] = pa.array(self.upper[:, code])
        if self.basis:
            columns[f"{self.target} basis"] = pa.array(self.basis, pa.string())
        return pa.table(columns)


@delegates_to_server
def predict(posterior: NetworkPosterior, records: Any, target: str, *, level: float = DEFAULT_LEVEL) -> Prediction:
    """Predict one variable for records that have values of some of the others.

    Predictions are means over draws of `P(target | evidence, theta)`, as in `answer`: probabilities in the population
    of records with this evidence. Draws are not weighted by the probability of the evidence.

    Records with equal states of the relevant variables are computed once, and many of them in one pass. A record
    without any observed value gets the target's marginal law. Draws in which a record's evidence is impossible are left
    out for this record.

    Args:
        posterior: posterior made from a release.
        records: a mapping from columns to sequences, an Arrow table, or a pandas, Polars or other data frame. Columns
            are variables of the network; a missing column, and a value that is null or NaN, is not observed. Values are
            names of states; a variable whose states are numbers accepts numbers, one with the states true and false
            logical values, and a numeric variable numbers or names of its bins. The target's column is not read.
        target: variable to predict.
        level: posterior probability of each interval, between 0 and 1.

    Returns:
        For each record, in their order, exactly what `answer` returns for `P(target | its evidence)` by exact
        inference: no law is sampled here. A table without records gives arrays of shape (0, states).

    Raises:
        InputError: an unknown target or column, a table that cannot be read, a value that its variable cannot have,
            evidence that is impossible in more than half of the draws, a level outside (0, 1), or a network too large
            for exact inference. Records are named by their position, counted from 0.

    Guarantee:
        No budget is spent; only the posterior and the analyst's own records are read.

    Source:
        Lauritzen et al. (1990) for the relevant evidence; see `model.graphs.requisite`.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("smoke", ("yes", "no")), dc.Variable("lung", ("yes", "no"))),
        ...                   {"smoke": (), "lung": ("smoke",)})
        >>> theta = {"smoke": np.full((2, 2), 0.5), "lung": np.array([[[0.7, 0.9], [0.3, 0.1]], [[0, 0], [1, 1]]])}
        >>> posterior = dc.results.PosteriorDraws(dc.Tables(network, theta, draws=2))
        >>> found = dc.predict(posterior, {"smoke": ["yes", "no", None]}, "lung", level=0.9)
        >>> found.mean[:, 0].round(6).tolist(), found.most_probable
        ([0.8, 0.0, 0.4], ('yes', 'no', 'no'))
    """
    check_level(level)
    law, basis = law_of(posterior), posterior.basis if isinstance(posterior, PosteriorDraws) else None
    network, cells = law.cells.network, law.cells
    states = law.network.schema[target].states
    evidence = read_evidence(records, law.network, target)
    ends = np.empty((3, len(evidence.codes), len(states)))
    impossible = np.zeros(len(evidence.codes), np.int64)
    questions: dict[tuple[tuple[str, ...], frozenset[str]], list[Positions]] = {}
    bases = np.empty(len(evidence.codes), object)
    for observed, positions in evidence.patterns():
        names_read = (target, *observed)
        if basis is not None:
            bases[positions] = basis.of(names_read, given=observed, read=law.reads(names_read))[0]
        nodes = frozenset(requisite(network, (target,), observed))
        matters = {name for node in nodes for name in network.family(node)}
        questions.setdefault((tuple(name for name in observed if name in matters), nodes), []).append(positions)
        if not all(np.all(cells[node]) for node in network.ancestors(observed) - nodes):
            impossible[positions] = _count_impossible(cells, observed, evidence.of(observed, positions))
    with under_way("predicting") as bar:
        for done, ((names, nodes), groups) in enumerate(questions.items()):
            bar(done, len(questions))
            positions = np.concatenate(groups)
            rows = evidence.of(names, positions)
            ends[:, positions], counts = _predict_alike(cells, target, nodes, names, rows, level)
            impossible[positions] = np.maximum(impossible[positions], counts)
        for row, positions in evidence.alike(np.flatnonzero(impossible)):
            ends[:, positions] = _predict_with_impossible(posterior, target, row, positions, level)
    mean, lower, upper = ends
    observes = (evidence.codes != MISSING).any(axis=1)
    bases[observes & (upper - lower >= level).all(axis=1)] = "prior"
    left_out, basis_of = impossible / (cells.draws or 1), () if basis is None else tuple(bases.tolist())
    return Prediction(target, states, level, mean, lower, upper, left_out, basis_of)


# ---------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, eq=False)
class _RecordEvidence:
    """Evidence of the records as codes of states.

    Args:
        names: names of the columns, in the network's order.
        codes: codes of the states, MISSING for values that are not observed, shape (records, columns).
    """

    names: tuple[str, ...]
    codes: Codes

    def of(self, names: Sequence[str], positions: Positions) -> Codes:
        """Select the codes of some columns of some records, shape (positions, names), in the given orders; a copy."""
        columns = np.array([self.names.index(name) for name in names], np.intp)
        return self.codes[np.ix_(positions, columns)]

    def alike(self, positions: Positions) -> Iterator[tuple[dict[str, int], Positions]]:
        """Yield the distinct records among those at some positions, in the order in which they first appear.

        Each item is a mapping of the observed variables to their codes (MISSING is left out), and the positions of the
        records with exactly these, in the given order.
        """
        alike: dict[tuple[int, ...], list[int]] = {}
        for position in positions.tolist():
            alike.setdefault(tuple(self.codes[position].tolist()), []).append(position)
        for codes, members in alike.items():
            observed = {name: code for name, code in zip(self.names, codes, strict=True) if code != MISSING}
            yield observed, np.array(members)

    def patterns(self) -> Iterator[tuple[tuple[str, ...], Positions]]:
        """Yield each set of observed variables with the positions of the records that observe exactly these.

        Names are in the order of the columns; the empty set comes first, if a record observes nothing; positions
        ascend. Without records nothing is yielded.
        """
        patterns, of_record = _find_distinct(self.codes != MISSING)
        ends = np.cumsum(np.bincount(of_record, minlength=len(patterns)))
        positions_of = np.split(np.argsort(of_record, kind="stable"), ends)
        for pattern, positions in zip(patterns, positions_of, strict=False):  # the last part is empty
            yield tuple(name for name, present in zip(self.names, pattern, strict=True) if present), positions


def read_evidence(records: Any, network: Network, target: str) -> _RecordEvidence:
    """Convert any table of evidence to codes of states; the target's column is left out.

    Args:
        records: mapping, Arrow table or data frame, as in `predict`.
        network: network of the variables.
        target: variable to predict.

    Returns:
        The evidence, with columns in the network's order; null and NaN have the code MISSING. Without any column but
        the target's, it has a row for each record and no columns. The target's column only counts the records.

    Raises:
        InputError: an unreadable table, an unknown or repeated column, columns of different lengths, or a value that
            its variable cannot have.
    """
    table = _read_table(records, target)
    names = [name for name in table.column_names if name != target]
    unknown = [name for name in names if name not in network.schema]
    if unknown:
        raise InputError(
            f"the records have columns that are no variables of the network: {', '.join(map(repr, unknown[:8]))}; "
            "leave them out"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"the records have two columns {twice[0]!r}; leave one out")
    observed = network.ordered(names)
    codes = np.empty((table.num_rows, len(observed)), np.int32)
    for position, name in enumerate(observed):
        variable, column = network.schema[name], table.column(name)
        codes[:, position] = read_guarded(partial(_encode, variable, column), f"column {name!r} cannot be read")
        _refuse_values(codes[:, position], variable)
    return _RecordEvidence(observed, codes)


def _read_table(records: Any, target: str) -> pa.Table:
    """Convert any table to Arrow, without the index of a pandas frame.

    Columns that the pandas metadata of a table names as its index are dropped, of an Arrow table as well.

    Args:
        records: mapping from columns to sequences (names become text), Arrow table or data frame. An object with
            `__arrow_c_stream__` is read by it, another one by `__dataframe__`.
        target: variable to predict; in a mapping its column is replaced by as many nulls without being read.

    Returns:
        An Arrow table with a row for each record; without any row for an empty mapping.

    Raises:
        InputError: an object of another type, a column that cannot be read, or columns of different lengths.
    """
    if isinstance(records, Mapping):
        columns = {
            str(name): read_guarded(
                partial(_read_column, values, name != target), f"column {name!r} is no sequence of values of one kind"
            )
            for name, values in records.items()
        }
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise InputError(f"the columns of the records differ in length: {', '.join(map(str, sorted(lengths)))}")
        return pa.table(columns)
    if hasattr(records, "__arrow_c_stream__"):
        table = read_guarded(partial(arrow_table, records), "the records cannot be read")
    elif hasattr(records, "__dataframe__"):
        table = read_guarded(partial(interchange.from_dataframe, records), "the records cannot be read")
    else:
        raise InputError(
            f"cannot read records from an object of type {type(records).__name__}; give a mapping from columns to "
            "sequences, an Arrow table or a data frame"
        )
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    return table.drop_columns([name for name in index if isinstance(name, str) and name in table.column_names])


def _read_column(values: Any, read: bool) -> pa.ChunkedArray:
    """Convert one column of a mapping to Arrow; if `read` is false, make a column of as many nulls.

    In a sequence NaN becomes null; a column with `__arrow_c_stream__` is taken as it is.

    Raises:
        TypeError: a text or bytes, which is one value and no column.
        Exception: any error of Arrow or of the values' library; the caller guards against it.
    """
    if isinstance(values, str | bytes):
        raise TypeError
    if not read:
        return pa.chunked_array([pa.nulls(len(values))])
    if hasattr(values, "__arrow_c_stream__"):
        return arrow_column(values)
    return pa.chunked_array([pa.array(values, from_pandas=True)])


def _encode(variable: Variable, column: pa.ChunkedArray) -> Codes:
    """Encode a column as positions of states.

    Text must equal a state (of a numeric variable, the name of a bin). Logical values are accepted if all states are
    "true" or "false" in any case, that of missing values apart. Integers, floats and decimals are encoded by
    `_encode_numbers`.

    Args:
        variable: variable of the column.
        column: values; dictionary-encoded columns are decoded first.

    Returns:
        int32, shape (records,): positions of states; MISSING for null and NaN; UNKNOWN or OUTSIDE for a value that the
        variable cannot have. A column without any value is all MISSING, whatever its type.

    Raises:
        InputError: a column of a type that cannot hold the variable's states, or numbers for states that are names.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    absent = column.is_null(nan_is_null=True).to_numpy()
    if absent.all():
        # Data frames give an empty column any type.
        return np.full(len(column), MISSING, np.int32)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if variable.number_type.is_calendar:
        texts = column if text else column.cast(pa.timestamp("us"))
        dates = [str(date) if text else date.isoformat() for date in texts.fill_null("" if text else 0).to_pylist()]
        read = np.array([variable.number_type.read_text(date) for date in dates], np.float64)
        named = _match_states(pa.chunked_array([dates]), pa.array(variable.states, pa.string()))
        codes = np.where(np.isnan(read), named, _encode_numbers(variable, read))
    elif text:
        codes = _match_states(column.cast(pa.string()), pa.array(variable.held, pa.string()))
        if variable.codes:
            labelled = _match_states(column.cast(pa.string()), pa.array(variable.states, pa.string()))
            codes = np.where(codes == UNKNOWN, labelled, codes)
        # A frame with a gap writes the code 1 as 1.0.
        whole = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)\.0+$", r"\1")
        codes = np.where(codes == UNKNOWN, _match_states(whole, pa.array(variable.held, pa.string())), codes)
    elif pa.types.is_boolean(kind) and {state.lower() for state in variable.matched} <= {"true", "false"}:
        codes = _match_states(column, pa.array([state.lower() == "true" for state in variable.matched]))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        codes = _encode_numbers(variable, column.cast(pa.float64(), safe=False).fill_null(math.nan).to_numpy())
    else:
        raise InputError(f"column {variable.name!r} must hold the states of its variable, but has type {kind}")
    if variable.other is not None:
        codes = np.where(codes == UNKNOWN, len(variable.matched), codes)
    return np.where(absent, MISSING, codes).astype(np.int32)


def _match_states(column: pa.ChunkedArray, states: pa.Array) -> npt.NDArray[np.int64]:
    """Find the position of each value among the states, UNKNOWN for null or another value; int64, shape (records,)."""
    return np.asarray(pc.fill_null(pc.index_in(column, value_set=states), UNKNOWN).to_numpy(), np.int64)


def _encode_numbers(variable: Variable, numbers: Floats) -> npt.NDArray[np.int64]:
    """Encode numbers as positions of bins or states, UNKNOWN or OUTSIDE, shape (records,).

    Bins are closed below, the last one on both sides. Numbers beyond the bounds, and NaN, are OUTSIDE; a fraction
    within them is UNKNOWN for a variable of whole numbers. For a variable without bounds, states are compared as
    numbers, except that of missing values, and any other number, and NaN, is UNKNOWN.

    Args:
        variable: variable with bounds, or with states that are all numbers.
        numbers: values; NaN where missing, which the caller replaces, shape (records,).

    Returns:
        Codes, int64, shape (records,).

    Raises:
        InputError: without bounds, a state is not a finite number, or two states are the same number.
    """
    if variable.bounds is not None:
        inside = (numbers >= variable.bounds[0]) & (numbers <= variable.bounds[1])
        codes = np.where(inside, np.searchsorted(variable.bins, numbers, side="right"), OUTSIDE)
        fractional = variable.whole & inside & (numbers != np.floor(numbers))
        return np.where(fractional, UNKNOWN, codes)
    try:
        values = np.array([float(state) for state in variable.matched])
    except ValueError:
        values = np.array([])
    if not np.isfinite(values).all() or len(set(values)) < len(variable.matched):
        raise InputError(f"column {variable.name!r} holds numbers, but its states are names; give their names")
    codes = np.full(len(numbers), UNKNOWN, np.int64)
    for code, value in enumerate(values):
        codes[numbers == value] = code
    return codes


def _refuse_values(codes: Codes, variable: Variable) -> None:
    """Raise an error if a column has a value that its variable cannot have: a code below MISSING.

    Raises:
        InputError: it names the column, the first such record's position, counted from 0, and the variable's bounds or
            its first states; never the value.
    """
    wrong = np.flatnonzero(codes < MISSING)
    if not wrong.size:
        return
    where = f"the record at position {wrong[0]} (the first is 0) has a value in column {variable.name!r} that"
    if codes[wrong[0]] == OUTSIDE and variable.bounds is not None:
        raise InputError(f"{where} is outside its bounds {variable.bounds[0]:g} to {variable.bounds[1]:g}")
    raise InputError(f"{where} is none of its states: {', '.join(variable.states[:12])}")


# --------------------------------------------------------------------------------------------------------- answers


def _find_distinct(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Positions]:
    """Find the distinct rows in lexicographic order, and the position of every row among them, shape (rows,).

    Rows without columns are all equal: the result is the first one and zeros. Without rows both are empty.
    """
    if not rows.size:
        return rows[:1], np.zeros(len(rows), np.intp)
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1)


def _predict_alike(
    cells: Tables, target: str, nodes: frozenset[str], names: tuple[str, ...], rows: Codes, level: float
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Predict records that observe the same variables.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        target: variable to predict.
        nodes: nodes whose tables are relevant.
        names: observed relevant variables.
        rows: their codes, shape (records, variables), at least one record.
        level: posterior probability of each interval.

    Returns:
        Means, lower and upper ends, shape (3, records, states), and for each record the number of draws in which its
        evidence is impossible, shape (records,). Such draws count as probability 0 in the record's numbers, which are
        then wrong: the caller replaces them. Probabilities are clipped to [0, 1].

    Raises:
        InputError: a network too large for exact inference.
    """
    distinct, of_record = _find_distinct(rows)
    cost = joint_cost(cells.network, (target,), names)
    ends, impossible = [], []
    for block, evidence in _make_blocks(cells, nodes, names, distinct, cost):
        # Computed as in `answer`, so that the two are bit-equal.
        if len(nodes) == len(cells.network.nodes):
            draws = Laws(block).marginals(evidence)[target]
        else:
            draws = Laws(block).joint((target,), evidence)
        draws = draws.reshape(len(draws), -1, cells.draws or 1)
        impossible.append(np.isnan(draws[0]).sum(axis=1))
        draws = np.clip(np.nan_to_num(draws), 0.0, 1.0)
        ends.append(np.stack([draws.mean(axis=-1), *credible_interval(draws, level)]))
    return np.concatenate(ends, axis=2)[:, :, of_record].swapaxes(1, 2), np.concatenate(impossible)[of_record]


def _count_impossible(cells: Tables, observed: tuple[str, ...], rows: Codes) -> npt.NDArray[np.int64]:
    """Count the draws in which each record's evidence has probability 0, shape (records,).

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        observed: all observed variables, the same for all records.
        rows: their codes, shape (records, variables), at least one record.

    Raises:
        InputError: a network too large for exact inference.
    """
    distinct, of_record = _find_distinct(rows)
    counts = []
    for block, evidence in _make_blocks(cells, cells.network.ancestors(observed), observed, distinct, 0):
        log = Laws(block).log_probability(evidence)
        counts.append(np.isneginf(log).reshape(-1, cells.draws or 1).sum(axis=1))
    return np.asarray(np.concatenate(counts)[of_record])


def _predict_with_impossible(
    posterior: NetworkPosterior, target: str, shown: Mapping[str, int], positions: Positions, level: float
) -> Floats:
    """Predict records with equal evidence that is impossible in some draws, by `answer`, which leaves these out.

    Args:
        posterior: posterior made from a release.
        target: variable to predict.
        shown: observed codes of the records.
        positions: positions of the records; the first one is named in errors.
        level: posterior probability of each interval.

    Returns:
        Means, lower and upper ends, shape (3, 1, states): the same for all these records.

    Raises:
        InputError: the evidence is impossible in more than half of the draws (it names the first position, and no
            value), or as in `answer`.
    """
    schema = posterior.network.schema
    evidence = tuple((name, schema[name].states[code]) for name, code in shown.items())
    try:
        rows = answer(posterior, Probability(((target, None),), evidence), level=level).rows
    except InputError as error:
        message = str(error).partition("is impossible under")
        if not message[1]:
            raise
    else:
        return np.array([[[row[end] for row in rows]] for end in ("mean", "lower", "upper")])
    # The record's values are the analyst's own; still no error quotes them.
    where = f"the evidence of the record at position {positions[0]} (the first is 0)"
    conditions = [f"; {name!r} applies if {schema[name].condition}" for name in shown if name in schema.conditions]
    raise InputError(f"{where} {message[1]}{message[2]}{''.join(conditions)}")


# ----------------------------------------------------------------------------------------------------------- blocks


def _make_blocks(
    cells: Tables, nodes: Iterable[str], names: tuple[str, ...], distinct: Codes, cost: int
) -> Iterator[tuple[Tables, dict[str, int]]]:
    """Split distinct records into blocks whose tables fit into CHUNK_BYTES, at least one record each.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        nodes: nodes whose tables are relevant.
        names: observed relevant variables.
        distinct: their codes, shape (records, variables).
        cost: number of cells of all cliques together, for one record and draw.

    Yields:
        Tables and the evidence in them, in the order of the records. A block of one record has `cells` itself and the
        record's codes. A block of several has joined tables, whose last axis is (record, draw) with the draw fastest;
        in them each observed variable has a single state, so its code is 0. With one draw all blocks are of one record:
        sums over a last axis of length 1 are rounded in another order.
    """
    network, draws = cells.network, cells.draws or 1
    hidden = sum(network.cells(name for name in network.family(node) if name not in names) for node in nodes)
    size = max(1, CHUNK_BYTES // (8 * draws * (hidden + cost))) if draws > 1 else 1
    for start in range(0, len(distinct), size):
        block = distinct[start : start + size]
        if len(block) == 1:
            yield cells, dict(zip(names, block[0].tolist(), strict=True))
        else:
            yield _join_tables(cells, nodes, dict(zip(names, block.T, strict=True))), dict.fromkeys(names, 0)


def _join_tables(cells: Tables, nodes: Iterable[str], codes: Mapping[str, Codes]) -> Tables:
    """Join tables of several records along the draws: each record fixes its own state of every observed variable.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        nodes: nodes whose tables are relevant; other members of their families, which are observed, get a table of
            ones.
        codes: codes of the observed variables, at least one, shape (records,) each.

    Returns:
        Tables over the families of `nodes` alone, in which observed variables have one state, with `records * draws`
        draws, the draw fastest; a table is computed at its first use.
    """
    network, draws, chosen = cells.network, cells.draws or 1, frozenset(nodes)
    records = len(next(iter(codes.values())))
    variables = network.ordered({name for node in chosen for name in network.family(node)})
    joined = Network(
        # Without conditions, which hold in the tables already: their columns' states are not here.
        tuple(Variable(name, ("observed",) if name in codes else network.schema[name].states) for name in variables),
        {name: network.parents[name] if name in chosen else () for name in variables},
    )

    def table(node: str) -> Floats:
        """Join the table of a node; that of a node which is not relevant is ones, shape (1, records * draws)."""
        if node not in chosen:
            return np.ones((1, records * draws))
        return _put_side_by_side(cells[node], network.family(node), codes, records)

    return Tables(joined, table, draws=records * draws)


def _put_side_by_side(table: Floats, family: Sequence[str], codes: Mapping[str, Codes], records: int) -> Floats:
    """Join the slices of a table for all records on the last axis; observed variables keep an axis of length 1.

    The result has shape `(*sizes, records * draws)`, the draw fastest; without an observed variable in the family the
    table is repeated. The other axes keep their order in memory, too, because it determines the order in which sums are
    rounded.

    Args:
        table: probabilities, shape `(*family, draws)`.
        family: names of the axes.
        codes: codes of the observed variables, shape (records,) each.
        records: number of records.
    """
    axes = [axis for axis, name in enumerate(family) if name in codes]
    rest = sorted(set(range(table.ndim)) - set(axes), key=lambda axis: -table.strides[axis])
    moved = table.transpose(*axes, *rest)
    picked = moved[tuple(codes[family[axis]] for axis in axes)] if axes else moved[None].repeat(records, axis=0)
    axis_of_draws = rest.index(table.ndim - 1)
    merged = np.ascontiguousarray(np.moveaxis(picked, 0, axis_of_draws))
    merged = merged.reshape(*merged.shape[:axis_of_draws], -1, *merged.shape[axis_of_draws + 2 :])
    return np.expand_dims(merged.transpose(np.argsort(rest)), tuple(axes))


def prediction_document(prediction: Prediction) -> Document:
    """Convert a prediction to JSON; `read_prediction` reads it back.

    Args:
        prediction: prediction of any number of records.

    Returns:
        "target", "level" and "records", an entry for each record: "mean", "lower" and "upper", each a number by state;
        "left_out", the fraction of draws left out; and "basis", None if it is unknown.
    """
    rows = [
        {
            **named_ends(prediction.states, prediction.mean[at], prediction.lower[at], prediction.upper[at]),
            "left_out": float(prediction.left_out[at]),
            "basis": prediction.basis[at] if prediction.basis else None,
        }
        for at in range(len(prediction.mean))
    ]
    return {"target": prediction.target, "level": prediction.level, "records": rows}


def read_prediction(documents: Sequence[Mapping[str, Any]], states: Sequence[str]) -> Prediction:
    """Restore the prediction that `prediction_document` wrote, equal to the last bit.

    Args:
        documents: documents of consecutive parts of the records; at least one. Target and level are those of the first.
        states: states of the target, in the order of the result's columns.

    Returns:
        The prediction of all records, in the order of the documents. If the basis of any record is None, that of all is
        unknown: `basis` is empty.

    Example:
        >>> ends = (np.array([[0.1 + 0.2, 0.7]]) for _ in range(3))
        >>> found = Prediction("lung", ("yes", "no"), 0.95, *ends, left_out=np.zeros(1))
        >>> read_prediction([prediction_document(found)], found.states).table() == found.table()
        True
    """
    rows = [row for document in documents for row in document["records"]]
    mean, lower, upper = (
        np.array([[row[end][state] for state in states] for row in rows], np.float64).reshape(-1, len(states))
        for end in ("mean", "lower", "upper")
    )
    left_out = np.array([row["left_out"] for row in rows], np.float64)
    marks = tuple(row["basis"] for row in rows)
    basis = () if None in marks else marks
    first = documents[0]
    return Prediction(first["target"], tuple(states), first["level"], mean, lower, upper, left_out, basis)
