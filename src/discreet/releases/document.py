"""Parts of a release document: guarantee and network, read and written.

What a release is over declares its variables in its own way, which is why these parts are written out; the other parts
follow from the fields of their classes, in `codec.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from discreet.errors import require, shown
from discreet.model.network import Network
from discreet.model.origin import Learned
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee, RelationName, as_text
from discreet.releases.codec import Budget, DocumentPart, Flag, Items
from discreet.util.attached import above
from discreet.util.json_files import write_whole
from discreet.util.limits import PARENTS, at_most, check_name, check_states
from discreet.util.randomness import Seed


class Document(ABC):
    """JSON document of measurements: a release, external figures, or several of them."""

    what: ClassVar[str] = "document"
    """Name of the document in errors."""

    @abstractmethod
    def dumps(self) -> str:
        """The document as JSON text."""

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the document atomically; an existing file, which may have cost budget, is not replaced.

        Args:
            path: of the file.
            replace: whether a file of this name is replaced.

        Raises:
            FileExistsError: there is a file of this name, and it is not to be replaced.
            InputError: the file cannot be written.
        """
        write_whole(self.dumps(), Path(path), self.what, replace=replace)

    @property
    def parts(self) -> tuple[Any, ...]:
        """Releases and external figures of which it consists: itself, if it is one."""
        return (self,)

    @property
    def one_release(self) -> Any:
        """The release itself; None if it is external figures or several releases."""
        return None

    @property
    def alone(self) -> Any:
        """Its only part, or itself if it has several."""
        return self

    @property
    @abstractmethod
    def answers_over(self) -> Network:
        """The network of its answers; InputError without one."""

    def posterior(self, *, method: str = "auto", draws: int = 1000, rng: Seed = None, **options: Any) -> Any:
        """Read the posterior: short for `discreet.read(release, ...)`, which documents it.

        Args:
            method: "auto" takes what the release is read by.
            draws: number of joint draws.
            rng: seed or generator; the same seed gives the same draws.
            options: by the method, such as `prior`.

        Returns:
            A `Posterior`: over a network `PosteriorDraws`, over a design its weights or components.

        Raises:
            InputError: as `discreet.read`.

        Guarantee:
            None spent: reads what was released alone.

        Example:
            >>> import discreet as dc
            >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
            >>> tossed = dc.tools.count_codes(coin, {"coin": [0, 1, 1, 0, 1]})
            >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
            >>> made = dc.simulate(dc.planned(), tossed, dc.Dirichlet.uniform(coin), promise, rng=1)
            >>> answer = made.posterior(rng=2).answer("P(coin=heads)")
            >>> row = answer.rows[0]
            >>> 0 <= row["lower"] < row["mean"] < row["upper"] <= 1
            True
        """
        return above("Release.posterior")(self, method=method, draws=draws, rng=rng, **options)


class GuaranteePart(DocumentPart):
    """A guarantee."""

    epsilon: Budget
    delta: Budget
    relation: RelationName
    unit: Annotated[str, pydantic.Field(min_length=1)]


def write_guarantee(guarantee: Guarantee) -> dict[str, str]:
    """Write a guarantee to a document."""
    return {
        "epsilon": as_text(guarantee.epsilon),
        "delta": as_text(guarantee.delta),
        "relation": guarantee.relation.value,
        "unit": guarantee.unit,
    }


def read_guarantee(part: GuaranteePart) -> Guarantee:
    """Read a guarantee from a document; InputError if invalid."""
    check_name(part.unit, "the unit")
    return Guarantee(**part.model_dump())


class _VariablePart(DocumentPart):
    name: str
    states: Items[str]
    bounds: tuple[float, float] | None = None
    bins: Items[float] | None = None
    type: Literal["integer", "date", "datetime"] | None = None
    missing: str | None = None
    not_applicable: str | None = None
    applies_if: str | None = None
    other: str | None = None
    codes: Items[str] | None = None
    ordered: Flag | None = None


class _LearnedPart(DocumentPart):
    release: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]
    epsilon: Budget
    relation: RelationName
    unit: Annotated[str, pydantic.Field(min_length=1)]
    private: Flag
    what: Literal["arcs", "domain"] = "arcs"
    delta: Budget = "0"
    domain: _LearnedPart | None = None


class NetworkPart(DocumentPart):
    """A network: variables with their states, the parents of each, and the release that chose it, if any."""

    variables: Items[_VariablePart]
    parents: dict[str, Items[str]]
    learned: _LearnedPart | None = None


def write_network(network: Network) -> dict[str, Any]:
    """Write a network to a document."""
    return {
        "variables": [variable.document() for variable in network.schema],
        "parents": {node: list(parents) for node, parents in network.parents.items()},
    } | ({} if network.learned is None else {"learned": network.learned.document()})


def read_network(part: NetworkPart) -> Network:
    """Read a network from a document.

    Raises:
        InputError: no network, or more of anything than a file may declare.
    """
    check_states(variable.states or variable.bins or () for variable in part.variables)
    for node, parents in part.parents.items():
        at_most(PARENTS, parents, f"parents of {shown(node)}")
    variables = (Variable(**variable.model_dump(exclude_none=True)) for variable in part.variables)
    arcs = {node: tuple(parents) for node, parents in part.parents.items()}
    network = Network(tuple(variables), arcs, _read_learned(part.learned))
    network.require_conditions()
    return network


def _read_learned(part: _LearnedPart | None) -> Learned | None:
    """Read the origin of a network, and that of its domain, which has none of its own."""
    if part is None:
        return None
    check_name(part.unit, "the unit of what chose the network")
    nested = part.domain is None or (part.domain.what == "domain" and part.domain.domain is None)
    require(nested, "the origin of a domain is one release")
    return Learned(**part.model_dump(exclude={"domain"}), domain=_read_learned(part.domain))
