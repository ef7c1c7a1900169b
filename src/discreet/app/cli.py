"""The command line. Every command prints text for a person, or JSON with `--json`; errors are one line on stderr.

Exit codes: 0 done, 2 bad input, 3 the budget was refused, 1 anything else. A traceback is shown with `--debug` only,
and never holds a value of a record.
"""

from __future__ import annotations

import inspect
import io
import json
import math
import os
import re
import sys
import tempfile
import traceback
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import discreet as dc
from discreet.app.report import UNUSED, answer_lines, columns, plan_lines, plan_summary, release_lines, release_summary
from discreet.errors import BudgetError, DiscreetError, InputError
from discreet.privacy.guarantee import as_text

__all__ = ["main"]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)
ledger_app = typer.Typer(rich_markup_mode=None)
app.add_typer(ledger_app, name="ledger", help="Open an account for a data set, or show what was spent.")

INTERRUPTED = "interrupted; `discreet ledger show` tells whether anything was spent"
TYPER_INTERRUPTED = 130
"""What Typer returns, without a word, where a command was interrupted."""
DEFAULT_LEDGER = "sqlite:///discreet-ledger.db"

Data = Annotated[str, typer.Argument(help="Parquet or CSV file, glob, or database URL; - reads CSV from stdin.")]
NetworkFile = Annotated[Path, typer.Option("--network", help="BIF file (.bif or .bif.gz) with the public structure.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="JSON with bounds and bins of numeric columns; see `schema`.")
]
TableName = Annotated[str | None, typer.Option("--table", help="Table, where DATA is a database URL.")]
Missing = Annotated[str, typer.Option(help="Records with a missing value: error, or drop them.")]
OutOfBounds = Annotated[str, typer.Option(help="Numbers outside their public bounds: error, or clip them.")]
LedgerUrl = Annotated[str, typer.Option("--ledger", help="Database of the ledger.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ReleaseFile = Annotated[str, typer.Argument(metavar="RELEASE", help="Release file; - reads stdin.")]
Draws = Annotated[int, typer.Option(help="Draws from the posterior.")]
Workload = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="QUERY|FILE",
        help="Queries that planned shall serve best, or a file of them; repeatable.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the posterior's draws; the release's noise has none.")]


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no reason to fail
    arguments = [word for word in given if word != "--debug"]
    try:
        code = app(arguments or ["--help"], prog_name="discreet", standalone_mode=False)
        if code == TYPER_INTERRUPTED:
            return _failed(INTERRUPTED, 1, debug)
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _failed(f"{message} (discreet --help lists what there is)", 2, debug)
    except (typer.Abort, KeyboardInterrupt):
        return _failed(INTERRUPTED, 1, debug)
    except OSError as error:
        _abandon_stdout()
        if isinstance(error, BrokenPipeError):
            return 1
        return _failed(f"cannot read or write: {error.strerror or type(error).__name__}", 1, debug)
    except BudgetError as error:
        return _failed(str(error), 3, debug)
    except InputError as error:
        return _failed(str(error), 2, debug)
    except DiscreetError as error:
        return _failed(str(error), 1, debug)
    except Exception as error:
        # Whatever this is, its text was not written by us and may quote anything.
        return _failed(f"internal error ({type(error).__name__}); run again with --debug and report it", 1, debug)


def _failed(message: str, code: int, debug: bool) -> int:
    """One line on stderr."""
    if debug:
        traceback.print_exc()
    print(f"discreet: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return code


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    """Differentially private Bayesian inference for networks: private table, public release, honest intervals."""


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="New folder that keeps the demo's files.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the made-up records.")] = 1,
    as_json: Json = False,
) -> None:
    """Run the whole flow on the bundled Asia network and show truth and private answers side by side."""
    from discreet.app.demo import demo_lines, run_demo

    result = run_demo(keep, seed)
    pairs = [{"truth": _answer(true), "private": _answer(private)} for true, private in result.pairs]
    _print(as_json, {"release": result.release.id, "answers": pairs}, demo_lines(result))


@app.command()
def schema(
    data: Data,
    table: TableName = None,
    as_json: Json = False,
) -> None:
    """Draft a schema from a codebook or a sample that is NOT private, for you to edit; prints JSON."""
    draft = dc.draft_schema(_source(data), table=table)
    _say("drafted from the data: every state and bound below is a value of it; edit it, and never publish a draft")
    _say("made from private records")
    _print(as_json, draft, json.dumps(draft, indent=1, ensure_ascii=False))


@app.command()
def check(
    data: Data,
    network: NetworkFile,
    schema: SchemaFile = None,
    table: TableName = None,
    missing: Missing = "error",
    out_of_bounds: OutOfBounds = "error",
    as_json: Json = False,
) -> None:
    """Hold records against the schema; costs nothing. The counts it shows are private: for your own screen."""
    records = _records(data, _network(network, schema), table, missing, out_of_bounds)
    faults = dc.check(records)
    at_fault = [part for part in faults if part.missing or part.unknown or part.out_of_bounds]
    blocking = [
        part
        for part in at_fault
        if part.unknown or (part.missing and missing == "error") or (part.out_of_bounds and out_of_bounds == "error")
    ]
    found = {
        "ok": not blocking,
        "columns": [
            {
                "column": part.variable,
                "missing": part.missing,
                "unknown": part.unknown,
                "out_of_bounds": part.out_of_bounds,
            }
            for part in faults
        ],
    }
    head = ("column", "missing", "unknown state", "out of bounds")
    rows = [(part.variable, str(part.missing), str(part.unknown), str(part.out_of_bounds)) for part in at_fault]
    verdict = f"{len(faults)} columns hold what the schema says" if not at_fault else columns(head, rows)
    _print(as_json, found, verdict)
    if blocking:
        _say(
            f"discreet: records are at fault in {len(blocking)} of {len(faults)} columns (these numbers are private); "
            "mend them, declare the states, or see --missing drop and --out-of-bounds clip"
        )
        raise typer.Exit(2)


@ledger_app.command("open")
def ledger_open(
    account: Annotated[str, typer.Argument(help="Name of the account: one for each data set.")],
    epsilon: Annotated[str, typer.Option(help="All that may ever be spent, as decimal text.")],
    relation: Annotated[str, typer.Option(help="Neighbours: add-remove or replace one record.")],
    delta: Annotated[str, typer.Option(help="All the delta that may ever be spent.")] = "0",
    unit: Annotated[str, typer.Option(help="What one record stands for.")] = "record",
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Open an account with a limit that can never be changed."""
    limit = dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
    opened = dc.Ledger(ledger).open(account, limit)
    _print(as_json, _account(opened), f"opened account {account!r}: at most {limit} in all")


@ledger_app.command("show")
def ledger_show(
    account: Annotated[str | None, typer.Argument(help="One account; all without it.")] = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Show limits, charges and what is left."""
    book = dc.Ledger(ledger)
    shown = [_account(book.account(name)) for name in ([account] if account else book.names())]
    rows = [
        (part["account"], part["relation"], part["unit"], part["limit"]["epsilon"], part["spent"]["epsilon"],
         part["left"]["epsilon"], str(len(part["charges"])))
        for part in shown
    ]  # fmt: skip
    head = ("account", "relation", "unit", "epsilon limit", "spent", "left", "charges")
    text = columns(head, rows) if rows else "no account is open"
    if account:
        charges = [
            (charge["date"], charge["mechanism"], charge["epsilon"], charge["release"])
            for charge in shown[0]["charges"]
        ]
        text += "\n\n" + columns(("date", "mechanism", "epsilon", "release"), charges) if charges else ""
    _print(as_json, {"accounts": shown}, text)


@app.command()
def release(
    data: Data,
    network: NetworkFile,
    account: Annotated[str, typer.Option(help="Account that pays; it fixes the relation and the unit.")],
    epsilon: Annotated[str, typer.Option(help="Budget of this release, as decimal text.")],
    output: Annotated[Path, typer.Option(help="New file for the release; - writes stdout.")],
    delta: Annotated[
        str, typer.Option(help="Delta of this release, for planned, gaussian and posterior_sampler.")
    ] = "0",
    mechanism: Annotated[
        str, typer.Option(help="planned, laplace, fourier, gaussian, allocated, posterior_sampler or map_estimate.")
    ] = "planned",
    workload: Workload = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the mechanism, such as draws=20 or stealth=0.9; repeatable.")
    ] = None,
    prior: Annotated[
        str,
        typer.Option(
            help="Concentration of every cell (readers of noisy tables then learn a prior), or a public BIF file with "
            "prior probabilities."
        ),
    ] = "0.25",
    equivalent_sample_size: Annotated[
        float, typer.Option(help="Records for each row that a BIF prior is worth.")
    ] = 1.0,
    schema: SchemaFile = None,
    table: TableName = None,
    missing: Missing = "error",
    out_of_bounds: OutOfBounds = "error",
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Count the records, charge the account, add exact noise, and write a file that is safe to publish."""
    from discreet.app.progress import LateBar

    structure = _network(network, schema)
    payer = dc.Ledger(ledger).account(account)
    limit = payer.limit
    promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation=limit.relation, unit=limit.unit)
    chosen = _mechanism(mechanism, option or [], workload)
    believed = _prior(structure, prior, equivalent_sample_size)
    chosen.calibrate(structure, believed, promise)
    payer.check(promise)
    to_stdout = str(output) == "-"
    if to_stdout and as_json:
        raise InputError("the release and the summary cannot both go to stdout; name a file, or leave out --json")
    if not to_stdout:
        _check_output(output)
    records = _records(data, structure, table, missing, out_of_bounds)
    with LateBar("counting") as bar:
        counts = dc.count(records, structure, progress=bar)
    made = dc.release(chosen, counts, believed, promise, account=payer)
    saved = _publish(made, None if to_stdout else output)
    balance = payer.balance()
    _say(release_lines(made, balance))
    if not to_stdout:
        _print(as_json, {"release": str(saved), **release_summary(made, balance)}, f"wrote {saved}")


@app.command()
def query(
    release: ReleaseFile,
    queries: Annotated[
        list[str] | None, typer.Argument(help='Such as "P(lung | smoke=yes)"; all marginals without any.')
    ] = None,
    level: Annotated[float, typer.Option(help="Posterior probability of each interval.")] = 0.95,
    method: Annotated[str, typer.Option(help="noise-aware, or plug-in (over-confident).")] = "noise-aware",
    draws: Draws = 1000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Ask a release; every answer has an interval that counts sampling error and privacy noise."""
    if 0 < level < 1 and 0 < draws * (1 - level) < 1.999:
        raise InputError(f"{draws} draws cannot tell a level of {level}; ask for about {2 / (1 - level):,.0f}")
    posterior = _posterior(_load(release), method, draws, seed)
    if queries:
        answers = tuple(dc.answer(posterior, text, level=level) for text in queries)
    else:
        answers = dc.marginals(posterior, {}, level=level)
    _print(as_json, {"answers": [_answer(part) for part in answers]}, answer_lines(answers))


@app.command()
def export(
    release: ReleaseFile,
    output: Annotated[str, typer.Option(help="File to write; - writes stdout.")],
    to: Annotated[str, typer.Option(help="bif")] = "bif",
    draws: Draws = 1000,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write the posterior mean of every probability as a network file for other programs."""
    if to != "bif":
        raise InputError(f"cannot export to {to!r}; there is: bif")
    made = _load(release)
    mean = _posterior(made, "noise-aware", draws, seed).mean()
    promise = str(made.guarantee).replace(";", ",").replace("\n", " ")
    properties = (f"released with {promise}", f"release {made.id}", "posterior mean, without its intervals")
    if output == "-":
        sys.stdout.write(mean.text(properties=properties))
        return
    _check_writable(Path(output))
    mean.write(output, properties=properties)
    _print(as_json, {"output": output, "format": to}, f"wrote {output}")


@app.command()
def plan(
    network: NetworkFile,
    epsilon: Annotated[str, typer.Option(help="Budget of the release, as decimal text.")],
    records: Annotated[int, typer.Option(help="Number of records to make up; a public guess will do.")],
    delta: Annotated[str, typer.Option(help="Delta of the release, for mechanisms that use one.")] = "0",
    mechanism: Annotated[
        str | None, typer.Option(help="One mechanism; all without it. planned shows its tables and budgets, too.")
    ] = None,
    workload: Workload = None,
    relation: Annotated[str | None, typer.Option(help="add-remove or replace; both without it.")] = None,
    repeats: Annotated[int, typer.Option(help="Made-up data sets.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the made-up records and of the noise.")] = 0,
    as_json: Json = False,
) -> None:
    """Show the error to expect of each mechanism, on made-up records; reads no data and costs nothing.

    Records are made up from the network file's probabilities, or, where it has none, from random ones.
    """
    from discreet.app.plan import Expected, compare

    rng = np.random.default_rng(seed)
    structure = dc.Network.read(network)
    try:
        theta = dc.Tables.read(network)
        source = "the network file's probabilities"
    except InputError:
        drawn = dc.Dirichlet.uniform(structure).draws(1, rng)
        theta = dc.Tables(structure, {node: table[..., 0] for node, table in drawn.items()})
        source = "random probabilities"
    names = list(dc.MECHANISMS) if mechanism is None else [mechanism.replace("-", "_")]
    chosen = {name: _mechanism(name, [], workload if name == "planned" or mechanism else None) for name in names}
    found: list[tuple[dc.Relation, Expected]] = []
    plans: dict[dc.Relation, dc.PlannedNoise] = {}
    for each in dc.Relation if relation is None else (dc.Relation(relation),):
        promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation=each, unit="record")
        found += [
            (each, part) for part in compare(theta, promise, records, rng=rng, repeats=repeats, mechanisms=chosen)
        ]
        if names == ["planned"]:
            plans[each] = chosen["planned"].calibrate(structure, dc.Dirichlet.uniform(structure), promise)
    parts = [
        {
            "relation": each,
            "mechanism": part.mechanism,
            "delta": as_text(part.guarantee.delta) if part.guarantee else None,
            "cells": None if part.refused else part.cells,
            "marginals": None if part.refused or np.isnan(part.marginals) else part.marginals,
            "refused": part.refused,
        }
        for each, part in found
    ]
    rows = [
        (each, part.mechanism, part.refused or f"{part.cells:.4f}", "" if part.refused else f"{part.marginals:.4f}")
        for each, part in found
    ]
    head = ("relation", "mechanism", "mean error of table entries", "of single variables")
    text = columns(head, rows) + f"\n\n{records:,} records made up from {source}, {repeats} times"
    for each, plan in plans.items():
        idle = promise.delta and plan.noise == "discrete_laplace"
        text += f"\n\nplan, {each}{f' ({UNUSED})' if idle else ''}:\n\n{plan_lines(structure, plan)}"
    told = {"records": records, "epsilon": epsilon, "source": source, "expected": parts}
    if plans:
        told["plans"] = {each.value: plan_summary(plan) for each, plan in plans.items()}
    _print(as_json, told, text)


@app.command()
def audit(
    mechanism: Annotated[str, typer.Argument(help="Name of a mechanism; see `release --help`.")],
    epsilon: Annotated[str, typer.Option(help="Promise to hold it to, as decimal text.")] = "1",
    delta: Annotated[str | None, typer.Option(help="0 without it, but 1e-6 for gaussian, which needs one.")] = None,
    relation: Annotated[str | None, typer.Option(help="add-remove or replace; both without it.")] = None,
    records: Annotated[int, typer.Option(help="Most records of a data set.")] = 3,
    option: Annotated[list[str] | None, typer.Option(help="Option of the mechanism; repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Measure what a mechanism reveals, on all neighbouring data sets of tiny networks; needs no data."""
    from discreet.app.audit import CONFIDENCE, Finding, audit

    if records < 1:
        raise InputError(f"an audit needs data sets of at least one record, got {records}")
    chosen = _mechanism(mechanism, option or [], None)
    given = delta if delta is not None else "1e-6" if mechanism == "gaussian" else "0"
    found: list[Finding] = []
    refused: dict[str, str] = {}
    for each in dc.Relation if relation is None else (dc.Relation(relation),):
        promise = dc.Guarantee(epsilon=epsilon, delta=given, relation=each, unit="record")
        try:
            found += audit(chosen, promise, most=records)
        except InputError as error:
            refused[each] = str(error)
    if not found:
        raise InputError("; ".join(dict.fromkeys(refused.values())))
    head = ("network", "relation", "promised", "measured", "how", "pairs", "holds")
    rows = [
        (part.network, part.guarantee.relation, as_text(part.guarantee.epsilon), f"{part.measured:.6f}",
         "exactly" if part.exact else f"at least, {100 * CONFIDENCE:.4f} % sure", str(part.pairs),
         "NO" if not part.holds else "yes" if part.exact else "not refuted")
        for part in found
    ]  # fmt: skip
    parts = [
        {
            "network": part.network,
            "relation": part.guarantee.relation,
            "promised": as_text(part.guarantee.epsilon),
            "delta": as_text(part.guarantee.delta),
            "measured": part.measured if math.isfinite(part.measured) else None,
            "leak": part.leak or None,
            "exact": part.exact,
            "pairs": part.pairs,
            "holds": part.holds,
        }
        for part in found
    ]
    _print(as_json, {"mechanism": mechanism, "findings": parts, "refused": refused}, columns(head, rows))
    for relations, reason in refused.items():
        _say(f"discreet: not offered for {relations}: {reason}")
    for part in found:
        if part.leak:
            _say(f"discreet: {part.network}, {part.guarantee.relation}: {part.leak}")
    if not all(part.holds for part in found):
        raise typer.Exit(1)


# ----------------------------------------------------------------------------------------------------------- helpers


def _say(text: str) -> None:
    """To stderr."""
    print(text, file=sys.stderr)  # noqa: T201


def _print(as_json: bool, value: object, text: str) -> None:
    """To stdout, as JSON or as text."""
    print(json.dumps(value, ensure_ascii=False) if as_json else text)  # noqa: T201


def _mechanism(name: str, options: list[str], workload: list[str] | None) -> dc.Mechanism[Any]:
    """A mechanism of the registry with options given as NAME=VALUE, and the queries that it shall serve."""
    name = name.replace("-", "_")
    if name not in dc.MECHANISMS:
        raise InputError(f"no mechanism {name!r}; there are: {', '.join(dc.MECHANISMS)}")
    make = dc.MECHANISMS[name]
    known = {
        key: part.annotation
        for key, part in inspect.signature(make).parameters.items()
        if key not in ("epsilons", "candidates", "workload")
    }
    given: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if key not in known or not equals:
            raise InputError(
                f"{text!r} is no option of {name!r}; it takes {', '.join(f'{key}=...' for key in known) or 'none'}"
            )
        given[key] = _option(key, value, str(known[key]))
    if workload:
        if name != "planned":
            raise InputError(f"only planned serves a workload, not {name}; leave out --workload")
        given["workload"] = [query for word in workload for query in _queries(word)]
    return make(**given)


def _queries(word: str) -> list[str]:
    """A query, or those of a file, one a line; empty lines and those that begin with # are left out."""
    if re.match(r"\s*(P|MAP|MPE)\s*\(", word):
        return [word]
    try:
        lines = Path(word).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise InputError(f"{word!r} is no query, such as 'P(A | B=b)', and no text file of queries") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _option(key: str, value: str, kind: str) -> Any:
    """The value of an option: whole, a fraction kept exactly, a float, or a word, as the mechanism declares it."""
    try:
        if kind.startswith("int"):
            return int(value)
        return float(value) if kind.startswith("float") else value
    except ValueError:
        raise InputError(f"option {key} needs a number, got {value!r}") from None


def _source(data: str) -> Any:
    """What `read_records` takes for a DATA argument."""
    return sys.stdin.buffer if data == "-" else data


def _network(path: Path, schema: Path | None) -> dc.Network:
    """The public structure, with the numeric variables of a schema file."""
    network = dc.Network.read(path)
    if schema is None:
        return network
    listed = dc.Schema.read(schema)
    beside = [variable.name for variable in listed if variable.name not in network.schema]
    if beside:
        _say(f"not in the network, and not used: {', '.join(map(repr, beside[:8]))} of {schema}")
    return network.with_variables([variable for variable in listed if variable.name in network.schema])


def _records(data: str, network: dc.Network, table: str | None, missing: str, out_of_bounds: str) -> dc.Records:
    """The private table."""
    return dc.read_records(_source(data), network.schema, table=table, missing=missing, out_of_bounds=out_of_bounds)


def _prior(network: dc.Network, text: str, equivalent_sample_size: float) -> dc.Dirichlet:
    """A concentration, or a prior network."""
    try:
        concentration = float(text)
    except ValueError:
        theta = dc.Tables.read(text)
        if theta.network.parents != network.parents:
            raise InputError(f"the prior {text!r} has another structure than the network") from None
        for variable in theta.network.schema:
            if network.schema[variable.name].bounds is None and variable.states != network.schema[variable.name].states:
                raise InputError(
                    f"the prior {text!r} lists other states of {variable.name!r} than the network"
                ) from None
        return dc.Dirichlet.from_probabilities(dc.Tables(network, dict(theta)), equivalent_sample_size)
    return dc.Dirichlet.uniform(network, concentration)


def _posterior(release: dc.Release, method: str, draws: int, seed: int) -> dc.PosteriorDraws:
    """The posterior that a command asks."""
    methods = {"noise-aware": dc.noise_aware, "plug-in": dc.plug_in}
    if method not in methods:
        raise InputError(f"no method {method!r}; there are: {', '.join(methods)}")
    if seed < 0:
        raise InputError(f"a seed cannot be negative, got {seed}")
    if not release.private:
        _say("this release is a simulation: it protects nobody")
    return methods[method](release, draws=draws, rng=np.random.default_rng(seed))


def _load(path: str) -> dc.Release:
    """A release from a file or from stdin."""
    if path != "-":
        return dc.Release.load(path)
    try:
        return dc.Release.loads(sys.stdin.buffer.read().decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError("cannot read the release from stdin: not UTF-8 text") from None


def _publish(release: dc.Release, path: Path | None) -> Path | None:
    """Write a release that is paid for: to its file, to another name if that was taken meanwhile, else to stdout."""
    try:
        if path is not None:
            with suppress(FileExistsError):
                release.save(path, replace=False)
                return path
            other = path.with_name(f"{path.stem}-{release.id[:8]}{path.suffix}")
            _say(f"{str(path)!r} was written by another release meanwhile; this one goes to {str(other)!r}")
            release.save(other, replace=False)
            return other
    except (InputError, FileExistsError) as error:
        _say(f"discreet: {error}; the release is paid for and follows on stdout")
        _print_release(release)
        raise typer.Exit(1) from None
    _print_release(release)
    return None


def _print_release(release: dc.Release) -> None:
    """The document on stdout; if that fails too, say that it was paid for."""
    try:
        sys.stdout.write(release.dumps())
        sys.stdout.flush()
    except OSError as error:
        reason = error.strerror
    else:
        return
    _abandon_stdout()
    raise DiscreetError(f"cannot write to stdout ({reason}); release {release.id} was charged and is lost")


def _abandon_stdout() -> None:
    """Let what is still buffered go nowhere: at its end the interpreter would try to write it again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_output(path: Path) -> None:
    """Refuse, before anything is spent, a file that cannot be written or holds a release that was paid for."""
    if path.exists():
        raise InputError(f"{str(path)!r} exists; a release costs budget and is not overwritten, name a new file")
    _check_writable(path)


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be made."""
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"cannot write into folder {str(path.parent)!r}: {error.strerror}") from None


def _answer(answer: dc.Answer) -> dict[str, object]:
    """An answer as JSON."""
    return {"query": answer.query, "kind": answer.kind, "level": answer.level, "values": [dict(r) for r in answer.rows]}


def _account(account: dc.Account) -> dict[str, Any]:
    """An account as JSON."""
    balance = account.balance()

    def budget(epsilon: Fraction, delta: Fraction) -> dict[str, str]:
        return {"epsilon": as_text(epsilon), "delta": as_text(delta)}

    return {
        "account": account.name,
        "relation": balance.limit.relation.value,
        "unit": balance.limit.unit,
        "limit": budget(balance.limit.epsilon, balance.limit.delta),
        "spent": budget(balance.epsilon_spent, balance.delta_spent),
        "left": budget(balance.epsilon_left, balance.delta_left),
        "charges": [
            {
                "date": charge.date.isoformat(),
                "mechanism": charge.mechanism,
                "release": charge.release,
                **budget(charge.guarantee.epsilon, charge.guarantee.delta),
            }
            for charge in account.charges()
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
