"""The command that shows a network of a file, of arcs over a schema, or of a release; it spends no budget."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import named_network, network_in, schema_of
from discreet.cli.report import origin_lines
from discreet.display.terminal import check_output, show
from discreet.errors import InputError
from discreet.posterior.read import posterior_kind
from discreet.util.json_files import decode_declared, read_at_most, read_packed_text, write_whole
from discreet.util.lazy_imports import lazy_import
from discreet.util.limits import DOCUMENT_BYTES

documents = lazy_import("discreet.queries.documents")


def show_network(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK|RELEASE",
            help="BIF or XMLBIF file, project file, or release; with --schema also a file of arcs, none, or "
            "naive-bayes:TARGET. - reads stdin.",
        ),
    ],
    schema: flags.SchemaFile = None,
    svg: Annotated[str | None, flags.output(metavar="FILE", help="SVG file of a drawing; - writes stdout.")] = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Show a network as text, as JSON, or as a drawing in SVG.

    Text and drawing have the nodes in layers, with their parents.

    Example:
        discreet show demo/asia.bif
        discreet show demo/asia.bif --svg asia.svg
    """
    if svg == "-" and as_json:
        raise InputError("the drawing and the JSON cannot both go to stdout; name a file, or leave out --json")
    if svg is not None and svg != "-":
        check_output(Path(svg), replace)
    network = _read_network(source, schema)
    if svg == "-":
        sys.stdout.write(network.to_svg())
        return
    if svg is not None:
        write_whole(network.to_svg(), Path(svg), "drawing", replace=replace)
    document = {**_write_document(network), **({} if svg is None else {"svg": svg})}
    text = "\n\n".join([network.to_text(), *origin_lines(network)])
    show(as_json, document, text if svg is None else f"wrote {svg}")


def _read_network(source: str, schema: Path | None) -> dc.Network:
    """Read the network of a file, of standard input, or of a word."""
    variables = schema_of(schema)
    named = named_network(source, variables)
    if named is not None:
        return named
    label = "network or release"
    if source == "-":
        text = decode_declared(
            read_at_most(sys.stdin.buffer, f"the {label} from stdin", DOCUMENT_BYTES), f"the {label} from stdin"
        )
    else:
        text = read_packed_text(source, label, DOCUMENT_BYTES)
    if not text.lstrip().startswith("{"):
        return network_in(text, "stdin" if source == "-" else source, variables)
    if schema is not None:
        raise InputError("a release has its own schema; leave out --schema")
    release = dc.tools.loads(text)
    if posterior_kind(release) == "weights":
        raise InputError("a release over a design has no network; use `discreet query` for its coefficients")
    return release.answers_over


def _write_document(network: dc.Network) -> dict[str, Any]:
    """Write nodes and arcs as JSON."""
    nodes = [variable.document() | {"parents": list(network.parents[variable.name])} for variable in network.schema]
    arcs = [list(arc) for arc in network.arcs]
    return {"nodes": nodes, "arcs": arcs, "parameters": network.parameters, **documents.origin_document([network])}
