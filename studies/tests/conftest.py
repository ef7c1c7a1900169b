"""What tests of pages look at is what pages say; pictures are painted for those that look at pictures."""

from __future__ import annotations

import pytest

from painting import paint


@pytest.fixture(autouse=True)
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure of an experiment is painted; a file of tests may define this otherwise."""
    paint(monkeypatch, False)
