"""How a command line is run: exit codes, and errors as one line on stderr.

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

import typer

from discreet.display.terminal import abandon_stdout
from discreet.errors import BudgetError, DiscreetError, InputError

INTERRUPTED = "interrupted; `discreet ledger show` tells whether anything was spent"
EXIT_CODES = {BudgetError: 3, InputError: 2}
"""Exit codes of what the package refuses; 1 of anything else."""
TYPER_INTERRUPTED = 130
"""What Typer returns, without a word, where a command was interrupted."""


def run(app: typer.Typer, argv: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        app: its commands.
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
        message = message.replace("Value error, ", "")
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
