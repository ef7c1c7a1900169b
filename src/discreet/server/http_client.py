"""Asking a server over HTTP: one connection a thread that stays open, a time in which all ends, and no surprise.

A token goes to the server that it is for: redirects are not followed, that of the environment says whose it is or stays
on this machine, and none is sent over plain HTTP to another machine unless somebody says so. What comes back is
bounded, and what goes wrong is one sentence: the server's, if it had one. All that is asked reads, so that a question
may be sent again.
"""

from __future__ import annotations

import http.client
import io
import json
import math
import os
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from discreet.errors import DiscreetError, InputError, require, shown

TOKEN_VARIABLE = "DISCREET_TOKEN"
BODY_BYTES = 2**20
"""Most that a server takes in the body of a request, unless it was told otherwise."""
RESPONSE_BYTES = 2**28
"""Most that is taken of a response that is read whole: 256 MiB, twice the largest release."""
PROBLEM_BYTES = 2**16
PIECE_BYTES = 2**18
MOST_TRIES = 10
"""Of one question; also bounded by its time."""
SECONDS = re.compile("[0-9]{1,9}")
"""What `Retry-After` says, where it says seconds."""
LONGEST_TOKEN = 4096
AGAIN = (429, 503)
"""Statuses after which it is worth asking again, where the server says when."""
Parameters = Iterable[tuple[str, object]]


class Wire:
    """A way to one server.

    Args:
        url: of the server, with the path that a proxy adds.
        token: that it knows us by; None takes DISCREET_TOKEN of the environment, if that is for this server.
        timeout: seconds in which each answer has to be there.
        insecure: whether a token may go to another machine over plain HTTP.

    Raises:
        InputError: no address of a server, no token, a time that is none, or a token over plain HTTP to others.
    """

    def __init__(self, url: str, token: str | None, timeout: float, insecure: bool) -> None:
        self.url, self.timeout = str(url).rstrip("/"), timeout
        self._secure, self._host, self._port, self._path = _split(self.url)
        self._token = _find_token(self._secure, self._host, self._port) if token is None else token
        if self._token is not None:
            plain = isinstance(self._token, str) and self._token.isascii() and self._token.isprintable()
            right = plain and 0 < len(self._token) <= LONGEST_TOKEN and " " not in self._token
            require(right, "a token is a line without blanks, as `discreet token` prints it")
            require(
                self._secure or insecure or _is_loopback(self._host),
                f"{shown(self._host)} is another machine, and plain http shows the token to everybody between: use "
                "https, leave the token out, or say insecure=True",
            )
        require(0 < timeout < math.inf, f"a timeout is a number of seconds, not {timeout}")
        self._own = threading.local()
        self._known = False

    def ask(self, *path: str, given: Parameters = (), body: Mapping[str, Any] | None = None) -> Any:
        """What the server answers, which is JSON.

        Args:
            path: parts of the address.
            given: of the address.
            body: of a POST; without one it is a GET.

        Raises:
            InputError: the server says that this cannot be asked.
            DiscreetError: no server, no answer in time, or none that can be read.
        """
        return self._parse(self.read(*path, given=given, body=body))

    def read(self, *path: str, given: Parameters = (), body: Mapping[str, Any] | None = None) -> bytes:
        """What the server answers, as bytes; as `ask`."""
        self._meet()
        until = time.monotonic() + self.timeout
        line = self._line()
        response = self._respond(line, _target(path, given), body, until)
        try:
            return self._read_whole(response, RESPONSE_BYTES)
        finally:
            line.end(response)

    def stream(self, *path: str, given: Parameters = (), most: int) -> RecordStream:
        """What the server sends as it makes it, over a connection of its own; as `ask`.

        Args:
            path: parts of the address.
            given: of the address.
            most: bytes.
        """
        self._meet()
        line = _Line(self._connect())
        try:
            response = self._respond(line, _target(path, given), None, time.monotonic() + self.timeout)
        except BaseException:
            line.close()
            raise
        return RecordStream(self, line, response, most)

    def close(self) -> None:
        """Close the connection of this thread; the next question opens another one."""
        self._own.__dict__.clear()

    # ------------------------------------------------------------------------------------------------ one exchange

    def _meet(self) -> None:
        """See once that a server of our version is there."""
        if self._known:
            return
        self._known = True
        try:
            found = self.ask("healthz")
            if not isinstance(found, dict) or not isinstance(found.get("version"), str):
                raise self._strange()
            ours = version("discreet")
            if found["version"].split(".")[:2] != ours.split(".")[:2]:
                raise DiscreetError(
                    f"{self.url} runs discreet {shown(found['version'])} and this is {ours}, which may answer "
                    "otherwise: install the same version"
                )
        except BaseException:
            self._known = False
            raise

    def _connect(self) -> http.client.HTTPConnection:
        """A connection, which opens when it is first used."""
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, context=ssl.create_default_context())
        return http.client.HTTPConnection(self._host, self._port)

    def _line(self) -> _Line:
        """The connection of this thread; a process that was forked has its own."""
        kept: tuple[int, _Line] | None = getattr(self._own, "line", None)
        if kept is None or kept[0] != os.getpid():
            kept = self._own.line = (os.getpid(), _Line(self._connect()))
        return kept[1]

    def _respond(
        self, line: _Line, target: str, body: Mapping[str, Any] | None, until: float
    ) -> http.client.HTTPResponse:
        """A response with an answer; who is told to ask again later does, while there is time."""
        for left in reversed(range(MOST_TRIES)):
            response = self._exchange(line, target, body, until)
            if response.status == 200:
                return response
            wait = response.getheader("Retry-After", "")
            said = response.status in AGAIN and SECONDS.fullmatch(wait) is not None
            again = said and left and time.monotonic() + int(wait) < until
            problem = self._problem(line, response)
            if not again:
                raise problem
            time.sleep(int(wait))
        raise AssertionError

    def _exchange(
        self, line: _Line, target: str, body: Mapping[str, Any] | None, until: float
    ) -> http.client.HTTPResponse:
        """One request and the head of its response."""
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": f"discreet/{version('discreet')}"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        text = None if body is None else _write(body)
        if text is not None:
            headers["Content-Type"] = "application/json"
        used, line.until = line.open, until
        try:
            line.connect()
            line.connection.request("GET" if text is None else "POST", self._path + target, text, headers)
            return line.connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            line.close()
            if used and isinstance(error, ConnectionError) and time.monotonic() < until:
                return self._exchange(line, target, body, until)  # what was kept open too long is closed by the server
            raise self._explain(error) from None

    def _read_whole(self, response: http.client.HTTPResponse, most: int) -> bytes:
        """All of a response, if it is not too much."""
        parts, size = [], 0
        try:
            while not response.isclosed():
                part = response.read1(PIECE_BYTES)
                size += len(part)
                if size > most:
                    raise DiscreetError(f"the answer of {self.url} has more than {most:,} bytes, and is not read")
                if not part:
                    break
                parts.append(part)
        except (OSError, http.client.HTTPException) as error:
            raise self._explain(error) from None
        return b"".join(parts)

    # -------------------------------------------------------------------------------------------- what goes wrong

    def _problem(self, line: _Line, response: http.client.HTTPResponse) -> DiscreetError:
        """What a response that is no answer says, in the server's sentence."""
        status = response.status
        if 300 <= status < 400:
            line.end(response)
            place = shown(response.getheader("Location", "elsewhere"))
            return DiscreetError(f"{self.url} sends us on to {place}, which is not followed: give that address")
        try:
            found = json.loads(self._read_whole(response, PROBLEM_BYTES))
            detail = found["detail"]
            ours = str(found["type"]).startswith("urn:discreet:problem:") and isinstance(detail, str)
        except (ValueError, TypeError, KeyError, RecursionError, DiscreetError):
            ours = False
        line.end(response)
        if not ours:
            return DiscreetError(f"{self.url} answered {status} {response.reason}: no `discreet serve` said that")
        if status == 401:
            return InputError(f"{detail}; give Client(url, token=...), or set {TOKEN_VARIABLE}='{self.url} TOKEN'")
        return DiscreetError(detail) if status >= 500 or status in AGAIN else InputError(detail)

    def _explain(self, error: Exception) -> DiscreetError:
        """Why there is no response."""
        match error:
            case TimeoutError():
                why = f"did not answer within {self.timeout:g} seconds"
            case ssl.SSLError():
                why = f"cannot be trusted: {error.reason or error}"
            case ConnectionRefusedError():
                why = "is not there: nothing listens at this address (`discreet serve` prints its own)"
            case OSError():
                why = f"cannot be reached: {error.strerror or error}"
            case _:
                return self._strange()
        return DiscreetError(f"{self.url} {why}")

    def _strange(self) -> DiscreetError:
        """Something else listens."""
        return DiscreetError(f"what answers at {self.url} is no `discreet serve`, or breaks off")

    def _parse(self, text: bytes) -> Any:
        """JSON of a server that may be any."""
        try:
            return json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise self._strange() from None


class _Line:
    """A connection on which all has to be there by some time, and which is closed when nobody holds it any more."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection, self.until = connection, math.inf

        def answered(own: socket.socket, method: str | None = None) -> http.client.HTTPResponse:
            response = http.client.HTTPResponse(own, method=method)
            raw = response.fp.detach()
            response.fp = io.BufferedReader(_Timely(raw, lambda: own.settimeout(line.left())))
            return response

        line = weakref.proxy(self)
        connection.response_class = answered  # type: ignore[assignment]

    @property
    def open(self) -> bool:
        """Whether it is connected."""
        return self.connection.sock is not None

    def left(self) -> float:
        """Seconds until the time; none is an error."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def connect(self) -> None:
        """Open it, if it is not, and send within what is left then."""
        self.connection.timeout = self.left()
        if self.connection.sock is None:
            self.connection.connect()
        self.connection.sock.settimeout(self.left())

    def end(self, response: http.client.HTTPResponse) -> None:
        """Leave a response; what it did not say yet is not listened to."""
        if not response.isclosed():
            response.close()
            self.close()

    def close(self) -> None:
        """Close it; it opens again when it is used."""
        self.connection.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.connection.close()


class _Timely(io.RawIOBase):
    """What comes over a connection, read within a time however little comes at once.

    Args:
        raw: what comes.
        hurry: lets the next read wait for what is left, or raises.
    """

    def __init__(self, raw: io.RawIOBase, hurry: Callable[[], None]) -> None:
        self._raw, self._hurry = raw, hurry

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """The next bytes."""
        self._hurry()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close what comes, too."""
        self._raw.close()
        super().close()


class RecordStream(io.RawIOBase):
    """A response as a file that is read once, from its start to its end.

    Args:
        wire: that it comes over.
        line: its own connection.
        response: of it.
        most: bytes.
    """

    def __init__(self, wire: Wire, line: _Line, response: http.client.HTTPResponse, most: int) -> None:
        self._wire, self._line, self._response, self._left = wire, line, response, most

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, fewer at the end.

        Raises:
            DiscreetError: the server breaks off, or does not end.
        """
        parts: list[bytes] = []
        wanted = self._left if size < 0 else size
        try:
            while wanted:
                self._line.until = time.monotonic() + self._wire.timeout
                part = self._response.read1(min(wanted, PIECE_BYTES))
                if not part:
                    break
                parts.append(part)
                wanted -= len(part)
                self._left -= len(part)
                if self._left <= 0:
                    raise DiscreetError(f"{self._wire.url} sends more than was asked for")
        except (OSError, http.client.HTTPException) as error:
            raise self._wire._explain(error) from None
        return b"".join(parts)

    def close(self) -> None:
        """Leave; what was not read is not sent."""
        if not self.closed:
            self._response.close()
            self._line.close()
        super().close()


def _find_token(secure: bool, host: str, port: int) -> str | None:
    """The environment's token, if it is for this server: its address stands before it, or the server is this machine.

    Raises:
        InputError: the variable has something else; what, is shown to nobody.
    """
    match os.environ.get(TOKEN_VARIABLE, "").split():
        case []:
            return None
        case [token]:
            return token if _is_loopback(host) else None
        case [url, token]:
            with suppress(InputError):
                return token if _split(url)[:3] == (secure, host, port) else None
    raise InputError(f"{TOKEN_VARIABLE} is the address of a server, a blank and its token, or a token alone")


def _split(url: str) -> tuple[bool, str, int, str]:
    """Whether an address is of TLS, its host, its port and its path."""
    wrong = f"{shown(url)} is no address of a server, such as https://host/discreet or http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError(wrong) from None
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not host or not plain or parts.query or parts.fragment or "@" in url:
        raise InputError(wrong)
    secure = parts.scheme == "https"
    return secure, host, (443 if secure else 80) if port is None else port, parts.path


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _target(path: Iterable[str], given: Parameters) -> str:
    """Path and parameters of an address; what is None is left out."""
    text = "".join(f"/{quote(part, safe='')}" for part in path)
    pairs = [(name, str(value).lower() if isinstance(value, bool) else value) for name, value in given]
    query = urlencode([(name, value) for name, value in pairs if value is not None])
    return f"{text}?{query}" if query else text


def _write(body: Mapping[str, Any]) -> bytes:
    """A body of JSON; what is None is left out."""
    try:
        return json.dumps({name: value for name, value in body.items() if value is not None}, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise InputError("what is asked of a server is text and numbers, none of them NaN or infinite") from None


def _refuse(name: str) -> float:
    """Refuse NaN and infinities, which no answer of ours has."""
    raise ValueError(name)
