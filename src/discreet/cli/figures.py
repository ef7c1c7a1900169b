"""The command that brings figures by others into a document that every reader takes; it costs nothing."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import discreet as dc
from discreet.cli.arguments import NETWORK_HELP, Json, Replace, SchemaFile, structure_of
from discreet.display.terminal import check_output, show
from discreet.errors import InputError
from discreet.util.lazy_imports import import_late

documents = import_late("discreet.queries.documents")


def external(
    cells: Annotated[
        list[str],
        typer.Argument(
            metavar="CELLS...",
            help="CSV files, a table each: a row for each cell, columns of variables by their states, one called count "
            "or value, and perhaps one called scale.",
        ),
    ],
    network: Annotated[str, typer.Option("--network", help=f"{NETWORK_HELP}.")],
    source: Annotated[str, typer.Option(help="Who made the figures, and where they are found, in words.")],
    noise: Annotated[
        str, typer.Option(help="laplace, gaussian, discrete_laplace (geometric), discrete_gaussian, or rounded.")
    ],
    output: Annotated[str, typer.Option(help="File to write; - writes stdout.")],
    scale: Annotated[
        float | None,
        typer.Option(help="Of the noise, in records; the step of rounded figures, 1 for exact ones."),
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="That the source guarantees; none for public figures.")] = None,
    delta: Annotated[str, typer.Option(help="Likewise.")] = "0",
    relation: Annotated[str | None, typer.Option(help="Likewise: add-remove, replace or metric.")] = None,
    unit: Annotated[str, typer.Option(help="Likewise: what is protected, such as record or person.")] = "record",
    promise: Annotated[
        str | None, typer.Option(help="What the source guarantees in words, where that is of another kind.")
    ] = None,
    schema: SchemaFile = None,
    replace_file: Replace = False,
    as_json: Json = False,
) -> None:
    """Bring tables that others measured into a document, with the law of their noise and who guarantees what.

    `query`, `fit`, `sample`, `export` and `combine` read it, alone or beside releases. Nothing is charged: what holds
    for the records is the source's word, and is printed as such.
    """
    structure = structure_of(network, None, schema)
    assert isinstance(structure, dc.Network)
    stated = noise.replace("-", "_")
    law: Any = stated if scale is None else dc.external.StatedNoise(cast(Any, stated), scale)
    words = _read_promise(epsilon, delta, relation, unit, promise)
    if output != "-":
        check_output(Path(output), replace_file)
    parts = [dc.external.measured_cells(path, structure, law, guarantee=words, source=source) for path in cells]
    made = reduce(lambda one, other: replace(one, measurements=(*one.measurements, *other.measurements)), parts)
    if output == "-":
        sys.stdout.write(made.dumps())
        return
    made.save(output, replace=replace_file)
    show(
        as_json,
        {"output": output, **documents.external_document(made)},
        "\n".join([*external_lines(made), f"wrote {output}"]),
    )


def _read_promise(
    epsilon: str | None, delta: str, relation: str | None, unit: str, promise: str | None
) -> dc.Guarantee | str | None:
    """Read what the source guarantees."""
    if epsilon is None:
        if relation is not None or delta != "0":
            raise InputError("a guarantee needs its --epsilon; leave out --relation and --delta for public figures")
        return promise
    if promise is not None:
        raise InputError("the source's guarantee is given twice: as --epsilon and as --promise")
    if relation is None:
        raise InputError("a guarantee needs its --relation: add-remove, replace or metric")
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


def external_lines(*parts: dc.external.External) -> list[str]:
    """What figures by others are, and who guarantees what."""
    return [line for part in parts for line in (f"by others: {part.summary()}", part.promise)]
