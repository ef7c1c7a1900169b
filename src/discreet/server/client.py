"""A client of `discreet serve`: releases and posteriors of a server, which a notebook asks as if they were here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from discreet.display.renderers import TextTable
from discreet.errors import DiscreetError, InputError, listed, require, require_word, shown
from discreet.model.network import Network
from discreet.releases.combined import Evidence, loads
from discreet.server.http_client import Wire
from discreet.server.remote_posterior import RemotePosterior
from discreet.util.limits import DOCUMENT_BYTES
from discreet.util.option_texts import Gaps
from discreet.util.tabular import Block, Result


class ServedReleases(tuple[Mapping[str, Any], ...], Result):
    """What a server says of its releases, one mapping each.

    Each has "name", "id", "version", "kind" ("network", "family", "states", "weights" or "structure"), "private",
    "date", "guarantees", "variables", "draws", "fault" and "versions".

    Raises:
        Nothing: `Client.releases` makes these.

    Example:
        >>> import discreet as dc
        >>> row = {"name": "visits", "kind": "network", "guarantees": ["epsilon=1"], "draws": "ready"}
        >>> dc.server.ServedReleases([row]).tidy()[0]["guarantees"]
        'epsilon=1'
    """

    __slots__ = ()

    def tidy(self) -> list[dict[str, Any]]:
        """A row for each release.

        Returns:
            Rows of "name", "id", "version", "kind", "private", "date", "guarantees" in one text, "variables", "draws"
            and "fault".
        """
        kept = [{name: value for name, value in row.items() if name != "versions"} for row in self]
        return [{**row, "guarantees": "; ".join(row.get("guarantees", ()))} for row in kept]

    def content(self) -> Iterator[Block]:
        """The releases in a table."""
        names = ("name", "kind", "variables", "guarantees", "draws")
        yield TextTable(names, [[str(row.get(name, "")) for name in names] for row in self.tidy()])


class Client:
    """A client of `discreet serve`: what its server answers is what the same draws answer here, to the last digit.

    A notebook goes over to a server by one line: `client.posterior()` in the place of `load(path).posterior()`, and
    `client.release()` in that of `load(path)`. With a posterior of a client `answer`, `answer_many`, `marginals`,
    `predict`, `regress`, `decide` (of a `decisions.payoff`), `decisions.decide_number` and `sample` ask the server;
    `fit`, `explain`, `report` and `posterior` take the release, and work here.

    Connections stay open for the next question. Who is told that the server is busy asks again while there is time. No
    redirect is followed. It needs httpcore2, the extra `client`.

    Args:
        url: of the server, such as "http://127.0.0.1:8000", with the path that a proxy adds.
        token: that the server knows its owner by; None takes the environment's DISCREET_TOKEN, which goes to the server
            whose address stands before it ("https://host TOKEN"), and without one to this machine alone.
        timeout: seconds in which each answer has to be there.
        insecure: whether the token may go to another machine over plain http, where everybody between can read it.

    Raises:
        InputError: no address of a server, no token, a time that is none, or a token over plain http to another
            machine. Nothing is sent yet: whether the server is there the first question says.

    Guarantee:
        None spent: asks what was released.

    Example:
        >>> import discreet as dc
        >>> dc.server.Client("http://127.0.0.1:8000", timeout=10)
        Client('http://127.0.0.1:8000')
        >>> dc.server.Client("http://elsewhere.example", token="t")
        Traceback (most recent call last):
        discreet.errors.InputError: 'elsewhere.example' is another machine, and plain http shows the token ...
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, insecure: bool = False) -> None:
        self._wire = Wire(url, token, timeout, insecure)

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._wire.url

    def __repr__(self) -> str:
        """The address: a token is shown to nobody."""
        return f"Client({self.url!r})"

    def releases(self) -> ServedReleases:
        """What the server has.

        Returns:
            A mapping for each release, the newest version of it.

        Raises:
            DiscreetError: no server, another version of it, or one that needs a token.
        """
        found = self._wire.ask("releases")
        rows = found.get("releases") if isinstance(found, dict) else None
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise DiscreetError(f"{self.url} lists its releases in another form than this version reads")
        return ServedReleases(rows)

    def release(self, name: str | None = None) -> Evidence:
        """The document of a release, as its file has it: for `fit`, `explain`, `report`, `posterior`, or to save.

        Args:
            name: of a release, for its newest version, or the id of any; None where the server has one alone.

        Returns:
            A release, combined releases, or figures by others.

        Raises:
            InputError: no such release, or several and no name.
            DiscreetError: no server, another version of it, or one that needs a token.
        """
        return self._document(self._find(name)["id"])

    def posterior(self, name: str | None = None, *, missing: Gaps | None = None) -> RemotePosterior:
        """The posterior that the server answers from; it stays that of this version, also if a newer one comes.

        Args:
            name: of a release, for its newest version, or the id of any; None where the server has one alone.
            missing: of a release that keeps missing values: "state", one more (the default there), or "at-random".

        Returns:
            A posterior to ask, whose draws stay where they are.

        Raises:
            InputError: no such release, several and no name, or one that no posterior of a network answers for.
            DiscreetError: no server, another version of it, or one that needs a token.
        """
        if missing is not None:
            require_word(missing, Gaps, "missing is")
        row = self._find(name)
        network = _find_network(self._document(row["id"]), row.get("kind"), missing)
        return RemotePosterior(self._wire, row["name"], row["id"], network, missing)

    def close(self) -> None:
        """Close all connections; the next question opens another one."""
        self._wire.close()

    def _document(self, own: str) -> Evidence:
        """A release by its id."""
        text = self._wire.read("releases", own)
        try:
            return loads(text[: DOCUMENT_BYTES + 1].decode())
        except (InputError, UnicodeDecodeError) as error:
            raise DiscreetError(f"{self.url} sends a release that cannot be read: {error}") from None

    def _find(self, name: str | None) -> Mapping[str, Any]:
        """What the server says of a release; of an older version with its id."""
        rows = self.releases()
        if name is None:
            if len(rows) == 1:
                return rows[0]
            raise InputError(f"{self.url} has {len(rows)} releases: name one of {listed(row['name'] for row in rows)}")
        for row in rows:
            if row["name"] == name:
                return row
        for row in rows:
            if name in [row["id"], *(one.get("id") for one in row.get("versions", ()))]:
                return {**row, "id": name}
        raise InputError(f"{self.url} has no release {shown(name)}; there are: {listed(row['name'] for row in rows)}")


def _is_row(row: object) -> bool:
    """Whether something says of a release what is read here."""
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("name", "id")):
        return False
    parts = (("guarantees", str), ("versions", dict))
    return all(
        isinstance(row.get(name, []), list) and all(isinstance(one, kind) for one in row.get(name, []))
        for name, kind in parts
    )


def _find_network(evidence: Evidence, kind: object, missing: str | None) -> Network:
    """The network that a server's answers are of.

    Raises:
        InputError: there is none, or nothing may be missing.
    """
    if kind == "weights":
        raise InputError("a release of a regression or direction has no network: read client.release(...).posterior()")
    if kind == "structure":
        raise InputError("this release has no posterior to ask: only a network was chosen")
    network = evidence.answers_over
    gaps = kind in ("network", "family") and network.may_be_missing
    require(missing != "at-random" or bool(gaps), "missing is for releases of variables with a state of missing values")
    return network.without_missing() if missing == "at-random" else network
