"""Options on records and budgets that commands of packs take, too.

`discreet serve` loads the lists of commands of all packs, and nothing that reads records: no help text here is of a
mechanism or a reader. `flags` has all options.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from discreet.privacy.settings import DEFAULT_LEDGER
from discreet.util import option_texts

HEADINGS = ("Model", "Privacy budget", "Mechanism", "Prior", "Records", "Questions", "Posterior", "Output")
model, budget, mechanism, prior, records, questions, posterior, output = (
    partial(typer.Option, rich_help_panel=heading) for heading in HEADINGS
)
"""Options under each heading."""

Epsilon = Annotated[str, budget(metavar="NUMBER", help="Epsilon that this command spends, as decimal text.")]
LedgerUrl = Annotated[
    str | None,
    budget(
        "--ledger",
        metavar="URL",
        help="Database of the ledger, or @name of one. DISCREET_LEDGER names another default.",
        show_default=DEFAULT_LEDGER,
    ),
]
Purpose = Annotated[str, budget(metavar="TEXT", help="Purpose of the release; an account may have limits by purpose.")]
Request = Annotated[str, budget(metavar="KEY", help="Key of this request. A repeated request is charged only once.")]
Json = Annotated[bool, output("--json", help="Print JSON.")]
TableName = Annotated[
    str | None,
    records("--table", metavar="NAME", help="Table to read, if DATA is a database URL, or sheet of a workbook."),
]
Missing = Annotated[
    option_texts.MissingValues | None,
    records(
        show_default="error", help="Missing values: stop with an error, drop their records, or keep them as a state."
    ),
]
NaValues = Annotated[
    list[str] | None,
    records("--na-values", metavar="WORDS", help='Words that mean a missing value, such as "?,NA"; repeatable.'),
]
Form = Annotated[
    str,
    records(
        metavar="WORDS",
        help='How a text file is written, such as \'encoding = "cp1252", decimal = ","\': encoding, delimiter, quote, '
        "decimal, thousands, preamble, footer.",
    ),
]
UnitColumn = Annotated[
    str | None,
    records(
        metavar="NAME",
        help="Column that identifies the unit that the account protects, such as a patient, if a unit may have several "
        "records. The records to keep are chosen at random.",
    ),
]
MaxRecords = Annotated[int | None, records(help="Most records to keep of each unit.", show_default="1")]
Weights = Annotated[
    option_texts.Weights | None,
    records(show_default="record", help="Weight 1 for each record (which shares epsilon), or for each unit."),
]
OneRecord = Annotated[
    bool, records("--one-record-a-unit", help="Declare that no unit has several records; releases state it.")
]
