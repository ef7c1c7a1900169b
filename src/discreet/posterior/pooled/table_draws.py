"""What tables say of variables whose law the network fixes, and joint laws that agree with it.

A network leaves the joint law of some variables open where each has those before it as parents, and these likewise
(`saturated.leaves_open`). The law of all other sets follows from its independences, whatever was measured: of two
parents that are not joined, and of their children. So such sets are drawn by themselves where tables hold them: from
what all tables tell of the set and its subsets, under a complete network of these variables alone, by the same model as
all families (`worlds.py`). The joint law of the variables that a question is about is then moved, draw by draw, to the
margins that were measured, as little as can be: by proportional fitting, which keeps what the network says of
everything else (of all laws with these margins, the one of least relative entropy to it).

Draws of a set take their margins of single variables from draws of these, so that all answers agree on them; that odds
ratios are independent of the margins is an approximation.

Source: Deming and Stephan (1940), Csiszar (1975) for proportional fitting; Bishop, Fienberg and Holland (1975) for
margins and odds ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference import elimination
from discreet.inference.interactions import subsets
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.evidence import measured_sets, measurements
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.pooled.worlds import Worlds
from discreet.posterior.saturated import leaves_open
from discreet.releases.combined import Combined

__all__ = ["TableDraws"]

Floats = npt.NDArray[np.float64]

MOST_CELLS = 1000
"""Of a set that is drawn by itself, as of a family that is enlarged."""
MOST_VALUES = 2**24
"""Of a joint law under all draws: 128 MiB; larger ones stay as the network has them."""
ROUNDS = 8
"""Of proportional fitting: margins of draws agree but for their single variables' last digits."""
FEWEST = 1e-12
"""Probability that a margin is taken to have at least, so that it can be scaled."""


class TableDraws:
    """Joint laws under a posterior's draws, moved to what was measured.

    Args:
        evidence: tables and contrasts of one data set.
        network: whose rows the posterior draws.
        rng: source of randomness; every set of variables has a generator of its own, whatever else is asked.
        weights: prior mean of the components of rows, shape (COMPONENTS,), as the network's rows use them.
    """

    def __init__(self, evidence: Combined, network: Network, rng: np.random.Generator, weights: Floats) -> None:
        self._evidence = evidence
        self.network = network
        self._weights = weights
        self._seed = int(rng.integers(2**63))
        self._tables = measured_sets(evidence)
        self._drawn: dict[tuple[Scope, int], tuple[Floats, Floats]] = {}
        self._opened: dict[Scope, bool] = {}

    def say(self, names: Iterable[str]) -> bool:
        """Whether tables say of some variables what the network fixes, so that `joint` is to be asked."""
        return not all(map(self._open, self._measured(names)))

    def joint(self, cells: Tables, names: Sequence[str], *, twins: bool = False) -> Floats | None:
        """Joint law of some variables.

        Args:
            cells: the posterior's draws.
            names: different variables.
            twins: whether these are the twins of the posterior's draws.

        Returns:
            Shape `(*sizes, draws)`; None where the network leaves all open that was measured of them, or where a table
            of all of them is too large.
        """
        parts = self._measured(names)
        draws = cells.draws or 1
        if not self.say(names) or self.network.cells(names) * draws > MOST_VALUES:
            return None
        try:
            law = elimination.joint(cells, names, {})
        except InputError:
            return None
        wanted = {part: self._wanted(law, names, part, twins) for part in parts}
        for _ in range(ROUNDS if len(parts) > 1 else 1):
            for part, margin in wanted.items():
                law = _scaled(law, names, part, margin)
        return np.asarray(law)

    def _measured(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """The largest parts of some variables that a table has, in the schema's order."""
        asked = frozenset(names)
        parts = {asked & table for table in self._tables}
        largest = [part for part in parts if part and not any(part < other for other in parts)]
        return tuple(sorted(map(self.network.ordered, largest)))

    def _open(self, part: Scope) -> bool:
        """Whether the network leaves their law open; a set that is too large to be drawn is taken as it is."""
        if part not in self._opened:
            self._opened[part] = self.network.cells(part) > MOST_CELLS or leaves_open(self.network, part)
        return self._opened[part]

    def _wanted(self, law: Floats, names: Sequence[str], part: Scope, twins: bool) -> Floats:
        """The margin of a part: of what was measured, or of the law itself where the network leaves that open."""
        if self._open(part):
            return _margin(law, names, part)
        drawn = self._draws(part, law.shape[-1])[int(twins)]
        for _ in range(ROUNDS if len(part) > 1 else 0):
            for name in part:
                drawn = _scaled(drawn, part, (name,), self._wanted(law, names, (name,), twins))
        return drawn

    def _draws(self, part: Scope, draws: int) -> tuple[Floats, Floats]:
        """Draws of a set's law and their twins, shape `(*sizes, draws)`."""
        if (part, draws) not in self._drawn:
            ordered = tuple(sorted(part, key=self.network.order.index))
            whole = Network(
                tuple(self.network.schema[name] for name in part),
                {name: ordered[: ordered.index(name)] for name in part},
            )
            places = [self.network.nodes.index(name) for name in part]
            worlds = Worlds(
                self._margins(whole),
                draws,
                np.random.default_rng([self._seed, *places]),
                weights=self._weights,
                doubt=True,
            )
            self._drawn[part, draws] = (
                elimination.joint(worlds.cells, part, {}),
                elimination.joint(worlds.twins, part, {}),
            )
        return self._drawn[part, draws]

    def _margins(self, whole: Network) -> Margins:
        """What all tables tell of the variables of a complete network."""
        inside = subsets([whole.nodes])
        told = pooled_margins(
            self.network, measurements(self._evidence.releases), self._evidence.records[0], also=inside
        )
        kept = [subset for subset in inside if subset in told.values]
        return Margins(
            whole, {subset: told.values[subset] for subset in kept}, {subset: told.variances[subset] for subset in kept}
        )


def _margin(law: Floats, names: Sequence[str], part: Scope) -> Floats:
    """Over some of the variables, in the order of the part; the last axis, of draws, stays."""
    left = [name for name in names if name in part]
    summed = law.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in part))
    return np.asarray(summed.transpose([*(left.index(name) for name in part), len(part)]))


def _scaled(law: Floats, names: Sequence[str], part: Scope, margin: Floats) -> Floats:
    """A law whose margin over some variables is another."""
    ratio = margin / np.maximum(_margin(law, names, part), FEWEST)
    left = [name for name in names if name in part]
    turned = ratio.transpose([*(part.index(name) for name in left), len(part)])
    shape = [size if name in part else 1 for name, size in zip(names, law.shape, strict=False)]
    return np.asarray(law * turned.reshape(*shape, -1))
