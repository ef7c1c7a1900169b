"""Synthetic records: simulated from a network or from a posterior over its probabilities, and written to files.

Everything is drawn from public probabilities: no budget is spent, and no record is read.
"""

from __future__ import annotations

import io
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from discreet.errors import InputError
from discreet.inference.bin_laws import BinLaw
from discreet.inference.exact_laws import Laws
from discreet.inference.forward import laws_from_roots
from discreet.inference.sampling import check_number, sample_codes
from discreet.model.query_grammar import NumberRange, Observed, parse_evidence, write_evidence
from discreet.model.schema import Schema, Variable
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws, law_of
from discreet.posterior.protocol import NetworkPosterior
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.synthetic_numbers import ReleasedNumbers, SyntheticNumbers
from discreet.util.arrays import Array
from discreet.util.option_texts import FileFormat
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator

BLOCK_RECORDS = 65_536
"""Default number of records of a block."""
BLOCK_VALUES = 2**21
"""Largest number of values of a block, over all columns: 16 MiB of codes."""
PROBED_RECORDS = 2**16
"""Records that tell how rare the evidence is, before any is written."""
LEAST_PROBED = 16
"""Least number of these that must have the evidence: else one record in 4,096 or fewer has it."""
SUFFIXES: dict[str, FileFormat] = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow"}


def simulate_records(theta: Tables, n: int, *, rng: Seed = None) -> pa.Table:
    """Simulate independent records from a network, as a table.

    Args:
        theta: probabilities, shape `(*parents, child)`.
        n: number of records; 0 gives a table without rows.
        rng: source of randomness; the records are simulated, not private.

    Returns:
        An Arrow table with a column for each variable, in the network's order: names of states, or, for a numeric
        variable, numbers in the drawn bin, int64 if they are whole, else float64, or dates; NULL where missing. Numbers
        follow the log-linear law of `discreet.inference.bin_laws`, or the uniform one where exact inference is too
        large for the variable's law.

    Raises:
        InputError: a negative number of records.

    Guarantee:
        No budget is spent; only the probabilities are read.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> dc.tools.simulate_records(dc.Tables(network, {"rain": [0.0, 1.0]}), 2, rng=1)["rain"].to_pylist()
        ['yes', 'yes']
    """
    rng = as_generator(rng)
    numbers = SyntheticNumbers(_find_number_laws(theta))
    return pa.Table.from_batches([_RecordMaker(theta, numbers, theta.network.schema).draw(n, rng)])


@delegates_to_server
def sample(
    posterior: NetworkPosterior,
    n: int,
    *,
    given: str = "",
    rng: Seed = None,
    sets: int | None = None,
    block: int = BLOCK_RECORDS,
) -> tuple[pa.RecordBatchReader, ...]:
    """Make synthetic data: one set from the posterior mean, or several sets for valid pooled inference.

    With several sets, set m is n records drawn from `theta_m`, a posterior draw of its own, picked at random without
    repetition. The sets therefore differ by the release's uncertainty, and `pool_estimates` computes valid intervals
    from them. A single set (`sets=None`) is drawn from the posterior's mean: its shares have smaller errors than those
    of any draw, but statistics computed from it as if it were data account for its own sampling variance only. Draws
    are of the joint law from which all answers are read.

    Numbers lie in their bins by the release's own sums where it has some: the mean of a column, its mean by each row of
    its families, its quantiles and the correlation of two columns of a family are then those that `answer` gives, but
    for the sampling of n records. Else by the log-linear law inside bins.

    With evidence every record has it, and the records of a set follow its law given the evidence. Records without it
    are drawn, too, and dropped; so the evidence must not be rarer than one record in 4,096.

    Args:
        posterior: posterior of a release.
        n: number of records of each set; at least as many as the release had, if estimates are pooled.
        given: evidence that each record has, as that of a query is written: `"smoke=yes, age > 65"`; empty for none.
        rng: source of randomness for the choice of draws and the records.
        sets: number of sets, each from another posterior draw of all probabilities; None for one from the posterior's
            mean.
        block: largest number of records that are made at once; a set of many columns uses smaller blocks (BLOCK_VALUES
            values).

    Returns:
        For every set a stream of Arrow record batches, which can be read once; records are made as it is read. Columns
        are as in `simulate_records`, and equal for all sets. Streams can be read in any order; a seed gives the same
        records for the same `block` only.

    Raises:
        InputError: a negative number of records, no sets or more than the posterior has draws, or blocks of no
            records; evidence that no query could have, or that is too rare.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Rubin (1993), fully synthetic data; Raghunathan, Reiter and Rubin (2003).

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> rng = np.random.default_rng(1)
        >>> posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(network).draw(100, rng=rng))
        >>> first, second = dc.sample(posterior, 1000, sets=2, rng=rng)
        >>> first.schema
        rain: string
        >>> first.read_all().num_rows, sum(batch.num_rows for batch in second)
        (1000, 1000)
        >>> (wet,) = dc.sample(posterior, 3, given="rain=yes", rng=rng)
        >>> wet.read_all()["rain"].to_pylist()
        ['yes', 'yes', 'yes']
    """
    makers = _list_makers(posterior, range(sets or 1), rng, sets, given)
    return tuple(maker.make_stream(n, seed, block) for maker, seed in makers)


def sample_set(
    posterior: NetworkPosterior,
    n: int,
    which: int,
    *,
    rng: Seed,
    sets: int | None = None,
    given: str = "",
    most: float = math.inf,
) -> pa.RecordBatchReader:
    """Make one of the sets of `sample`, without computing the others, in blocks of the default size.

    Args:
        posterior: posterior of a release.
        n: number of records of each set.
        which: position of the set, counted from 0.
        rng: as in `sample`.
        sets: number of sets; None for one set from the posterior's mean.
        given: evidence that each record has, as in `sample`.
        most: largest number of records, with and without the evidence, that may be drawn.

    Returns:
        A stream of record batches; with a generator of the same seed, that of `sample` at this position.

    Raises:
        InputError: as `sample`; or evidence for which more than `most` records would have to be drawn.
        IndexError: no set at this position.
    """
    ((maker, seed),) = _list_makers(posterior, (which,), rng, sets, given)
    return maker.make_stream(n, seed, BLOCK_RECORDS, most)


def _list_makers(
    posterior: NetworkPosterior, wanted: Sequence[int], rng: Seed, sets: int | None, evidence: str
) -> Iterator[tuple[_RecordMaker, np.random.Generator]]:
    """List what makes some of the sets; the records of a set do not depend on which others are made.

    Args:
        posterior: posterior of a release.
        wanted: positions of the sets, counted from 0.
        rng: source of randomness; the choice of draws comes first, then a child generator for each set, wanted or not.
        sets: number of all sets; None for one set from the posterior's mean.
        evidence: evidence that each record has.

    Returns:
        For each wanted set its maker, computed as it is asked for, and its generator.

    Raises:
        InputError: no sets, or more than the posterior has draws; or evidence that no query could have.
    """
    schema, rng, draws = posterior.network.schema, as_generator(rng), posterior.probabilities.draws or 0
    if sets is not None and not 0 < sets <= draws:
        raise InputError(
            f"every synthetic set needs a draw of its own: asked for {sets} sets, the posterior has {draws} draws"
        )
    observed = parse_evidence(evidence, schema)
    laws = _list_laws(posterior, None if sets is None else rng.permutation(draws)[list(wanted)])
    seeds = rng.spawn(sets or 1)
    makers = (_RecordMaker(theta, numbers, schema, observed) for theta, numbers in laws)
    return zip(makers, [seeds[at] for at in wanted], strict=True)


def _list_laws(
    posterior: NetworkPosterior, picked: npt.NDArray[np.intp] | None
) -> Iterator[tuple[Tables, SyntheticNumbers]]:
    """Yield the joint laws of some draws in the given order: tables without an axis of draws, and the numbers' law.

    None yields one law, their mean over all draws (`mean_law`). Draws are of the joint law from which answers are read.
    Numbers follow the released sums where there are some (`ReleasedNumbers.of_draw`), else the laws of
    `_find_number_laws`.
    """
    cells = law_of(posterior).cells
    numbers = posterior.numbers if isinstance(posterior, PosteriorDraws) else None
    released = None if numbers is None else ReleasedNumbers(numbers)
    for draw in (None,) if picked is None else picked.tolist():
        if draw is None:
            theta = mean_law(cells)
        else:
            theta = Tables(cells.network, {node: cells[node][..., draw] for node in cells.network.nodes})
        laws = _find_number_laws(theta)
        yield theta, SyntheticNumbers(laws) if released is None else released.of_draw(laws, theta, draw)


def mean_law(cells: Tables) -> Tables:
    """Compute the conditional probability tables of each family's joint law averaged over the draws.

    `P(child | parents) = mean P(family) / mean P(parents)`; for parents' states whose mean is 0, the mean of the rows.
    Family laws are exact, or from simulated records with a fixed seed where exact inference is too large.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.

    Returns:
        Tables of shape `(*parents, child)`, without an axis of draws.
    """
    network = cells.network
    laws = laws_from_roots([network.family(node) for node in network.nodes], cells, seed=0)
    rows = dict[str, Array]()
    for node in network.nodes:
        law = laws.law(network.family(node)).mean(axis=-1)
        total = law.sum(axis=-1, keepdims=True)
        rows[node] = np.where(total > 0, law / np.where(total > 0, total, 1.0), cells[node].mean(axis=-1))
    return Tables(network, rows)


@dataclass(frozen=True, eq=False)
class _RecordMaker:
    """Records of one set: their law, and what all of them have.

    Args:
        theta: probabilities, shape `(*parents, child)`, without an axis of draws; it may have more variables than
            `schema`.
        numbers: of the numeric variables.
        schema: variables of the columns, in their order.
        observed: evidence that each record has.
    """

    theta: Tables
    numbers: SyntheticNumbers
    schema: Schema
    observed: Observed = ()

    def make_stream(self, n: int, rng: np.random.Generator, block: int, most: float = math.inf) -> pa.RecordBatchReader:
        """Make records, block by block as they are read; arguments are checked at once.

        Args:
            n: number of records; 0 gives a stream without batches.
            rng: source of randomness, used as the stream is read.
            block: largest number of records of a block; it has at most BLOCK_VALUES values, and at least one record.
            most: largest number of records that may be drawn, with and without the evidence.

        Raises:
            InputError: a negative number of records, blocks of no records, or evidence that is too rare.
        """
        check_number(n, block)
        size = min(block, max(1, BLOCK_VALUES // len(self.schema)))
        if self.observed and n:
            self._probe(n, rng.spawn(1)[0], most)
        return pa.RecordBatchReader.from_batches(make_arrow_schema(self.schema), self._make_batches(n, rng, size))

    def _probe(self, n: int, rng: np.random.Generator, most: float) -> None:
        """Refuse evidence that is too rare, before any record is made.

        PROBED_RECORDS records are drawn, counted and dropped.

        Args:
            n: number of records that are to be made.
            rng: source of randomness of the dropped records.
            most: largest number of records that may be drawn.

        Raises:
            InputError: fewer than LEAST_PROBED of them have the evidence, or n records with it would take more than
                `most`.
        """
        held = self.draw(PROBED_RECORDS, rng).num_rows
        if held < LEAST_PROBED or n * PROBED_RECORDS > most * held:
            raise InputError(
                f"records with {write_evidence(self.observed)} are too rare to be made: {held} of {PROBED_RECORDS:,} "
                "have it; leave a part of the evidence out, or ask for fewer records"
            )

    def _make_batches(self, n: int, rng: np.random.Generator, size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of `size` records, the last with the rest; nothing for n = 0.

        With evidence `size` records are drawn at a time until a batch has enough that have it; those beyond the batch
        are dropped.
        """
        for start in range(0, n, size):
            wanted = min(size, n - start)
            batch = self.draw(size if self.observed else wanted, rng)
            while batch.num_rows < wanted:
                batches = [batch, self.draw(size, rng)]
                (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
            yield batch.slice(0, wanted)

    def draw(self, size: int, rng: np.random.Generator) -> pa.RecordBatch:
        """Draw records, and drop those without the evidence.

        Records with other states, or without a number that evidence compares, are dropped before numbers are drawn;
        those whose number lies outside an observed range after it. The upper end of the last bin belongs to the range
        that ends there.

        Args:
            size: number of records before some are dropped.
            rng: source of randomness.

        Returns:
            A batch of at most `size` records, perhaps none, with the columns of `make_arrow_schema`.
        """
        codes, ranges = sample_codes(self.theta, size, rng), dict[str, NumberRange]()
        for name, seen in self.observed:
            variable = self.schema[name]
            if isinstance(seen, NumberRange):
                ranges[name], matches = seen, codes[name] < len(variable.edges) - 1
            else:
                states = (seen,) if isinstance(seen, str) else seen.states
                matches = np.isin(codes[name], [variable.code(state) for state in states])
            codes = {node: column[matches] for node, column in codes.items()}
        numbers = self.numbers.draw(codes, rng)
        columns = [_make_column(variable, codes[variable.name], numbers) for variable in self.schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=make_arrow_schema(self.schema))
        for name, seen in ranges.items():
            low, high = seen.ends(self.schema[name])
            column = np.asarray(numbers[name], np.float64)
            matches = (column >= low) & ((column < high) | (high == self.schema[name].edges[-1]))
            numbers = {node: values[matches] for node, values in numbers.items()}
            batch = batch.filter(pa.array(matches))
        return batch


def make_arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of records: a column for each variable, in the schema's order.

    States are text (string); numbers are int64 for variables of whole numbers and float64 for real ones; dates are
    date32, and times timestamps of seconds.
    """
    kinds = {"integer": pa.int64(), "real": pa.float64(), "date": pa.date32(), "datetime": pa.timestamp("s")}
    return pa.schema(
        [(variable.name, kinds[variable.type] if variable.numeric else pa.string()) for variable in schema]
    )


def _find_number_laws(theta: Tables) -> dict[str, BinLaw]:
    """Compute the law of each numeric variable inside its bins.

    It is log-linear with the exact shares of the bins. If these exceed the limits of exact inference it is uniform,
    with bins of equal share, because only the law inside them is used.

    Args:
        theta: probabilities, shape `(*parents, child)`, without an axis of draws.

    Returns:
        Laws by name, with a single draw; empty without numeric variables.
    """
    laws = dict[str, BinLaw]()
    single = Tables(theta.network, lambda node: theta[node][..., None], draws=1)
    for variable in theta.network.schema:
        if variable.numeric:
            try:
                shares = Laws(single).joint((variable.name,)).reshape(variable.size, -1)
                laws[variable.name] = BinLaw.of_bins(variable, shares)
            except InputError:
                laws[variable.name] = BinLaw.of_bins(variable, np.ones((variable.size, 1)), "uniform")
    return laws


def _make_column(variable: Variable, codes: Array, numbers: Mapping[str, npt.NDArray[np.generic]]) -> pa.Array:
    """Make an Arrow column from codes: the texts of states that records hold, or the numbers; NULL for any kind of gap.

    Args:
        variable: variable of the column.
        codes: positions of states, shape (records,); those after the last state of values are gaps.
        numbers: of the numeric variables, by name, shape (records,) each; for a variable without them, the column is
            text.

    Returns:
        The column, of the type of `make_arrow_schema`.
    """
    gap = None if variable.values == variable.states else codes >= len(variable.values)
    if variable.name not in numbers:
        return pa.array(variable.held, pa.string()).take(pa.array(codes, mask=gap))
    column = pa.array(numbers[variable.name], mask=gap)
    if variable.type == "date":
        column = column.cast(pa.int32())
    return column.cast(make_arrow_schema(Schema((variable,))).types[0])


# ------------------------------------------------------------------------------------------------------- files


def format_of(path: str | Path) -> str:
    """Find the format of a file by its name.

    Args:
        path: ends in .parquet, .csv, .arrow or .feather, in upper or lower case.

    Returns:
        "parquet", "csv" or "arrow" (for .arrow and .feather).

    Raises:
        InputError: another suffix.

    Example:
        >>> format_of("synthetic.feather")
        'arrow'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"cannot tell a format from {str(path)!r}; a name ends in {', '.join(SUFFIXES)}")
    return SUFFIXES[suffix]


def write_records(
    records: pa.RecordBatchReader,
    path: str | Path,
    *,
    replace: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write a stream of records to a Parquet, CSV or Arrow file, whole or not at all, one batch in memory at a time.

    Records are written to a hidden file in the same folder, which then gets the name `path`; it is removed in case of
    an error. Without `replace` this needs a file system with hard links; an existing file is refused before any record
    is made, and a file that appears meanwhile is kept.

    Args:
        records: stream as `sample` returns it, or any table's `to_reader()`; it is read to its end.
        path: path of the file; its suffix determines the format, as in `format_of`. Its folder must exist.
        replace: whether an existing file is replaced.
        progress: function that is called after every batch with the number of records so far; not after an empty one.

    Returns:
        The number of records.

    Raises:
        InputError: an unknown suffix, an existing file that is not to be replaced, a file that cannot be written, or a
            column that CSV cannot name.

    Guarantee:
        No budget is spent; the records are synthetic.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     dc.tools.write_records(pa.table({"rain": ["no", "yes"]}).to_reader(), f"{folder}/made.csv")
        2
    """
    target, kind = Path(path), format_of(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        if target.exists() and not replace:
            raise FileExistsError  # before the records are made
        with under_way("writing records"), open(temporary, "xb") as sink:
            written = stream_records(records, sink, kind, progress=progress)
        if replace:
            temporary.replace(target)
        else:
            os.link(temporary, target)  # fails if the file exists, also if it was just made
    except FileExistsError:
        raise InputError(f"{str(path)!r} exists; name a new file, or ask for it to be replaced") from None
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return written


def stream_records(
    records: pa.RecordBatchReader,
    sink: BinaryIO,
    kind: str,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write a stream of records to an open binary file, such as standard output.

    Args:
        records: as in `write_records`.
        sink: open file; it is not closed.
        kind: "parquet", "csv" or "arrow" (an IPC file).
        progress: as in `write_records`.

    Returns:
        The number of records.

    Raises:
        InputError: an unknown format, or a column that CSV cannot name; nothing is written then.
    """
    written = 0
    for number, chunk in record_chunks(records, kind):
        sink.write(chunk)
        written += number
        if number:
            progress(written)
    return written


def record_chunks(records: pa.RecordBatchReader, kind: str) -> Iterator[tuple[int, bytes]]:
    """Yield a stream of records as successive pieces of a file.

    Args:
        records: as in `write_records`.
        kind: as in `stream_records`.

    Yields:
        After each batch the number of its records and the new bytes of the file (perhaps none, and those of the file's
        head with the first); at the end 0 and the remaining bytes.

    Raises:
        InputError: as `stream_records`, when the first piece is asked for, before any batch is read.
    """
    pipe = _TailBuffer()
    with _open_writer(cast(BinaryIO, pipe), records.schema, kind) as writer:
        for batch in records:
            writer.write_batch(batch)
            yield batch.num_rows, pipe.take()
    yield 0, pipe.take()


class _TailBuffer(io.RawIOBase):
    """Buffer to write to that keeps only the bytes written since the last `take`."""

    def __init__(self) -> None:
        """Start without any bytes."""
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        """True: the buffer can be written."""
        return True

    def write(self, data: Any) -> int:
        """Append a copy of some bytes; return their number."""
        data_bytes = bytes(data)
        self._parts.append(data_bytes)
        self._at += len(data_bytes)
        return len(data_bytes)

    def tell(self) -> int:
        """Number of all bytes written so far, those already taken included."""
        return self._at

    def take(self) -> bytes:
        """Return the bytes written since the last call, perhaps none, and drop them."""
        tail = b"".join(self._parts)
        self._parts.clear()
        return tail


def _open_writer(sink: BinaryIO, schema: pa.Schema, kind: str) -> Any:
    """Open Arrow's writer of a format.

    Args:
        sink: open binary file.
        schema: Arrow schema of the records.
        kind: "parquet", "csv" or "arrow".

    Returns:
        The writer, to be used as a context manager.

    Raises:
        InputError: another format, or a column name with a line break for CSV.
    """
    match kind:
        case "parquet":
            return pa.parquet.ParquetWriter(sink, schema)
        case "csv":
            for name in schema.names:
                if "\n" in name or "\r" in name:
                    raise InputError(f"a line of CSV cannot hold the name {name!r}; write Parquet or Arrow")
            return pa.csv.CSVWriter(sink, schema)
        case "arrow":
            return pa.ipc.new_file(sink, schema)
        case _:
            raise InputError(f"no format {kind!r}; there are: {', '.join(get_args(FileFormat))}")
