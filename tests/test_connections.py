"""A connection of the server that is given the pieces of what a client says, and an application of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from discreet.server.application import HEAD_BYTES, HEAD_LINES, MOST_AHEAD, Connection
from folding import every

ENOUGH = 10.0
TURNS = 1000  # of a loop in which nothing waits for time
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
ASKED = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKS = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


class Wire(asyncio.Transport):
    """What is between a connection and its client: keeps all that is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written, self.aborted, self.closed, self.high = b"", False, False, None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += b"" if self.aborted else bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connect(app: Callable[..., Awaitable[None]]) -> tuple[Connection, Wire]:
    """A connection to an application."""
    connection, wire = Connection(Config(app, log_config=None), ServerState(), {}), Wire()
    connection.connection_made(wire)
    return connection, wire


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the address, of two characters."""
    await send(START)
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def tell(pieces: Sequence[bytes], app: Callable[..., Awaitable[None]] = echo) -> Wire:
    """Say it in pieces, until the connection is closed."""
    connection, wire = connect(app)
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
            await asyncio.sleep(0)
    for _ in range(TURNS):
        if connection.tasks and not wire.closed:
            await asyncio.sleep(0)
    connection.connection_lost(None)
    return wire


LONG = b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES + b"\r\n\r\n"


@every("pieces", [
    [LONG], [LONG[:100], LONG[100:]], [LONG[:HEAD_BYTES], LONG[HEAD_BYTES:]],
    [LONG[at : at + 7] for at in range(0, 2**19, 7)],
    [CHUNKS, b"X: " + b"x" * HEAD_BYTES], [CHUNKS + b"X: ", *[b"x" * 1000] * 300],
], ids=["one", "start", "end", "small", "after", "after, small"])  # fmt: skip
def test_a_head_has_a_bound_in_whatever_pieces_it_comes(pieces: list[bytes]) -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    wire = asyncio.run(tell(pieces, silent))
    assert wire.written.startswith(b"HTTP/1.1 413 ") and wire.closed
    assert f"at most {HEAD_BYTES:,} bytes".encode() in wire.written


def test_a_long_head_within_its_bound_is_read_in_any_pieces() -> None:
    said = b"GET /a HTTP/1.1\r\nX: " + b"x" * (HEAD_BYTES - 100) + b"\r\n\r\n"
    for size in (7, 1000, 2**17, 2**18, 2**20):
        wire = asyncio.run(tell([said[at : at + size] for at in range(0, len(said), size)]))
        assert wire.written.endswith(b"/a"), size


def test_a_long_body_does_not_count_as_a_head() -> None:
    async def after_all(scope: Any, receive: Any, send: Any) -> None:
        taken, more = 0, True
        while more:
            message = await receive()
            taken, more = taken + len(message["body"]), message["more_body"]
        assert taken == 4 * HEAD_BYTES
        await echo({"path": "ok"}, receive, send)

    size = HEAD_BYTES // 2
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (4 * HEAD_BYTES)
    wire = asyncio.run(tell([head, *[b"x" * size] * 8], after_all))
    assert wire.written.endswith(b"ok")


@every("said", [
    b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (HEAD_LINES + 1) + b"\r\n", CHUNKS + b"a:\r\n" * HEAD_LINES + b"\r\n",
], ids=["head", "after"])  # fmt: skip
def test_lines_have_a_number(said: bytes) -> None:
    wire = asyncio.run(tell([said], lambda scope, receive, send: receive()))
    assert wire.written.startswith(b"HTTP/1.1 413 ") and f"at most {HEAD_LINES} lines".encode() in wire.written
    fewer = b"GET /a HTTP/1.1\r\n" + b"a:\r\n" * HEAD_LINES + b"\r\n"
    assert asyncio.run(tell([fewer])).written.endswith(b"/a")


def test_requests_before_their_turn_are_answered_in_order_and_have_a_number() -> None:
    wire = asyncio.run(tell([b"".join(ASKED % at for at in range(MOST_AHEAD // 2))]))
    assert [part[-2:] for part in wire.written.split(b"HTTP/1.1 200")[1:]] == [b"/%d" % at for at in range(8)]
    wire = asyncio.run(tell([b"".join(ASKED % (at % 10) for at in range(MOST_AHEAD + 2))]))
    assert wire.aborted and wire.written == b""  # the place of the first answer is not that of a refusal


def test_what_is_not_taken_has_its_time_even_if_it_is_little_and_the_connection_closed() -> None:
    async def leave() -> bool:
        connection, wire = connect(echo)
        assert wire.high == 0  # so whatever waits is told to the connection
        connection.pause_writing()
        wire.close()
        assert connection._takes is not None and not wire.aborted
        connection._takes._run()
        return wire.aborted

    assert asyncio.run(leave())


def test_nothing_is_written_into_an_answer_that_is_under_way() -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"o", "more_body": True})
        await asyncio.Event().wait()

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    for more in ([ASKED % 2, b"nonsense\r\n\r\n"], [b"nonsense\r\n\r\n"], [ASKED % at for at in range(MOST_AHEAD + 2)]):
        wire = asyncio.run(tell([ASKED % 1, b"", *more], half))
        assert wire.written.endswith(b"\r\n\r\no") and wire.aborted, more
        wire = asyncio.run(tell([ASKED % 1, b"", *more], nothing))
        assert wire.written == b"" and wire.aborted, more


def test_who_leaves_is_missed_by_what_is_written_although_more_was_asked() -> None:
    async def leave() -> str:
        heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def listen(scope: Any, receive: Any, send: Any) -> None:
            assert (await receive())["type"] == "http.request"
            heard.set_result((await receive())["type"])

        connection, _ = connect(listen)
        connection.data_received(ASKED % 1)
        connection.data_received(ASKED % 2)
        await asyncio.sleep(0)
        connection.connection_lost(None)
        return await asyncio.wait_for(heard, ENOUGH)

    assert asyncio.run(leave()) == "http.disconnect"
