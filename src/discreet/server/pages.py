"""Pages."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.routing import Route

from discreet.server import replies
from discreet.server.api import Serving
from discreet.server.readings import Reading
from discreet.server.tokens import TokenFile

__all__ = ["page_questions", "page_routes"]


def page_questions(reading: Reading) -> Iterator[replies.Question]:
    """Questions that pages will ask first."""
    yield from ()


def page_routes(serving: Serving, tokens: TokenFile | None) -> list[Route]:
    """Routes of all pages."""
    return []
