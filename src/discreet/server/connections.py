"""Connections of the server, with bounds where uvicorn has none.

How large the head of a request is, how long it takes to come, how long an answer waits to be taken, how many requests
wait for the answer to one before them, and how many connections there are. A client that has said all and closed its
side still gets its answer.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from discreet.server.problems import Problem, problem_response

HEAD_BYTES = 2**18
"""Of the head of a request."""
HEAD_LINES = 100
"""Of a head, and of what follows a body in chunks. A short line takes some twenty times its bytes in memory."""
ADDRESS_BYTES = 2**16 - 1
"""Of the address in it: httptools counts no further, and 0.6.4 begins again at 0."""
HEAD_SECONDS = 10.0
"""In which a head has to be there, from the start of a connection, or from its first byte."""
TAKE_SECONDS = 60.0
"""In which a client takes all that waits for it, of a long answer a piece."""
MOST_CONNECTIONS = 512
MOST_AHEAD = 16
"""Requests of a connection that come before their turn."""
_LONG_HEAD = Problem("too-large", f"the head of a request has at most {HEAD_BYTES:,} bytes")


class Connection(HttpToolsProtocol):
    """One connection."""

    _unused = 0
    _answered: RequestResponseCycle | None = None
    """The request that is being answered; `cycle` is the last one that came, which may wait behind it."""
    _waits: asyncio.TimerHandle | None = None
    _takes: asyncio.TimerHandle | None = None
    _fault = Problem("bad-request", "this is no HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, unless there are too many."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # then all that waits to be taken has its time, also after a close
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(Problem("busy", f"{MOST_CONNECTIONS} connections are open; ask again later", retry_after=5))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more, and tell what is being written that nobody takes it."""
        self._stop()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, as long as something comes of it: no endless head, and no endless lines after a body."""
        if self._is_idle() and self._waits is None:
            self._await_head()
        self._unused += len(data)
        super().data_received(data)
        # Also of a head that comes before its turn, while another answer is under way.
        if self._unused > HEAD_BYTES:
            self._refuse(_LONG_HEAD)

    def on_message_begin(self) -> None:
        """A head begins, of which this piece is the first."""
        self._unused = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, whose size the application bounds."""
        self._unused = 0
        super().on_body(body)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address; what is too long is not read, and it is better to know why."""
        super().on_url(url)
        if len(self.url) > ADDRESS_BYTES:
            self._fault = Problem(
                "too-large", f"an address has at most {ADDRESS_BYTES:,} bytes; ask a longer question by POST"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of a head, or of what follows a body in chunks."""
        super().on_header(name, value)
        if len(self.headers) > HEAD_LINES:
            self._fault = Problem("too-large", f"the head of a request has at most {HEAD_LINES} lines")
            raise ValueError("too many lines")

    def on_headers_complete(self) -> None:
        """The head is there; raising is how a parser is told to stop, which answers `send_400_response`."""
        self._stop()
        self._unused = 0
        if len(self.url) > ADDRESS_BYTES:
            raise ValueError("too long an address")
        # Pieces are counted from the second one, so the whole is measured here, too.
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._fault = _LONG_HEAD
            raise ValueError("too long a head")
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many before their turn")
        is_next = self._is_idle()
        super().on_headers_complete()
        if is_next:
            self._answered = self.cycle

    def on_response_complete(self) -> None:
        """Go on with the request that came next."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

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
        """Answer without asking anybody, and close; in the place of another answer nothing can be said."""
        self._stop()
        if self.transport.is_closing():
            return
        is_own = self._answered is self.cycle and self.cycle is not None and self.cycle.more_body
        if not self._is_idle() and (self.cycle.response_started or not is_own):
            self.transport.abort()
            return
        response = problem_response(problem)
        head = b"".join(b"%b: %b\r\n" % line for line in response.raw_headers)
        said = (STATUS_LINE[problem.status], head, b"connection: close\r\n\r\n", bytes(response.body))
        self.transport.write(b"".join(said))
        self.transport.close()
