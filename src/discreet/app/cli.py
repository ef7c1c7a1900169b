"""The command line. Every command prints text for a person, or JSON with `--json`; errors are one line on stderr.

Exit codes: 0 done, 2 bad input, 3 the budget was refused, 1 anything else. A traceback is shown with `--debug` only,
and never holds a value of a record.
"""

from __future__ import annotations

import gc
import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import discreet
from discreet.app import (
    analyst,
    checking,
    combining,
    curator,
    deciding,
    explaining,
    exporting,
    figures,
    ledgers,
    network_view,
    rehearsal,
    reporting,
    storing,
)
from discreet.app.arguments import Json
from discreet.app.terminal import abandon_stdout, show
from discreet.errors import BudgetError, DiscreetError, InputError
from discreet.model.late import import_late

documents = import_late("discreet.queries.documents")

__all__ = ["main"]

INTERRUPTED = "interrupted; `discreet ledger show` tells whether anything was spent"
EXIT_CODES = {BudgetError: 3, InputError: 2}
"""Exit codes of what the package refuses; 1 of anything else."""
TYPER_INTERRUPTED = 130
"""What Typer returns, without a word, where a command was interrupted."""


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
        with _collect_seldom():
            code = app(arguments or ["--help"], prog_name="discreet", standalone_mode=False)
        return _report_failure(INTERRUPTED, 1, debug) if code == TYPER_INTERRUPTED else _as_exit_code(code)
    except SystemExit as ended:  # Typer's completion ends the process itself
        return _as_exit_code(ended.code)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _report_failure(f"{message} (discreet --help lists what there is)", 2, debug)
    except (typer.Abort, KeyboardInterrupt):
        return _report_failure(INTERRUPTED, 1, debug)
    except OSError as error:
        abandon_stdout()
        return _report_failure(f"cannot read or write: {error.strerror or type(error).__name__}", 1, debug)
    except DiscreetError as error:
        return _report_failure(
            str(error), next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1), debug
        )
    except Exception as error:
        # Whatever this is, its text was not written by us and may quote anything.
        return _report_failure(
            f"internal error ({type(error).__name__}); run again with --debug and report it", 1, debug
        )


@contextmanager
def _collect_seldom() -> Iterator[None]:
    """Look for cycles seldom: while modules load that takes an eighth of a short command's time, and finds none."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _as_exit_code(code: object) -> int:
    """An exit code; 0 where nothing was said."""
    return code if isinstance(code, int) else 0


def _report_failure(message: str, code: int, debug: bool) -> int:
    """One line on stderr."""
    if debug:
        traceback.print_exc()
    print(f"discreet: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return code


def demo(
    keep: Annotated[Path | None, typer.Option(help="New folder that keeps the demo's files.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the made-up records.")] = 1,
    as_json: Json = False,
) -> None:
    """Run the whole flow on the bundled Asia network and show truth and private answers side by side."""
    from discreet.app.demo import demo_lines, run_demo

    result = run_demo(keep, seed)
    written = documents.answer_document
    pairs = [{"truth": written(true), "private": written(private)} for true, private in result.pairs]
    show(as_json, {"release": result.release.id, "answers": pairs}, demo_lines(result))


app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)
for command in (
    demo,
    checking.schema,
    checking.init,
    checking.check,
    curator.structure,
    curator.release,
    storing.draw,
    analyst.query,
    analyst.fit,
    explaining.explain,
    deciding.decide,
    exporting.sample,
    combining.combine,
    figures.external,
    exporting.export,
    reporting.report,
    rehearsal.plan,
    rehearsal.audit,
):
    app.command()(command)
app.command("show")(network_view.show_network)
app.add_typer(ledgers.ledger_app, name="ledger", help="Accounts of data sets: open, show, limit, close, verify.")


def _show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"discreet {discreet.__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    """Differentially private Bayesian inference for networks: private table, public release, honest intervals."""


if __name__ == "__main__":
    sys.exit(main())
