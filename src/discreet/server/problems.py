"""What goes wrong, as `application/problem+json` (RFC 9457): one sentence, the one that the command line says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from starlette.responses import Response

from discreet.errors import DiscreetError
from discreet.util.json_files import json_text

PROBLEMS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "bad-request": (400, "The question cannot be asked"),
        "no-token": (401, "A token is needed"),
        "not-found": (404, "There is nothing of this name"),
        "method-not-allowed": (405, "Another method is needed"),
        "too-large": (413, "The request is too large"),
        "too-costly": (422, "The question is too much work for this server"),
        "too-many-requests": (429, "Too many requests"),
        "internal": (500, "An error of the server"),
        "busy": (503, "The server is busy"),
        "not-ready": (503, "The answer is not ready yet"),
        "unreadable": (503, "A file of the server cannot be read"),
    }
)
"""Kinds of problems, with their status and title; a kind is the end of its `type`."""


class Problem(DiscreetError):
    """What a request is answered with where there is no answer.

    Args:
        kind: one of `PROBLEMS`.
        detail: the sentence.
        retry_after: seconds after which it is worth asking again; None says nothing of it.
        allow: methods that an address takes; empty says nothing of them.
    """

    def __init__(self, kind: str, detail: str, *, retry_after: int | None = None, allow: str = "") -> None:
        super().__init__(detail)
        self.allow = allow
        self.kind = kind
        self.status, self.title = PROBLEMS[kind]
        self.retry_after = retry_after


def problem_response(problem: Problem) -> Response:
    """The response for a problem."""
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    if problem.allow:
        headers["Allow"] = problem.allow
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    content = {
        "type": f"urn:discreet:problem:{problem.kind}",
        "title": problem.title,
        "status": problem.status,
        "detail": str(problem),
    }
    text = json_text(content)
    return Response(text, problem.status, headers, media_type="application/problem+json")
