"""Connections of the server, with bounds where uvicorn has none.

How large the head of a request is, how long it takes to come, how long an answer waits to be taken, and how many
connections there are. A client that has said all and closed its side still gets its answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from discreet.server.problems import MEDIA, Problem, problem_text

__all__ = ["Connection"]

HEAD_BYTES = 2**18
"""Of the head of a request."""
ADDRESS_BYTES = 2**16 - 1
"""Of the address in it: httptools counts no further."""
HEAD_SECONDS = 10.0
"""In which a head has to be there, from the start of a connection, or from its first byte."""
TAKE_SECONDS = 60.0
"""In which a client takes at least some of what waits for it."""
MOST_CONNECTIONS = 512


class Connection(HttpToolsProtocol):
    """One connection."""

    _head = 0
    _waits: asyncio.TimerHandle | None = None
    _takes: asyncio.TimerHandle | None = None
    _fault = Problem("bad-request", "this is no HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(Problem("busy", f"{MOST_CONNECTIONS} connections are open; ask again later"))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, as long as it is no endless head."""
        if self._is_idle() and self._waits is None:
            self._await_head()
        if self._waits is not None:
            self._head += len(data)
        super().data_received(data)
        if self._waits is not None and self._head > HEAD_BYTES:
            self._refuse(Problem("too-large", f"the head of a request has at most {HEAD_BYTES:,} bytes"))

    def on_url(self, url: bytes) -> None:
        """Take a part of the address; what is too long cannot be read, and it is better to know why."""
        super().on_url(url)
        if len(self.url) > ADDRESS_BYTES:
            self._fault = Problem(
                "too-large", f"an address has at most {ADDRESS_BYTES:,} bytes; ask a longer question by POST"
            )

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._stop()
        super().on_headers_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked before the client closed its side, then close."""
        if self._is_idle() or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(self._fault)

    def pause_writing(self) -> None:
        """Wait for a client that does not take its answer, but not for ever."""
        super().pause_writing()
        if self._takes is None:
            self._takes = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client takes its answer."""
        if self._takes is not None:
            self._takes.cancel()
            self._takes = None
        super().resume_writing()

    def _is_idle(self) -> bool:
        """Whether there is no request to be answered."""
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        """Begin to wait for a head."""
        self._head = 0
        self._waits = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop(self) -> None:
        """Do not wait for a head any more."""
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _close(self) -> None:
        """Give a head up that does not come."""
        self._waits = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer without asking anybody, and close."""
        self._stop()
        if self.transport.is_closing():
            return
        text = problem_text(problem).encode()
        head: list[Any] = [
            STATUS_LINE[problem.status],
            f"content-type: {MEDIA}\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n".encode(),
        ]
        self.transport.write(b"".join([*head, text]))
        self.transport.close()
