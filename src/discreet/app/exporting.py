"""Commands that write what others read: a network's probabilities, all draws, and synthetic records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import discreet as dc
from discreet.app.arguments import Draws, Json, Method, ReleaseFile, Replace, Seed, TrustNetwork
from discreet.app.posteriors import Drawing, MissingAs, load_asked, posterior_of
from discreet.app.terminal import check_output, check_writable, say, show
from discreet.errors import InputError, listed, shown
from discreet.model.bif_writing import format_bif, odd_names, plain_names, write_bif
from discreet.model.progress import under_way
from discreet.releases.combined import Evidence

if TYPE_CHECKING:
    import pyarrow as pa

    from discreet.model.bif import Bif

__all__ = ["export", "sample"]


def export(
    release: ReleaseFile,
    output: Annotated[str, typer.Option(help="File to write; - writes stdout.")],
    to: Annotated[str, typer.Option(help="bif: one value a probability; arviz: all draws, as netCDF.")] = "bif",
    plain: Annotated[
        bool,
        typer.Option(
            "--plain-names",
            help="For bif: write names such as <5 or 'a b' as _5 and a_b, so that pyAgrum and pgmpy read them; "
            "the file's comments say which is which.",
        ),
    ] = False,
    missing: MissingAs = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="For bif. absolute: rows with the least expected sum of absolute errors, to be read as they are (the "
            "default); squared: posterior means, for marginals and other answers that are computed from the file.",
        ),
    ] = None,
    method: Method = None,
    draws: Draws = None,
    trust_network: TrustNetwork = False,
    seed: Seed = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Write a posterior for other programs: one value for every probability as a network file, or draws for ArviZ."""
    if to not in ("bif", "arviz"):
        raise InputError(f"cannot export to {to!r}; there is: bif, arviz")
    if to != "bif" and (plain or loss is not None):
        raise InputError(f"{'--plain-names' if plain else '--loss'} is for --to bif")
    if loss not in (None, "absolute", "squared"):
        raise InputError(f"--loss must be absolute or squared, got {loss!r}")
    if to == "arviz" and output == "-":
        raise InputError("netCDF needs a file; name one with --output")
    made, stored = load_asked(release)
    if output != "-":
        check_output(Path(output), replace)
    posterior = posterior_of(made, Drawing(method, draws, seed, trust_network=trust_network), missing, stored)
    _say_unmeasured(posterior)
    if to == "arviz":
        dc.tools.to_arviz(posterior).to_netcdf(output)
    else:
        bif = _make_bif(made, posterior, loss or "absolute", plain)
        if output == "-":
            sys.stdout.write(format_bif(bif))
            return
        write_bif(output, bif)
    show(as_json, {"output": output, "format": to}, f"wrote {output}")


def _say_unmeasured(posterior: dc.results.PosteriorDraws) -> None:
    """Say what a whole network's probabilities have of the prior alone, on stderr."""
    from discreet.posterior.basis import prior_only_words

    parts = () if posterior.basis is None else posterior.basis.prior_only(posterior.network.nodes)
    if parts:
        say(prior_only_words(parts))


def _make_bif(made: Evidence, posterior: dc.results.PosteriorDraws, loss: str, plain: bool) -> Bif:
    """Put the tables of least expected loss into a network file, which says what was promised for them."""
    combined = dc.tools.evidence_of(made)
    promises = [
        " ".join("; ".join([f"released with {part.guarantee}", *part.unit_lines]).split())
        if part.private
        else "a simulation, which protects nobody"
        for part in combined.releases
    ]
    promises += [" ".join(part.promise.split()) for part in combined.external]
    named = [f"release {part.id}" for part in combined.releases]
    named += [f"figures by others {part.id}" for part in combined.external]
    named += sorted({f"network {part.network.learned}" for part in combined.parts if part.network.learned})
    tables, what = (
        (posterior.median(), "rows of least expected absolute error")
        if loss == "absolute"
        else (posterior.mean(), "posterior mean")
    )
    bif = tables.bif(properties=(*promises, *named, f"{what}, without intervals"))
    if plain:
        return plain_names(bif)
    odd = odd_names(bif)
    if odd:
        say(f"pyAgrum and pgmpy may not read the names {listed(map(shown, odd))}; --plain-names writes others")
    return bif


def sample(
    release: ReleaseFile,
    records: Annotated[int, typer.Option("-n", "--records", min=0, help="Records of each synthetic set.")],
    output: Annotated[str, typer.Option(help="File to write: .parquet, .csv, .arrow or .feather; - writes stdout.")],
    sets: Annotated[
        int | None, typer.Option(min=1, help="Synthetic sets to be analysed together, in numbered files.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--format", help="Of stdout: parquet, csv or arrow.")] = None,
    missing: MissingAs = None,
    replace: Replace = False,
    method: Method = None,
    draws: Draws = None,
    trust_network: TrustNetwork = False,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Make up records: one set that is as near to the truth as is known, or several that can be analysed.

    Without --sets they come from the posterior's mean. With it, each set has the probabilities of one of the draws that
    `query` answers from, given the same seed and draws: sets differ by what the release leaves open.
    """
    from discreet.queries.synthetic import sample, stream_records

    to_stdout = output == "-"
    _check_sample(to_stdout, sets or 1, kind, as_json)
    targets = [] if to_stdout else _list_targets(Path(output), sets or 1, replace)
    made, stored = load_asked(release)
    # Of stored draws the seed is that of the records alone.
    how = Drawing(method, draws, seed if stored is None else None, trust_network=trust_network)
    _check_sets(sets or 1, how.with_stored(stored))
    posterior = posterior_of(made, how, missing, stored)
    _say_unmeasured(posterior)
    # A stream of random numbers of its own: the posterior's are those of `query`.
    streams = sample(posterior, records, rng=Drawing(seed=seed).rng(1), sets=sets)
    if to_stdout:
        stream_records(streams[0], sys.stdout.buffer, kind or "")
        return
    _write_sets(streams, targets, replace, records)
    told = {
        "outputs": [str(target) for target in targets],
        "records": records,
        "releases": [part.id for part in dc.tools.evidence_of(made).parts],
    }
    show(as_json, told, "\n".join(f"wrote {target}: {records:,} synthetic records" for target in targets))


def _check_sample(to_stdout: bool, sets: int, kind: str | None, as_json: bool) -> None:
    """Refuse what does not go together, before anything is read."""
    from discreet.queries.synthetic import FORMATS

    if to_stdout and (as_json or sets > 1 or kind not in FORMATS):
        raise InputError(f"stdout takes one set, without --json, and needs --format: {', '.join(FORMATS)}")
    if not to_stdout and kind is not None:
        raise InputError("the file's name tells the format; --format is for --output -")


def _check_sets(sets: int, draws: int) -> None:
    """Refuse more sets than there are draws."""
    if sets > draws:
        raise InputError(f"every set needs a draw of its own; ask for at least --draws {sets}")


def _list_targets(path: Path, sets: int, replace: bool) -> list[Path]:
    """List the files of all sets, which can be written: `name.csv`, or `name-1.csv`, `name-2.csv`, ..."""
    from discreet.queries.synthetic import format_of

    format_of(path)
    numbered = [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, sets + 1)]
    targets = numbered if sets > 1 else [path]
    for target in targets:
        if target.exists() and not replace:
            raise InputError(f"{str(target)!r} exists; name a new file, or say --replace")
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
