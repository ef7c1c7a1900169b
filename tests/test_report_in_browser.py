"""A report in a real browser: nothing is run or requested, nothing is wider than a phone, and it can be printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
from browsing import DESK, PHONE, opened_browser, violations
from test_distributions import made
from test_report import HOSTILE, promised, released

LONG = dc.Variable("a" * 60, tuple(f"state number {number} with a long name" for number in range(5)))


IN_A_BROWSER = pytest.mark.costly("Scripts, styles and keys of a report are met by a browser only.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from opened_browser()


@pytest.fixture(scope="module", params=["texts", "numbers"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    texts = request.param == "texts"
    release = released(promised("add-remove"), (HOSTILE, LONG)) if texts else made(1)
    path.write_text(dc.report(release, rng=1), encoding="utf-8")
    return path


@IN_A_BROWSER
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_nothing_is_run_requested_or_too_wide(browser: Any, page: Path, size: tuple[int, int]) -> None:
    opened = browser.new_page(viewport={"width": size[0], "height": size[1]})
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(page.as_uri())
    assert said == [] and asked == [page.as_uri()]
    assert opened.evaluate("document.documentElement.scrollWidth") == size[0]
    assert opened.evaluate("document.scripts.length") == 0
    assert opened.locator("main").count() == 1 and opened.locator("h1").count() == 1
    text = opened.locator("main").inner_text()
    assert HOSTILE.name in text or ("quantile(age, 0.25)" in text and opened.locator(".charts svg").count() == 2)
    assert violations(opened) == []
    opened.close()


@IN_A_BROWSER
def test_what_scrolls_is_reached_by_keyboard(browser: Any, page: Path) -> None:
    opened = browser.new_page(viewport={"width": PHONE[0], "height": PHONE[1]})
    opened.goto(page.as_uri())
    wide = opened.evaluate(
        "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.tabIndex)"
    )
    assert wide and all(index == 0 for index in wide)
    unnamed = opened.evaluate("[...document.querySelectorAll('[role=region]')].filter(e => !e.ariaLabel).length")
    assert unnamed == 0
    opened.close()


@IN_A_BROWSER
def test_it_can_be_printed(browser: Any, page: Path) -> None:
    opened = browser.new_page()
    opened.goto(page.as_uri())
    assert opened.pdf(format="A4").startswith(b"%PDF")
    opened.close()
