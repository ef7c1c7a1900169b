"""What the experiments share: made-up records, their counts, and tables in Markdown. Nothing here is private.

Each module reproduces something printed in a paper, beside what the package offers instead:
`python -m experiments.NAME [--quick]`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.privacy.release import RecordsPolicy

__all__ = ["asia", "counts_of", "markdown", "mean_and_error", "run"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def asia() -> dc.Tables:
    """Probabilities of the network that comes with the package."""
    with as_file(files("discreet.app") / "asia.bif") as path:
        return dc.Tables.read(path)


def counts_of(network: dc.Network, codes: Mapping[str, Codes]) -> dc.Counts:
    """Family counts of records.

    Args:
        network: whose families are counted.
        codes: for every node positions of states, shape (records,).

    Returns:
        The counts.
    """
    tables = {node: np.zeros(network.shape(node), np.int64) for node in network.nodes}
    for node, table in tables.items():
        np.add.at(table, tuple(codes[name] for name in network.family(node)), 1)
    return dc.Counts(dc.Tables(network, tables), RecordsPolicy("error", "error"))


def mean_and_error(values: npt.ArrayLike, digits: int = 3) -> str:
    """Mean of independent values and its standard error, as text."""
    found = np.asarray(values, np.float64)
    error = found.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else np.nan
    return f"{found.mean():.{digits}f} ± {error:.{digits}f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown.

    Args:
        header: names of the columns.
        rows: of as many cells.

    Returns:
        Lines, with a line break after the last.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def run(about: str, report: Callable[[bool], str], arguments: Sequence[str] | None) -> None:
    """The command line of an experiment.

    Args:
        about: for `--help`.
        report: the experiment; told whether `--quick` was given, it returns what to print.
        arguments: of the command line; None for those of the process.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="few repeats: seconds, and large standard errors")
    print(report(parser.parse_args(arguments).quick))  # noqa: T201 - what the experiment is for
