"""The demo: the whole flow on the bundled Asia network, from made-up records to private answers beside the truth."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import discreet as dc
from discreet.cli.report import release_lines
from discreet.display.terminal import table
from discreet.errors import InputError
from discreet.privacy.ledger_balance import Balance
from discreet.util.option_texts import DEFAULT_LEVEL

DEMO_RECORDS = 10_000
DEMO_DRAWS = 1000
DEMO_QUERIES = (
    "P(lung=yes | smoke=yes)",
    "P(dysp=yes | smoke=yes)",
    "P(tub=yes | xray=yes, dysp=yes)",
    "MAP(lung, bronc | dysp=yes, xray=yes)",
    "MPE(| dysp=yes, smoke=yes)",
)


@dataclass(frozen=True)
class Demo:
    """Result of the demo.

    Args:
        release: made with real noise.
        balance: of the demo's account afterwards.
        pairs: for each query the true answer, and the private one.
        folder: with the files; None if they were not kept.
    """

    release: dc.Release
    balance: Balance
    pairs: tuple[tuple[dc.results.Answer, dc.results.Answer], ...]
    folder: Path | None


def run_demo(keep: Path | None, seed: int) -> Demo:
    """Sample records, open an account, release at epsilon 1, and answer five queries.

    Args:
        keep: new or empty folder for the network, the records, the ledger and the release; None for none.
        seed: of the made-up records and of the posterior's draws; the noise has none.

    Returns:
        The release, the balance and the answers.

    Raises:
        InputError: the folder cannot be made, or is not empty.
    """
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-demo-")))
        _prepare_folder(folder)
        rng = np.random.default_rng(seed)
        bundled = stack.enter_context(as_file(files("discreet.cli") / "asia.bif"))
        (folder / "asia.bif").write_bytes(bundled.read_bytes())
        theta = dc.Tables.read(folder / "asia.bif")
        network = theta.network
        pq.write_table(dc.tools.simulate_records(theta, DEMO_RECORDS, rng=rng), folder / "records.parquet")

        ledger = dc.Ledger(f"sqlite:///{folder / 'ledger.db'}")
        limit = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
        account = ledger.open("demo", limit)
        records = dc.read_records(folder / "records.parquet", network.schema)
        guarantee = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        noisy = dc.release(
            dc.planned(), dc.count(records, network), dc.Dirichlet.uniform(network), guarantee, account=account
        )
        noisy.save(folder / "release.json")

        posterior = dc.noise_aware(dc.Release.load(folder / "release.json"), draws=DEMO_DRAWS, rng=rng)
        truth = dc.results.PosteriorDraws(
            dc.Tables(network, {node: table[..., None] for node, table in theta.items()}, draws=1)
        )
        pairs = tuple((dc.answer(truth, query), dc.answer(posterior, query)) for query in DEMO_QUERIES)
        return Demo(noisy, account.balance(), pairs, keep)


def demo_lines(demo: Demo) -> str:
    """Write the demo as text: the cost, then true and private answers side by side."""
    rows = []
    for true, private in demo.pairs:
        truth, answer = true.rows[0], private.rows[0]
        rows.append(
            (
                private.query,
                _join_state(truth["state"]),
                f"{truth['mean']:.4f}",
                _join_state(answer["state"]) if answer["state"] != truth["state"] else "same",
                f"{answer['mean']:.4f}",
                f"{answer['lower']:.4f} to {answer['upper']:.4f}",
            )
        )
    head = ("query", "true state", "truth", "private state", "private", f"{100 * DEFAULT_LEVEL:g} % interval")
    lines = [
        f"made up {DEMO_RECORDS:,} records from the Asia network (Lauritzen, Spiegelhalter 1988) as the private table",
        release_lines(demo.release, demo.balance),
        "",
        table(head, rows),
    ]
    if demo.folder is not None:
        lines += ["", f"files in {demo.folder}: asia.bif, records.parquet, ledger.db, release.json"]
    return "\n".join(lines)


def _join_state(state: object) -> str:
    """Join the parts of a joint state in one line."""
    assert isinstance(state, Mapping)
    return ", ".join(f"{name}={value}" for name, value in state.items())


def _prepare_folder(folder: Path) -> None:
    """Make the folder; refuse one that is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"folder {str(folder)!r} is not empty; name a new one")
    except OSError as error:
        raise InputError(f"cannot make folder {str(folder)!r}: {error.strerror}") from None
