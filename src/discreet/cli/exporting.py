"""Commands that write files for other programs: a network's probabilities, all draws, and synthetic records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.posteriors import Drawing, load_source, posterior_of, say_unmeasured
from discreet.display.terminal import check_output, check_writable, say, show, write_out
from discreet.errors import InputError, listed, shown
from discreet.formats.network_content import NetworkContent
from discreet.formats.network_files import (
    content_of,
    ends_as_network,
    format_network,
    network_of,
    notation_of,
    read_network,
    write_network,
    written_format,
    written_names,
)
from discreet.releases.combined import Evidence
from discreet.util import option_texts
from discreet.util.progress import under_way

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = (*written_names(), "arviz")
NETCDF = ".nc"
"""Suffix of a file of all draws."""


Source = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE|NETWORK", help="Release, stored draws, or a BIF or XMLBIF file; - reads a release from stdin."
    ),
]
Kind = Annotated[
    str | None,
    flags.output(
        "--to",
        metavar="|".join(FORMATS),
        show_default="by the file's name, else bif",
        help="Format of the file. bif and xmlbif have one value for each probability; arviz has all draws, as netCDF.",
    ),
]
PlainNames = Annotated[
    bool,
    flags.output(
        "--plain-names",
        help="For bif and xmlbif: write names such as <5 as _5, which pyAgrum and pgmpy read. The file lists both.",
    ),
]
Loss = Annotated[
    option_texts.TableLoss | None,
    flags.output(
        show_default="absolute",
        help="For bif and xmlbif. absolute: rows of least expected absolute error, for reading. squared: posterior "
        "means, for computing marginals and other answers from the file.",
    ),
]


def export(
    source: Source,
    output: flags.OutputFile,
    to: Kind = None,
    plain: PlainNames = False,
    missing: flags.MissingAs = None,
    loss: Loss = None,
    method: flags.Method = None,
    draws: flags.Draws = None,
    trust_network: flags.TrustNetwork = False,
    seed: flags.Seed = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Write a posterior for other programs, as a network file or as draws for ArviZ.

    A network file instead of a release is converted to another notation, or to plain names.

    Example:
        discreet export release.json --output private.bif
        discreet export demo/asia.bif --output asia.xml
    """
    kind = _choose_format(to, output)
    _check_options(kind, output, plain, loss)
    how = Drawing(method, draws, seed, trust_network=trust_network)
    if ends_as_network(source):
        if kind == "arviz" or how != Drawing() or missing is not None or loss is not None:
            raise InputError("a network file has no draws: leave out --to arviz, --loss, --missing and drawing options")
        bif = read_network(source)
        network_of(bif, where=source)
        _write(bif, kind, output, plain, replace)
    else:
        evidence, stored = load_source(source)
        if output != "-":
            check_output(Path(output), replace)
        posterior = posterior_of(evidence, how, missing, stored)
        say_unmeasured(posterior)
        if kind == "arviz":
            dc.tools.to_arviz(posterior, evidence).to_netcdf(output)
        else:
            bif = _tables_of_least_loss(evidence, posterior, loss or "absolute")
            _write(bif, kind, output, plain, replace)
    if output != "-":
        show(as_json, {"output": output, "format": kind}, f"wrote {output}")


def _choose_format(to: str | None, output: str) -> str:
    """Return the format given, or that of the file's name."""
    if to is None:
        return "arviz" if output.endswith(NETCDF) else notation_of(output)
    if to not in FORMATS:
        raise InputError(f"cannot export to {to!r}; the formats are: {', '.join(FORMATS)}")
    return to


def _check_options(kind: str, output: str, plain: bool, loss: str | None) -> None:
    """Refuse options that do not go together."""
    if kind == "arviz" and (plain or loss is not None):
        raise InputError(f"{'--plain-names' if plain else '--loss'} is for --to bif and xmlbif")
    if kind == "arviz" and output == "-":
        raise InputError("netCDF needs a file; give one with --output")


def _write(content: NetworkContent, kind: str, output: str, plain: bool, replace: bool) -> None:
    """Write a network file; list on stderr the names that other programs may not read."""
    form = written_format(kind)
    if lost := [line for variable in content.variables for line in _list_lost(variable)]:
        say(f"a {kind} file has no place for {listed(lost)}: keep the project file or `discreet schema` beside it")
        content = replace_fields(content, properties=(*content.properties, f"not in this file: {'; '.join(lost)}"))
    if plain and form.plain_names is not None:
        content = form.plain_names(content)
    if odd := form.odd_names(content):
        say(f"pyAgrum and pgmpy may not read the names {listed(map(shown, odd))}; use --plain-names to replace them")
    if output == "-":
        write_out(format_network(content, kind))
        return
    check_output(Path(output), replace)
    write_network(output, content, kind)


def _list_lost(variable: dc.Variable) -> list[str]:
    """List what of a variable's declaration network files do not hold."""
    parts = {"the codes": variable.codes, "which are all other values": variable.other,
            "dates, numbers of days or seconds there,": variable.number_type.is_calendar,
            "when it applies": variable.not_applicable}  # fmt: skip
    return [f"{words} of {shown(variable.name)}" for words, declared in parts.items() if declared]


def _tables_of_least_loss(evidence: Evidence, posterior: dc.results.PosteriorDraws, loss: str) -> NetworkContent:
    """Make a network file of the tables with least expected loss, and of their guarantees."""
    combined = dc.tools.evidence_of(evidence)
    promises = [
        " ".join("; ".join([f"released with {each.guarantee}", *each.unit_lines]).split())
        if each.private
        else "a simulation, which protects nobody"
        for each in combined.releases
    ]
    promises += [" ".join(each.promise.split()) for each in combined.external]
    named = [f"release {each.id}" for each in combined.releases]
    named += [f"figures by others {each.id}" for each in combined.external]
    named += sorted({f"network {each.network.learned}" for each in combined.parts if each.network.learned})
    tables, content = (
        (posterior.median(), "rows of least expected absolute error")
        if loss == "absolute"
        else (posterior.mean(), "posterior mean")
    )
    return content_of(tables, properties=(*promises, *named, f"{content}, without intervals"))


def sample(
    release: flags.ReleaseFile,
    records: Annotated[int, flags.output("-n", "--records", min=0, help="Records in each synthetic set.")],
    output: Annotated[
        str, flags.output(metavar="FILE", help="File: .parquet, .csv, .arrow or .feather; - writes stdout.")
    ],
    sets: Annotated[
        int | None, flags.output(min=1, help="Number of synthetic sets to analyse together, in numbered files.")
    ] = None,
    kind: Annotated[
        option_texts.FileFormat | None, flags.output("--format", help="Format of stdout, for --output -.")
    ] = None,
    given: Annotated[
        str, flags.output(metavar="EVIDENCE", help="Evidence that each record has, such as 'smoke=yes, age > 65'.")
    ] = "",
    missing: flags.MissingAs = None,
    replace: flags.Replace = False,
    method: flags.Method = None,
    draws: flags.Draws = None,
    trust_network: flags.TrustNetwork = False,
    seed: flags.Seed = None,
    as_json: flags.Json = False,
) -> None:
    """Make synthetic records, as one set for trying out or several for analysis.

    Without --sets the records come from the posterior mean. With it, each set comes from one of the draws that `query`
    uses with the same --seed and --draws, so that the sets differ by what the release leaves uncertain.

    Example:
        discreet sample release.json -n 1000 --output synthetic.parquet
        discreet sample release.json -n 10000 --sets 20 --output set.csv
        discreet sample release.json -n 500 --given "smoke=yes" --output smokers.csv
    """
    from discreet.queries.synthetic import sample, stream_records

    to_stdout = output == "-"
    _check_sample(to_stdout, sets or 1, kind, as_json)
    targets = [] if to_stdout else _list_targets(Path(output), sets or 1, replace)
    evidence, stored = load_source(release)
    # With stored draws the seed is for the records only.
    how = Drawing(method, draws, seed if stored is None else None, trust_network=trust_network)
    if (sets or 1) > how.with_stored(stored):
        raise InputError(f"every set needs its own draw; give at least --draws {sets}")
    posterior = posterior_of(evidence, how, missing, stored)
    say_unmeasured(posterior)
    # A separate stream of random numbers: the posterior uses that of `query`.
    streams = sample(posterior, records, given=given, rng=Drawing(seed=seed).rng(1), sets=sets)
    if to_stdout:
        stream_records(streams[0], sys.stdout.buffer, kind or "")
        return
    _write_sets(streams, targets, replace, records)
    document = {
        "outputs": [str(target) for target in targets],
        "records": records,
        "releases": [each.id for each in dc.tools.evidence_of(evidence).parts],
    }
    show(as_json, document, "\n".join(f"wrote {target}: {records:,} synthetic records" for target in targets))


def _check_sample(to_stdout: bool, sets: int, kind: str | None, as_json: bool) -> None:
    """Refuse options that do not go together, before anything is read."""
    if to_stdout and (as_json or sets > 1 or kind is None):
        words = ", ".join(get_args(option_texts.FileFormat))
        raise InputError(f"stdout takes one set, without --json, and needs --format: {words}")
    if not to_stdout and kind is not None:
        raise InputError("the file's name sets the format; --format is for --output -")


def _list_targets(path: Path, sets: int, replace: bool) -> list[Path]:
    """List the files of all sets, and check that they can be written: `name.csv`, or `name-1.csv`, ..."""
    from discreet.queries.synthetic import format_of

    format_of(path)
    numbered = [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, sets + 1)]
    targets = numbered if sets > 1 else [path]
    for target in targets:
        if target.exists() and not replace:
            raise InputError(f"{str(target)!r} exists; give a new file, or --replace")
    check_writable(path)
    return targets


def _write_sets(streams: Sequence[pa.RecordBatchReader], targets: Sequence[Path], replace: bool, records: int) -> None:
    """Write every set to its file."""
    from discreet.queries.synthetic import write_records

    with under_way("sampling") as bar:
        for done, (stream, target) in enumerate(zip(streams, targets, strict=True)):

            def advance(written: int, before: int = done * records) -> None:
                bar(before + written, len(targets) * records)

            write_records(stream, target, replace=replace, progress=advance)
