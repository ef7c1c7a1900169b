"""Commands of a curator: pay and release."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import DEFAULT_DEVIATION, belief_of, described, fitting, mechanism_of, registered, score_of
from discreet.cli.reading import ReadingOptions, reads_records
from discreet.cli.report import release_lines, release_summary
from discreet.display.terminal import abandon_stdout, check_writable, say, show
from discreet.errors import DiscreetError, InputError
from discreet.mechanisms import MECHANISMS, MechanismEntry
from discreet.model.dirichlet import DEFAULT_CONCENTRATION
from discreet.model.over import Over, Prior

MechanismName = Annotated[
    str | None,
    flags.mechanism(
        metavar="NAME",
        show_default=next(iter(MECHANISMS)),
        help=f"Over a network: {described('network')}. Over a design, which has no default: {described('design')}.",
    ),
]
PairsShare = Annotated[
    str | None,
    flags.mechanism(
        "--audit",
        metavar="SHARE",
        show_default="0.2, or 0.8 for a network without arcs",
        help="Share of epsilon that the mechanism planned spends on pairs of variables that no family holds.",
    ),
]
NumbersShare = Annotated[
    str | None,
    flags.mechanism(
        metavar="SHARE",
        show_default="0.15 times the fraction of numeric columns and the root of epsilon, at most 0.2",
        help="Share of epsilon that the mechanism planned spends on sums of numeric columns, for means and quantiles.",
    ),
]
Belief = Annotated[
    str | None,
    flags.prior(
        metavar="NUMBER|FILE",
        show_default=f"{DEFAULT_CONCENTRATION}, or {DEFAULT_DEVIATION} over a design",
        help="Curator's prior: a Dirichlet concentration, or a public BIF or XMLBIF file. Over a design: the standard "
        "deviation of each scaled weight.",
    ),
]


@reads_records
def release(
    data: flags.Data,
    epsilon: flags.Epsilon,
    output: flags.NewFile,
    account: flags.Payer = None,
    network: flags.EitherNetwork = None,
    design: flags.DesignFile = None,
    score: flags.ScoreFile = None,
    delta: flags.Delta = "0",
    mechanism: MechanismName = None,
    workload: flags.Workload = None,
    audit: PairsShare = None,
    numbers_share: NumbersShare = None,
    option: flags.Options = None,
    prior: Belief = None,
    equivalent_sample_size: flags.EquivalentSampleSize = 1.0,
    schema: flags.SchemaFile = None,
    *,
    how: Mapping[str, Any],
    purpose: flags.Purpose = "",
    request: flags.Request = "",
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Release noisy statistics of private records, and charge the account.

    The noise is exact, and the file is safe to publish. The charge comes first: a failure may waste budget, but nothing
    leaves unpaid.

    Example:
        discreet release demo/records.parquet --network demo/asia.bif
          --account patients --epsilon 1 --output release.json
    """
    reading = ReadingOptions.of(data, network, how)
    payer = reading.payer(account, ledger, purpose, request)
    limit = payer.limit
    promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation=limit.relation, unit=limit.unit)
    structure: Over
    if score is not None:
        reading.refuse_gaps()
        structure, chosen = score_of(
            score, mechanism, option, (network, design, schema, audit, numbers_share, workload)
        )
    else:
        structure = reading.over(network, design, schema)
        chosen = mechanism_of(_choose_entry(mechanism, structure), _add_shares(option, audit, numbers_share), workload)
    believed = belief_of(structure, prior, equivalent_sample_size)
    _pay(reading, chosen, believed, promise, payer, output, as_json)


@reads_records
def structure(
    data: flags.Data,
    epsilon: flags.Epsilon,
    output: flags.NewFile,
    schema: flags.SchemaFile = None,
    account: flags.Payer = None,
    max_parents: Annotated[int, flags.model(help="Most parents of a variable; 1 chooses a tree.")] = 2,
    max_cells: Annotated[int, flags.model(help="Most cells of a variable's table with its parents.")] = 1000,
    require: Annotated[
        list[str] | None, flags.model(metavar="ARC", help="Arc that the network must have, 'a -> b'; repeatable.")
    ] = None,
    forbid: Annotated[
        list[str] | None, flags.model(metavar="ARC", help="Arc that the network must not have; repeatable.")
    ] = None,
    first: Annotated[
        list[str] | None, flags.model(metavar="NAME", help="Variable to place first; repeatable, in order.")
    ] = None,
    *,
    how: Mapping[str, Any],
    purpose: flags.Purpose = "",
    request: flags.Request = "",
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Choose the arcs of a network from private records, with noise.

    The output is safe to publish, and --network of other commands takes it. The choice costs epsilon; a release over
    the network costs its own.

    Example:
        discreet structure study.toml --account patients --epsilon 0.5
          --max-parents 1 --output tree.json
    """
    reading = ReadingOptions.of(data, None, how)
    payer = reading.payer(account, ledger, purpose, request)
    limit = payer.limit
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation=limit.relation, unit=limit.unit)
    wanted, barred = ("\n".join(arcs) if arcs else () for arcs in (require, forbid))
    chosen = dc.structure(max_parents, max_cells=max_cells, required=wanted, forbidden=barred, first=first or ())
    network = reading.variables(schema)
    believed = dc.Dirichlet.uniform(network)
    _pay(reading, chosen, believed, promise, payer, output, as_json)


# ----------------------------------------------------------------------------------------------------------- helpers


def _pay(
    reading: ReadingOptions,
    chosen: dc.tools.Mechanism,
    believed: Prior,
    promise: dc.Guarantee,
    payer: dc.results.Account,
    output: Path,
    as_json: bool,
) -> None:
    """Check payment and output, then read, count, charge, draw, and write to a file or to stdout."""
    from discreet.mechanisms.crossing import statistic_of

    reading.affordable(chosen, believed, promise, payer)
    to_stdout = goes_to_stdout(output, as_json)
    records = reading.records(believed.over.schema)
    statistic = statistic_of(chosen, records, believed.over)
    noisy = dc.release(chosen, statistic, believed, promise, account=payer)
    saved = publish_release(noisy, None if to_stdout else output)
    balance = payer.balance()
    say(release_lines(noisy, balance))
    if not to_stdout:
        summary = release_summary(noisy, balance) if as_json else {}
        show(as_json, {"release": str(saved), **summary}, f"wrote {saved}")


def _choose_entry(mechanism: str | None, structure: Over) -> MechanismEntry:
    """Choose the mechanism of a structure; networks have a default."""
    default = next(iter(MECHANISMS))
    if mechanism is None and default not in fitting(structure):
        raise InputError(f"give a --mechanism for this design: {', '.join(fitting(structure))}")
    return registered(mechanism or default, structure)


def _add_shares(options: list[str] | None, audit: str | None, numbers: str | None) -> list[str]:
    """Add the shares of epsilon for pairs and for numbers to the options; refuse one that they have."""
    added = list(options or ())
    for purpose, flag, names, share in (
        ("pairs", "--audit", ("pairs_share=", "audit="), audit),
        ("numbers", "--numbers-share", ("numbers_share=",), numbers),
    ):
        if share is not None:
            if any(option.startswith(names) for option in options or ()):
                raise InputError(f"the share for {purpose} is given twice: leave out {flag}, or --option {names[0]}...")
            added.append(f"{names[0]}{share}")
    return added


def goes_to_stdout(output: Path, as_json: bool) -> bool:
    """Return True if a release goes to stdout; refuse --json then, and a file that cannot be written."""
    to_stdout = str(output) == "-"
    if to_stdout and as_json:
        raise InputError("the release and the summary cannot both go to stdout; name a file, or leave out --json")
    if not to_stdout:
        _check_output(output)
    return to_stdout


def publish_release(release: dc.Release, path: Path | None) -> Path | None:
    """Write a paid release to its file, to another name if that was taken meanwhile, or to stdout."""
    try:
        if path is not None:
            with suppress(FileExistsError):
                release.save(path, replace=False)
                return path
            alternative = path.with_name(f"{path.stem}-{release.id[:8]}{path.suffix}")
            say(f"{str(path)!r} was written by another release meanwhile; this one goes to {str(alternative)!r}")
            release.save(alternative, replace=False)
            return alternative
    except (InputError, FileExistsError) as error:
        say(f"discreet: {error}; the release is paid for and follows on stdout")
        _print_release(release)
        raise typer.Exit(1) from None
    _print_release(release)
    return None


def _print_release(release: dc.Release) -> None:
    """Print the document to stdout; if that fails, raise an error that it was charged."""
    try:
        sys.stdout.write(release.dumps())
        sys.stdout.flush()
    except OSError as error:
        reason = error.strerror
    else:
        return
    abandon_stdout()
    raise DiscreetError(f"cannot write to stdout ({reason}); release {release.id} was charged and is lost")


def _check_output(path: Path) -> None:
    """Refuse, before a charge, a file that cannot be written or exists."""
    if path.exists():
        raise InputError(f"{str(path)!r} exists; a release costs budget and is not overwritten: give a new file")
    check_writable(path)
