"""Asking a server over HTTP: connections that stay open, a time in which all ends, and no surprise.

A token goes to the server that it is for: redirects are not followed, that of the environment says whose it is or stays
on this machine, and none is sent over plain HTTP to another machine unless somebody says so. What comes back is
bounded, and what goes wrong is one sentence: the server's, if it had one. All that is asked reads, so that a question
may be sent again.

Connections, TLS and HTTP are httpcore2's, which httpx2 stands on: of the two it alone takes a network of one's own, and
that is where an answer as a whole gets its time.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import ssl
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from discreet.errors import DiscreetError, InputError, require, shown

try:
    import httpcore2 as httpcore
except ModuleNotFoundError:
    raise InputError("asking a server needs httpcore2: pip install '.[client]' in a clone of discreet") from None

TOKEN_VARIABLE = "DISCREET_TOKEN"
BODY_BYTES = 2**20
"""Most that a server takes in the body of a request, unless it was told otherwise."""
RESPONSE_BYTES = 2**28
"""Most that is taken of a response that is read whole: 256 MiB, twice the largest release."""
PROBLEM_BYTES = 2**16
KEPT_SECONDS = 20.0
"""That a connection stays open for the next question: less than a server keeps it, so that none is asked as it goes."""
MOST_TRIES = 10
"""Of one question; also bounded by its time."""
SECONDS = re.compile("[0-9]{1,9}")
"""What `Retry-After` says, where it says seconds."""
LONGEST_TOKEN = 4096
AGAIN = (429, 503)
"""Statuses after which it is worth asking again, where the server says when."""
FAULTS = (OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
"""Why there is no response, or no end of it."""
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
        self._pool_of: tuple[int, httpcore.ConnectionPool] | None = None
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
        response = self._respond(path, given, body)
        try:
            return self._read_whole(response, RESPONSE_BYTES)
        finally:
            response.close()

    def stream(self, *path: str, given: Parameters = (), most: int) -> RecordStream:
        """What the server sends as it makes it, as a file; as `ask`.

        Args:
            path: parts of the address.
            given: of the address.
            most: bytes.
        """
        return RecordStream(self, self._respond(path, given, None), most)

    def close(self) -> None:
        """Close all connections; the next question opens another one."""
        if self._pool_of is not None:
            _close(*self._pool_of)

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

    @property
    def _pool(self) -> httpcore.ConnectionPool:
        """Connections of this process: one that was forked has its own."""
        if self._pool_of is None or self._pool_of[0] != os.getpid():
            self._pool_of = (
                os.getpid(),
                httpcore.ConnectionPool(
                    ssl.create_default_context() if self._secure else None,
                    max_connections=None,
                    keepalive_expiry=KEPT_SECONDS,
                    network_backend=_DeadlineNetwork(),
                ),
            )
            weakref.finalize(self, _close, *self._pool_of)
        return self._pool_of[1]

    def _respond(self, path: Iterable[str], given: Parameters, body: Mapping[str, Any] | None) -> httpcore.Response:
        """A response with an answer; who is told to ask again later does, while there is time."""
        self._meet()
        until = _DEADLINE.until = time.monotonic() + self.timeout
        request = self._request(_target(path, given), body)
        for left in reversed(range(MOST_TRIES)):
            try:
                response = self._pool.handle_request(request)
            except FAULTS as error:
                raise self._explain(error) from None
            if response.status == 200:
                return response
            wait = _header(response, b"retry-after")
            said = response.status in AGAIN and SECONDS.fullmatch(wait) is not None
            again = said and left and time.monotonic() + int(wait) < until
            problem = self._problem(response)
            if not again:
                raise problem
            time.sleep(int(wait))
        raise AssertionError

    def _request(self, target: str, body: Mapping[str, Any] | None) -> httpcore.Request:
        """One question."""
        headers: dict[bytes | str, bytes | str] = {
            "Host": urlsplit(self.url).netloc,
            "Accept": "application/json, */*;q=0.5",
            "User-Agent": f"discreet/{version('discreet')}",
        }
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        text = None if body is None else _write(body)
        if text is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(text))}
        scheme = "https" if self._secure else "http"
        url = httpcore.URL(scheme=scheme, host=self._host, port=self._port, target=self._path + target)
        return httpcore.Request("GET" if text is None else "POST", url, headers=headers, content=text)

    def _read_whole(self, response: httpcore.Response, most: int) -> bytes:
        """All of a response, if it is not too much."""
        parts, size = [], 0
        try:
            for part in response.iter_stream():
                size += len(part)
                if size > most:
                    raise DiscreetError(f"the answer of {self.url} has more than {most:,} bytes, and is not read")
                parts.append(part)
        except FAULTS as error:
            raise self._explain(error) from None
        return b"".join(parts)

    # -------------------------------------------------------------------------------------------- what goes wrong

    def _problem(self, response: httpcore.Response) -> DiscreetError:
        """What a response that is no answer says, in the server's sentence."""
        status = response.status
        if 300 <= status < 400:
            response.close()
            place = shown(_header(response, b"location") or "elsewhere")
            return DiscreetError(f"{self.url} sends us on to {place}, which is not followed: give that address")
        try:
            found = json.loads(self._read_whole(response, PROBLEM_BYTES))
            detail = found["detail"]
            ours = str(found["type"]).startswith("urn:discreet:problem:") and isinstance(detail, str)
        except (ValueError, TypeError, KeyError, RecursionError, DiscreetError):
            ours = False
        finally:
            response.close()
        if not ours:
            reason = response.extensions["reason_phrase"].decode("latin-1")
            return DiscreetError(f"{self.url} answered {status} {reason}: no `discreet serve` said that")
        if status == 401:
            return InputError(f"{detail}; give Client(url, token=...), or set {TOKEN_VARIABLE}='{self.url} TOKEN'")
        return DiscreetError(detail) if status >= 500 or status in AGAIN else InputError(detail)

    def _explain(self, error: Exception) -> DiscreetError:
        """Why there is no response; errors of the library hold that of the system."""
        match next((part for part in error.args if isinstance(part, Exception)), error):
            case TimeoutError():
                why = f"did not answer within {self.timeout:g} seconds"
            case ssl.SSLError() as cause:
                why = f"cannot be trusted: {cause.reason or cause}"
            case ConnectionRefusedError():
                why = "is not there: nothing listens at this address (`discreet serve` prints its own)"
            case OSError() as cause:
                why = f"cannot be reached: {cause.strerror or cause}"
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


class _Deadline(threading.local):
    """When all that a thread waits for has to be there, as `time.monotonic` says it."""

    until = math.inf

    def left(self) -> float:
        """Seconds until then; none is an error."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


_DEADLINE = _Deadline()


class _DeadlineNetwork(httpcore.NetworkBackend):
    """A network on which all is there by the deadline of the thread that waits, however little comes at once."""

    def connect_tcp(
        self, host: str, port: int, timeout: object = None, local_address: str | None = None, socket_options: Any = None
    ) -> _DeadlineStream:
        """A connection."""
        backend = httpcore.SyncBackend()
        return _DeadlineStream(backend.connect_tcp(host, port, _DEADLINE.left(), local_address, socket_options))


class _DeadlineStream(httpcore.NetworkStream):
    """One connection of it."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: object = None) -> bytes:
        """The next bytes."""
        return self._stream.read(max_bytes, _DEADLINE.left())

    def write(self, buffer: bytes, timeout: object = None) -> None:
        """Send bytes."""
        self._stream.write(buffer, _DEADLINE.left())

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: object = None
    ) -> _DeadlineStream:
        """The same over TLS."""
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, _DEADLINE.left()))

    def get_extra_info(self, info: str) -> Any:
        """What the library asks of it."""
        return self._stream.get_extra_info(info)


class RecordStream(io.RawIOBase):
    """A response as a file that is read once, from its start to its end.

    Args:
        wire: that it comes over.
        response: of it.
        most: bytes.
    """

    def __init__(self, wire: Wire, response: httpcore.Response, most: int) -> None:
        self._wire, self._response, self._left = wire, response, most
        self._parts: Iterator[bytes] = iter(response.iter_stream())
        self._part = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, fewer at the end; memory is taken for what comes, and not for what is asked for.

        Raises:
            DiscreetError: the server breaks off, or does not end.
        """
        pieces: list[bytes] = []
        wanted = self._left if size < 0 else size
        while wanted:
            piece = self._part or self._next()
            if not piece:
                break
            pieces.append(piece[:wanted])
            self._part = piece[wanted:]
            wanted -= len(pieces[-1])
            self._left -= len(pieces[-1])
            if self._left <= 0:
                raise DiscreetError(f"{self._wire.url} sends more than was asked for")
        return b"".join(pieces)

    def _next(self) -> bytes:
        """What comes next, in its own time."""
        _DEADLINE.until = time.monotonic() + self._wire.timeout
        try:
            return next(self._parts, b"")
        except FAULTS as error:
            raise self._wire._explain(error) from None

    def close(self) -> None:
        """Leave; what was not read is not sent."""
        if not self.closed:
            self._response.close()
        super().close()


def _close(process: int, pool: httpcore.ConnectionPool) -> None:
    """Close connections, which those of a process that was forked from it are not."""
    if process == os.getpid():
        pool.close()


def _header(response: httpcore.Response, name: bytes) -> str:
    """A line of a head; empty where it is not there."""
    return {key.lower(): value for key, value in response.headers}.get(name, b"").decode("latin-1")


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
