"""Generated and damaged texts: readers read or refuse each in type, in one short line, within time and memory."""

from __future__ import annotations

import random

import pytest

from fuzzing import read_all, repeated
from hostile import READERS, release_trees

FEW, MANY = 1_000, 100_000


def fuzz(reader: str, seed: int, count: int) -> None:
    make, read = READERS[reader]
    release_trees()  # made once, not in every child
    report = read_all(read, repeated(random.Random(seed), make, count))
    print(f"{reader}: {report}")
    assert report.faults == [], str(report)
    assert report.accepted + report.refused == count
    # A generator that is refused always, or never, tests little.
    assert report.accepted > count / 50 and report.refused > count / 50


@pytest.mark.parametrize("reader", READERS)
def test_a_thousand_texts_are_read_or_refused(reader: str) -> None:
    fuzz(reader, 1, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_hundred_thousand_texts_are_read_or_refused(reader: str) -> None:
    fuzz(reader, 2, MANY)
