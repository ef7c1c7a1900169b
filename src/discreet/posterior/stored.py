"""File format of posterior draws: a posterior that took seconds to draw is read in milliseconds.

The file begins with a line that names the format, the length of the head in bytes, and the head in JSON: the evidence
as its own document, the method, the versions, the chains' mixing diagnostics, the state of the posterior's random
generator, and the result of `fit`. Then come the arrays in little-endian float64: concentrations of the prior if one
was given, draws of the table of every family (a node with its parents), their replicate draws (second draws given the
same latent counts), and the prior mean of the mixture weights with which rows are drawn (`shrinkage.py`); and in
float32 the laws of the measured sets of variables, to which joint laws are fitted. Shapes follow from the network and
the head. The last 32 bytes are the SHA-256 of everything before. It protects against damage, not against forgery:
answers from a file are as trustworthy as its source.

Reading a file runs no code from it, and takes no more memory than the size of the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import pydantic

from discreet.errors import InputError, require, shown_path
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.posterior.fit_check import GoodnessOfFit, Tested
from discreet.posterior.joint_draws import Mixing, PosteriorDraws
from discreet.posterior.law_parts import LawParts
from discreet.posterior.law_plan import replicate_step
from discreet.posterior.methods import Method, restore_source
from discreet.posterior.pooled.cell_weights import COMPONENTS
from discreet.posterior.pooled.measured_sets import DrawnSet, MeasuredSets
from discreet.posterior.read import every_reader, load_function
from discreet.releases.codec import DocumentPart
from discreet.releases.combined import Combined, Evidence, evidence_of, loads
from discreet.util.arrays import Floats
from discreet.util.json_files import DRAWS_FIRST_LINE, decode_text, read_bytes, read_json, write_whole
from discreet.util.limits import DOCUMENT_BYTES, DRAWS_BYTES
from discreet.util.option_texts import LawAssume

DRAWS_VERSION = 2
HEAD_BYTES = 8
"""Bytes of the integer that holds the length of the head; the head is padded with blanks to a multiple of it."""
CHECKSUM_BYTES = 32
"""Length of the checksum."""
DRAWS_NAME = "posterior draws"
ROW_SUM_TOLERANCE, LAW_TOLERANCE = 1e-9, 1e-4
"""Largest deviation from 1 of the sum of a row, and of the sum of a set's law, which is stored in single precision."""


class _Generator(DocumentPart):
    """State of a random generator: PCG64 and its seed sequence, as `default_rng` makes them."""

    state: dict[str, Any]
    entropy: int | list[int]
    spawn_key: list[int]
    pool_size: Literal[4]  # a file could name billions of words, which NumPy would make
    children: int


class _JointLaws(DocumentPart):
    """Inputs of the joint laws: seed, assumption, and the sets of variables whose laws are stored."""

    seed: int
    assume: LawAssume
    sets: list[list[str]]


class _StoredTest(DocumentPart):
    """One test of the network."""

    variables: list[str]
    p: float
    effect: float
    arcs: list[list[str]]


class _StoredFit(DocumentPart):
    """Result of `check_fit`, stored because it takes about a second to compute."""

    tests: list[_StoredTest]
    pairs_in_tables: int
    pairs: int


class _StoredHead(DocumentPart):
    """Head of a file of draws: everything but the arrays."""

    version: Literal[2]
    package: str
    numpy: str
    evidence: str
    method: str
    draws: pydantic.PositiveInt
    trusted: bool
    parents: dict[str, list[str]]
    prior: bool
    prior_accounts: list[str] | None = None
    twins: bool
    joint_laws: _JointLaws | None
    mixing: dict[str, Any] | None
    effective: float
    generator: _Generator | None
    fit: _StoredFit | None = None
    unseen: dict[str, list[str]] = pydantic.Field(default_factory=dict)
    more: dict[str, Any] = pydantic.Field(default_factory=dict)


def save_draws(posterior: PosteriorDraws, path: str | Path, *, replace: bool = False) -> None:
    """Write a posterior with the result of `check_fit` to a file, completely or not at all.

    All that is not drawn yet is drawn first, and stays in memory (`to_bytes`). An existing file is only replaced with
    `replace`.

    Raises:
        FileExistsError: the file exists, and `replace` is False.
        InputError: draws that `noise_aware` did not make, or a file that cannot be written.
    """
    write_whole(to_bytes(posterior, checked=True), Path(path), DRAWS_NAME, replace=replace)


def load_draws(path: str | Path) -> PosteriorDraws:
    """Read a posterior from a file of at most DRAWS_BYTES, after a check of its checksum (`from_bytes`).

    Raises:
        InputError: no such file, a larger one, or content that is damaged, inconsistent, or of another format or
            version.
    """
    return from_bytes(read_bytes(path, DRAWS_NAME, DRAWS_BYTES), shown_path(path))


def check_draws(path: str | Path) -> None:
    """Refuse a damaged file by its checksum, without parsing the content.

    Raises:
        InputError: the file cannot be read or has more than DRAWS_BYTES, is not a file of draws, its checksum is wrong,
            or the length of its head is impossible.
    """
    _find_head(read_bytes(path, DRAWS_NAME, DRAWS_BYTES), f"{DRAWS_NAME} {shown_path(path)}")


def evidence_in(path: str | Path) -> Evidence:
    """Read the evidence of stored draws from the head of the file; the arrays and the checksum are not read.

    Raises:
        InputError: the file cannot be read or is not a file of draws; its head is too long, invalid or of another
            version; or its evidence is no valid document.
    """
    return loads(_read_file_head(path).evidence)


def _read_file_head(path: str | Path) -> _StoredHead:
    """Read the head of a file, without the arrays and the checksum.

    Args:
        path: file of posterior draws.

    Returns:
        The head, validated.

    Raises:
        InputError: the file cannot be read, is not a file of draws, or has a head that is longer than twice
            DOCUMENT_BYTES, invalid or of another version.
    """
    label = f"{DRAWS_NAME} {shown_path(path)}"
    try:
        with open(path, "rb") as file:
            raw = file.read(_head_start())
            size = int.from_bytes(raw[-HEAD_BYTES:], "little")
            if not raw.startswith(DRAWS_FIRST_LINE) or size > 2 * DOCUMENT_BYTES:
                raise InputError(f"{label} is no file of posterior draws; `discreet draw` makes one of a release")
            return _read_head(file.read(size), label)
    except OSError as error:
        raise InputError(f"cannot read {label}: {error.strerror}") from None


def to_bytes(posterior: PosteriorDraws, *, checked: bool = False) -> bytes:
    """Serialise a posterior; families and sets that were not drawn yet are drawn first.

    All families, their replicates and all measured sets are drawn, and stay in the posterior's memory. The evidence is
    stored with them, and the prior if it was given; a learned prior is not stored.

    Args:
        posterior: posterior made by `noise_aware`.
        checked: whether the result of `check_fit` is stored as well, which takes about a second to compute; if not, the
            posterior that is read from the bytes computes it at first use.

    Returns:
        Content of the file, in the format at the head of this module, with a checksum at the end. Probabilities of
        families are in double precision, laws of measured sets in single precision. Of a posterior projected to the
        public network the wider posterior (`PosteriorDraws.saturated`) is stored. The generator is stored only if it is
        a PCG64 of an ordinary seed (`_store_generator`); without it the posterior that is read makes no new draws.

    Raises:
        InputError: draws that `noise_aware` did not make from a release.
    """
    drawn = posterior if posterior.saturated is None else posterior.saturated
    source, basis, parts = drawn.source, drawn.basis, drawn.parts
    known = drawn.more or (source and drawn.method in get_args(Method))
    if basis is None or not known or set(basis.network.nodes).difference(drawn.network.nodes):
        raise InputError(
            "only draws that noise_aware made of a release's rows can be stored: others are all there is of them, or "
            "made of such draws (at_random, plug_in), and made again in no time"
        )
    network, cells, prior = drawn.network, dict(drawn.probabilities), None if source is None else source.prior
    sets = {} if parts is None else parts.draw_all()
    laws = None if parts is None else _JointLaws(seed=parts.sets.seed, assume=parts.assume, sets=[*map(list, sets)])
    replicates = None if drawn.replicates is None else dict(drawn.replicates)
    head = _StoredHead(
        version=2,
        package=version("discreet"),
        numpy=np.__version__,
        evidence=basis.evidence.dumps(),
        method=drawn.method,
        draws=drawn.probabilities.draws or 0,
        trusted=basis.trusted,
        parents={node: list(network.parents[node]) for node in network.nodes},
        prior=prior is not None,
        prior_accounts=sorted(prior.accounts) if prior else None,
        twins=replicates is not None,
        joint_laws=laws,
        mixing=None if drawn.mixing is None else asdict(drawn.mixing),
        effective=drawn.ess(),
        generator=_store_generator(source.rng) if source else None,
        fit=_StoredFit.model_validate_json(json.dumps(asdict(basis.fit_check))) if checked else None,
        unseen={each.name: list(each.states) for each in network.variables if each.name not in basis.network.schema},
        more=dict(drawn.more),
    )
    text = _pad(head.model_dump_json().encode())
    arrays = [
        *(() if prior is None else (prior.alpha[node] for node in network.nodes)),
        *cells.values(),
        *(() if replicates is None else replicates.values()),
        *(() if parts is None else (parts.sets.weights,)),
    ]
    body = [np.ascontiguousarray(array, "<f8").tobytes() for array in arrays]
    body.append(_join_singles([array for drawn_set in sets.values() for array in drawn_set]))
    # The head begins at a multiple of 8 bytes, and so do the arrays.
    content = b"".join([_pad(DRAWS_FIRST_LINE, b"\0"), len(text).to_bytes(HEAD_BYTES, "little"), text, *body])
    return content + sha256(content).digest()


def _pad(text: bytes, by: bytes = b" ") -> bytes:
    """Append copies of one byte until the length is a multiple of HEAD_BYTES (8); none if it is already.

    Args:
        text: bytes to pad.
        by: the byte; a blank by default.
    """
    return text + by * (-len(text) % HEAD_BYTES)


def _join_singles(arrays: Sequence[npt.NDArray[np.float32]]) -> bytes:
    """Concatenate flattened arrays as little-endian float32, with one 0 more if their number of entries is odd.

    So the length is a multiple of 8 bytes; empty without arrays.
    """
    joined = np.concatenate([array.ravel() for array in arrays], dtype="<f4") if arrays else np.empty(0, np.float32)
    return np.pad(joined, (0, joined.size % 2)).tobytes()


def from_bytes(raw: bytes, name: str = "in memory", evidence: Evidence | None = None) -> PosteriorDraws:
    """Deserialise a posterior from the bytes of `to_bytes`, after a check of the checksum.

    Args:
        raw: content of the file.
        name: name of the file, for error messages.
        evidence: the file's evidence, if the caller has it and wants the posterior to refer to that very object; it is
            not compared with the file's. None parses the evidence from the head.

    Returns:
        The posterior over the public network; rows that were drawn under a wider network are projected to it, and kept
        as `saturated`. It can make new draws if the generator was stored. A result of `check_fit` that was not stored
        is computed at first use.

    Raises:
        InputError: content that is damaged, or of another format or version; a head whose parts do not fit together;
            arrays that are too few, too many or no probabilities; or joint laws without replicates, or of sets of no,
            repeated or unknown variables.
    """
    label = f"{DRAWS_NAME} {name}"
    start, end = _find_head(raw, label)
    head = _read_head(raw[start:end], label)
    combined = evidence_of(loads(head.evidence) if evidence is None else evidence)
    public = combined.network
    unseen = tuple(Variable(name, tuple(states)) for name, states in head.unseen.items())
    wide = Network((*unseen, *public.variables), {node: tuple(parents) for node, parents in head.parents.items()})
    wide = public if wide == public else wide
    numbers = np.frombuffer(raw, "<f8", (len(raw) - CHECKSUM_BYTES - end) // 8, end)
    taken = _ArrayReader(numbers, wide, label)
    prior = Dirichlet(Tables(wide, taken.tables()), frozenset(head.prior_accounts or ())) if head.prior else None
    cells = taken.probabilities(head.draws)
    replicates = taken.probabilities(head.draws) if head.twins else None
    law_parts = None
    if head.joint_laws is not None:
        if replicates is None:
            raise InputError(f"{label} has joint laws, and no replicates")
        law_parts = _read_parts(taken, combined, cells, replicates, head.joint_laws)
    taken.check_end()
    try:
        mixing = None if head.mixing is None else Mixing(**head.mixing)
        rng = None if head.generator is None else _restore_generator(head.generator)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"{label} has a head that does not fit together ({error})") from None
    posterior = PosteriorDraws(cells, head.method, replicates, mixing, partial(float, head.effective), parts=law_parts)
    checked = None if head.fit is None else _restore_fit(head.fit)
    if head.more:
        restore = [reader.restore for reader in every_reader() if reader.restore and reader.name == head.method]
        require(bool(restore), f"{label} is read with a pack that is not installed")
        return cast(PosteriorDraws, load_function(restore[0])(posterior, combined, checked, head.more))
    require(head.method in get_args(Method), f"{label} has draws of no known method")
    return restore_source(posterior, combined, prior, rng, trusted=head.trusted, stored_fit=checked)


def _read_parts(
    taken: _ArrayReader, combined: Combined, cells: Tables, replicates: Tables, laws: _JointLaws
) -> LawParts:
    """Read the inputs of joint laws: mixture weights, and the laws of measured sets with those of their replicates.

    Args:
        taken: reader, positioned before these arrays; it is advanced past them.
        combined: evidence of the file.
        cells: tables of the families, shape `(*parents, child, draws)`.
        replicates: their replicate draws, same shape.
        laws: seed, assumption and sets, from the head.

    Returns:
        The inputs, with all sets drawn; arrays are copies, so that the file's content need not stay in memory.

    Raises:
        InputError: sets of no, repeated or unknown variables, too few numbers, or laws with a negative cell or a sum
            off 1 by more than LAW_TOLERANCE.
    """
    network, draws = cells.network, cells.draws or 1
    if any(not names or set(names) - set(network.nodes) or len(set(names)) < len(names) for names in laws.sets):
        raise InputError(f"{taken.label} has joint laws of sets of variables that are none of its network")
    # Views would keep the whole file in memory.
    sets = MeasuredSets(combined, cells, replicates, laws.seed, taken.next((COMPONENTS,)).copy())
    shapes = {tuple(names): [network.schema[name].size for name in names] for names in laws.sets}
    replicate_draws = len(range(0, draws, replicate_step(draws)))
    singles = taken.singles(sum(math.prod(shape) for shape in shapes.values()) * (draws + replicate_draws))
    drawn, at = dict[Scope, DrawnSet](), 0
    for names, shape in shapes.items():
        both = []
        for number in (draws, replicate_draws):
            size = math.prod(shape) * number
            both.append(singles[at : at + size].reshape(*shape, number).copy())
            at += size
        if any(
            law.min() < 0 or np.abs(law.sum(axis=tuple(range(len(names)))) - 1).max() > LAW_TOLERANCE for law in both
        ):
            raise InputError(f"{taken.label} has joint laws that are no probabilities")
        drawn[names] = DrawnSet(*both)
    return LawParts(sets, None, drawn, laws.assume)


def _head_start() -> int:
    """Compute the number of bytes before the head: the first line, padded to a multiple of 8, and 8 bytes more.

    These 8 hold the length of the head.
    """
    return len(DRAWS_FIRST_LINE) + -len(DRAWS_FIRST_LINE) % HEAD_BYTES + HEAD_BYTES


def _find_head(raw: bytes, label: str) -> tuple[int, int]:
    """Find the head of a file; refuse other files, and damaged ones by their checksum.

    Args:
        raw: content of the file.
        label: name of the file, for error messages.

    Returns:
        Positions where the head begins and ends.

    Raises:
        InputError: in this order, another first line, a wrong checksum or too few bytes for one, or a length of the
            head that is 0, no multiple of 8, above twice DOCUMENT_BYTES, or beyond the file.
    """
    start = _head_start()
    if not raw.startswith(DRAWS_FIRST_LINE):
        raise InputError(f"{label} is no file of posterior draws; `discreet draw` makes one of a release")
    if len(raw) < start + CHECKSUM_BYTES or sha256(memoryview(raw)[:-CHECKSUM_BYTES]).digest() != raw[-CHECKSUM_BYTES:]:
        raise InputError(f"{label} is damaged: its checksum does not agree; draw it again (`discreet draw`)")
    size = int.from_bytes(raw[start - HEAD_BYTES : start], "little")
    if not 0 < size <= min(2 * DOCUMENT_BYTES, len(raw) - start - CHECKSUM_BYTES) or size % HEAD_BYTES:
        raise InputError(f"{label} has a head of {size:,} bytes, which it cannot have")
    return start, start + size


def _read_head(raw: bytes, label: str) -> _StoredHead:
    """Parse the head of a file.

    Args:
        raw: the head in JSON.
        label: name of the file, for error messages.

    Returns:
        The head, validated.

    Raises:
        InputError: the head is no UTF-8 text, exceeds twice DOCUMENT_BYTES, is not valid JSON, has another version of
            the format or none, lacks or adds a field, or has one of another type; the first such field is named. The
            version is checked before other fields.
    """
    fields = read_json(decode_text(raw, label), f"the head of {label}", 2 * DOCUMENT_BYTES)
    if isinstance(fields, dict) and fields.get("version") != DRAWS_VERSION:
        raise InputError(
            f"{label} has version {fields.get('version')!r} of the format, and this package reads {DRAWS_VERSION}"
        )
    try:
        return _StoredHead.model_validate(fields, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{label}: {'.'.join(map(str, first['loc']))} of its head: {first['msg']}") from None


class _ArrayReader:
    """Reader of the arrays of a file, which it passes one after the other."""

    def __init__(self, numbers: Floats, network: Network, label: str) -> None:
        """Begin before the first array.

        Args:
            numbers: all arrays of the file, flat, float64.
            network: network of the families' tables.
            label: name of the file, for error messages.
        """
        self._numbers, self._network, self.label, self._at = numbers, network, label, 0

    def next(self, shape: tuple[int, ...]) -> Floats:
        """Read the next array of this shape, a view, and move past it; InputError if numbers are missing."""
        first, self._at = self._at, self._at + math.prod(shape)
        if self._at > len(self._numbers):
            raise InputError(f"{self.label} has fewer numbers than its head says")
        return self._numbers[first : self._at].reshape(shape)

    def tables(self, *more: int) -> Mapping[str, Floats]:
        """Read an array for each family, in the order of the network's nodes.

        Args:
            more: lengths of more axes.

        Returns:
            Views by node, shape `(*parents, child, *more)`.

        Raises:
            InputError: too few numbers.
        """
        return {node: self.next((*self._network.shape(node), *more)) for node in self._network.nodes}

    def singles(self, number: int) -> npt.NDArray[np.float32]:
        """Read the next `number` numbers in single precision, and skip the one that pads an odd number of them.

        Returns:
            A flat view; too few numbers raise InputError.
        """
        return self.next(((number + 1) // 2,)).view("<f4")[:number]

    def probabilities(self, draws: int) -> Tables:
        """Read draws of every family, shape `(*parents, child, draws)`; refuse rows that are not probabilities.

        Raises:
            InputError: too few numbers, a negative or undefined cell, or a row whose sum is off 1 by ROW_SUM_TOLERANCE
                or more.
        """
        tables = self.tables(draws)
        for node, table in tables.items():
            if not (table.min() >= 0 and np.all(np.abs(table.sum(axis=-2) - 1) < ROW_SUM_TOLERANCE)):
                raise InputError(f"{self.label} has rows of {node!r} that are no probabilities")
        return Tables(self._network, tables, draws=draws)

    def check_end(self) -> None:
        """Refuse numbers after the last array by an InputError."""
        if self._at != len(self._numbers):
            raise InputError(f"{self.label} has more numbers than its head says")


def _store_generator(rng: np.random.Generator) -> _Generator | None:
    """Convert a generator to the content of the file: its state and its seed sequence.

    Args:
        rng: generator of the posterior's source; it is not advanced.

    Returns:
        The state; None unless the generator is a PCG64 with an ordinary `SeedSequence` (pool size 4, with entropy), as
        `default_rng` makes it.
    """
    bits, seeds = rng.bit_generator, rng.bit_generator.seed_seq
    if not isinstance(bits, np.random.PCG64) or not isinstance(seeds, np.random.SeedSequence):
        return None
    entropy = seeds.entropy
    if entropy is None or seeds.pool_size != 4:
        return None
    whole = int(entropy) if isinstance(entropy, int | np.integer) else [int(word) for word in entropy]
    return _Generator(
        state=dict(bits.state),
        entropy=whole,
        spawn_key=[int(word) for word in seeds.spawn_key],
        pool_size=4,
        children=seeds.n_children_spawned,
    )


def _restore_fit(stored: _StoredFit) -> GoodnessOfFit:
    """Convert a stored result of `check_fit` to the result; lists become tuples."""
    tests = [Tested(tuple(t.variables), t.p, t.effect, tuple((a, b) for a, b in t.arcs)) for t in stored.tests]
    return GoodnessOfFit(tuple(tests), stored.pairs_in_tables, stored.pairs)


def _restore_generator(stored: _Generator) -> np.random.Generator:
    """Convert a stored state to a new PCG64 generator, which continues both the numbers and the spawning of children.

    A state that does not fit raises TypeError, ValueError, KeyError or OverflowError.
    """
    seeds = np.random.SeedSequence(
        stored.entropy, spawn_key=stored.spawn_key, pool_size=stored.pool_size, n_children_spawned=stored.children
    )
    bits = np.random.PCG64(seeds)
    bits.state = cast(Any, stored.state)
    return np.random.Generator(bits)
