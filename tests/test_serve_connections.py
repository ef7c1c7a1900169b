"""Connections of a running server: slow, broken, half-closed and many ones; afterwards it answers as before."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from discreet.server.application import ADDRESS_BYTES, Connection
from folding import every
from served_kinds import plain
from serving import Served, served

ASKED = "/releases/r/query?q=P(c)"
HURRY = """
import discreet.server.application as connections
connections.HEAD_SECONDS = connections.TAKE_SECONDS = 0.5
connections.MOST_CONNECTIONS = 100
import sys; from discreet.cli.start import main; sys.exit(main())
"""
ENOUGH = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("connections")
    plain(1).posterior(draws=100, rng=1).save(folder / "r.draws")
    options = ("--rate", "100000", "--seconds", "60")
    with served([Path(folder, "r.draws")], *options, code=HURRY) as running:
        running.ask(ASKED)
        yield running


def talk(server: Served, said: bytes, *, close: bool = False) -> bytes:
    """Say something and take all that comes until the server closes."""
    with socket.create_connection(server.address, timeout=ENOUGH) as connection:
        connection.sendall(said)
        if close:
            connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
        return b"".join(parts)


def head(path: str = ASKED, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}".encode()


def test_who_has_closed_its_side_still_gets_its_answer(server: Served) -> None:
    got = talk(server, head() + b"\r\n", close=True)
    assert got.startswith(b"HTTP/1.1 200 OK") and got.endswith(server.ask(ASKED).body)
    assert talk(server, head(), close=True) == b""  # half a head is no question
    assert talk(server, b"", close=True) == b""
    half = b"POST /releases/r/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    assert talk(server, half, close=True) == b""
    body = b'{"q": ["P(c)"]}'
    post = b"POST /releases/r/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    assert talk(server, post, close=True).startswith(b"HTTP/1.1 200 OK")


def test_a_head_that_does_not_come_is_not_waited_for(server: Served) -> None:
    for said in (b"", b"G", head(), b"\r\n", head() + b"X-Slow: "):
        assert talk(server, said) == b""
    with socket.create_connection(server.address, timeout=ENOUGH) as connection:  # nor the next one, letter by letter
        connection.sendall(head() + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        try:
            for _ in range(1000):
                connection.sendall(b"\r\n")
                time.sleep(0.01)
            pytest.fail("the connection is still open")
        except OSError:
            pass


@every("said", [
    b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /\xff HTTP/1.1\r\n\r\n",
    b"GET  HTTP/1.1\r\n\r\n", b"POST /x HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
])  # fmt: skip
def test_what_is_no_http(server: Served, said: bytes) -> None:
    got = talk(server, said)
    top, _, body = got.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in top
    assert json.loads(body)["detail"] == "this is no HTTP request"
    assert server.ask(ASKED).status == 200


@every("said", [
    head("/" + "x" * 600_000) + b"\r\n", head(more="X-Long: " + "x" * 600_000) + b"\r\n\r\n",
    head(more="".join(f"X-{at}: 1\r\n" for at in range(50_000))) + b"\r\n", b"G" * 600_000,
], ids=["path", "value", "many", "method"])  # fmt: skip
def test_a_head_without_end(server: Served, said: bytes) -> None:
    try:
        got = talk(server, said)
    except ConnectionError:  # it said so, and closed while more was coming
        got = b"HTTP/1.1 413"
    assert got.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
    assert server.ask(ASKED).status == 200


def refuse_more(server: Served, before: bytes, more: bytes) -> None:
    """Send more and more of something, of which the server takes little, and keeps less."""
    memory, taken = server.status("VmRSS"), 0
    with socket.create_connection(server.address, timeout=ENOUGH) as connection:
        connection.sendall(before)
        try:
            for _ in range(2000):
                connection.sendall(more)
                taken += len(more)
        except OSError:
            pass
    assert taken < 2**25, "of 120 MB; what is between two processes holds some MB"
    assert server.status("VmRSS") - memory < 60_000  # KiB
    settle(server)
    assert server.ask(ASKED).status == 200


@every("more", [b"x" * 65_536, b":\r\n" + b"X-Many: 1\r\n" * 6000], ids=["one", "many"])
def test_lines_without_end_after_a_body(server: Served, more: bytes) -> None:
    body = b'F\r\n{"q": ["P(c)"]}\r\n0\r\n'
    post = b"POST /releases/r/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    refuse_more(server, post + body + b"X", more)


def test_a_head_without_end_that_comes_before_its_turn(server: Served) -> None:
    untaken = head("/releases/r/synthetic?n=1000000") + b"\r\n"
    refuse_more(server, untaken + head() + b"X-Long: ", b"x" * 60_000)


def test_a_query_of_a_hundred_thousand_characters_comes_through(server: Served) -> None:
    query = "P(" + "a," * 49_990 + "a)"
    assert "by POST" in server.ask(f"/releases/r/query?q={query}").problem(413, "too-large")
    assert "occurs twice" in server.ask("/releases/r/query", {"q": [query]}).problem(400, "bad-request")
    assert "occurs twice" in server.ask(f"/releases/r/query?q={query[:60_000]}a)").problem(400, "bad-request")


def test_too_long_an_address_is_not_cut_off_where_a_parser_would() -> None:
    connection = Connection.__new__(Connection)
    connection.url = b"/" + b"x" * ADDRESS_BYTES
    with pytest.raises(ValueError, match="too long an address"):
        connection.on_headers_complete()


def test_who_leaves_in_the_middle_is_not_missed(server: Served) -> None:
    for said in (head() + b"\r\n", head("/releases/r/synthetic?n=1000000") + b"\r\n",
                 b"POST /releases/r/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"):  # fmt: skip
        for _ in range(5):
            with socket.create_connection(server.address) as connection:
                connection.sendall(said)
    settle(server)
    assert server.ask(ASKED).status == 200


def test_who_does_not_take_an_answer_is_left(server: Served) -> None:
    before = count_files(server)
    with socket.create_connection(server.address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(head("/releases/r/synthetic?n=1000000") + b"\r\n")
        until = time.monotonic() + ENOUGH
        while server.files() <= before and time.monotonic() < until:
            time.sleep(0.01)
        while server.files() > before and time.monotonic() < until:
            time.sleep(0.05)
        assert server.files() <= before


@pytest.mark.costly("What a crowded server does is seen with 130 connections only.")
def test_more_connections_than_there_may_be(server: Served) -> None:
    opened = [socket.create_connection(server.address, timeout=ENOUGH) for _ in range(130)]
    try:
        said = [one.recv(1000) for one in opened[-20:]]
        assert any(text.startswith(b"HTTP/1.1 503") for text in said), said
    finally:
        for one in opened:
            one.close()
    settle(server)
    assert server.ask(ASKED).status == 200


def count_files(server: Served) -> int:
    """Files that the server has open, once connections of tests before are closed: no fewer a moment later."""
    files = server.files()
    while True:
        time.sleep(0.2)
        if (later := server.files()) >= files:
            return later
        files = later


def settle(server: Served) -> None:
    """Wait until nothing is under way."""
    until = time.monotonic() + ENOUGH
    while "discreet_waiting 0\n" not in server.ask("/metrics").text and time.monotonic() < until:
        time.sleep(0.05)


@pytest.mark.costly("What is lost under load shows with dozens of clients only.")
def test_many_clients_at_once_and_nothing_is_lost(server: Served) -> None:
    paths = [ASKED, "/releases/r/marginals?e=a=yes", "/releases", "/releases/r/query?q=P(z)", "/healthz"]
    before = {path: server.ask(path) for path in paths}
    settle(server)
    threads, files = server.status("Threads"), server.files()

    def client(number: int) -> Counter[int]:
        found: Counter[int] = Counter()
        connection = http.client.HTTPConnection(*server.address, timeout=ENOUGH)
        for turn in range(15):
            asked = paths[(number + turn) % len(paths)]
            if turn % 5 == 0:
                asked = f"/releases/r/query?q=P(b%7Cc=yes)&level=0.{number:02d}{turn}1"
            connection.request("GET", asked)
            got = connection.getresponse()
            body = got.read()
            found[got.status] += 1
            if asked in before and got.status == before[asked].status:
                assert asked == "/releases" or body == before[asked].body
        connection.close()
        return found

    with ThreadPoolExecutor(64) as pool:
        statuses = sum(pool.map(client, range(64)), Counter())
    assert set(statuses) <= {200, 400, 429, 503} and statuses[200] > 300
    settle(server)
    assert {path: server.ask(path).body for path in paths[:2]} == {path: before[path].body for path in paths[:2]}
    assert server.status("Threads") <= threads + 2 and server.files() <= files + 5


@pytest.mark.thorough
def test_nothing_grows_however_long_it_is_asked(server: Served) -> None:
    """Caches fill first; in the second half, memory moves by less than the cache of answers could hold."""

    def ask_many(first: int) -> tuple[int, int, int]:
        for number in range(first, first + 400):
            level = f"level=0.{500_000 + number}"
            assert server.ask(f"{ASKED}&{level}").status == 200
            assert server.ask(f"/releases/r/marginals?e=b=no&{level}").status == 200
            assert server.ask(f"/releases/r/synthetic?n=500&seed={number}&format=parquet").status == 200
            assert server.ask("/releases/r/query", {"q": ["P("]}).status == 400
        settle(server)
        return server.status("VmRSS"), server.status("Threads"), server.files()

    ask_many(0)
    memory, threads, files = ask_many(1000)
    after, more_threads, more_files = ask_many(2000)
    assert after - memory < 8 * 1024  # kB
    assert more_threads <= threads + 1 and more_files <= files + 2
