"""The frame of all pages: templates, and files that pages load."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from discreet.errors import printable
from discreet.server.problems import Problem
from discreet.util.lazy_imports import import_late

jinja2 = import_late("jinja2")

TEMPLATES = (
    "frame.html",
    "release.html",
    "releases.html",
    "compare.html",
    "compare_form.html",
    "enter.html",
    "problem.html",
)
MEDIA = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
STATIC_SECONDS = 31_536_000
"""For which a browser keeps a file: its address has a digest of what it holds."""


@cache
def _templates() -> Any:
    """The templates; all that is put into them is escaped, and nothing is invisible but what forms send back."""
    folder = files("discreet.server") / "templates"
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in TEMPLATES}
    made = jinja2.Environment(
        loader=jinja2.DictLoader(texts),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda told: printable(told) if type(told) is str else told,
    )
    made.filters["kept"] = _write_reference
    made.globals["static"] = static_name
    return made


def _write_reference(text: object) -> str:
    """A text for an attribute that a form sends back as it is: what is invisible stands as its number."""
    return "".join(mark if mark.isprintable() else f"&#{ord(mark)};" for mark in escape(str(text)))


@cache
def _static(name: str) -> bytes:
    """A file that pages load."""
    return (files("discreet.server") / "static" / name).read_bytes()


@cache
def static_name(name: str) -> str:
    """The address of such a file below the root, which is another one when the file is."""
    return f"static/{name}?{sha256(_static(name)).hexdigest()[:12]}"


async def send_static(request: Request) -> Response:
    """Send such a file.

    Raises:
        Problem: there is none of this name.
    """
    name = request.path_params["name"]
    if name not in MEDIA:
        raise Problem("not-found", "nothing is at this address")
    headers = {"cache-control": f"public, max-age={STATIC_SECONDS}, immutable"}
    return Response(_static(name), headers=headers, media_type=MEDIA[name])


def root_of(request: Request) -> str:
    """The way from an address up to the root of the server, so that what a proxy adds before it does not matter."""
    own = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return "../" * (own.count("/") - 1) or "./"


def page_response(request: Request, template: str, status: int = 200, **told: Any) -> HTMLResponse:
    """A page."""
    headers = {} if told.get("retry") is None else {"Retry-After": str(told["retry"])}
    told = {"root": root_of(request), "retry": None, "leaves": request.scope.get("by_cookie", False), **told}
    return HTMLResponse(_templates().get_template(template).render(told), status, headers)


def problem_page(request: Request, problem: Problem, **told: Any) -> HTMLResponse:
    """A page that says why there is no other."""
    retry = problem.retry_after if problem.kind == "not-ready" else None
    told = {"title": problem.title, "sentence": str(problem), "links": [], "retry": retry, **told}
    return page_response(request, "problem.html", problem.status, **told)
