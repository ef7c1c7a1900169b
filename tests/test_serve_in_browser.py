"""Pages of a server in a real browser: the whole walk by keyboard alone, on a desk and a phone, and nothing odd."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import discreet as dc
from browsing import DESK, PHONE, opened_browser, violations
from discreet.server.application import Settings
from discreet.server.tokens import add_token
from folding import every
from networks import asia
from releases import guarantee, simulated
from served_kinds import plain, save
from serving import Local, Served, served
from test_distributions import made

WALKED = 8
"""Tabs after which whatever is looked for must have been reached, for each element of a page."""


IN_A_BROWSER = pytest.mark.costly("Scripts, styles and keys of a page are met by a browser only.")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from opened_browser()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("served")
    release = simulated(asia(), 2000, guarantee(), np.random.default_rng(3))
    release.save(place / "asia.json")
    release.posterior(draws=100, rng=1).save(place / "asia.draws")
    many = dc.Network.from_edges(
        [(f"v{at // 2}", f"v{at}") for at in range(1, 70)], [dc.Variable(f"v{at}", ("no", "yes")) for at in range(70)]
    )
    rng = np.random.default_rng(1)
    counts = dc.tools.count_codes(many, {name: rng.integers(0, 2, 200).tolist() for name in many.nodes})
    dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(many), guarantee(), rng=1).save(place / "many.json")
    plain(5).save(place / "again.json")
    names = ("plain", "laplace", "family", "linear", "classes", "structure", "states")
    made(1).save(place / "study.json")
    files = [
        place / "study.json",
        place / "asia.draws",
        place / "many.json",
        place / "again.json",
        *(save(name, place) for name in names),
    ]
    with served(files, "--no-prepare") as running:
        yield running


@contextmanager
def opened(
    browser: Any,
    server: Served,
    path: str,
    size: tuple[int, int] = DESK,
    *,
    scripts: bool = True,
    cookies: Sequence[Any] = (),
) -> Iterator[Any]:
    """A page that says nothing on the console, asks nobody else, and allows no other."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, java_script_enabled=scripts)
    context.add_cookies(list(cookies))
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    got = page.goto(server.url.rstrip("/") + path)
    assert got.status == 200
    assert got.headers["content-security-policy"].startswith(("default-src 'self';", "default-src 'none';"))
    yield page
    assert said == []
    hosts = {urlsplit(url.removeprefix("blob:")).netloc for url in asked}
    assert hosts == {urlsplit(server.url).netloc}
    context.close()


def here(page: Any) -> str:
    """The id of what has the focus."""
    return str(page.evaluate("document.activeElement.id"))


def walk_to(page: Any, wanted: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(page.locator("a, input, button, select, summary, [tabindex]").count() + WALKED):
        page.keyboard.press("Tab")
        if here(page) == wanted:
            return
    raise AssertionError(f"no key leads to {wanted}")


def arrive(page: Any, part: str) -> None:
    """Wait until an address has a part, and the page belongs to it."""
    page.wait_for_url(lambda url: part in url)
    page.wait_for_function("!document.querySelector('main').hasAttribute('aria-busy')")


@IN_A_BROWSER
def test_the_whole_walk_by_keyboard_alone(browser: Any, server: Served) -> None:
    with opened(browser, server, "/pages/asia") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert here(page) == "main"
        walk_to(page, "s0.0")
        page.keyboard.press("ArrowDown")
        assert here(page) == "s0.1"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        arrive(page, "?e=smoke%3Dyes")
        assert here(page) == "s2.0", "the focus stays on the state"
        assert page.locator("#said").inner_text() == "observed: smoke=yes"
        assert page.title() == "asia given smoke=yes"
        page.go_back()
        page.wait_for_selector("#undo", state="detached")
        page.go_forward()
        page.wait_for_selector("#undo")
        walk_to(page, "q")
        page.keyboard.type("P(lung | smoke=no")
        page.keyboard.press("Enter")
        page.wait_for_selector("#q-error")
        assert here(page) == "q" and page.locator("#said").inner_text() == page.locator("#q-error").inner_text()
        page.keyboard.press("End")
        page.keyboard.type(")")
        page.keyboard.press("Enter")
        page.wait_for_selector("#q-error", state="detached")
        assert "lung=yes" in page.locator("form.query").inner_text()
        walk_to(page, "view-table")
        page.keyboard.press("Enter")
        arrive(page, "view=table")
        assert not page.locator(".network").count() and page.locator(".table").is_visible()
        walk_to(page, "noise")
        page.keyboard.press("Enter")
        arrive(page, "noise=1")
        assert "noise share" in page.locator("thead").last.inner_text()
        walk_to(page, "undo")
        page.keyboard.press("Enter")
        page.wait_for_selector("#undo", state="detached")
        assert "smoke%3Dyes" not in page.url and "q=P%28lung" in page.url


@IN_A_BROWSER
def test_everything_works_without_scripts(browser: Any, server: Served) -> None:
    with opened(browser, server, "/pages/asia", scripts=False) as page:
        assert not page.locator("#png").is_visible() and not page.locator(".tools").count()
        page.focus("#s2\\.0")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "smoke" in url)
        page.fill("#q", "P(lung)")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "q=" in url)
        assert "smoke%3Dyes" in page.url and "lung=yes" in page.locator("form.query").inner_text()
        page.click("#undo")
        page.wait_for_url(lambda url: "smoke" not in url)


@IN_A_BROWSER
def test_a_large_network_is_searched_made_smaller_and_saved(browser: Any, server: Served) -> None:
    with opened(browser, server, "/pages/many") as page:
        walk_to(page, "find")
        page.keyboard.type("v6")
        assert page.locator(".node:not(.dim)").count() == 11
        assert page.locator("#said").inner_text() == "11 of 70 variables"
        page.keyboard.press("Enter")
        found = here(page)
        assert page.evaluate("document.activeElement.closest('.node').dataset.name").startswith("v6")
        page.keyboard.press("Enter")
        arrive(page, "?e=v6")
        assert here(page) == found and page.input_value("#find") == "v6" and page.locator(".dim").count() == 59
        page.click("#fit")
        width = page.evaluate("document.getElementById('picture').getBoundingClientRect().width")
        assert width < DESK[0]
        page.fill("#find", "v5")
        assert page.evaluate("document.getElementById('picture').getBoundingClientRect().width") > width, "readable"
        with page.expect_download() as saved:
            page.click("#png")
        assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
        assert saved.value.suggested_filename == "many.png"


@IN_A_BROWSER
@every("size", [DESK, PHONE])
def test_a_table_is_searched_too(browser: Any, server: Served, size: tuple[int, int]) -> None:
    with opened(browser, server, "/pages/many?view=table", size) as page:
        assert not page.locator("#fit").count()
        page.fill("#find", "V6")
        assert page.locator(".states tbody:visible").count() == 11
        assert page.locator("#found").inner_text() == "11 of 70 variables"
        page.keyboard.press("Enter")
        assert here(page) == "t6.0"
        page.fill("#find", "")
        assert page.locator(".states tbody:visible").count() == 70 and page.locator("#found").inner_text() == ""


@IN_A_BROWSER
def test_what_is_shown_stays_where_no_answer_comes_and_is_asked_again(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": DESK[0], "height": DESK[1]})
    page = context.new_page()
    with served([save("plain", tmp_path)], "--no-prepare") as running:
        page.goto(f"{running.url}pages/plain")
        page.click("#s0\\.0")
        page.click("#undo")
        page.wait_for_selector("#undo", state="detached")
        assert page.url == f"{running.url}pages/plain", "no question mark stays"
        held: list[Any] = []
        page.route("**/pages/plain?**", lambda route: held.append(route))
        page.click("#s0\\.0")
        page.wait_for_selector("main[aria-busy=true]")
        pill = page.evaluate("getComputedStyle(document.querySelector('main'), '::after').content")
        assert pill == '"asking…"'
        held[0].fulfill(status=503, content_type="application/problem+json", body='{"detail": "the queue is full"}')
        page.wait_for_selector("#notice:visible")
        assert "The server did not answer: the queue is full. The page shows" in page.locator("#notice").inner_text()
        page.unroute("**/pages/plain?**")
        page.click("#notice button")
        page.wait_for_selector("#undo")
        assert not page.locator("#notice").is_visible()
    page.click("#s1\\.0")
    page.wait_for_selector("#notice:visible")
    assert "The server did not answer. " in page.locator("#notice").inner_text() and violations(page) == []
    assert page.locator("#chip1").is_visible() and not page.locator("main[aria-busy]").count()
    assert "/pages/plain?e=a%3D" in page.url
    context.close()


@IN_A_BROWSER
def test_a_release_that_is_replaced_meanwhile_is_told(browser: Any, tmp_path: Path) -> None:
    path = save("plain", tmp_path)
    with served([path], "--no-prepare") as running, opened(browser, running, "/pages/plain") as page:
        old = page.get_attribute("main", "data-version")
        plain(7).save(path, replace=True)
        until = time.monotonic() + 30
        while old in running.ask("/releases").json()["releases"][0]["id"] and time.monotonic() < until:
            time.sleep(0.1)
        page.click("#s0\\.0")
        page.wait_for_selector("#notice:visible")
        assert (
            "replaced: the page now shows version 2, before it showed version 1" in page.locator("#notice").inner_text()
        )
        page.click("#notice a")
        page.wait_for_url(lambda url: f"/pages/{old}?e=" in url)
        assert page.get_attribute("main", "data-version") == old and "newer version" in page.inner_text("main")


@IN_A_BROWSER
def test_pages_keep_the_rules_of_accessibility_on_every_screen(browser: Any, server: Served) -> None:
    paths = ("/", "/pages/laplace", "/pages/asia?e=smoke%3Dyes&q=MAP(lung,%20bronc)", "/pages/asia?view=table&noise=1",
             "/compare?one=plain&other=again", "/pages/family", "/pages/linear?x.age=0.5&x.dose=1", "/pages/classes",
             "/pages/structure", "/pages/states", "/pages/study?e=age%3D60_to_120")  # fmt: skip
    for path in paths:
        for size in (DESK, PHONE):
            with opened(browser, server, path, size) as page:
                assert page.evaluate("document.documentElement.scrollWidth") == size[0], (path, size)
                assert violations(page) == [], (path, size)


def html_addresses(files: list[Path], tokens: Path, token: str) -> list[str]:
    """All addresses of a server that answer with HTML, of those that its own routes name."""
    told = {"authorization": f"Bearer {token}", "accept": "text/html"}
    with Local(files, settings=Settings(prepare=False, tokens=tokens)) as local:
        paths = [route.path for route in local.app._app.routes if "GET" in route.methods]
        known = [path.replace("{release}", "plain").replace("{name}", "page.css") for path in paths]
        return [path for path in known if local.ask(path, headers=told).headers["content-type"].startswith("text/html")]


@IN_A_BROWSER
def test_every_address_of_html_is_styled_on_a_phone(browser: Any, server: Served, tmp_path: Path) -> None:
    files, tokens = [save("plain", tmp_path), save("laplace", tmp_path)], tmp_path / "tokens.json"
    token = add_token(tokens, "ann", 9)
    with ThreadPoolExecutor(1) as pool:  # the browser's own loop runs in this thread
        paths = pool.submit(html_addresses, files, tokens, token).result()
    assert {"/", "/pages/plain", "/compare", "/enter", "/releases/plain/report"} <= set(paths)
    others = [
        f"/{page}" for name in ("asia", "linear", "structure") for page in (f"pages/{name}", f"releases/{name}/report")
    ]
    with served(files, "--no-prepare", "--tokens", str(tokens)) as guarded:
        cookie = {"name": "discreet_token", "value": token, "url": guarded.url}
        for running, path in [
            *((guarded, path) for path in paths),
            *((server, path) for path in others),
        ]:
            with opened(browser, running, path, PHONE, cookies=[cookie]) as page:
                assert urlsplit(page.url).path == path
                font = page.evaluate("getComputedStyle(document.body).fontFamily")
                assert font.startswith("system-ui"), (path, font)
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width == PHONE[0], (path, width)


def test_a_report_is_known_by_its_style_and_runs_nothing(server: Served) -> None:
    got = server.ask("/releases/asia/report")
    policy, style = got.headers["content-security-policy"], got.text.partition("<style>")[2].partition("</style>")[0]
    assert f"style-src 'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy.split("; ")
    assert "unsafe" not in policy and "script" not in policy and "'self'" not in policy.partition("form-action")[0]
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))


@IN_A_BROWSER
def test_a_phone_has_the_table_alone_and_paper_one_of_both(browser: Any, server: Served) -> None:
    with opened(browser, server, "/pages/asia", PHONE) as page:
        assert not page.locator(".network").is_visible() and page.locator(".table").is_visible()
        page.click("text=All releases")
        page.click("text=structure")
        assert page.locator(".network").is_visible(), "what has no table is drawn on a phone, too"
        page.go_back()
        page.click("text=asia")
        page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
        assert page.locator(".network").is_visible() and not page.locator(".table").is_visible()
        page.emulate_media(media="print")
        assert page.locator(".network").is_visible() and page.locator(".table").is_visible(), "with intervals"
        assert not page.locator("#q").is_visible() and page.locator(".printed").is_visible()
        assert page.locator(".printed").inner_text().endswith(page.evaluate("document.links.permanent.href"))
        assert page.pdf().startswith(b"%PDF")
    with opened(browser, server, "/pages/asia?e=smoke%3Dyes&q=P(lung)") as page:
        page.emulate_media(media="print")
        text = page.locator("main").inner_text()
        assert "P(lung), for everybody" in text and "lung=yes" in text
        assert "×" not in text and "Select a state" not in text and "Given what is observed" not in text
    with opened(browser, server, "/pages/many") as page:
        page.emulate_media(media="print")
        assert not page.locator(".network").is_visible() and page.locator(".table").is_visible()


@IN_A_BROWSER
def test_a_token_is_typed_in_and_leads_to_the_page_that_was_wanted(browser: Any, tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens.json", "ann", 9)
    options = ("--no-prepare", "--tokens", str(tmp_path / "tokens.json"))
    with (
        served([save("plain", tmp_path)], *options) as guarded,
        opened(browser, guarded, "/pages/plain?e=a%3Dyes") as page,
    ):
        assert urlsplit(page.url).path == "/enter" and violations(page) == []
        walk_to(page, "token")
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        arrive(page, "/pages/plain?e=a%3Dyes")
        assert page.locator("#chip1").is_visible() and page.evaluate("document.cookie") == ""
        assert violations(page) == []
        page.get_by_role("button", name="Forget my token").press("Enter")
        page.wait_for_url("**/enter?next=/")
        page.goto(f"{guarded.url}pages/plain")
        assert urlsplit(page.url).path == "/enter" and page.context.cookies() == []
