"""Define problems as `application/problem+json` (RFC 9457), with the sentence that the command line prints."""

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
"""Status and title of each kind of problem; a kind is the end of its `type`."""


class Problem(DiscreetError):
    """Error that a request is answered with.

    Args:
        kind: one of `PROBLEMS`.
        detail: the sentence.
        retry_after: seconds after which to ask again; None sends no such header.
        allow: methods of an address; "" sends no such header.
    """

    def __init__(self, kind: str, detail: str, *, retry_after: int | None = None, allow: str = "") -> None:
        super().__init__(detail)
        self.allow = allow
        self.kind = kind
        self.status, self.title = PROBLEMS[kind]
        self.retry_after = retry_after


def problem_response(problem: Problem) -> Response:
    """Make the response for a problem."""
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
