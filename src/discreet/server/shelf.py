"""The releases that are served: files with their names and versions, looked at again when they change on disk.

A file whose content is replaced becomes a new version under the same name. The one before stays under its id, so that
links to it and comparisons with it keep working. A file that cannot be read, or that holds what another one has, leaves
all as it was, and says so.
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

from discreet.errors import InputError, listed, shown, shown_path
from discreet.model.network import Network
from discreet.posterior.joint_draws import DRAWS_FIRST_LINE
from discreet.posterior.read import Gives, what_it_gives
from discreet.posterior.stored import check_draws, evidence_in
from discreet.releases.combined import Evidence, load
from discreet.server.problems import Problem
from discreet.util.json_files import file_stamp

NAME = re.compile(r"[^A-Za-z0-9._~-]+")
ID = re.compile("[0-9a-f]{32}")
NAME_CHARACTERS = 100
LOOK_SECONDS = 1.0
"""Between two looks at a file."""
MOST_VERSIONS = 8
"""Versions of a file that stay, the newest among them."""


def without_folders(text: str, paths: Iterable[Path | None]) -> str:
    """A message about files for who has no use for where they lie."""
    for path in filter(None, paths):
        text = text.replace(shown_path(path), shown_path(path.name))
    return text


@dataclass(frozen=True, eq=False)
class Version:
    """What one file held.

    Args:
        id: of the release; of combined ones a digest of the document.
        digest: of the document and of the state of the file of draws: what answers are the same for.
        name: by which the newest version of the file is found.
        number: of the version, from 1.
        evidence: a release, figures by others, or several of them.
        kind: what it answers with.
        path: of the file.
        draws: file of stored draws, if there is one, and it was not replaced since.
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
        """The network that answers are of, with a state for missing values where there may be some.

        Raises:
            Problem: there is none.
        """
        if self.kind == "weights":
            raise Problem(
                "bad-request", "a release of a regression or direction answers with all its coefficients: ask without q"
            )
        return self.evidence.answers_over

    @property
    def over_network(self) -> bool:
        """Whether answers are of a public network, which what was measured can contradict."""
        return self.kind in ("network", "family")

    @property
    def gaps(self) -> bool:
        """Whether values may be missing, so that `missing` says what is made of that."""
        return self.over_network and bool(self.evidence.network.may_be_missing)

    @property
    def private(self) -> bool:
        """Whether it is a release of records, and no simulation."""
        return self.evidence.private


@dataclass
class _File:
    """A file that is served, with its versions, the oldest first."""

    path: Path
    name: str
    stamp: tuple[int, ...] | None = None
    versions: list[Version] = field(default_factory=list)
    fault: str = ""


class Shelf:
    """Files of releases and of stored draws.

    Args:
        paths: of releases, combined releases, figures by others, or stored draws.
        draws: of stored draws, each of the release with its id among `paths`.

    Raises:
        InputError: a file that cannot be read, two of one release, or draws of none of them.
    """

    def __init__(self, paths: Sequence[str | Path], draws: Iterable[str | Path] = ()) -> None:
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._draws: dict[Path, tuple[tuple[int, ...] | None, str]] = {}
        self._files: list[_File] = []
        self._by_id: dict[str, Version] = {}
        if not paths:
            raise InputError("name at least one release to serve")
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
        """The newest version of a name, or any version by its id.

        Raises:
            Problem: there is none.
        """
        self.look()
        for file in self._files:
            if file.name == name:
                return file.versions[-1]
        if name in self._by_id:
            return self._by_id[name]
        known = listed(file.name for file in self._files)
        raise Problem("not-found", f"no release {shown(name)} is served here; there are: {known}")

    def versions(self, name: str) -> list[Version]:
        """All versions of a file, the newest first."""
        return next((file.versions[::-1] for file in self._files if file.name == name), [])

    def newest(self) -> list[Version]:
        """The newest version of each file."""
        self.look()
        return [file.versions[-1] for file in self._files]

    def fault(self, name: str) -> str:
        """Why a file that was replaced could not be taken; empty where there is nothing."""
        return next((file.fault for file in self._files if file.name == name), "")

    def look(self) -> None:
        """Look at the files again, if that is some time ago."""
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
                        said = without_folders(str(error), [other.path for other in self._files])
                        file.fault = f"the file has changed and cannot be taken: {said}"
        finally:
            self._lock.release()

    def _take(self, file: _File) -> None:
        """Take what a file holds now as its newest version."""
        file.stamp = file_stamp(file.path)
        try:
            evidence, draws = _read(file.path)
        except InputError as error:
            named = file.path.name in str(error)
            raise error if named else InputError(f"{shown_path(file.path)}: {error}") from None
        own = evidence.id
        same = self._by_id.get(own)
        if same is not None and same.name != file.name:
            raise InputError(
                f"{shown_path(same.path)} and {shown_path(file.path)} are the same release ({own}): serve one of them"
            )
        content = content_digest(evidence)
        if draws is None:
            draws = next((path for path, (_, known) in self._draws.items() if known == content), None)
        stamp = None if draws is None else file_stamp(draws)
        number = max((one.number for one in file.versions), default=0) + 1 if same is None else same.number
        kind = what_it_gives(evidence)
        version = Version(own, f"{content}-{stamp}", file.name, number, evidence, kind, file.path, draws)
        file.fault = ""
        older = [one for one in file.versions if one is not same]
        if draws is not None:  # they are of this version now
            older = [replace(one, draws=None) if one.draws == draws else one for one in older]
        file.versions = [*older, version]
        self._by_id |= {one.id: one for one in file.versions}
        while len(file.versions) > MOST_VERSIONS:
            self._by_id.pop(file.versions.pop(0).id, None)

    def _name(self, path: Path) -> str:
        """A name for a file that an address can hold, and no other file has."""
        stem = path.name.partition(".")[0] or path.name
        plain = NAME.sub("-", stem)[:NAME_CHARACTERS].strip(".-") or "release"
        if ID.fullmatch(plain):
            plain = f"release-{plain}"  # what is found by an id is the release of that id
        taken = {file.name for file in self._files}
        number = 2
        name = plain
        while name in taken:
            name, number = f"{plain}-{number}", number + 1
        return name


def _read(path: Path) -> tuple[Evidence, Path | None]:
    """What a file holds, and itself where these are stored draws."""
    drawn = path.suffix == ".draws"
    with suppress(OSError), path.open("rb") as file:
        drawn = drawn or file.read(len(DRAWS_FIRST_LINE)) == DRAWS_FIRST_LINE
    if drawn:
        return evidence_in(path).alone, path
    return load(path).alone, None


def content_digest(evidence: Evidence) -> str:
    """A digest of a document, the same whether it is alone or in stored draws.

    Args:
        evidence: that the document holds.
    """
    return sha256(evidence.alone.dumps().encode()).hexdigest()
