"""Generated and damaged texts: readers read or refuse each in type, in one short line, within time and memory."""

from __future__ import annotations

import io
import json
import random
import sqlite3
from contextlib import closing, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.posterior.stored import from_bytes
from folding import every
from fuzzing import read_all, repeated
from hostile import release_trees
from hostile_readers import READERS, drawn, exported_account
from hostile_sources import COSTLY, SHAPE, read_sent, warm_up
from sources import AB, PEER_WARNINGS, counted
from tiny import TINY, counts_of

pytestmark = PEER_WARNINGS
SOME, FEW, MANY = 100, 1_000, 20_000


def fuzz(reader: str, seed: int, count: int) -> None:
    make, read = READERS[reader]
    for once in (release_trees, drawn, exported_account, warm_up):
        once()  # not in every child
    report = read_all(read, repeated(random.Random(seed), make, count))
    print(f"{reader}: {report}")
    assert report.faults == [], str(report)
    assert report.accepted + report.refused == count
    # A generator that is refused always, or never, tests little.
    assert report.accepted > count / 50 and report.refused > count / 50


@pytest.mark.costly("Texts that nobody thought of are made up for each reader, a hundred and more.")
@pytest.mark.parametrize("reader", READERS)
def test_a_hundred_texts_are_read_or_refused(reader: str) -> None:
    fuzz(reader, 1, SOME // 5 if reader in COSTLY else SOME)


@pytest.mark.costly("Rare corners of a format, and of damage to it, come up in many generated texts only.")
@pytest.mark.parametrize("reader", READERS)
def test_a_thousand_texts_are_read_or_refused(reader: str) -> None:
    fuzz(reader, 1, SOME if reader in COSTLY else FEW)


@pytest.mark.parametrize(
    "reader", [pytest.param(one, marks=pytest.mark.slow if one in COSTLY else pytest.mark.thorough) for one in READERS]
)
def test_twenty_thousand_texts_are_read_or_refused(reader: str) -> None:
    fuzz(reader, 2, MANY)


READ_DIFFERENTLY = pytest.mark.costly("Each way to draw a posterior meets the ends of floats in places of its own.")


@pytest.mark.parametrize(
    "mechanism",
    [
        dc.laplace,
        *(pytest.param(one, marks=READ_DIFFERENTLY) for one in (dc.research.fourier, dc.research.map_estimate)),
    ],
)
@every("concentration", [5e-324, 1e-310, 1e-301, 1e-300, 1e-7, 1e12, 1e300, 1e306, 1.7e308])
def test_a_prior_at_the_ends_of_floats_is_refused_or_read(mechanism: Any, concentration: float) -> None:
    """Below the smallest normal number ratios of concentrations are no numbers, and no posterior can be drawn."""
    network = TINY["chain"]
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    made = dc.simulate(mechanism(), counts_of(network, [(0, 1, 1)]), dc.Dirichlet.uniform(network), promise, rng=1)
    document = json.loads(made.dumps()) | {"prior": dict.fromkeys(network.nodes, concentration)}
    fits = 1e-300 <= concentration <= 1e300
    with pytest.raises(dc.InputError, match="concentration") if not fits else nullcontext():
        read = dc.Release.loads(json.dumps(document))
        with suppress(dc.InputError):  # what reads released draws says itself which priors it takes
            assert all(0 <= row["mean"] <= 1 for row in dc.marginals(dc.noise_aware(read, draws=40, rng=1)).tidy())


@every("field", ["low", "high"])
@every("number", [10**400, -(10**400), 10**309, True, "1", None])
def test_numbers_that_no_float_holds_are_refused_by_name(number: Any, field: str) -> None:
    wait = {"name": "wait", "bounds": [0, 4], "bins": 4}
    family = {"family": "exponential", "variables": [wait], "parameters": {"low": 0.25, "high": 4} | {field: number}}
    with pytest.raises(dc.InputError, match=f"the parameter '{field}' of a family"):
        dc.research.read_score_file(json.dumps(family))
    table = {"variables": [{"name": "a", "states": ["no", "yes"]}], "candidates": [[0.2], [0.5]], "range": [0, 1]}
    for place in ("candidates", "range", "scores"):
        with pytest.raises(dc.InputError, match=f"'{place}' of a score"):
            dc.research.read_score_file(json.dumps(table | {"scores": [[1, 0], [0, 1]]} | {place: [[10**400, 1]] * 2}))


def test_a_pool_that_no_memory_holds_is_refused_in_stored_draws() -> None:
    """NumPy makes as many words as a stored generator says."""
    raw = drawn()[:-32]
    start = raw.index(b"{") - 8
    end = start + 8 + int.from_bytes(raw[start : start + 8], "little")
    head = json.loads(raw[start + 8 : end])
    head["generator"]["pool_size"] = 2**53
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    content = raw[:start] + len(text).to_bytes(8, "little") + text + raw[end:]
    with pytest.raises(dc.InputError, match="pool_size"):
        from_bytes(content + sha256(content).digest())


def test_a_column_that_may_not_be_null_takes_texts_for_missing_values(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "r.db")) as base, base:
        base.execute("CREATE TABLE t (x TEXT NOT NULL)")
        base.executemany("INSERT INTO t VALUES (?)", [("a",), ("?",), ("b",)])
    assert counted(f"sqlite:///{tmp_path}/r.db", AB, table="t", na_values=["?"], missing="drop") == [1, 1]


def test_text_that_a_server_sends_beyond_its_bytes_is_refused(tmp_path: Path) -> None:
    """Arrow trusts the offsets that it reads; who looks at such a cell reads memory that is none of it."""
    column = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(np.array([0, 9, 9, 3], np.int32)), pa.py_buffer(b"aba")]
    )
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, SHAPE) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column, pa.array([1, 2, 3], SHAPE.types[1])], schema=SHAPE))
    (tmp_path / "sent").write_bytes(sink.getvalue())
    with pytest.raises(dc.DiscreetError, match="no valid records"):
        read_sent(tmp_path / "sent")
