"""Mechanisms: from private statistics to a release, with exact noise; the only way out of the private side.

This file is the one list of mechanisms. Whoever offers, compares, audits or describes them reads it; it loads none of
their modules until one is made, so that a command line can print its help at once.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from discreet.errors import InputError, shown
from discreet.util.pack_entries import of_packs

if TYPE_CHECKING:
    from discreet.mechanisms.crossing import Mechanism


@dataclass(frozen=True)
class MechanismEntry:
    """A mechanism of the registry: its domain, its options, and the function that makes it.

    Args:
        name: of the mechanism, of its module, and of the function there that makes it.
        over: domain of what it is over.
        help: one line for whoever chooses among them.
        delta: whether a guarantee with a delta is refused, of use, or needed.
        targets: what a structure that has a target may predict for it; empty over a network.
        options: names of the arguments that can be given as text.
        needed: those of them that have no default, with values that stand for them where nothing is at stake: in audits
            on tiny data sets and in plans.
        chooses: whether it releases a network, for the others to be over, and not what they release.
        brings: whether its options bring the network that it is over.
        home: dotted name of its module; "" for the one of its name here.
        former: other names by which texts may give options, with the present ones.
    """

    name: str
    over: str
    help: str
    delta: Literal["refused", "used", "needed"] = "refused"
    targets: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    needed: Mapping[str, str] = field(default_factory=dict)
    chooses: bool = False
    brings: bool = False
    home: str = ""
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def make(self) -> Callable[..., Mechanism]:
        """The function that makes the mechanism, imported on first use."""
        function: Callable[..., Mechanism] = getattr(
            importlib.import_module(self.home or f"discreet.mechanisms.{self.name}"), self.name
        )
        return function

    def __call__(self, *arguments: Any, **options: Any) -> Mechanism:
        """Make the mechanism; the arguments are those of its function."""
        return self.make(*arguments, **options)

    def from_text(self, options: Iterable[str], stands: Mapping[str, str] | None = None, **more: Any) -> Mechanism:
        """Make the mechanism with options as a command line gives them.

        Args:
            options: texts of the form NAME=VALUE.
            stands: values for options that are not given.
            more: arguments that are no text.

        Returns:
            The mechanism.

        Raises:
            InputError: no such option, one that is needed and not there, or a value that is none.
        """
        texts = dict(stands or {})
        for text in options:
            name, equals, value = text.partition("=")
            name = self.former.get(name, name)
            if name not in self.options or not equals:
                raise InputError(f"{shown(text)} is no option of {self.name!r}; it takes {self._list_options()}")
            texts[name] = value
        for name in self.needed:
            if name not in texts:
                raise InputError(f"{self.name!r} needs the option {name}=...; it takes {self._list_options()}")
        kinds = inspect.signature(self.make).parameters
        return self.make(
            **{name: _read_option(name, text, kinds[name].annotation) for name, text in texts.items()}, **more
        )

    @property
    def example(self) -> Mechanism:
        """Make the mechanism with its default options, and example values for those without a default."""
        return self.from_text((), self.needed)

    def _list_options(self) -> str:
        """List its options, for an error."""
        return ", ".join(f"{name}=..." for name in self.options) or "none"


def _read_option(name: str, text: str, kind: str) -> Any:
    """Read the value of an option as the mechanism declares it: an integer, a float, or text."""
    try:
        return int(text) if kind.startswith("int") else float(text) if kind.startswith("float") else text
    except ValueError:
        raise InputError(f"option {name} needs a number, got {shown(text)}") from None


class _Registry(Mapping[str, MechanismEntry]):
    """Mechanisms by name: the package's own, then those of packs, which are imported on first use."""

    def __init__(self, entries: Iterable[MechanismEntry]) -> None:
        self._own = {entry.name: entry for entry in entries}

    @cached_property
    def _all(self) -> dict[str, MechanismEntry]:
        return {entry.name: entry for entry in of_packs("discreet.mechanisms")} | self._own

    def __getitem__(self, name: str) -> MechanismEntry:
        return self._own[name] if name in self._own else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own | self._all)

    def __len__(self) -> int:
        return len(self._all)


MECHANISMS: Mapping[str, MechanismEntry] = _Registry(
    (
        MechanismEntry(
            "planned",
            "network",
            "noise on few tables and stars, planned for least error, on pairs and sums of numbers beside; the default",
            "used",
            options=("records", "pairs_share", "numbers_share", "bins_share"),
            former={"audit": "pairs_share"},
        ),
        MechanismEntry("laplace", "network", "Laplace noise on the families' tables"),
        MechanismEntry("gaussian", "network", "Gaussian noise on the families' tables", "needed"),
        MechanismEntry(
            "structure",
            "network",
            "the arcs of a network, chosen by the records",
            options=("max_parents", "max_cells"),
            chooses=True,
        ),
    )
)
"""The registry: every mechanism, by name; called, an entry makes its mechanism."""


def mechanisms_over(over: str, target: str | None = None) -> dict[str, MechanismEntry]:
    """List the mechanisms over a domain, perhaps for one kind of target.

    What chooses a network is not over one: it has a command of its own. What brings one is over that alone.

    Args:
        over: name of the domain, such as "network".
        target: what is predicted; None for any.

    Returns:
        Entries of the registry, by name.

    Example:
        >>> next(iter(mechanisms_over("network")))
        'planned'
    """
    return {
        name: entry
        for name, entry in MECHANISMS.items()
        if entry.over == over and not (entry.chooses or entry.brings) and (target is None or target in entry.targets)
    }
