"""Counts: contingency tables of each family, and of the tables that `planned` may measure.

One grouped count for each cover set of the network, then marginalised: all of a file or a frame in one pass over it
(`local_counts.py`), of others by the engine (`counts.py`). A record with an unknown state is found on the
way: no pass is spent on validation alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import NoReturn

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from discreet.errors import InputError, listed, require
from discreet.model.network import Network
from discreet.model.number_grid import NumberGrid, number_grids
from discreet.model.round_numbers import typical_network, wide_columns, with_bins
from discreet.model.schema import Schema, Scope, Variable
from discreet.model.tables import Tables
from discreet.planning.pair_budget import all_pairs
from discreet.planning.star_cover import star_cover
from discreet.privacy.guarantee import Relation
from discreet.records.count_sensitivity import Sensitivity, sensitivity
from discreet.records.dialects import engine_of
from discreet.records.local_counts import Joint, Part, local_joints
from discreet.records.number_sums import (
    Monomial,
    NumberSums,
    needed_monomials,
    offset_column,
    offset_name,
    sum_columns,
)
from discreet.records.records import Records, codes, decode, grouping, kept, numbers, refuse_faulty
from discreet.records.sources import arrow
from discreet.records.units import STEPS, amount
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Array, margin
from discreet.util.progress import under_way

# --------------------------------------------------------------------------------------------------------------------
# Grouped counts: the engine counts the records of each combination of states of some variables.
#
# A column of identifiers would make millions of groups: each set of variables has its own limit, at which the engine
# stops, so that they never reach this process.

AT_ONCE = ("athena", "bigquery", "clickhouse", "mssql", "mysql", "postgres", "snowflake", "trino")
"""Engines that count all sets in one request: others may write between two requests."""
STACKED = ("databricks", "pyspark")
"""Engines that count all sets in one pass, which writes each record once for each set: a group-by costs seconds."""

Key = Callable[[Records, Variable], ir.Column]


def grouped_joints(records: Records, parts: Sequence[Part]) -> Iterator[Joint]:
    """Count joint tables of sets of variables by the engine.

    Args:
        records: those that count.
        parts: over variables of their schema.

    Returns:
        One for each part, in their order; those of an engine that others may write to are of one statement, which sees
        one state of the table. Only a part whose states are written in more ways than it has cells is asked for again.

    Raises:
        InputError: the records cannot be read.
    """
    engine = engine_of(records.table)
    if engine in STACKED:
        yield from _unstack_joints(records, parts, arrow(stacked(records, parts)))
        return
    groups = (
        iter(_request_all(records, parts))
        if engine in AT_ONCE
        else (arrow(_request_groups(records, part)) for part in parts)
    )
    for part, rows in zip(parts, groups, strict=True):
        yield _make_joint(records, part, rows)


def _count_most_groups(variables: Sequence[Variable]) -> int:
    """Count the groups that valid records can make, with one more code in each column for missing values."""
    return math.prod(variable.size + 1 for variable in variables)


def _request_groups(records: Records, part: Part, key: Key = grouping) -> ir.Table:
    """Request the number of records `n` and sums `s0`, .. of each group with keys `k0`, ..; not all, if too many."""
    # Select its columns alone: PostgreSQL would materialise a subquery that several scopes share.
    needed = records.schema.with_conditions(part.scope)
    table = records.table.select(*needed, *(name for name in records.table.columns if name == STEPS))
    offsets = _write_offsets(replace(records, table=table), [part])
    narrow = replace(records, table=table.mutate(**offsets) if offsets else table)
    variables = part.variables(records.schema)
    keys = {f"k{at}": key(narrow, variable) for at, variable in enumerate(variables)}
    sums = sum_columns(narrow.table, part.sums, STEPS if STEPS in table.columns else None)
    groups = narrow.table.group_by(**keys).aggregate(n=amount(narrow.table), **sums)
    return groups.limit(_count_most_groups(variables) + 1)


def _write_offsets(records: Records, parts: Sequence[Part]) -> dict[str, ir.IntegerColumn]:
    """Write the offsets of all numbers that parts sum, by name of their column."""
    names = dict.fromkeys(name for part in parts for monomial in part.sums for name in monomial)
    summed = [records.schema[name] for name in names]
    held = [numbers(records, each) if each.applies_if else records.table[each.name] for each in summed]
    return {offset_name(each.name): offset_column(at, NumberGrid(each)) for each, at in zip(summed, held, strict=True)}


def stacked(records: Records, parts: Sequence[Part]) -> ir.Table:
    """Write one request for all parts that reads the records once, and shuffles sums of each cell alone.

    Args:
        records: those that count.
        parts: over variables of their schema.

    Returns:
        For each cell of each part in which records lie the number of the part, `cell`, which counts the states of its
        variables as one number, last variable fastest, each with one more state for values that are none, the number
        of records `n`, and sums `s0`, ....
    """
    keyed = {(each.name, part.leaves): each for part in parts for each in part.variables(records.schema)}
    places = {key: f"c{at}" for at, key in enumerate(keyed)}
    columns = {places[key]: codes(records, variable) for key, variable in keyed.items()}
    weighed = [name for name in records.table.columns if name == STEPS]
    # In a table of its own: each code is computed once, not once for each part.
    held = records.table.select(*weighed, **columns, **_write_offsets(records, parts))
    most, entries = max(len(part.sums) for part in parts), list[ir.StructValue]()
    for number, part in enumerate(parts):
        cell: ir.IntegerValue = ibis.literal(0, "int64")
        for variable in part.variables(records.schema):
            code = held[places[variable.name, part.leaves]]
            cell = cell * (variable.size + 1) + ibis.ifelse(code < 0, variable.size, code).cast("int64")
        terms = [math.prod(held[offset_name(name)] for name in monomial).cast("int64") for monomial in part.sums]
        terms += [ibis.literal(0, "int64")] * (most - len(terms))
        sums = {f"s{at}": term for at, term in enumerate(terms)}
        entries.append(ibis.struct({"part": ibis.literal(number, "int32"), "cell": cell, **sums}))
    rows = held.select(*weighed, row=ibis.array(entries).unnest())
    rows = rows.select(
        *weighed, **{name: rows["row"][name] for name in ("part", "cell", *(f"s{at}" for at in range(most)))}
    )
    weighted = {f"s{at}": rows[f"s{at}"] * rows[STEPS] if weighed else rows[f"s{at}"] for at in range(most)}
    summed = {name: term.sum().cast("int64") for name, term in weighted.items()}
    return rows.group_by("part", "cell").aggregate(n=amount(rows).cast("int64"), **summed)


def _unstack_joints(records: Records, parts: Sequence[Part], rows: pa.Table) -> Iterator[Joint]:
    """Make the counts and sums of parts from the cells of `stacked`."""
    rows = rows.sort_by("part")
    starts = np.searchsorted(rows["part"].to_numpy(), np.arange(len(parts) + 1)).tolist()
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        here, variables = rows.slice(start, end - start), part.variables(records.schema)
        shape = tuple(variable.size + 1 for variable in variables)
        tables = dict[str, Array]()
        for name in ("n", *(f"s{at}" for at in range(len(part.sums)))):
            table = np.zeros(math.prod(shape), np.int64)
            table[here["cell"].to_numpy()] = here[name].to_numpy()
            tables[name] = table.reshape(shape)
        ends = [tables["n"].take(-1, axis).any() for axis in range(len(shape))]
        faulty = frozenset(name for name, wrong in zip(part.scope, ends, strict=True) if wrong)
        counts, *sums = (table[(slice(-1),) * len(shape)] * (not faulty) for table in tables.values())
        yield Joint(counts, faulty, dict(zip(part.sums, sums, strict=True)))


def _request_all(records: Records, parts: Sequence[Part]) -> list[pa.Table]:
    """Request groups of all parts at once: keys as text, NULL after the last key of a part."""
    rows = arrow(together(records, parts))
    return [rows.filter(pc.equal(rows["part"], number)) for number in range(len(parts))]


def together(records: Records, parts: Sequence[Part]) -> ir.Table:
    """Write one request for all parts: a union of group-bys, each with its own limit."""
    requests, width, most = [], max(len(part.scope) for part in parts), max(len(part.sums) for part in parts)
    for number, part in enumerate(parts):
        groups, size = _request_groups(records, part), len(part.scope)
        keys = {f"k{at}": groups[f"k{at}"].cast("string") for at in range(size)}
        keys |= {f"k{at}": ibis.null("string") for at in range(size, width)}
        sums = {f"s{at}": groups[f"s{at}"] for at in range(len(part.sums))}
        sums |= {f"s{at}": ibis.literal(0, "int64") for at in range(len(part.sums), most)}
        requests.append(groups.select(part=ibis.literal(number, "int32"), **keys, n=groups["n"].cast("int64"), **sums))
    return ibis.union(*requests) if len(requests) > 1 else requests[0]


def _make_joint(records: Records, part: Part, rows: pa.Table) -> Joint:
    """Make the counts and sums of a part from its groups."""
    variables = part.variables(records.schema)
    coded = [key.type().is_integer() for key in (grouping(records, variable) for variable in variables)]

    def decoded(rows: pa.Table, coded: Sequence[bool]) -> list[Array]:
        columns = [rows[f"k{at}"].cast(pa.int64()) if code else rows[f"k{at}"] for at, code in enumerate(coded)]
        return [decode(column, variable) for column, variable in zip(columns, variables, strict=True)]

    positions = decoded(rows, coded)
    if len(rows) > _count_most_groups(variables) and all(position.min() >= 0 for position in positions):
        # All values are states, in more spellings than states: group by codes instead.
        rows = arrow(_request_groups(records, part, codes))
        positions = decoded(rows, [True] * len(variables))
    faulty = frozenset(name for name, position in zip(part.scope, positions, strict=True) if np.any(position < 0))
    shape = tuple(variable.size for variable in variables)

    def scattered(column: str) -> Array:
        table = np.zeros(shape, np.int64)
        if not faulty:
            np.add.at(table, tuple(positions), rows[column].to_numpy().astype(np.int64))
        return table

    return Joint(scattered("n"), faulty, {monomial: scattered(f"s{at}") for at, monomial in enumerate(part.sums)})


CELL_LIMIT = 2**24
"""Most cells of one family's table: 128 MiB, and about two minutes of exact noise."""


COUNT_LIMIT = 2**53
"""Largest count: any noise scale we accept then stays within 64-bit integers but for a chance below exp(-1000)."""


@dataclass(frozen=True, eq=False)
class Wide:
    """Network with columns whose bins are to be found, and the records to be counted again over these.

    Args:
        network: the bins of these columns are all round numbers.
        again: counts the same records over the network with other bins, and some further sets of its variables.
    """

    network: Network
    again: Callable[[Network, Iterable[Scope]], Counts]

    @property
    def names(self) -> Scope:
        """Names of these columns."""
        return tuple(variable.name for variable in wide_columns(self.network))


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Exact contingency tables of all families of a network, and of some larger sets of variables: private.

    They are for mechanisms only.

    Args:
        tables: int64, axes `(*parents, child)`, unit: records; every table sums to the same number of records.
        policy: what was done with incomplete records.
        joints: int64 tables of the same records over sets of variables, axes as the key names them; `count` makes those
            of the network's cover by stars, and pairs.
        sums: of the numeric columns; None where there are none, or where the records were codes.
        wide: what a release is over where bins are yet to be found; the tables are then of single variables.

    Raises:
        InputError: tables that are not integers, are negative, have another shape than their variables, or do not count
            the same number of records.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> counts = dc.tools.count_codes(network, {"rain": [0, 0, 1], "wet": [0, 1, 1]})
        >>> counts
        Counts(2 families, private)
        >>> counts.records, counts.joint(("wet",)).tolist()  # private: never print them of records that are
        (3, [1, 2])
    """

    tables: Tables
    policy: RecordsPolicy
    joints: Mapping[Scope, Array] = field(default_factory=dict)
    sums: NumberSums | None = None
    wide: Wide | None = None

    def __post_init__(self) -> None:
        """Freeze, and refuse tables that cannot count one set of records; no message has a count."""
        joints = {scope: np.array(table) for scope, table in self.joints.items()}
        for table in joints.values():
            table.flags.writeable = False
        object.__setattr__(self, "joints", MappingProxyType(joints))
        for scope, table in self.joints.items():
            keyed = isinstance(scope, tuple) and len(set(scope)) == len(scope)
            require(keyed, "joint counts are keyed by tuples of different variables")
            axes = table.shape == tuple(self.network.schema[name].size for name in scope)
            require(axes, f"the counts over {scope} need one axis for each variable, as long as it has states")
        tables = [*self.tables.values(), *self.joints.values()]
        whole = all(table.dtype == np.int64 and not np.any(table < 0) for table in tables)
        require(whole, "counts must be 64-bit integers and not negative")
        if any(float(table.sum(dtype=np.float64)) > COUNT_LIMIT for table in tables):
            raise InputError(f"a number of records is larger than {COUNT_LIMIT:,}, where 64-bit noise could saturate")
        require(len({int(table.sum()) for table in tables}) == 1, "all tables must count the same records")
        for scope, joint in self.joints.items():
            self._require_families(scope, joint)

    def _require_families(self, scope: Scope, joint: Array) -> None:
        """Refuse joint counts that disagree with those of the families inside."""
        for node in scope:
            family = self.network.family(node)
            if set(family) <= set(scope) and not np.array_equal(_sum_out({scope: joint}, family), self.tables[node]):
                raise InputError(f"the counts over {scope} disagree with those of the family of {node!r}")

    def __repr__(self) -> str:
        """Text without any count."""
        return f"Counts({len(self.tables)} families, private)"

    def __reduce__(self) -> NoReturn:
        """Counts are never copied or pickled."""
        raise TypeError("counts are private and cannot be pickled or copied; count the records where they are needed")

    @property
    def network(self) -> Network:
        """The network whose families were counted."""
        return self.tables.network

    @property
    def over(self) -> Network:
        """The network of releases, which is the statistic's domain."""
        return self.network if self.wide is None else self.wide.network

    @property
    def records(self) -> int:
        """Number of records counted: private under ADD_REMOVE."""
        return int(next(iter(self.tables.values())).sum())

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Bound how far one record can move the family counts; the method form of `dc.tools.sensitivity`.

        Args:
            relation: what "neighbouring data sets" means in the guarantee.

        Returns:
            Bounds in L1 and L2 over all tables together; records.
        """
        return sensitivity(self.network, relation)

    def require(self, scopes: Iterable[Scope]) -> None:
        """Refuse sets of variables that no table holds, by the tables' names alone, which are public.

        Args:
            scopes: names of variables, in the schema's order.

        Raises:
            InputError: some set lies in no family and in no set of `joints`.
        """
        for scope in scopes:
            if scope not in self._by_scope and not any(set(scope) <= set(larger) for larger in self._by_scope):
                raise InputError(
                    f"no table that was counted holds the variables {', '.join(map(repr, scope[:5]))} together; make "
                    "the counts with `count` or `count_codes`, for the network of the release"
                )

    def joint(self, scope: Scope) -> Array:
        """Counts over a set of variables, summed from the smallest table that holds it.

        Args:
            scope: names of variables.

        Returns:
            int64, axes in the order of the names; `cells_moved` bounds what one record can do to it.

        Raises:
            InputError: no table holds the set.
        """
        self.require([scope])
        return _sum_out(self._by_scope, scope)

    @cached_property
    def _by_scope(self) -> dict[Scope, Array]:
        """All tables by their variables."""
        return {**{self.network.family(node): table for node, table in self.tables.items()}, **self.joints}


def count(
    records: Records,
    network: Network,
    scopes: Iterable[Scope] | None = None,
    *,
    cell_limit: int = CELL_LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> Counts:
    """Count the records of each joint state of a variable and its parents: the sufficient statistics of mechanisms.

    Tables of some other sets of variables are counted in the same passes: those that `planned` may measure instead.

    Args:
        records: their schema must hold every node of the network, with the same states.
        network: public.
        scopes: sets of variables that are counted as well, named in the schema's order: what a mechanism's `scopes`
            says. None for all pairs of variables, or 1,000 of them, which `planned` may measure besides.
        cell_limit: most cells of one table.
        progress: called with (scans done, scans in all) before the first scan and after each; None for a bar, where
            somebody looks (`discreet.util.progress`).

    Returns:
        The counts.

    Raises:
        InputError: a table is larger than the limit, a variable of the network is not in the records' schema, or a
            column holds a missing value (under "error"), an unknown state or a number out of bounds; the message names
            columns, never a value or a number of records.

    Guarantee:
        None spent: nothing leaves. That an error occurs does depend on the records: see `docs/threat-model.md`.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> import pyarrow as pa
        >>> table = pa.table({"rain": ["no", "yes", "no"], "wet": ["no", "yes", "yes"]})
        >>> counts = dc.count(dc.read_records(table, network.schema), network)
        >>> counts.tables["wet"].tolist()  # rows are the states of "rain"; private
        [[1, 1], [0, 1]]
    """
    if not isinstance(records, Records):
        raise InputError(f"records are counted that read_records returned, not a {type(records).__name__}")
    records = replace(records, schema=Schema(tuple(map(with_bins, records.schema))))
    for node in network.nodes:
        if node not in records.schema or records.schema[node] != network.schema[node]:
            raise InputError(f"variable {node!r} of the network must be in the records' schema, with the same states")
    network.require_conditions()
    more = all_pairs(network) if scopes is None else tuple(scopes)
    _refuse_large(typical_network(network), more, cell_limit)
    wide = None
    if wide_columns(network):
        wide = Wide(network, partial(_count_again, records, cell_limit))
        network, more = Network.empty(network.variables), ()
    with under_way("counting records") as bar:
        tables, faulty, sums = _count_tables(records, network, more, progress or bar)
    refuse_faulty((name for name in network.nodes if name in faulty), records)
    return replace(_make_counts(network, tables, records.policy, more, sums), wide=wide)


def _refuse_large(network: Network, more: Iterable[Scope], cell_limit: int) -> None:
    """Refuse families and further sets whose tables have too many cells."""
    for node in network.nodes:
        if network.cells(network.family(node)) > cell_limit:
            raise InputError(
                f"the table of {node!r} given {len(network.parents[node])} parents has "
                f"{network.cells(network.family(node)):,} cells, more than the limit of {cell_limit:,}; "
                "give it fewer parents or states, or raise the limit"
            )
    for scope in more:
        if network.cells(scope) > cell_limit:
            raise InputError(
                f"the table over {listed(scope)} has {network.cells(scope):,} cells, more than the limit of "
                f"{cell_limit:,}; ask for a smaller one, or raise the limit"
            )


def _count_again(records: Records, cell_limit: int, network: Network, scopes: Iterable[Scope]) -> Counts:
    """Count records over found bins: numbers that the first pass saw between the declared bounds are clipped."""
    policy = replace(records.policy, out_of_bounds="clip")
    binned = {variable.name: variable for variable in network.variables}
    schema = Schema(tuple(binned.get(variable.name, variable) for variable in records.schema))
    clipped = replace(records, schema=schema, policy=policy)
    return count(clipped, network, scopes, cell_limit=cell_limit)


def _count_tables(
    records: Records, network: Network, more: Iterable[Scope], report: Callable[[int, int], None]
) -> tuple[Mapping[Scope, Array], Collection[str], NumberSums | None]:
    """Count the tables of the cover sets, find invalid columns and sum numbers: in one local pass, or by the engine.

    Where bins are yet to be found no numbers are summed.
    """
    planned, grids = _list_planned(network), {} if wide_columns(network) else number_grids(network)
    covers = network.cover_sets(wanted=(*planned, *more))
    needed = needed_monomials(covers, planned, grids)
    parts = [Part(cover, needed[cover]) for cover in covers]
    parts += [Part((name,), ((name,), (name, name)), leaves=True) for name in grids]
    joints = None
    if records.unit is None and records.local is not None:
        report(0, 1)
        joints = local_joints(records.local, records.table, Schema(network.variables), parts, records.policy)
    if joints is None:
        counted = kept(records, network.variables)
        joints = []
        report(0, len(parts))
        for joint in grouped_joints(counted, parts):
            joints.append(joint)
            report(len(joints), len(parts))
    else:
        report(1, 1)
    faulty = frozenset[str]().union(*(joint.faulty for joint in joints))
    tables = {part.scope: joint.counts for part, joint in zip(parts, joints, strict=True) if not part.leaves}
    if not grids or faulty:
        return tables, faulty, None
    cells = dict[tuple[Scope, Monomial], Array]()
    leaves = dict[str, Array]()
    for part, joint in zip(parts, joints, strict=True):
        if part.leaves:
            finest = np.stack([joint.counts, *joint.sums.values()], axis=-1)
            leaves[part.scope[0]] = finest[: len(grids[part.scope[0]].bin_of_leaf(grids[part.scope[0]].finest))]
        else:
            cells |= {(part.scope, monomial): table for monomial, table in joint.sums.items()}
    return tables, faulty, NumberSums(grids, cells, leaves)


def count_codes(network: Network, codes: Mapping[str, npt.ArrayLike], scopes: Iterable[Scope] | None = None) -> Counts:
    """Count records in memory that are codes of states, such as simulated ones.

    Args:
        network: public.
        codes: for every node one whole number a record, from 0 to its number of states less 1.
        scopes: sets of variables that are counted as well, as of `count`.

    Returns:
        The counts.

    Raises:
        InputError: a node without codes, columns of different lengths, or a code that is no state.

    Guarantee:
        None spent: nothing leaves. Errors name columns, never a code.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> dc.tools.count_codes(network, {"rain": [0, 0, 1], "wet": [0, 1, 1]}).tables["wet"].tolist()
        [[1, 1], [0, 1]]
    """
    missing = [node for node in network.nodes if node not in codes]
    if missing or len({np.size(codes[node]) for node in network.nodes}) > 1:
        raise InputError(f"every node needs one code for each record; missing: {missing[:5]}")
    network.require_conditions()
    columns = {node: np.asarray(codes[node]) for node in network.nodes}
    for node, column in columns.items():
        if len(column) and column.dtype.kind not in "iu":
            raise InputError(f"column {node!r} holds codes that are no whole numbers")
        if len(column) and not (column.min() >= 0 and column.max() < network.schema[node].size):
            raise InputError(f"column {node!r} holds a code that is no state")
    tables, more = {}, all_pairs(network) if scopes is None else tuple(scopes)
    for scope in (*_list_planned(network), *more):
        tables[scope] = np.zeros(tuple(network.schema[name].size for name in scope), np.int64)
        np.add.at(tables[scope], tuple(columns[name].astype(np.intp) for name in scope), 1)
    return _make_counts(network, tables, RecordsPolicy("error", "error"), more)


def _list_planned(network: Network) -> tuple[Scope, ...]:
    """List the sets of variables that `planned` may measure; every family lies in one."""
    return tuple(scope for group in star_cover(network) for scope in group)


def _make_counts(
    network: Network,
    tables: Mapping[Scope, Array],
    policy: RecordsPolicy,
    more: Iterable[Scope] = (),
    sums: NumberSums | None = None,
) -> Counts:
    """Make counts of families, of sets that may be planned, and of further sets, from tables that hold them."""
    joints = {scope: _sum_out(tables, scope) for scope in (*_list_planned(network), *more)}
    families = {node: _sum_out(joints, network.family(node)) for node in network.nodes}
    return Counts(Tables(network, families), policy, joints, sums)


def _sum_out(tables: Mapping[Scope, Array], scope: Scope) -> Array:
    """Sum a table over some variables, in their order, out of the smallest table that holds them all."""
    if scope in tables:
        return tables[scope]
    wanted = set(scope)
    source = min((larger for larger in tables if wanted <= set(larger)), key=lambda larger: tables[larger].size)
    return np.array(margin(tables[source], source, scope), order="C")
