"""Run a command line: exit codes, and errors as one line on stderr.

Exit codes: 0 success, 2 invalid input, 3 refused budget, 1 any other error. Only `--debug` shows a traceback; it never
has a value of a record.
"""

from __future__ import annotations

import gc
import io
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from discreet.display.terminal import abandon_stdout, say
from discreet.errors import BudgetError, DiscreetError, InputError
from discreet.util.lazy_imports import describe_missing

INTERRUPTED = "interrupted; `discreet ledger show` shows any charge"
EXIT_CODES = {BudgetError: 3, InputError: 2}
"""Exit codes of the package's errors; 1 for any other."""
TYPER_INTERRUPTED = 130
"""Value that Typer returns, without a message, for an interrupted command."""


def run(app: typer.Typer, argv: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        app: its commands.
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show must not fail
    arguments = [word for word in words if word != "--debug"]
    try:
        with _collect_seldom(), warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            code = app(arguments or ["--help"], prog_name="discreet", standalone_mode=False)
        return _report_failure(INTERRUPTED, 1, debug) if code == TYPER_INTERRUPTED else _as_exit_code(code)
    except SystemExit as ended:  # Typer's completion exits by itself
        return _as_exit_code(ended.code)
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        message = message.replace("Value error, ", "")
        return _report_failure(f"{message} (discreet --help lists commands and options)", 2, debug)
    except (typer.Abort, KeyboardInterrupt):
        return _report_failure(INTERRUPTED, 1, debug)
    except OSError as error:
        abandon_stdout()
        return _report_failure(f"cannot read or write: {error.strerror or type(error).__name__}", 1, debug)
    except DiscreetError as error:
        return _report_failure(
            str(error), next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1), debug
        )
    except ModuleNotFoundError as error:
        return _report_failure(describe_missing((error.name or "a package").partition(".")[0]), 2, debug)
    except Exception as error:
        # The text of an unknown error may quote private values.
        return _report_failure(
            f"internal error ({type(error).__name__}); run again with --debug and report it", 1, debug
        )


@contextmanager
def _collect_seldom() -> Iterator[None]:
    """Run the garbage collector rarely: while modules load it takes an eighth of a short command's time in vain."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _show_warning(show: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Print what users are told as a line on stderr, without a place in the code; show other warnings as before."""
    if category is UserWarning:
        say(f"discreet: {' '.join(str(message).split())}")
    else:
        show(message, category, *place)


def _as_exit_code(code: object) -> int:
    """Return an exit code; 0 by default."""
    return code if isinstance(code, int) else 0


def _report_failure(message: str, code: int, debug: bool) -> int:
    """Print one line on stderr."""
    if debug:
        traceback.print_exc()
    print(f"discreet: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return code
