"""A real browser for tests of pages: Chromium, driven by playwright; tests are skipped where one is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["DESK", "PHONE", "opened_browser", "violations"]

DESK, PHONE = (1500, 1000), (390, 844)
"""Width and height of windows, in pixels."""


def opened_browser() -> Iterator[Any]:
    """A browser without a window, closed afterwards; `yield from` it in a fixture."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here")
    with playwright.sync_playwright() as drivers:
        opened = drivers.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


def violations(page: Any) -> list[str]:
    """What axe-core finds on a page, of level serious or above."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    # it would ask for style sheets by itself, which a page from a file may not
    found = axe.Axe().run(page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    return [
        f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:120]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
