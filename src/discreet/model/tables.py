"""Tables: one array per family of a network, axes `(*parents, child)`, in the network's order.

Counts, concentrations, probabilities and their draws share these shapes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, shown
from discreet.model.network import Network
from discreet.model.schema import Schema, Variable
from discreet.util.arrays import Array
from discreet.util.attached import above
from discreet.util.tabular import Library

TABLE_LOCK = threading.RLock()
"""Lock held while a table is made: a draw may need other tables, and their order must not depend on threads."""


class Tables(Mapping[str, Array]):
    """One read-only array per family, made at its first use.

    Every array has the shape `(*parents, child)` of its family; with draws all have one more axis, of equal length.

    Args:
        network: public; its families fix names and shapes.
        source: arrays by node, or a function that makes the array of a node. A function must be pure: it is called at
            most once for each node, at its first use, so a query computes only the families that it needs.
        draws: length of the axis of draws; None without one.

    Raises:
        InputError: a node is missing or unknown, or (when the node is read) the shape is not that of its family.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> theta = dc.Tables(network, {"rain": [0.7, 0.3]})
        >>> theta, theta["rain"].tolist(), theta.map(lambda array: 1 - array)["rain"].round(3).tolist()
        (Tables(1 families), [0.7, 0.3], [0.3, 0.7])
    """

    __slots__ = ("_arrays", "_source", "draws", "network")

    def __init__(
        self,
        network: Network,
        source: Mapping[str, npt.ArrayLike] | Callable[[str], Array],
        *,
        draws: int | None = None,
    ) -> None:
        self.network = network
        self.draws = draws
        self._arrays: dict[str, Array] = {}
        if callable(source):
            self._source: Callable[[str], npt.ArrayLike] = source
            return
        if set(source) != set(network.nodes):
            odd = sorted(set(source) ^ set(network.nodes))
            raise InputError(f"tables must name every node of the network once; missing or unknown: {odd[:5]}")
        self._source = source.__getitem__
        for node in network.nodes:
            self._make(node)
        self._source = self._arrays.__getitem__  # releases the input, which may be a view of a file

    def _make(self, node: str) -> Array:
        """Make, check and freeze one array."""
        array = np.array(self._source(node))
        wanted = self.network.shape(node) if self.draws is None else (*self.network.shape(node), self.draws)
        if array.shape != wanted:
            axes = (*self.network.family(node), *(() if self.draws is None else ("draws",)))
            raise InputError(f"table of {shown(node)} needs shape {wanted} for the axes {axes}, got {array.shape}")
        array.flags.writeable = False
        self._arrays[node] = array
        return array

    def __getitem__(self, node: str) -> Array:
        if node in self._arrays:
            return self._arrays[node]
        if node not in self.network.schema:
            raise InputError(f"no table {shown(node)}: the network has no such node")
        with TABLE_LOCK:
            return self._arrays[node] if node in self._arrays else self._make(node)

    def __contains__(self, node: object) -> bool:
        return node in self.network.schema

    def get(self, node: str, default: Any = None) -> Any:
        """Return the table of a node, or a default.

        Args:
            node: its name.
            default: for an unknown node.

        Returns:
            The array, or the default.
        """
        if node not in self:
            return default
        return self[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self.network.nodes)

    def __len__(self) -> int:
        return len(self.network.nodes)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Describe the tables without any number: tables of private counts use this class, too."""
        axis = "" if self.draws is None else f", {self.draws} draws"
        return f"Tables({len(self)} families{axis})"

    def map(self, function: Callable[[Array], npt.ArrayLike]) -> Tables:
        """Return the tables of `function(array)`, which must keep every shape.

        Args:
            function: from array to array of the same shape.

        Returns:
            New tables.

        Raises:
            InputError: a shape changed.
        """
        return Tables(self.network, {node: function(array) for node, array in self.items()}, draws=self.draws)

    def of_draws(self, picked: npt.NDArray[np.integer[Any]]) -> Tables:
        """Select some of the draws, each table at its first use; return these tables if it is all draws.

        Args:
            picked: different positions of draws.

        Returns:
            Tables whose last axis has as many draws as positions.
        """
        if picked.size == self.draws and (picked == np.arange(picked.size)).all():
            return self
        return Tables(self.network, lambda node: self[node][..., picked], draws=picked.size)

    @staticmethod
    def read(path: str | Path) -> Tables:
        """Read the probabilities of a network, and the network itself, from a file as `Network.read` reads it.

        Args:
            path: of the file, possibly packed by gzip.

        Returns:
            Probabilities, float64; `.network` is the network. A row whose sum differs from 1 as its printed digits
            allow is scaled to 1, with a warning.

        Raises:
            InputError: the file is missing, in no notation that is read, has a cycle, or lacks probabilities of a node.
        """
        tables: Tables = above("Tables.read")(path)
        return tables

    def text(self, *, name: str = "unknown", properties: tuple[str, ...] = ()) -> str:
        """Write the network with these probabilities as BIF text.

        Args:
            name: of the network.
            properties: comments for the network block, such as how the file was made.

        Returns:
            The text.

        Raises:
            InputError: a name has a quote or a line break, which BIF cannot express.
        """
        return str(above("Tables.text")(self, name, properties))

    def write(self, path: str | Path, *, name: str = "unknown", properties: tuple[str, ...] = ()) -> None:
        """Write the network with these probabilities to a file completely, or leave it as it was.

        Args:
            path: of the file: XMLBIF if it ends in `.xml`, `.xmlbif` or `.bifxml`, else BIF; packed by gzip if it
                ends in `.gz`.
            name: of the network.
            properties: as in `text`.

        Raises:
            InputError: as in `text`, or a file that cannot be written.
        """
        above("Tables.write")(self, path, name, properties)

    # ------------------------------------------------------------------------------------------------ other packages

    @staticmethod
    def from_pgmpy(model: Any, variables: Schema | Iterable[Variable] | None = None) -> Tables:
        """Convert the probabilities of a pgmpy model, and its network.

        Args:
            model: `DiscreteBayesianNetwork` with a CPD of every node.
            variables: with the order of states, bounds and bins; None takes the states of the model's CPDs.

        Returns:
            Probabilities, float64; `.network` is the network.

        Raises:
            InputError: as in `Network.from_pgmpy`, a node without a CPD, or a CPD without probabilities.
        """
        tables: Tables = above("Tables.from_pgmpy")(model, variables)
        return tables

    def to_pgmpy(self) -> Any:
        """Make a model for pgmpy with these probabilities.

        Returns:
            `DiscreteBayesianNetwork` with a CPD of every node, with the same names of states.

        Raises:
            InputError: pgmpy is not installed, or these are draws.
        """
        return above("Tables.to_pgmpy")(self.require_single("a pgmpy model"))

    @staticmethod
    def from_pyagrum(net: Any) -> Tables:
        """Convert the probabilities of a pyAgrum network, and its structure.

        Args:
            net: `pyagrum.BayesNet`; its labels become states.

        Returns:
            Probabilities, float64; `.network` is the network.

        Raises:
            InputError: as in `Network.from_pyagrum`, or a table that is not filled.
        """
        tables: Tables = above("Tables.from_pyagrum")(net)
        return tables

    def to_pyagrum(self) -> Any:
        """Make a network for pyAgrum with these probabilities.

        Returns:
            `pyagrum.BayesNet`, whose labels are the states.

        Raises:
            InputError: pyAgrum is not installed, or these are draws.
        """
        return above("Tables.to_pyagrum")(self.require_single("a pyAgrum network"))

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the tables as a data frame, a row for each cell.

        Args:
            library: "pandas", "polars", or "arrow".

        Returns:
            Columns "node", "given" (its parents' states, such as `smoke=yes, age=old`; empty without parents), "state"
            and "value", in the order of the network and of the tables.

        Raises:
            InputError: another library, or one that is not installed, or these are draws.

        Example:
            >>> import discreet as dc
            >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
            >>> dc.Tables(network, {"rain": [0.7, 0.3]}).to_frame("arrow").to_pylist()[1]
            {'node': 'rain', 'given': '', 'state': 'yes', 'value': 0.3}
        """
        rows = [row for node, array in self.require_single("a frame").items() for row in self._rows(node, array)]
        return above("Tables.to_frame")(rows, library)

    def _rows(self, node: str, array: Array) -> Iterator[dict[str, Any]]:
        """List the cells of a table with names."""
        *parents, child = (self.network.schema[name] for name in self.network.family(node))
        named = [[f"{parent.name}={state}" for state in parent.states] for parent in parents]
        for states, row in zip(product(*named), array.reshape(-1, child.size).tolist(), strict=True):
            condition = ", ".join(states)
            yield from (
                {"node": node, "given": condition, "state": state, "value": value}
                for state, value in zip(child.states, row, strict=True)
            )

    def require_single(self, purpose: str) -> Tables:
        """Return these tables, or refuse them if they are draws.

        Args:
            purpose: noun for the target of the tables, in the error.

        Raises:
            InputError: these are draws.
        """
        if self.draws is not None:
            raise InputError(f"{purpose} needs one table per node, these have {self.draws} draws; give one draw")
        return self
