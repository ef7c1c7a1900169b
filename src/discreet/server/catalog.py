"""Catalog of the served releases: files with names and versions, read again when they change on disk.

A file with new content becomes a new version under the same name. The version before stays under its id, so that links
to it and comparisons with it keep working. A file that cannot be read, or that has another file's release, changes
nothing; its fault is shown.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.model.network import Network
from discreet.posterior.read import Gives, posterior_kind
from discreet.posterior.stored import check_draws, evidence_in
from discreet.releases.combined import Evidence, load
from discreet.server.problems import Problem
from discreet.util.json_files import DRAWS_FIRST_LINE, file_stamp

NAME = re.compile(r"[^A-Za-z0-9._~-]+")
ID = re.compile("[0-9a-f]{32}")
NAME_CHARACTERS = 100
LOOK_SECONDS = 1.0
"""Seconds between checks of a file."""
MOST_VERSIONS = 8
"""Most versions of a file that are served, with the newest."""


def without_folders(text: str, paths: Iterable[Path | None]) -> str:
    """Shorten paths in a message to names, for clients that should not see folders."""
    for path in filter(None, paths):
        text = text.replace(shown_path(path), shown_path(path.name))
    return text


@dataclass(frozen=True, eq=False)
class Version:
    """One version of a file's release.

    Args:
        id: of the release; for combined ones a digest of the document.
        digest: of the document and the state of the file of draws; equal digests have equal answers.
        name: of the file's newest version.
        number: of the version, from 1.
        evidence: a release, figures by others, or several of them.
        kind: of the posterior.
        path: of the file.
        draws: file of stored draws; None without one, or if it was replaced since.
    """

    id: str
    digest: str
    name: str
    number: int
    evidence: Evidence
    kind: Gives
    path: Path
    draws: Path | None

    @property
    def network(self) -> Network:
        """Network of the answers, with a state for missing values if there may be some.

        Raises:
            Problem: the release has no network.
        """
        if self.kind == "weights":
            raise Problem(
                "bad-request", "a release of a regression or direction answers with all its coefficients: ask without q"
            )
        return self.evidence.answers_over

    @property
    def over_network(self) -> bool:
        """True if answers use a public network, which the measurements can contradict."""
        return self.kind in ("network", "family")

    @property
    def gaps(self) -> bool:
        """True if values may be missing, so that `missing` has an effect."""
        return self.over_network and bool(self.evidence.network.may_be_missing)

    @property
    def private(self) -> bool:
        """True for a release of records, False for a simulation."""
        return self.evidence.private


@dataclass
class _File:
    """A served file with its versions, the oldest first."""

    path: Path
    name: str
    stamp: tuple[int, ...] | None = None
    versions: list[Version] = field(default_factory=list)
    fault: str = ""


class ReleaseCatalog:
    """Releases and stored draws in files.

    Args:
        paths: of releases, combined releases, figures by others, or stored draws.
        draws: of stored draws, each of a release among `paths`.

    Raises:
        InputError: a file that cannot be read, two of one release, or draws of none of them.
    """

    def __init__(self, paths: Sequence[str | Path], draws: Iterable[str | Path] = ()) -> None:
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._draws: dict[Path, tuple[tuple[int, ...] | None, str]] = {}
        self._files: list[_File] = []
        self._by_id: dict[str, Version] = {}
        require(bool(paths), "name at least one release to serve")
        for path in draws:
            self._draws[Path(path)] = (file_stamp(Path(path)), content_digest(evidence_in(path)))
        for path in map(Path, paths):
            self._files.append(_File(path, self._name(path)))
            self._take(self._files[-1])
        used = {file.versions[-1].draws for file in self._files}
        for stored in filter(None, used):
            check_draws(stored)
        strange = [path for path in self._draws if path not in used]
        if strange:
            raise InputError(f"the draws {shown_path(strange[0])} are of none of the releases that are served")

    def find(self, name: str) -> Version:
        """Return the newest version of a name, or any version by its id.

        Raises:
            Problem: there is none.
        """
        self.look()
        if versions := self.versions(name):
            return versions[0]
        if name in self._by_id:
            return self._by_id[name]
        names = listed(file.name for file in self._files)
        raise Problem("not-found", f"no release {shown(name)} is served here; the releases are: {names}")

    def versions(self, name: str) -> list[Version]:
        """List all versions of a file, the newest first."""
        return next((file.versions[::-1] for file in self._files if file.name == name), [])

    def newest(self) -> list[Version]:
        """List the newest version of each file."""
        self.look()
        return [file.versions[-1] for file in self._files]

    def fault(self, name: str) -> str:
        """Return the reason why a changed file could not be read, or ""."""
        return next((file.fault for file in self._files if file.name == name), "")

    def look(self) -> None:
        """Check the files for changes, if the last check is some time ago."""
        if time.monotonic() - self._looked < LOOK_SECONDS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked, changed = time.monotonic(), set[Path]()
            for path, (stamp, _) in list(self._draws.items()):
                now = file_stamp(path)
                if now != stamp:
                    with suppress(InputError):
                        self._draws[path] = (now, content_digest(evidence_in(path)))
                        changed.add(path)
            for file in self._files:
                if file_stamp(file.path) != file.stamp or changed:
                    try:
                        self._take(file)
                    except InputError as error:
                        message = without_folders(str(error), [each.path for each in self._files])
                        file.fault = f"the file has changed and cannot be read: {message}"
        finally:
            self._lock.release()

    def _take(self, file: _File) -> None:
        """Read a file as a new version."""
        file.stamp = file_stamp(file.path)
        try:
            evidence, draws = _read(file.path)
        except InputError as error:
            named = file.path.name in str(error)
            raise error if named else InputError(f"{shown_path(file.path)}: {error}") from None
        release_id = evidence.id
        same = self._by_id.get(release_id)
        if same is not None and same.name != file.name:
            raise InputError(
                f"{shown_path(same.path)} and {shown_path(file.path)} are the same release ({release_id}): serve one"
            )
        content = content_digest(evidence)
        if draws is None:
            draws = next((path for path, (_, digest) in self._draws.items() if digest == content), None)
        stamp = None if draws is None else file_stamp(draws)
        number = max((each.number for each in file.versions), default=0) + 1 if same is None else same.number
        kind = posterior_kind(evidence)
        version = Version(release_id, f"{content}-{stamp}", file.name, number, evidence, kind, file.path, draws)
        file.fault = ""
        older = [each for each in file.versions if each is not same]
        if draws is not None:  # the draws belong to this version now
            older = [replace(each, draws=None) if each.draws == draws else each for each in older]
        file.versions = [*older, version]
        self._by_id |= {each.id: each for each in file.versions}
        while len(file.versions) > MOST_VERSIONS:
            self._by_id.pop(file.versions.pop(0).id, None)

    def _name(self, path: Path) -> str:
        """Make a unique name for a file that is valid in an address."""
        stem = path.name.partition(".")[0] or path.name
        plain = NAME.sub("-", stem)[:NAME_CHARACTERS].strip(".-") or "release"
        if ID.fullmatch(plain):
            plain = f"release-{plain}"  # an id must find its own release
        taken = {file.name for file in self._files}
        name, number = plain, 2
        while name in taken:
            name, number = f"{plain}-{number}", number + 1
        return name


def _read(path: Path) -> tuple[Evidence, Path | None]:
    """Read a file's release; for stored draws return the path, too."""
    stored = path.suffix == ".draws"
    with suppress(OSError), path.open("rb") as file:
        stored = stored or file.read(len(DRAWS_FIRST_LINE)) == DRAWS_FIRST_LINE
    if stored:
        return evidence_in(path).alone, path
    return load(path).alone, None


def content_digest(evidence: Evidence) -> str:
    """Compute a digest of a document, the same for a release and for its stored draws.

    Args:
        evidence: content of the document.
    """
    return sha256(evidence.alone.dumps().encode()).hexdigest()
