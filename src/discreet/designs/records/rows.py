"""Rows: private records of a design, as integers on a public grid, a block at a time.

This file owns how numbers become coordinates. Every record is moved, clipped and rounded by itself, before anything is
summed; from here on all is integer arithmetic, and what one record can change is a whole number of grid steps.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from itertools import starmap
from typing import Any, NoReturn, TypeVar

import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from discreet.designs.design import GRID_STEPS, Design
from discreet.designs.indicators import first_state, gap_of
from discreet.designs.records.executors import Sums, add_parts, list_columns, sum_on_executors
from discreet.errors import InputError, listed, shown
from discreet.model.schema import Schema, Variable
from discreet.records.dates import column_number
from discreet.records.local_counts import local_columns
from discreet.records.records import Records, codes, kept, numbers, read_records, refuse_faulty
from discreet.records.sources import arrow_blocks
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Floats, Ints, Positions
from discreet.util.progress import under_way

RECORDS_LIMIT = 2**29
"""Most records: sums of their products, of at most 2^24 each, stay within 2^53, where floats are exact."""
BLOCK = 2**16
"""Most records of a block, summed at once: sums of their products, of at most 2^24 each, stay far below
2^53."""
BLOCK_NUMBERS = 2**22
"""Coordinates of a block: 32 MiB if they have 64 bits, however many a record has."""
HELD_BYTES = 2**28
"""Bytes of gridded records that are held for further passes (8 million of 15 coordinates); a larger table
is read anew at every pass."""
STEP_BYTES = 2
"""Bytes of a coordinate that is held: steps of the grid are at most 2^12 in size."""
GAP = 2.0**1000
"""Number in place of a gap that has a feature; a record that holds this very number has one, too."""

Steps = npt.NDArray[np.int16]
Block = tuple[Ints, Ints]
Held = tuple[Steps, Steps]
Part = Callable[[Ints, Ints], Sums]
Array = TypeVar("Array", bound=npt.NDArray[Any])
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Private records of a design as integers on a public grid, read a block at a time.

    Args:
        design: public.
        records: number of records; private under ADD_REMOVE.
        policy: what was done with missing values, and with numbers out of bounds.
        read: starts a pass over the records, `BLOCK` of them at a time: (coordinates, int64 of shape `(records,
            design.size)` in steps of the grid; target, int64 of shape `(records,)`: steps of the grid, counts, or codes
            of classes; without a target nothing).
        spread: sums what a function makes of blocks where the table is; None where only passes of this process can.

    Raises:
        InputError: by a pass over them, if the table holds another number of records than when it was first read.

    Guarantee:
        None spent: they are read by mechanisms only. Their text is a number of coordinates, and they can be neither
            pickled nor copied.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> rows = dc.designs.read_rows(stay, [[45.0], [90.0]], [10.0, 40.0])
        >>> rows
        Rows(2 coordinates, private)
        >>> (rows.coordinates / 2**12).tolist()  # private steps; the last is the intercept
        [[0.0, 1.0], [1.0, 1.0]]
    """

    design: Design
    records: int
    policy: RecordsPolicy
    read: Callable[[], Iterator[Block]]
    spread: Callable[[Part], Sums] | None = None

    def __repr__(self) -> str:
        """Text without any value of the records."""
        return f"Rows({self.design.size} coordinates, private)"

    def __reduce__(self) -> NoReturn:
        """Records are never copied or pickled."""
        raise TypeError("records are private and cannot be pickled or copied; read them again where they are needed")

    @property
    def over(self) -> Design:
        """The public design that the records are over."""
        return self.design

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the records; at least one block, perhaps empty.

        Returns:
            Pairs (coordinates, target) as `read` makes them.

        Raises:
            InputError: the table holds another number of records than when it was first read.
        """
        done = 0
        for block in self.read():
            done += len(block[0])
            yield block
        self._require_same(done)

    def sum(self, part: Part) -> Sums:
        """Sum what a function makes of each block: where the table is, if that can be.

        Args:
            part: from coordinates and target, as of `read`, to numbers, arrays and lists. It can be pickled, depends on
                nothing that differs between machines, and is linear: a block's result is the sum of its records'.

        Returns:
            One entry for each of the function's: numbers and arrays are added, lists are joined.

        Raises:
            InputError: the table holds another number of records than when it was first read.
        """
        counted = partial(_count_part, part)
        number, *sums = (
            reduce(add_parts, starmap(counted, self.read())) if self.spread is None else self.spread(counted)
        )
        self._require_same(number)
        return tuple(sums)

    def _require_same(self, number: int) -> None:
        """Refuse another number of records than the first pass found."""
        if number != self.records:
            raise InputError("the records changed while they were read")

    @property
    def coordinates(self) -> Ints:
        """Coordinates of all records at once, shape `(records, design.size)`, in steps of the grid."""
        return np.concatenate([coordinates for coordinates, _ in self.blocks()])

    @property
    def target(self) -> Ints:
        """Targets of all records at once, shape `(records,)`, in steps, counts or codes of classes."""
        return np.concatenate([target for _, target in self.blocks()])


def _count_part(part: Part, coordinates: Ints, target: Ints) -> Sums:
    """Put the number of records before what a function makes of a block."""
    return (len(coordinates), *part(coordinates, target))


def from_rows(make: Callable[[Rows], Made]) -> Callable[[Records | Rows, Design], Made]:
    """Make a mechanism's `of_records`: records of a design become rows, from which a function makes the statistic.

    Args:
        make: sums rows, for one.

    Returns:
        A function of private records, of any source, or of rows, and of their design.
    """

    def statistic_of_records(records: Records | Rows, design: Design) -> Made:
        rows = records if isinstance(records, Rows) else read_rows(design, records)
        with under_way("reading records"):
            return make(rows)

    return statistic_of_records


def read_rows(
    design: Design,
    features: npt.ArrayLike | Records,
    target: npt.ArrayLike | None = None,
    *,
    one_record_a_unit: bool = False,
    columns: Sequence[Variable] | None = None,
    target_column: Variable | None = None,
) -> Rows:
    """Read the records of a design, and round each independently to the public grid.

    Args:
        design: public.
        features: records as `read_records` views them, of any source and size, with every variable of the design in
            their schema: they are read in blocks, and held on the grid where they fit into 256 MiB so; a larger table
            is read anew whenever it is summed. Or a frame or Arrow table in memory, whose columns are found by their
            names. Or an array or a sparse matrix of scipy, shape `(records, features)`, in the design's order. What is
            in memory is in the units of the bounds, and clipped to them.
        target: of an array or a frame of features alone, where the design has a target: numbers, or names of its
            states. A frame may have it as a column instead.
        one_record_a_unit: of what is in memory, the curator's word that no unit has more than one record, where the
            promise is for another unit than "record"; records of a table bring what was said of them.
        columns: of records of a table, the variables that the design's features stand for, in their order: a number for
            itself, states for their indicators (`discreet.designs.indicators`). None where all are numbers.
        target_column: likewise of the target. Bounds of these need not be those of the design, by which numbers are put
            on the grid, and to which they are clipped.

    Returns:
        The rows.

    Raises:
        InputError: another shape, a frame without a column of the design, a value that is missing, infinite or no
            number, a class that was not declared, a record with something else than 0 and at most one 1 in a group, or
            more than 2^29 records; of a table, what its policy does not allow. The message names columns, never a
            value.

    Guarantee:
        None spent: nothing leaves. Of what is in memory it assumes one row for each unit of protection.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> rows = dc.designs.read_rows(stay, [[45.0], [90.0]], [10.0, 40.0])
        >>> rows.records, (rows.target / 4096).tolist()  # private; 10 of 0 to 40 days is -0.5 of -1 to 1
        (2, [-0.5, 1.0])
    """
    if isinstance(features, Records):
        if features.policy.weights == "unit":
            raise InputError("over a design each record counts once: leave out weights='unit', max_records is enough")
        if target is not None:
            raise InputError("records of a table bring their target with them")
        return _stream_rows(design, features, columns or design.features, target_column or design.target)
    if _has_names(features):
        if target is None:
            records = read_records(features, design.schema, out_of_bounds="clip", one_record_a_unit=one_record_a_unit)
            return _stream_rows(design, records, design.features, design.target)
        features = _read_by_name(design, features)
    return _hold_rows(design, features, target, one_record_a_unit=one_record_a_unit)


def _hold_rows(design: Design, features: Any, target: npt.ArrayLike | None, *, one_record_a_unit: bool) -> Rows:
    """Round the rows of an array or a sparse matrix to the grid."""
    table = features.tocsr() if issparse(features) else _read_numbers(features, "the features")
    if table.ndim != 2 or table.shape[1] != len(design.features):
        raise InputError(f"the design has {len(design.features)} features, one column each")
    _require_few(table.shape[0])
    if (target is None) != (design.target is None):
        raise InputError("records need a target exactly where the design has one")
    targets = np.empty(0, np.int16) if target is None else _freeze(_read_target(design, target).astype(np.int16))
    if target is not None and targets.shape != (table.shape[0],):
        raise InputError("the target needs one value for each record")
    coordinates = (_put_sparse_on_grid if issparse(table) else _put_finite_on_grid)(design, table)

    def read() -> Iterator[Block]:
        step = _size_blocks(design)
        for start in range(0, max(len(coordinates), 1), step):
            yield _widen(coordinates[start : start + step], targets[start : start + step])

    return Rows(design, len(coordinates), RecordsPolicy("error", "clip", one_record_a_unit=one_record_a_unit), read)


def _has_names(features: object) -> bool:
    """True if columns have names: of a data frame, an Arrow table, or a table of Ibis."""
    return any(hasattr(features, name) for name in ("__arrow_c_stream__", "__dataframe__", "columns"))


def _read_by_name(design: Design, frame: Any) -> Floats:
    """Read the features of a data frame, in the design's order; NaN if there is no number."""
    records = read_records(frame, Schema(design.features), out_of_bounds="clip")
    columns = [numbers(records, variable).name(f"c{at}") for at, variable in enumerate(design.features)]
    blocks = list(arrow_blocks(records.table.select(*columns), BLOCK))
    _require_few(sum(map(len, blocks)))
    return np.concatenate([np.column_stack(list_columns(block)) for block in blocks])


def _stream_rows(design: Design, records: Records, columns: Sequence[Variable], target: Variable | None) -> Rows:
    """Make rows of a table: one pass counts records and faults; later passes read held blocks, or the source again."""
    wanted = Schema((*columns, *([] if target is None else [target])))
    for variable in wanted:
        if variable.name not in records.schema or records.schema[variable.name] != variable:
            raise InputError(
                f"variable {variable.name!r} of the design must be in the records' schema, with the same bounds or "
                "states"
            )
    clip = records.policy.out_of_bounds == "clip"
    gridding = _Gridding(design, tuple(columns), tuple(wanted), _order_states(design, target), clip)
    read_columns = read_blocks(records, wanted, _size_blocks(design))

    def read() -> Iterator[Block]:
        return map(gridding.block, read_columns())

    if (looked := _look_there(_choose_columns(records, wanted), gridding)) is not None:
        number, faults, spread = looked
        _require_valid(wanted, faults, records)
        return Rows(design, _require_few(number), records.policy, read, spread)
    held, room, number, faults = list[Held](), HELD_BYTES, 0, np.zeros(len(wanted), np.int64)
    for values in read_columns():
        count, faulty = gridding.look(values)
        number, faults, room = number + count, faults + faulty, room - count * (design.size + 1) * STEP_BYTES
        if room < 0 or faults.any():
            held.clear()
        else:
            held.append(gridding.grid(values))
    _require_valid(wanted, faults, records)
    return Rows(design, _require_few(number), records.policy, read if room < 0 else partial(starmap, _widen, held))


def _require_valid(wanted: Iterable[Variable], faults: Ints, records: Records) -> None:
    """Refuse columns with invalid values."""
    refuse_faulty([variable.name for variable, faulty in zip(wanted, faults, strict=True) if faulty], records)


def _look_there(chosen: ir.Table, gridding: _Gridding) -> tuple[int, Ints, Callable[[Part], Sums]] | None:
    """Count records and faults where the table is, and find how sums are made there; None where they cannot be."""
    if chosen.get_backend().name != "pyspark":
        return None
    try:
        number, faults = sum_on_executors(chosen, gridding.look)
    except InputError:
        warnings.warn(
            "Spark's executors could not run this package, so the records of a design come to this process; install "
            "it where the executors are",
            stacklevel=2,
        )
        return None
    return number, faults, lambda part: sum_on_executors(chosen, partial(gridding.part, part))


@dataclass(frozen=True)
class _Gridding:
    """How numbers and codes of a table's columns become rows; public, and the same on every machine.

    Args:
        design: public.
        columns: that its features stand for.
        wanted: these and the target's.
        positions: in the design, of the states of the target's column.
        clip: whether numbers out of bounds are clipped.
    """

    design: Design
    columns: tuple[Variable, ...]
    wanted: tuple[Variable, ...]
    positions: Positions
    clip: bool

    def look(self, values: list[Floats]) -> tuple[int, Ints]:
        """Count the records of a block, and find the columns with invalid values: 1 for each of these."""
        pairs = zip(values, self.wanted, strict=True)
        faults = np.array([_is_invalid(column, variable, self.clip) for column, variable in pairs], np.int64)
        if self.design.groups and not faults.any():
            _require_groups(self.design, _make_indicators(self.design, self.columns, values[: len(self.columns)]))
        return len(values[0]), faults

    def grid(self, values: list[Floats]) -> Held:
        """Round a block of valid values to the grid."""
        design, width = self.design, len(self.columns)
        coordinates = _put_on_grid(design, _make_indicators(design, self.columns, values[:width]))
        last = np.empty(0) if design.target is None else values[width]
        numeric = design.target is not None and design.target.numeric
        codes = _read_target(design, last) if numeric else self.positions[last.astype(np.intp)]
        return coordinates, _freeze(codes.astype(np.int16))

    def block(self, values: list[Floats]) -> Block:
        """Make a block of a later pass.

        Raises:
            InputError: a value is invalid that was not.
        """
        if self.look(values)[1].any():
            raise InputError("the records changed while they were read")
        return _widen(*self.grid(values))

    def part(self, part: Part, values: list[Floats]) -> Sums:
        """Compute what a function makes of a block."""
        return part(*self.block(values))


def _size_blocks(design: Design) -> int:
    """Choose the number of records of a block."""
    return min(BLOCK, max(BLOCK_NUMBERS // design.size, 1))


def read_blocks(records: Records, wanted: Schema, step: int) -> Callable[[], Iterator[list[Floats]]]:
    """Make the function that starts a pass over columns of a table, as private as its records.

    Args:
        records: private.
        wanted: variables of their schema.
        step: most records of a block.

    Returns:
        A function that yields, of each block, an array for each variable: numbers, NaN if there is none and `GAP` for a
        gap that has a feature; or codes of states. There is at least one block.
    """
    local_pass = None
    if records.unit is None and records.local is not None and not any(map(gap_of, wanted)):
        local_pass = local_columns(records.local, records.table, tuple(wanted), records.policy)
    chosen = _choose_columns(records, wanted)

    def by_engine() -> Iterator[list[Floats]]:
        return map(list_columns, arrow_blocks(chosen, step))

    def by_hand(read: Callable[[], Iterator[list[Floats]]]) -> Iterator[list[Floats]]:
        nothing = True
        for values in read():
            for start in range(0, len(values[0]), step):
                nothing = False
                yield [column[start : start + step] for column in values]
        if nothing:
            yield [np.empty(0) for _ in wanted]

    return by_engine if local_pass is None else partial(by_hand, local_pass)


def _choose_columns(records: Records, wanted: Iterable[Variable]) -> ir.Table:
    """Write the table of the numbers and codes of columns, over the records that count."""
    counted = kept(records, map(_coded, wanted))
    return counted.table.select(**{f"c{at}": _read_column(counted, variable) for at, variable in enumerate(wanted)})


def _coded(variable: Variable) -> Variable:
    """Give a number that may have a gap two bins, so that its gap has a code of its own: 2."""
    if gap_of(variable) is None or variable.bounds is None:
        return variable
    middle = variable.bounds[0] / 2 + variable.bounds[1] / 2
    coded = Variable(variable.name, bounds=variable.bounds, bins=(middle,))
    return replace(coded, states=(), missing=variable.missing, not_applicable=variable.not_applicable)


def _read_column(records: Records, variable: Variable) -> ir.Column:
    """Read the numbers or codes of a column."""
    if not variable.numeric:
        return codes(records, variable)
    if gap_of(variable) is None:
        return numbers(records, variable)
    return (codes(records, _coded(variable)) == 2).ifelse(GAP, column_number(records.table[variable.name], variable))


def _order_states(design: Design, target: Variable | None) -> Positions:
    """Find the position in the design of each state of a target's column, which may have them in another order."""
    if design.target is None or target is None or target.numeric:
        return np.empty(0, np.intp)
    if sorted(target.states) != sorted(design.target.states):
        raise InputError(f"column {shown(target.name)} has states other than the design's: {listed(target.states)}")
    return np.array([design.target.states.index(state) for state in target.states], np.intp)


def _widen(coordinates: Steps, target: Steps) -> Block:
    """Widen a held block to integers whose products do not overflow."""
    return coordinates.astype(np.int64), target.astype(np.int64)


def _make_indicators(design: Design, columns: Sequence[Variable], values: Sequence[Floats]) -> Floats:
    """Make the features: numbers as they are, and indicators of states from codes.

    Returns:
        Shape (records, features), columns contiguous.
    """
    indicators, grouped = list[Floats](), bool(design.groups)
    for variable, column in zip(columns, values, strict=True):
        if variable.numeric:
            indicators += fill_gaps(variable, column, column == GAP)
        else:
            codes = range(first_state(variable, grouped=grouped), variable.size)
            indicators += [(column == code).astype(np.float64) for code in codes]
    return np.array(indicators).T


def fill_gaps(variable: Variable, column: Floats, gaps: npt.NDArray[np.bool_]) -> list[Floats]:
    """Make the features of a numeric column: the middle of its public bounds in gaps, and an indicator of these."""
    if gap_of(variable) is None or variable.bounds is None:
        return [column]
    return [np.where(gaps, variable.bounds[0] / 2 + variable.bounds[1] / 2, column), gaps.astype(np.float64)]


def _is_invalid(column: Floats, variable: Variable, clip: bool) -> bool:
    """True if a value is missing, unknown, or beyond the bounds that the policy allows; as in `check`."""
    if variable.bounds is None:
        return bool(np.any(column < 0))
    if gap_of(variable) is not None:
        column = column[column != GAP]
    if clip and not variable.whole:
        return bool(np.isnan(column).any())
    inside = np.clip(column, *variable.bounds)  # NaN (no number) stays
    whole = inside == np.floor(inside) if variable.whole else True
    return not np.all((inside == (inside if clip else column)) & whole)


def _require_few(records: int) -> int:
    """Refuse more records than exact sums allow; return their number."""
    if records > RECORDS_LIMIT:
        raise InputError(f"a design takes at most {RECORDS_LIMIT:,} records")
    return records


def _require_groups(design: Design, table: Floats) -> None:
    """Refuse groups of indicators with more than one 1, or with other values: noise is calibrated to one 1 in each."""
    for group in design.groups:
        ones, others = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_)
        for column in table.T[list(group)]:
            ones += column == 1
            others |= (column != 0) & (column != 1)
        if others.any() or (ones > 1).any():
            names = listed([design.names[position] for position in group])
            raise InputError(f"columns of a group are 0, but for one 1 in a record at most: {names} are not")


def _put_sparse_on_grid(design: Design, table: Any) -> Steps:
    """Round a sparse matrix to the grid, a block of records at a time."""
    steps, step = np.empty((table.shape[0], design.size), np.int16, order="F"), _size_blocks(design)
    for start in range(0, len(steps), step):
        dense = _read_numbers(table[start : start + step].toarray(order="F"), "the features")
        steps[start : start + step] = _put_finite_on_grid(design, dense)
    return _freeze(steps)


def _put_finite_on_grid(design: Design, table: Floats) -> Steps:
    """Round numbers to the grid; refuse missing or infinite ones."""
    for name, column in zip(design.names, table.T, strict=True):
        if not np.all(np.isfinite(column)):
            raise InputError(f"column {name!r} holds a value that is missing or infinite")
    return _put_on_grid(design, table)


def _put_on_grid(design: Design, table: Floats) -> Steps:
    """Round features to the grid, in steps; rounding never makes a record longer than the design's norm.

    Args:
        design: public.
        table: shape (records, features), quickest where columns are contiguous.

    Returns:
        int16, shape (records, design.size), columns contiguous, read-only.

    Raises:
        InputError: another number of features, or a record has more in a group than one 1, or something else than 0
            and 1.
    """
    if table.shape[1] != len(design.features):
        raise InputError(f"the design has {len(design.features)} features, and the columns stand for {table.shape[1]}")
    _require_groups(design, table)
    gridded = np.empty((len(table), design.size), np.int16, order="F")
    if design.norm is None:
        for at, column in enumerate(table.T):
            gridded[:, at] = np.rint(design.scaled_feature(at, column) * GRID_STEPS)
        gridded[:, len(design.features) :] = round(design.constant * GRID_STEPS)
        return _freeze(gridded)
    steps, most = design.scaled(table) * GRID_STEPS, math.floor((Fraction(design.norm) * GRID_STEPS) ** 2)
    whole, shorter = np.rint(steps).astype(np.int64), 1.0
    features = whole[:, : len(design.features)]
    # Records that rounding made too long are truncated towards 0 at a slightly smaller length, until they fit.
    while np.any(long := (features**2).sum(axis=1) > most):
        features[long] = np.trunc(steps[long, : len(design.features)] * shorter).astype(np.int64)
        shorter *= 1 - 2.0**-40
    gridded[:] = whole
    return _freeze(gridded)


def _read_target(design: Design, values: npt.ArrayLike) -> Ints:
    """Round a target to the grid in steps, or read it as codes of its classes."""
    assert design.target is not None
    name = design.target.name
    if design.target.numeric:
        numbers = _read_numbers(values, f"column {name!r}")
        if not np.all(np.isfinite(numbers)):
            raise InputError(f"column {name!r} holds a value that is missing or infinite")
        if design.counted:
            if np.any(numbers % 1):
                raise InputError(f"column {name!r} holds a value that is no whole number, but is declared as a count")
            assert design.target.bounds is not None
            return np.asarray(np.clip(numbers, *design.target.bounds), np.int64)
        return np.asarray(np.rint(design.scaled_target(numbers) * GRID_STEPS), np.int64)
    array = np.asarray(values)
    matches = np.array([array == state for state in design.target.states])
    if matches.shape != (design.target.size, *array.shape) or not np.all(matches.any(axis=0)):
        raise InputError(f"column {name!r} holds a value that is none of the declared classes")
    return np.asarray(matches.argmax(axis=0), np.int64)


def _read_numbers(values: Any, subject: str) -> Floats:
    """Read floats; refuse other values without showing them."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{subject} must be numbers")


def _freeze(array: Array) -> Array:
    """Make an array read-only."""
    array.flags.writeable = False
    return array
