"""Options that several commands take, each declared once, under its heading in help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import discreet as dc
from discreet.cli.record_flags import *  # noqa: F403
from discreet.cli.record_flags import budget, mechanism, model, output, posterior, prior, questions, records
from discreet.mechanisms import MECHANISMS
from discreet.posterior.read import every_reader
from discreet.util import option_texts

METHODS = (*dict.fromkeys(reader.name for reader in every_reader() if reader.method), "plug-in")
"""Methods to read a release over a network: the default first, then those that it chooses from."""
AMOUNT_HELP = (
    "A metric's amount is in the unit of the bounds of the released column: no word after it converts it. A unit that "
    "ends in 'by arcs', 'by attributes', 'by length' or 'by moments' is of that distance of two records."
)
NETWORK_HELP = (
    "Public network: a BIF or XMLBIF file, a project file (.toml), or the output of `structure`. With --schema also a "
    "file of arcs (lines such as 'smoke -> lung', or CSV from,to), none for no arcs, or naive-bayes:TARGET."
)
NetworkFile = Annotated[str, model("--network", metavar="FILE", help=NETWORK_HELP)]
EitherNetwork = Annotated[str | None, model("--network", metavar="FILE", help=f"{NETWORK_HELP} Alternative: --design.")]
OtherNetwork = Annotated[
    str | None, model("--network", metavar="FILE", help="Test another network over these variables; none has no arcs.")
]
DesignFile = Annotated[
    Path | None,
    model("--design", metavar="FILE", help="Features, target and bounds of a regression (JSON), instead of --network."),
]
ScoreFile = Annotated[
    Path | None,
    model(
        "--score",
        metavar="FILE",
        help="JSON file with a family (exponential, normal, ...) or a table of scores, and its own variables. Use "
        "instead of --network; requires mechanism sampled or scored.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    model(
        "--schema",
        metavar="FILE",
        help="JSON file with bounds and bins of numeric columns, or, if the network file has no states, with all "
        "variables and their states. `discreet schema` drafts one. A project file (.toml) will do.",
    ),
]
Delta = Annotated[
    str,
    budget(
        metavar="NUMBER",
        help="Delta of the release, for mechanisms that use one: "
        + ", ".join(name for name, entry in MECHANISMS.items() if entry.delta != "refused")
        + ".",
    ),
]
RelationName = Annotated[
    str | None,
    budget(
        "--relation",
        metavar="|".join(dc.Relation),
        show_default=" and ".join(dc.tools.RECORD_RELATIONS),
        help="Neighbouring relation of the data sets.",
    ),
]
ChangeUnit = Annotated[
    str,
    budget(
        "--unit",
        metavar="TEXT",
        help=f"For metric: the change that has distance 1, such as '1 mmHg in one reading'. {AMOUNT_HELP}",
    ),
]
Payer = Annotated[
    str | None,
    budget(
        "--account",
        metavar="NAME",
        help=f"Account that pays. It fixes the neighbouring relation and the unit. {AMOUNT_HELP}",
    ),
]
Options = Annotated[
    list[str] | None,
    mechanism(
        "--option",
        metavar="NAME=VALUE",
        help="Option of the mechanism, such as draws=20; repeatable. "
        + " ".join(f"{name}: {', '.join(entry.options)}." for name, entry in MECHANISMS.items() if entry.options),
    ),
]
Workload = Annotated[
    list[str] | None,
    mechanism("--workload", metavar="QUERY|FILE", help="Queries that planned answers best, or a file; repeatable."),
]
EquivalentSampleSize = Annotated[float, prior(help="Number of records that each row of a prior network is worth.")]
ReleaseFile = Annotated[str, typer.Argument(metavar="RELEASE", help="Release file; - reads stdin.")]
Level = Annotated[float, questions(help=option_texts.LEVEL)]
Method = Annotated[
    str | None,
    posterior(
        metavar="NAME",
        show_default=METHODS[0],
        help=f"{METHODS[0]} chooses one of {', '.join(METHODS[1:-1])}, which can be named. {METHODS[-1]} ignores the "
        "noise: its intervals are too short.",
    ),
]
MissingAs = Annotated[option_texts.Gaps | None, posterior("--missing", show_default="state", help=option_texts.MISSING)]
Prior = Annotated[
    str | None,
    prior(
        metavar="NUMBER|FILE",
        show_default="learned from the release, or the curator's prior if it is not uniform",
        help="Analyst's prior: a Dirichlet concentration, a BIF or XMLBIF file, or a release of other records.",
    ),
]

DEFAULT_DRAWS = 1000
Draws = Annotated[int | None, posterior(show_default=str(DEFAULT_DRAWS), help="Number of posterior draws.")]
Latent = Annotated[
    str | None,
    posterior(metavar="FILE", help="Read by this network, which has one node more than the release: a latent one."),
]
TrustNetwork = Annotated[
    bool, posterior("--trust-network", help="Believe the network's independences even against the release's tables.")
]
Seed = Annotated[
    int | None, posterior(show_default="0", help="Seed of the draws: one seed, version and method give the same draws.")
]
NewFile = Annotated[Path, output("--output", metavar="FILE", help="New file; - writes stdout.")]
OutputFile = Annotated[str, output("--output", metavar="FILE", help="File to write; - writes stdout.")]
Replace = Annotated[bool, output("--replace", help="Replace files that exist.")]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Records: a Parquet, CSV or Excel file, a glob, a database URL or @name; - reads CSV from stdin. A "
        "project file (.toml, see `init`) has their address, and all that is public.",
    ),
]
MayBeMissing = Annotated[
    list[str] | None,
    records(
        metavar="NAMES",
        show_default="all, if none has one",
        help="With --missing keep: variables that get a state for missing values, such as 'a,b'; repeatable. Never "
        "look them up in the records.",
    ),
]
OrderColumn = Annotated[
    str | None,
    records(metavar="NAME", help="Column that orders the records of a unit: previous.x is x of the record before."),
]
OutOfBounds = Annotated[
    option_texts.OutOfBounds | None,
    records(
        show_default="error", help="Numbers outside their public bounds: stop with an error, or move them to the bound."
    ),
]

FORMATS = ("table", "json", "csv", "parquet")
Format = Annotated[
    str | None,
    output(
        "--format",
        metavar="|".join(FORMATS),
        show_default=FORMATS[0],
        help="table is for a terminal. json is the same as --json. csv and parquet have a row for each number, with "
        "the columns of `to_frame` in Python.",
    ),
]
Output = Annotated[
    str | None,
    output("--output", metavar="FILE", help="File for json, csv or parquet; - writes stdout. parquet needs one."),
]
