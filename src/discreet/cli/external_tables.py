"""The command that imports tables measured by others; it spends no budget."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import structure_of
from discreet.display.terminal import check_output, show
from discreet.errors import InputError
from discreet.util.lazy_imports import lazy_import

documents = lazy_import("discreet.queries.documents")

of_figures = partial(typer.Option, rich_help_panel="Figures")
of_guarantee = partial(typer.Option, rich_help_panel="Guarantee of the source")


CellFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="CELLS...",
        help="CSV files, one for each table. A row is a cell: columns named after variables hold their states, "
        "column count or value the figure, and column scale, if there is one, the scale of its noise.",
    ),
]
NoiseName = Annotated[
    str,
    of_figures(
        metavar="LAW",
        help="Law of the noise: laplace, gaussian, discrete_laplace (geometric) or discrete_gaussian; or rounded.",
    ),
]
NoiseScale = Annotated[
    float | None,
    of_figures(help="Scale of the noise, in records. For rounded figures: their step, 1 if they are exact."),
]


def external(
    cells: CellFiles,
    network: flags.NetworkFile,
    source: Annotated[str, of_figures(metavar="TEXT", help="Who made the figures, and where to find them.")],
    noise: NoiseName,
    output: flags.OutputFile,
    scale: NoiseScale = None,
    epsilon: Annotated[
        str | None, of_guarantee(metavar="NUMBER", help="Epsilon of the source; leave out for public figures.")
    ] = None,
    delta: Annotated[str, of_guarantee(metavar="NUMBER", help="Delta of the source.")] = "0",
    relation: Annotated[
        str | None, of_guarantee(metavar="|".join(dc.Relation), help="Neighbouring relation of the source.")
    ] = None,
    unit: Annotated[
        str, of_guarantee(metavar="TEXT", help="What the source protects, such as record or person.")
    ] = "record",
    promise: Annotated[
        str | None, of_guarantee(metavar="TEXT", help="Guarantee of the source in words, if it is of another kind.")
    ] = None,
    schema: flags.SchemaFile = None,
    replace_file: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    r"""Import tables that others measured, with the law of their noise and their guarantee.

    `query`, `fit`, `sample`, `export` and `combine` read the output, alone or beside releases. Nothing is charged: the
    guarantee is the source's, and is printed as such.

    Example:
        printf 'smoke,count\nyes,5012\nno,4988\n' > cells.csv
        discreet external cells.csv --network demo/asia.bif --source "a survey"
          --noise laplace --scale 2 --output theirs.json
    """
    structure = structure_of(network, None, schema)
    assert isinstance(structure, dc.Network)
    stated = noise.replace("-", "_")
    law: Any = stated if scale is None else dc.external.StatedNoise(cast(Any, stated), scale)
    words = _read_promise(epsilon, delta, relation, unit, promise)
    if output != "-":
        check_output(Path(output), replace_file)
    parts = [dc.external.measured_cells(path, structure, law, guarantee=words, source=source) for path in cells]
    figures = reduce(lambda a, b: replace(a, measurements=(*a.measurements, *b.measurements)), parts)
    if output == "-":
        sys.stdout.write(figures.dumps())
        return
    figures.save(output, replace=replace_file)
    show(
        as_json,
        {"output": output, **documents.external_document(figures)},
        "\n".join([*external_lines(figures), f"wrote {output}"]),
    )


def _read_promise(
    epsilon: str | None, delta: str, relation: str | None, unit: str, promise: str | None
) -> dc.Guarantee | str | None:
    """Read the source's guarantee."""
    if epsilon is None:
        if relation is not None or delta != "0":
            raise InputError("a guarantee needs its --epsilon; leave out --relation and --delta for public figures")
        return promise
    if promise is not None:
        raise InputError("the source's guarantee is given twice: leave out --epsilon, or --promise")
    if relation is None:
        raise InputError("a guarantee needs its --relation: " + ", ".join(dc.Relation))
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=dc.Relation(relation), unit=unit)


def external_lines(*parts: dc.external.External) -> list[str]:
    """Describe figures by others, and their guarantee."""
    return [line for each in parts for line in (f"by others: {each.summary()}", each.promise)]
