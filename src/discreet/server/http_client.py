"""Ask a server over HTTP: open connections, one deadline for an answer, and bounded responses.

A token goes only to its server. Redirects are not followed. A token of the environment names its server, or stays on
this machine. No token goes over plain HTTP to another machine, unless the caller allows it. Responses have a bounded
size, and an error is one sentence: the server's own, if it sent one. All requests only read, so they can be repeated.

Connections, TLS and HTTP come from httpcore2, on which httpx2 is built. It accepts a custom network backend, which puts
the deadline on the answer as a whole; httpx2 does not.
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
"""Most bytes of a request's body that a server takes by default."""
RESPONSE_BYTES = 2**28
"""Most bytes of a response that is read at once: 256 MiB, twice the largest release."""
PROBLEM_BYTES = 2**16
KEPT_SECONDS = 20.0
"""Seconds that an idle connection stays open: less than the server's, so that the client closes it first."""
MOST_TRIES = 10
"""Most attempts at one question; its deadline bounds them, too."""
SECONDS = re.compile("[0-9]{1,9}")
"""Pattern of a `Retry-After` in seconds."""
LONGEST_TOKEN = 4096
AGAIN = (429, 503)
"""Statuses after which a request is repeated, if the server says when."""
FAULTS = (OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
"""Errors of a missing or incomplete response."""
Parameters = Iterable[tuple[str, object]]


class HttpClient:
    """HTTP client of one server.

    Args:
        url: of the server, with the path that a proxy adds.
        token: identifies the client; None takes DISCREET_TOKEN of the environment, if that is for this server.
        timeout: most seconds until an answer is complete.
        insecure: True lets a token go to another machine over plain HTTP.

    Raises:
        InputError: an invalid address, token or timeout, or a token over plain HTTP to another machine.
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
                "https, leave the token out, or set insecure=True",
            )
        require(0 < timeout < math.inf, f"a timeout is a number of seconds, not {timeout}")
        self._is_checked = False

    def ask(self, *path: str, parameters: Parameters = (), body: Mapping[str, Any] | None = None) -> Any:
        """Send a request, and parse the JSON answer.

        Args:
            path: parts of the address.
            parameters: of the address.
            body: of a POST; None sends a GET.

        Raises:
            InputError: the server refuses the question.
            DiscreetError: no server, no answer in time, or one that cannot be read.
        """
        return self._parse(self.read(*path, parameters=parameters, body=body))

    def read(self, *path: str, parameters: Parameters = (), body: Mapping[str, Any] | None = None) -> bytes:
        """Send a request, and return the bytes of the answer; see `ask`."""
        response = self._respond(path, parameters, body)
        try:
            return self._read_whole(response, RESPONSE_BYTES)
        finally:
            response.close()

    def stream(self, *path: str, parameters: Parameters = (), most: int) -> RecordStream:
        """Send a request, and return the answer as a file that is read as it arrives; see `ask`.

        Args:
            path: parts of the address.
            parameters: of the address.
            most: bytes of the answer.
        """
        return RecordStream(self, self._respond(path, parameters, None), most)

    def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        if self._pool_of is not None:
            _close(*self._pool_of)

    # ------------------------------------------------------------------------------------------------ one exchange

    def _meet(self) -> None:
        """Check once that a server of this version answers."""
        if self._is_checked:
            return
        self._is_checked = True
        try:
            state = self.ask("healthz")
            if not isinstance(state, dict) or not isinstance(state.get("version"), str):
                raise self._strange()
            ours = version("discreet")
            if state["version"].split(".")[:2] != ours.split(".")[:2]:
                raise DiscreetError(
                    f"{self.url} runs discreet {shown(state['version'])} and this is {ours}, which may answer "
                    "differently: install the same version"
                )
        except BaseException:
            self._is_checked = False
            raise

    @property
    def _pool(self) -> httpcore.ConnectionPool:
        """Pool of connections of this process; a forked process gets its own."""
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

    def _respond(self, path: Iterable[str], pairs: Parameters, body: Mapping[str, Any] | None) -> httpcore.Response:
        """Return a response with status 200; retry while the server is busy and there is time."""
        self._meet()
        until = _DEADLINE.until = time.monotonic() + self.timeout
        request = self._request(_target(path, pairs), body)
        for left in reversed(range(MOST_TRIES)):
            try:
                response = self._pool.handle_request(request)
            except FAULTS as error:
                raise self._explain(error) from None
            if response.status == 200:
                return response
            wait = _header(response, b"retry-after")
            has_delay = response.status in AGAIN and SECONDS.fullmatch(wait) is not None
            can_retry = has_delay and left and time.monotonic() + int(wait) < until
            problem = self._problem(response)
            if not can_retry:
                raise problem
            time.sleep(int(wait))
        raise AssertionError

    def _request(self, target: str, body: Mapping[str, Any] | None) -> httpcore.Request:
        """Build one request."""
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
        """Read all of a response, up to `most` bytes."""
        pieces, size = [], 0
        try:
            for piece in response.iter_stream():
                size += len(piece)
                if size > most:
                    raise DiscreetError(f"the answer of {self.url} has more than {most:,} bytes, the most that is read")
                pieces.append(piece)
        except FAULTS as error:
            raise self._explain(error) from None
        return b"".join(pieces)

    # -------------------------------------------------------------------------------------------- what goes wrong

    def _problem(self, response: httpcore.Response) -> DiscreetError:
        """Turn an error response into an exception with the server's message."""
        status = response.status
        if 300 <= status < 400:
            response.close()
            address = shown(_header(response, b"location") or "elsewhere")
            return DiscreetError(f"{self.url} redirects to {address}, which is not followed: give that address")
        try:
            document = json.loads(self._read_whole(response, PROBLEM_BYTES))
            detail = document["detail"]
            ours = str(document["type"]).startswith("urn:discreet:problem:") and isinstance(detail, str)
        except (ValueError, TypeError, KeyError, RecursionError, DiscreetError):
            ours = False
        finally:
            response.close()
        if not ours:
            reason = response.extensions["reason_phrase"].decode("latin-1")
            return DiscreetError(
                f"{self.url} answered {status} {reason}, but not as `discreet serve` does: check the address"
            )
        if status == 401:
            return InputError(f"{detail}; give Client(url, token=...), or set {TOKEN_VARIABLE}='{self.url} TOKEN'")
        return DiscreetError(detail) if status >= 500 or status in AGAIN else InputError(detail)

    def _explain(self, error: Exception) -> DiscreetError:
        """Turn an error of the network into an exception with its cause; the library's errors hold the system's."""
        match next((cause for cause in error.args if isinstance(cause, Exception)), error):
            case TimeoutError():
                why = f"did not answer within {self.timeout:g} seconds"
            case ssl.SSLError() as cause:
                why = f"cannot be trusted: {cause.reason or cause}"
            case ConnectionRefusedError():
                why = "does not answer: nothing listens at this address (`discreet serve` prints its own)"
            case OSError() as cause:
                why = f"cannot be reached: {cause.strerror or cause}"
            case _:
                return self._strange()
        return DiscreetError(f"{self.url} {why}")

    def _strange(self) -> DiscreetError:
        """Make the error for a server of another kind."""
        return DiscreetError(f"the server at {self.url} is not `discreet serve`, or breaks off: check the address")

    def _parse(self, text: bytes) -> Any:
        """Parse JSON of an untrusted server."""
        try:
            return json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise self._strange() from None


class _Deadline(threading.local):
    """Deadline of a thread's current request, as a time of `time.monotonic`."""

    until = math.inf

    def left(self) -> float:
        """Seconds until the deadline; raises TimeoutError after it."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


_DEADLINE = _Deadline()


class _DeadlineNetwork(httpcore.NetworkBackend):
    """Network backend that applies the thread's deadline to each wait."""

    def connect_tcp(
        self, host: str, port: int, timeout: object = None, local_address: str | None = None, socket_options: Any = None
    ) -> _DeadlineStream:
        """Open a connection."""
        backend = httpcore.SyncBackend()
        return _DeadlineStream(backend.connect_tcp(host, port, _DEADLINE.left(), local_address, socket_options))


class _DeadlineStream(httpcore.NetworkStream):
    """Connection that applies the thread's deadline to each read and write."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: object = None) -> bytes:
        """Read the next bytes."""
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
        """Start TLS on the connection."""
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, _DEADLINE.left()))

    def get_extra_info(self, info: str) -> Any:
        """Return what the library asks for."""
        return self._stream.get_extra_info(info)


class RecordStream(io.RawIOBase):
    """A response as a file that is read once, from its start to its end.

    Args:
        client: that sent the request.
        response: to read.
        most: bytes of it.
    """

    def __init__(self, client: HttpClient, response: httpcore.Response, most: int) -> None:
        self._client, self._response, self._left = client, response, most
        self._pieces: Iterator[bytes] = iter(response.iter_stream())
        self._rest = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read the next bytes, fewer at the end; memory grows with the bytes received, not with `size`.

        Raises:
            DiscreetError: the server breaks off, or sends too much.
        """
        pieces: list[bytes] = []
        wanted = self._left if size < 0 else size
        while wanted:
            piece = self._rest or self._next()
            if not piece:
                break
            pieces.append(piece[:wanted])
            self._rest = piece[wanted:]
            wanted -= len(pieces[-1])
            self._left -= len(pieces[-1])
            if self._left <= 0:
                raise DiscreetError(f"{self._client.url} sends more than was asked for")
        return b"".join(pieces)

    def _next(self) -> bytes:
        """Return the next piece, with a deadline of its own."""
        _DEADLINE.until = time.monotonic() + self._client.timeout
        try:
            return next(self._pieces, b"")
        except FAULTS as error:
            raise self._client._explain(error) from None

    def close(self) -> None:
        """Close the response; the server stops sending."""
        if not self.closed:
            self._response.close()
        super().close()


def _close(process: int, pool: httpcore.ConnectionPool) -> None:
    """Close a pool, unless a forked process calls it."""
    if process == os.getpid():
        pool.close()


def _header(response: httpcore.Response, name: bytes) -> str:
    """Return a header's value, or "" without it."""
    return {key.lower(): value for key, value in response.headers}.get(name, b"").decode("latin-1")


def _find_token(secure: bool, host: str, port: int) -> str | None:
    """Find the environment's token for this server: its address precedes the token, or the server is this machine.

    Raises:
        InputError: the variable has another form; its value is not shown.
    """
    match os.environ.get(TOKEN_VARIABLE, "").split():
        case []:
            return None
        case [token]:
            return token if _is_loopback(host) else None
        case [url, token]:
            with suppress(InputError):
                return token if _split(url)[:3] == (secure, host, port) else None
    raise InputError(f"{TOKEN_VARIABLE} must be the address of a server, a blank and its token, or a token alone")


def _split(url: str) -> tuple[bool, str, int, str]:
    """Split an address into True for TLS, host, port and path."""
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
    """Return True if a host is this machine."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _target(path: Iterable[str], parameters: Parameters) -> str:
    """Write path and parameters of an address, without those that are None."""
    text = "".join(f"/{quote(segment, safe='')}" for segment in path)
    pairs = [(name, str(value).lower() if isinstance(value, bool) else value) for name, value in parameters]
    query = urlencode([(name, value) for name, value in pairs if value is not None])
    return f"{text}?{query}" if query else text


def _write(body: Mapping[str, Any]) -> bytes:
    """Write a JSON body, without the fields that are None."""
    try:
        return json.dumps({name: value for name, value in body.items() if value is not None}, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise InputError("a request to a server holds text and finite numbers only") from None


def _refuse(name: str) -> float:
    """Refuse NaN and infinities, which no valid answer has."""
    raise ValueError(name)
