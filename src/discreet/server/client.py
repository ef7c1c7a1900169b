"""A client of `discreet serve`: releases and posteriors of a server, used like local ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from discreet.display.renderers import TextTable
from discreet.errors import DiscreetError, InputError, listed, require, require_word, shown
from discreet.model.network import Network
from discreet.releases.combined import Evidence, loads
from discreet.server.http_client import HttpClient
from discreet.server.remote_posterior import RemotePosterior
from discreet.util.limits import DOCUMENT_BYTES
from discreet.util.option_texts import Gaps
from discreet.util.tabular import Block, Result


class ServedReleases(tuple[Mapping[str, Any], ...], Result):
    """Releases of a server, one mapping each.

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
        """Return a row for each release.

        Returns:
            Rows of "name", "id", "version", "kind", "private", "date", "guarantees" in one text, "variables", "draws"
            and "fault".
        """
        rows = [{name: value for name, value in row.items() if name != "versions"} for row in self]
        return [{**row, "guarantees": "; ".join(row.get("guarantees", ()))} for row in rows]

    def content(self) -> Iterator[Block]:
        """The releases in a table."""
        names = ("name", "kind", "variables", "guarantees", "draws")
        yield TextTable(names, [[str(row.get(name, "")) for name in names] for row in self.tidy()])


class Client:
    """A client of `discreet serve`: the server's answers equal those of the same draws here, to the last digit.

    To use a server, replace `load(path).posterior()` by `client.posterior()`, and `load(path)` by `client.release()`.
    With a posterior of a client `answer`, `answer_many`, `marginals`, `predict`, `regress`, `decide` (of a
    `decisions.payoff`), `decisions.decide_number`, `decisions.decide_vector` and `sample` ask the server; `fit`,
    `explain`, `report` and `posterior` take the release, and work here.

    Connections stay open for the next question. If the server is busy, the client asks again while there is time. It
    follows no redirect. It needs httpcore2, the extra `client`.

    Args:
        url: of the server, such as "http://127.0.0.1:8000", with the path that a proxy adds.
        token: identifies its owner to the server; None takes the environment's DISCREET_TOKEN, which goes only to the
            server whose address stands before it ("https://host TOKEN"), or only to this machine if there is none.
        timeout: most seconds until an answer is complete.
        insecure: True lets the token go to another machine over plain http, where everybody between can read it.

    Raises:
        InputError: an invalid address, token or timeout, or a token over plain http to another machine. Nothing is sent
            yet: the first question connects.

    Guarantee:
        None spent: it reads releases alone.

    Example:
        >>> import discreet as dc
        >>> dc.server.Client("http://127.0.0.1:8000", timeout=10)
        Client('http://127.0.0.1:8000')
        >>> dc.server.Client("http://elsewhere.example", token="t")
        Traceback (most recent call last):
        discreet.errors.InputError: 'elsewhere.example' is another machine, and plain http shows the token ...
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, insecure: bool = False) -> None:
        self._http = HttpClient(url, token, timeout, insecure)

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._http.url

    def __repr__(self) -> str:
        """Return the address; the token is never shown."""
        return f"Client({self.url!r})"

    def releases(self) -> ServedReleases:
        """List the releases of the server.

        Returns:
            A mapping for each release, the newest version of it.

        Raises:
            DiscreetError: no server, another version of it, or one that needs a token.
        """
        document = self._http.ask("releases")
        rows = document.get("releases") if isinstance(document, dict) else None
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise DiscreetError(f"{self.url} lists its releases in another form than this version reads")
        return ServedReleases(rows)

    def release(self, name: str | None = None) -> Evidence:
        """Load the document of a release, for `fit`, `explain`, `report`, `posterior`, or to save.

        Args:
            name: of a release, for its newest version, or the id of any; None where the server has one alone.

        Returns:
            A release, combined releases, or figures by others.

        Raises:
            InputError: no such release, or several and no name.
            DiscreetError: no server, another version of it, or one that needs a token.
        """
        return self._document(self._find(name)["id"])

    def posterior(
        self, name: str | None = None, *, missing: Gaps | None = None, draws: bool = False
    ) -> RemotePosterior:
        """Return the posterior of one version that the server holds; newer versions do not change it.

        Args:
            name: of a release, for its newest version, or the id of any; None where the server has one alone.
            missing: for a release that keeps missing values: "state", one more state (its default), or "at-random".
            draws: True fetches the numbers of each answer in every draw with it, so that it has `draws`. A number that
                is infinite in a draw is NaN there. A server sends about a million of them at once and refuses more.

        Returns:
            A posterior whose draws stay on the server.

        Raises:
            InputError: no such release, several and no name, or one without a posterior over a network.
            DiscreetError: no server, another version of it, or one that needs a token.
        """
        if missing is not None:
            require_word(missing, Gaps, "missing is")
        row = self._find(name)
        network = _find_network(self._document(row["id"]), row.get("kind"), missing)
        return RemotePosterior(self._http, row["name"], row["id"], network, missing, draws)

    def close(self) -> None:
        """Close all connections; the next question opens another one."""
        self._http.close()

    def _document(self, release_id: str) -> Evidence:
        """Load a release by its id."""
        text = self._http.read("releases", release_id)
        try:
            return loads(text[: DOCUMENT_BYTES + 1].decode())
        except (InputError, UnicodeDecodeError) as error:
            raise DiscreetError(f"{self.url} sends a release that cannot be read: {error}") from None

    def _find(self, name: str | None) -> Mapping[str, Any]:
        """Find a row of the list of releases; for an older version with its own id."""
        rows = self.releases()
        if name is None:
            if len(rows) == 1:
                return rows[0]
            raise InputError(f"{self.url} has {len(rows)} releases: name one of {listed(row['name'] for row in rows)}")
        for row in rows:
            if row["name"] == name:
                return row
        for row in rows:
            if name in [row["id"], *(version.get("id") for version in row.get("versions", ()))]:
                return {**row, "id": name}
        raise InputError(f"{self.url} has no release {shown(name)}; there are: {listed(row['name'] for row in rows)}")


def _is_row(row: object) -> bool:
    """Return True if a row of the list has the fields that are read here."""
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("name", "id")):
        return False
    parts = (("guarantees", str), ("versions", dict))
    return all(
        isinstance(row.get(name, []), list) and all(isinstance(member, kind) for member in row.get(name, []))
        for name, kind in parts
    )


def _find_network(evidence: Evidence, kind: object, missing: str | None) -> Network:
    """Find the network of a server's answers.

    Raises:
        InputError: there is none, or no value may be missing.
    """
    if kind == "weights":
        raise InputError("a release of a regression or direction has no network: read client.release(...).posterior()")
    require(kind != "structure", "this release has no posterior to ask: only a network was chosen")
    network = evidence.answers_over
    gaps = kind in ("network", "family") and network.may_be_missing
    require(missing != "at-random" or bool(gaps), "missing is for releases of variables with a state of missing values")
    return network.without_missing() if missing == "at-random" else network
