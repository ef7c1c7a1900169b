"""Local counts: contingency tables of several sets of variables from one pass over Arrow blocks in this process.

Files, frames and Arrow tables come in blocks of records. Each column becomes codes of states by the rules of
`values.py`, applied to the few distinct texts of a block, and all tables are counted from the codes. What the blocks
cannot tell exactly as the engine would, such as decimal columns, is left to it; a test holds the two ways together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute

from discreet.model.number_grid import NumberGrid
from discreet.model.schema import Schema, Scope, Variable
from discreet.records.engine import text_numbers
from discreet.records.number_sums import Monomial
from discreet.records.record_files import Blocks
from discreet.records.records import MISSING, UNKNOWN, missing_code, unlisted_code
from discreet.records.sources import Local, guarded_read
from discreet.records.values import LOGICAL_STATES, canonical, is_number, other_spellings
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Array, Floats

COUNTED_PIECE = 2**14
"""Records counted at a time: their codes and positions fit into the cache of a core."""


class Part(NamedTuple):
    """One table to count, and what else is summed over its cells.

    Args:
        scope: names of its variables.
        sums: monomials of offsets.
        leaves: whether its one variable is numeric and counted by its finest leaves, in place of its bins.
    """

    scope: Scope
    sums: tuple[Monomial, ...] = ()
    leaves: bool = False

    def variables(self, schema: Schema) -> list[Variable]:
        """Find the variables of the table in a schema, leaves as bins."""
        variables = [schema[name] for name in self.scope]
        return [NumberGrid(variables[0]).refined] if self.leaves else variables


class Joint(NamedTuple):
    """A joint table of some records.

    Args:
        counts: int64, axes as the scope names them.
        faulty: variables whose columns hold invalid values, for which the counts are not made.
        sums: of the same shape, by monomial of offsets.
    """

    counts: Array
    faulty: frozenset[str]
    sums: Mapping[Monomial, Array]


def local_joints(
    local: Local, table: ir.Table, schema: Schema, parts: Sequence[Part], policy: RecordsPolicy
) -> list[Joint] | None:
    """Count the records of each cell of several tables, and sum numbers over them, in one pass.

    Args:
        local: the source as blocks.
        table: the records as the engine would read them; blocks of another table are not taken for it.
        schema: all variables that are counted; under "drop" a record that misses one of them is left out.
        parts: over these variables.
        policy: what is done with incomplete records.

    Returns:
        One for each part, in their order; None where the engine must count.

    Raises:
        InputError: the records cannot be read; the message has no value.

    Guarantee:
        None spent: nothing leaves.
    """
    if local.table is not table:
        return None
    blocks = guarded_read(lambda: local.blocks(list(schema.names)), table)
    if blocks is None or not all(
        _is_same_kind(blocks.schema.field(variable.name).type, table[variable.name]) for variable in schema
    ):
        return None
    numbers = partial(text_numbers, table.get_backend())
    rules = [_Rule(variable, local.absent, policy, numbers) for variable in schema]
    return guarded_read(lambda: _count_blocks(blocks, rules, schema, parts, drop=policy.missing == "drop"), table)


def local_columns(
    local: Local, table: ir.Table, variables: Sequence[Variable], policy: RecordsPolicy
) -> Callable[[], Iterator[list[Array]]] | None:
    """Read columns of a local source as numbers, a block at a time, equal to those of `codes` and `numbers`.

    Args:
        local: the source.
        table: what is read; the source's own table, or the engine must read it.
        variables: public.
        policy: what is done with missing values; those that drop records are left to the engine.

    Returns:
        What starts a pass: of each block one float64 array for each variable, of numbers themselves, NaN where there is
        none, and of states their codes, MISSING or UNKNOWN. None where the engine must read.

    Raises:
        InputError: the records cannot be read, then or in a pass; the message has no value.
    """
    if local.table is not table or policy.missing == "drop":
        return None
    blocks = guarded_read(lambda: local.blocks([variable.name for variable in variables]))
    if blocks is None:
        return None
    kinds = [blocks.schema.field(variable.name).type for variable in variables]
    if not all(
        _is_same_kind(kind, table[variable.name]) and not (variable.numeric and _is_text(kind))
        for variable, kind in zip(variables, kinds, strict=True)
    ):
        return None
    rules = [
        _Rule(variable, local.absent, policy, partial(text_numbers, table.get_backend())) for variable in variables
    ]

    def read() -> Iterator[list[Array]]:
        reader = guarded_read(blocks.read)
        while (block := guarded_read(partial(next, reader, None), table)) is not None:
            yield [_read_column(rule, block.column(rule.variable.name)) for rule in rules]

    return read


def _is_text(kind: pa.DataType) -> bool:
    """True if an Arrow type is text, which the engine must convert to numbers."""
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _read_column(rule: _Rule, column: pa.Array) -> Array:
    """Read the numbers or codes of a column of a block."""
    if rule.variable.numeric:
        return rule.number(column)
    codes, size = rule.codes(column).astype(np.float64), rule.variable.size
    return np.where(codes < size, codes, np.where(codes == size, MISSING, UNKNOWN))


def _is_same_kind(kind: pa.DataType, column: ir.Column) -> bool:
    """True if an Arrow type can be read here, and has the same kind in the engine."""
    types, engines = pa.types, column.type()
    if types.is_dictionary(kind):
        return bool(engines.is_string() and kind.value_type in (pa.string(), pa.large_string()))
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return bool(engines.is_string())
    if types.is_boolean(kind):
        return bool(engines.is_boolean())
    if types.is_integer(kind):
        return bool(engines.is_integer())
    return bool(kind in (pa.float32(), pa.float64()) and engines.is_floating())


@dataclass(frozen=True)
class _CodedColumn:
    """A variable's values in some records, in whole numbers.

    Args:
        codes: of its states, then one for missing, and one for unknown.
        offsets: of its numbers from the middles of their bins, as float64; 0 where there is none. The codes again where
            they are not summed.
        leaves: of its numbers, as codes of the refined variable. The codes again where they are not summed.
    """

    codes: Array
    offsets: Floats
    leaves: Array

    def __getitem__(self, records: Any) -> _CodedColumn:
        """Take some of the records."""
        return _CodedColumn(self.codes[records], self.offsets[records], self.leaves[records])


def _count_blocks(
    blocks: Blocks, rules: Sequence[_Rule], schema: Schema, parts: Sequence[Part], *, drop: bool
) -> list[Joint]:
    """Read all blocks, count them, and sum their numbers."""
    sizes = {rule.variable.name: rule.variable.size for rule in rules}
    shapes = [tuple(variable.size for variable in part.variables(schema)) for part in parts]
    tables = [np.zeros((1 + len(part.sums), *shape), np.int64) for part, shape in zip(parts, shapes, strict=True)]
    summed = {part.scope[0] for part in parts if part.leaves}
    faulty: set[str] = set()
    for block in blocks.read():
        columns = {}
        for rule in rules:
            name = rule.variable.name
            columns[name] = rule.read(block.column(name), with_numbers=name in summed)
        if drop:
            columns = _drop_incomplete(columns, sizes)
        faulty |= {name for name, column in columns.items() if np.any(column.codes >= sizes[name])}
        for piece in () if faulty else _cut_into_pieces(columns):
            for part, table in zip(parts, tables, strict=True):
                _add_part(table, part, piece)
    invalid = frozenset(faulty)
    return [
        Joint(table[0], invalid, dict(zip(part.sums, table[1:], strict=True)))
        for part, table in zip(parts, tables, strict=True)
    ]


def _drop_incomplete(columns: Mapping[str, _CodedColumn], sizes: Mapping[str, int]) -> dict[str, _CodedColumn]:
    """Leave out records with a missing value, each independently of the others."""
    whole = np.logical_and.reduce([column.codes != sizes[name] for name, column in columns.items()])
    return dict(columns) if whole.all() else {name: column[whole] for name, column in columns.items()}


def _cut_into_pieces(columns: Mapping[str, _CodedColumn]) -> Iterator[dict[str, _CodedColumn]]:
    """Split the records of a block into pieces that fit into a cache."""
    for start in range(0, len(next(iter(columns.values())).codes), COUNTED_PIECE):
        yield {name: column[start : start + COUNTED_PIECE] for name, column in columns.items()}


def _add_part(table: Array, part: Part, piece: Mapping[str, _CodedColumn]) -> None:
    """Add records to the counts and sums of a part, shape `(1 + sums, *sizes)`."""
    sizes = table.shape[1:]
    codes = [piece[part.scope[0]].leaves] if part.leaves else [piece[name].codes for name in part.scope]
    position = _find_position(codes, sizes)
    flat = table.reshape(len(table), -1)
    _add_records(flat[0], position, None)
    for at, monomial in enumerate(part.sums, 1):
        # A piece has 2^14 records and squares are at most 2^28: float64 holds these sums exactly.
        _add_records(flat[at], position, np.prod([piece[name].offsets for name in monomial], axis=0))


def _find_position(columns: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Find the position of each record's cell; two bytes for it are twice as fast as eight."""
    position: Any = columns[0].astype(np.uint16 if math.prod(sizes) < 2**16 else np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        position *= position.dtype.type(size)
        position += column
    return np.asarray(position)


def _add_records(table: Array, position: Array, weights: Floats | None) -> None:
    """Add records, or whole numbers of theirs, to the cells of a flat table."""
    if table.size <= COUNTED_PIECE:
        added = np.bincount(position, weights, minlength=table.size)
        table += added if weights is None else added.astype(np.int64)
    else:
        np.add.at(table, position, 1 if weights is None else weights.astype(np.int64))


# ------------------------------------------------------------------------------------------------- columns as codes


@dataclass(frozen=True)
class _Rule:
    """Encoder of a variable's column: codes 0, 1, ... for states, then one for missing, and one for unknown.

    Args:
        variable: public.
        absent: texts that say that a value is missing.
        policy: what is done with missing values, and with numbers out of bounds.
        numbers: the engine's reading of texts as numbers; NaN where it reads none.
    """

    variable: Variable
    absent: tuple[str, ...]
    policy: RecordsPolicy
    numbers: Callable[[pa.Array], Array]

    @property
    def missing(self) -> int:
        """Code of a missing value: that of its state if the policy keeps it."""
        code = missing_code(self.policy, self.variable)
        return self.variable.size if code == MISSING else code

    @property
    def unknown(self) -> int:
        """Code of a value that is no state, no number, or a number out of bounds; `other`'s if there is one."""
        code = unlisted_code(self.variable)
        return self.variable.size + 1 if code == UNKNOWN else code

    @cached_property
    def kind(self) -> np.dtype[Any]:
        """The smallest numpy type that holds all codes."""
        return np.min_scalar_type(self.variable.size + 1)

    @cached_property
    def spelled(self) -> Mapping[str, int]:
        """Codes of other spellings."""
        return other_spellings(self.variable)

    @cached_property
    def absent_spelled(self) -> frozenset[str | None]:
        """Spellings of a missing value in text that is read as numbers."""
        numbers_too = self.variable.numeric or bool(self.spelled)
        return frozenset(map(canonical, self.absent)) - {None} if numbers_too else frozenset()

    @cached_property
    def states(self) -> Mapping[pa.DataType, pa.Array]:
        """States and NULL, in the order of their codes; empty for numbers, which are not found as text."""
        # A builder, because `pa.array` would import pandas where it is installed, .4 s of a small count.
        builder = pa.lib.StringBuilder()
        builder.append_values([] if self.variable.numeric else [*self.variable.states, None])
        known = builder.finish()
        return {kind: known.cast(kind) for kind in (pa.string(), pa.large_string())}

    @cached_property
    def last(self) -> list[tuple[pa.Array, Array]]:
        """Cache of the last dictionary and its codes: the blocks of a file have few different ones."""
        return []

    @cached_property
    def grid(self) -> NumberGrid:
        """Grid of a numeric variable."""
        return NumberGrid(self.variable)

    @cached_property
    def leaf_edges(self) -> Floats:
        """Inner ends of the finest leaves."""
        return self.grid.leaf_edges(self.grid.finest)[1:-1]

    def read(self, column: pa.Array, *, with_numbers: bool) -> _CodedColumn:
        """Encode a column; with its offsets and leaves where they are summed."""
        codes = self.codes(column)
        if not with_numbers:
            return _CodedColumn(codes, codes, codes)
        known = codes < len(self.variable.values)
        number = np.where(known, self._number_of(column), self.grid.middles[0])
        offsets = self.grid.offsets(number, np.where(known, codes, 0)).astype(np.float64)
        leaves = np.where(known, np.searchsorted(self.leaf_edges, number, side="right"), len(self.leaf_edges) + 1)
        return _CodedColumn(codes, np.where(known, offsets, 0.0), leaves)

    def _number_of(self, column: pa.Array) -> Floats:
        """Read the numbers of a column of any type; anything where there is none."""
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return self.number(column)
        texts = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
        numbers = np.append(self.numbers(texts.dictionary), np.nan)
        return np.asarray(numbers[_fill_null(texts.indices, len(numbers) - 1)])

    def codes(self, column: pa.Array) -> Array:
        """Encode a column."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._code_dictionary(column)
        if pa.types.is_boolean(kind):
            logical = [LOGICAL_STATES[state.lower()] for state in self.variable.matched]
            two = [logical.index(value) if value in logical else self.unknown for value in (False, True)]
            return self._take_codes(np.array(two, self.kind), column.cast(pa.uint8()))
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return self._code_text(column.cast(pa.large_string()) if kind == pa.string_view() else column)
        number = self.number(column)
        codes = self._code_bins(number) if self.variable.numeric else self._code_same_number(number)
        codes[np.isnan(number)] = self.missing
        return codes

    def number(self, column: pa.Array) -> Array:
        """Read a column of numbers as float64; NaN where a value is missing."""
        number: Array = _view_numbers(column).astype(np.float64, copy=False)
        if column.null_count:
            number = np.where(_find_null(column), np.nan, number)
        if self.absent:
            absent = np.isin(number, [float(text) for text in self.absent if is_number(text)])
            number = np.where(absent, np.nan, number)
        return number

    def _code_dictionary(self, column: pa.DictionaryArray) -> Array:
        """Encode a dictionary column by its few distinct texts."""
        if not (self.last and self.last[0][0].equals(column.dictionary)):
            self.last[:] = [(column.dictionary, self._code_distinct(column.dictionary))]
        return self._take_codes(self.last[0][1], column.indices)

    def _take_codes(self, codes: Array, index: pa.Array) -> Array:
        """Take the codes at some indices; NULL is missing."""
        return np.take(np.append(codes, np.array(self.missing, self.kind)), _fill_null(index, len(codes)))

    def _code_text(self, column: pa.Array) -> Array:
        """Encode a column of text."""
        index = pa.compute.index_in(column, value_set=self.states[column.type])
        codes = _fill_null(index, 0).astype(self.kind)
        codes[codes == self.variable.size] = self.missing
        if index.null_count:
            codes[_find_null(index)] = self._code_dictionary(column.filter(index.is_null()).dictionary_encode())
        return codes

    def _code_distinct(self, texts: pa.Array) -> Array:
        """Encode distinct texts."""
        if self.variable.numeric:
            codes = self._code_bins(self.numbers(texts))
        else:
            index = pa.compute.index_in(texts, value_set=self.states[texts.type])
            codes = _fill_null(index, self.unknown).astype(self.kind)
        if self.spelled or self.absent:
            for at in range(len(codes)) if self.variable.numeric else (codes == self.unknown).nonzero()[0].tolist():
                codes[at] = self._code_other(texts[at].as_py(), int(codes[at]))
        codes[_find_null(texts)] = self.missing
        return codes

    def _code_other(self, text: str | None, code: int) -> int:
        """Encode a text that is no state verbatim, or one that was read as a number."""
        if text is None or text in self.absent:
            return self.missing
        spelling = canonical(text)
        return self.missing if spelling in self.absent_spelled else self.spelled.get(spelling or "", code)

    def _code_bins(self, number: Array) -> Array:
        """Find the bin of a number: bins are closed below, the last one on both sides."""
        assert self.variable.bounds is not None
        lo, hi = self.variable.bounds
        codes = np.searchsorted(np.asarray(self.variable.bins, float), number, side="right").astype(self.kind)
        invalid = np.isnan(number) if self.policy.out_of_bounds == "clip" else ~((number >= lo) & (number <= hi))
        if self.variable.type == "integer":
            inside = np.clip(number, lo, hi)
            invalid |= np.floor(inside) != inside
        codes[invalid] = self.unknown
        return codes

    def _code_same_number(self, number: Array) -> Array:
        """Encode a number by the state of equal number."""
        # No number equals NaN, which stands last, so that there is a nearest state without states, too.
        states = np.array([*map(float, self.variable.matched), np.nan])
        order = np.argsort(states)
        nearest = np.minimum(np.searchsorted(states[order], number), len(states) - 1)
        return np.where(states[order][nearest] == number, order[nearest], self.unknown).astype(self.kind)


def _fill_null(index: pa.Array, otherwise: int) -> Array:
    """Read integers with a value for NULL, which a narrower type might not hold."""
    filled = _view_numbers(index).astype(np.int64)
    if index.null_count:
        filled[_find_null(index)] = otherwise
    return filled


def _view_numbers(column: pa.Array) -> Array:
    """View numbers in memory, whatever stands in place of NULL; `to_numpy` would import pandas."""
    kind = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1] or b"", kind, count=len(column), offset=column.offset * kind.itemsize)


def _find_null(column: pa.Array) -> Array:
    """Mask of the NULLs of a column."""
    if not column.null_count:
        return np.zeros(len(column), bool)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    valid = np.unpackbits(bits, count=column.offset + len(column), bitorder="little")[column.offset :]
    return np.equal(valid, 0)
