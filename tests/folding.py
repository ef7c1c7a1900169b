"""One property, one test: `every` walks the cases and lists all that fail, where `parametrize` makes a test of each.

A test of pytest's costs some milliseconds before it begins, in each process that collects it, and its name is a line to
read. Cases that cost less than that are folded. What a folded test may not have are fixtures that are made anew for
each test, for its cases share them: those stay with `parametrize`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NoReturn

import pytest

__all__ = ["every"]

FRESH = {"tmp_path", "monkeypatch", "capsys", "capfd", "caplog", "recwarn", "request"}
"""Fixtures of pytest's own that are made anew for each test."""

FAILURES = (Exception, pytest.fail.Exception)

Test = Callable[..., None]


def every(names: str | Sequence[str], values: Iterable[Any], ids: Any = None) -> Callable[[Test], Test]:
    """Run a test on each case, all of them, and fail with the name of every case that failed.

    Args:
        names: The arguments, as `pytest.mark.parametrize` takes them: "one, two" or ("one", "two").
        values: A value for each case, or as many values as there are names; `pytest.param` may give a case its name.
        ids: Names of the cases, or what makes a name of a value.

    Returns:
        A decorator. Two of them on one test walk all pairs. A test that fails raises an exception group with each
        failure, whole, under the name of its case; one with skipped cases is reported as skipped once all have run.

    Raises:
        TypeError: Where it could not mean what `parametrize` means: marks of a case, fixtures made anew for each test.
        ValueError: If there are no cases.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    ids = ids if ids is None or callable(ids) else list(ids)
    cases: dict[str, dict[str, Any]] = {}
    for number, value in enumerate(values):
        title, found = unpacked(value, len(arguments))
        title = title or named(arguments, found, number, ids)
        cases[title if title not in cases else f"{title}, {number}"] = dict(zip(arguments, found, strict=True))
    if not cases:
        raise ValueError("a test of no cases holds nothing")

    def folded(test: Test) -> Test:
        fixtures = [part for part in inspect.signature(test).parameters.values() if part.name not in arguments]
        unfit = FRESH & {part.name for part in fixtures}
        if unfit:
            raise TypeError(f"{test.__name__} would share {', '.join(sorted(unfit))} between its cases")

        def walk(**shared: Any) -> None:
            failed: list[BaseException] = []
            skipped = []
            for title, case in cases.items():
                try:
                    test(**case, **shared)
                except pytest.skip.Exception as reason:
                    skipped.append(f"{title} ({reason.msg})")
                except FAILURES as failure:
                    failure.add_note(f"the case: {title}")
                    failed.append(failure)
            if failed:
                refuse(f"{len(failed)} of {len(cases)} cases", failed)
            if skipped:
                pytest.skip(f"{len(skipped)} of {len(cases)} cases, the others held: {', '.join(skipped)}")

        # Not `functools.wraps`: pytest would look through it, at the arguments that stand here already.
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(walk, name, getattr(test, name))
        walk.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        walk.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]
        return walk

    return folded


def refuse(what: str, failed: list[BaseException]) -> NoReturn:
    """Raise all failures as one, with the names of their cases in its first line."""
    titles = [failure.__notes__[-1].removeprefix("the case: ") for failure in failed]
    raise BaseExceptionGroup(f"{what}: {'; '.join(titles)}", failed)


def unpacked(value: Any, wanted: int) -> tuple[str | None, tuple[Any, ...]]:
    """The name of a case, where it has one, and its values."""
    if isinstance(value, type(pytest.param())):
        if value.marks:
            raise TypeError("a case with a mark is a test of its own: use parametrize")
        return value.id, tuple(value.values)
    return None, (value,) if wanted == 1 else tuple(value)


def named(arguments: list[str], values: tuple[Any, ...], number: int, ids: Any) -> str:
    """A name for a case."""
    if ids is not None and not callable(ids):
        return str(ids[number])
    return "-".join(
        str(ids(value)) if ids is not None else word(value, f"{argument}{number}")
        for argument, value in zip(arguments, values, strict=True)
    )


def word(value: Any, other: str) -> str:
    """A value in a word where it has a short one, else the other word."""
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, str | bytes | bool | int | float | complex):
        return str(value)
    return str(getattr(value, "__name__", other))
