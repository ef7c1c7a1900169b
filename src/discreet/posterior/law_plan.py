"""What one joint law a draw is made of: whose margins it is fitted to, on which tree, and what there is no room for.

A plan rests on the public network and on which sets of variables tables hold, and on no number of theirs: what an
answer rests on is known before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from discreet.inference.clique_laws import CliqueTree
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.posterior.saturated import leaves_open

HIDDEN = "(doubt)"
"""Name of the hidden variable; another where the network has a variable of that name."""
LAW_CELLS = 2**15
"""Cells of all cliques of a law, for one draw: 128 MiB for 1,000 draws, some seconds."""
MOST_SET_CELLS = 1000
"""Of a set that is drawn by itself, as of a family that is enlarged."""


@dataclass(frozen=True, eq=False)
class LawPlan:
    """The parts of one joint law a draw.

    Args:
        network: whose rows are drawn.
        sets: measured together, and not left open by the network, whose margins the law gets; in the network's order.
        left_out: measured sets for which there is no room: the law has them as the network does, doubt and all.
        doubt: whether pairs that no table holds are doubted, by a hidden variable of two states.
        tree: of cliques; None where there is no room for a law, or nothing to fit: the network's own is the law.
    """

    network: Network
    sets: tuple[Scope, ...]
    left_out: tuple[Scope, ...]
    doubt: bool
    tree: CliqueTree | None

    @staticmethod
    def of(network: Network, tables: Sequence[frozenset[str]], *, doubt: bool) -> LawPlan:
        """Plan the law of a network and measured sets; with what fits: doubt first, then sets, small ones first.

        Args:
            network: whose rows are drawn.
            tables: sets of variables that were measured together.
            doubt: whether pairs that no table holds are to be doubted.

        Example:
            >>> from discreet import Variable
            >>> network = Network.empty([Variable(name, ("0", "1")) for name in "abc"])
            >>> plan = LawPlan.of(network, [frozenset("ab"), frozenset("c")], doubt=True)
            >>> plan.sets, plan.doubt, plan.left_out
            ((('a', 'b'),), True, ())
        """
        return _plan(network, tuple(tables), doubt)

    @property
    def hidden(self) -> str:
        """Name of the hidden variable."""
        name = HIDDEN
        while name in self.network.schema:
            name = f"({name})"
        return name

    @cached_property
    def wide(self) -> Network:
        """The network over whose rows the law is, with its hidden variable if it has one."""
        if self.tree is None:
            return self.network
        more = (Variable(self.hidden, ("0", "1")),) if self.doubt else ()
        return Network((*self.network.variables, *more), self.tree.row_parents())

    @cached_property
    def _unread(self) -> tuple[frozenset[str], ...]:
        """Sets that were left out."""
        return tuple(map(frozenset, self.left_out))

    def reads(self, names: Iterable[str]) -> bool:
        """Whether all that tables tell of some variables together is in the law."""
        asked = frozenset(names)
        return not any(len(asked & part) > 1 for part in self._unread)


@lru_cache(maxsize=16)
def _plan(network: Network, tables: tuple[frozenset[str], ...], doubt: bool) -> LawPlan:
    """The plan; see `LawPlan.of`."""
    families = [network.family(node) for node in network.nodes]
    joined = [frozenset(family) for family in families]
    fixed = [
        network.ordered(table)
        for table in tables
        if not any(table <= family for family in joined) and not leaves_open(network, table)
    ]
    wanted = sorted((part for part in fixed if network.cells(part) <= MOST_SET_CELLS), key=network.cells)
    # A family's parents that are not joined have a law of their own where a table holds them.
    apart = any(
        len(parents) > 1 and not leaves_open(network, parents) for parents in network.parents.values() if parents
    )
    for hidden in [True, False] if doubt else [False]:
        plan = LawPlan(network, (), (), hidden, None)
        more = (plan.hidden,) if hidden else ()
        sizes = {**{one.name: one.size for one in network.schema}, **dict.fromkeys(more, 2)}
        scopes = [(*family, *more) for family in families]
        tree = CliqueTree.of(scopes, sizes)
        if tree.cells > LAW_CELLS:
            continue
        kept = list[Scope]()
        whole = CliqueTree.of([*scopes, *((*part, *more) for part in wanted)], sizes)
        if whole.cells <= LAW_CELLS:
            kept, tree = wanted, whole
        else:
            for part in wanted:
                wider = CliqueTree.of([*scopes, (*part, *more)], sizes)
                if wider.cells <= LAW_CELLS:
                    kept.append(part)
                    scopes.append((*part, *more))
                    tree = wider
        left = tuple(part for part in fixed if part not in kept)
        order = sorted(kept, key=lambda part: [network.nodes.index(name) for name in part])
        return LawPlan(network, tuple(order), left, hidden, tree if kept or hidden or apart else None)
    return LawPlan(network, (), tuple(fixed), False, None)
