"""Plan of the joint law: the sets to whose margins it is fitted, its clique tree, and the sets left out.

A plan depends on the public network and on which sets of variables tables contain (the measured sets), not on their
numbers. So the basis of an answer is known before anything is drawn. A family is a node with its parents, and a row the
node's distribution in one state of them. Some draws have a replicate, a second draw of all probabilities given the same
latent counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from discreet.inference.clique_tours import CliqueTree
from discreet.inference.exact_laws import Laws
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.posterior.pooled.family_laws import parents_apart
from discreet.posterior.saturated import leaves_open
from discreet.util.arrays import Floats

HIDDEN = "(doubt)"
"""Name of the hidden variable, unless a variable of the network has this name."""
LAW_CELLS = 2**15
"""Largest number of cells of all cliques of a law, for one draw: 128 MiB for 1,000 draws, some seconds."""
MOST_SET_CELLS = 1000
"""Largest number of cells of a measured set whose law is drawn; the same as for an enlarged family."""
LEAST_TWINS, MOST_TWIN_STEP = 320, 3
"""Least number of replicate draws of a joint law, which estimate the noise's share of a variance within about .05; and
the largest step from one draw with a replicate to the next, with which replicates cost a third of the draws."""


@dataclass(frozen=True, eq=False)
class LawPlan:
    """Structure of the joint law, the same for every draw.

    Args:
        network: network whose rows are drawn.
        sets: measured sets whose margins are fitted, as the network does not leave their joint law free; in the order
            of the tables, variables in the schema's order.
        parents: sets of parents that no family contains, about whose joint law a table is informative.
        left_out: measured sets for which there is no room (or parents, if there is no room for any law): their
            interactions are those of the network, doubt included.
        doubt: whether pairs that no table contains are doubted, by a hidden variable of two states.
        tree: clique tree; None if there is no room for a law or nothing to fit: the network's own joint law is used.
    """

    network: Network
    sets: tuple[Scope, ...]
    parents: tuple[Scope, ...]
    left_out: tuple[Scope, ...]
    doubt: bool
    tree: CliqueTree | None

    @staticmethod
    def of(
        network: Network,
        tables: Sequence[frozenset[str]],
        *,
        doubt: bool,
        contradict: Callable[[Sequence[Scope]], Mapping[Scope, float]] | None = None,
    ) -> LawPlan:
        """Plan the joint law within the budget of cells: first the hidden variable, then the sets that contradict most.

        Candidates are tables whose joint law the network does not leave free (`leaves_open`) and that no family
        contains; those of more than MOST_SET_CELLS (1,000) cells are left out. Parents that no arcs join are drawn as a
        set of their own where a table has variables among them whose joint law the network does not leave free.

        Args:
            network: network whose rows are drawn.
            tables: sets of variables that were measured together.
            doubt: whether pairs that no table contains are to be doubted, if there is room.
            contradict: function from sets to how much they contradict the network, called only if not all sets fit;
                None ranks small sets first.

        Returns:
            The plan, with the hidden variable if `doubt` and the families fit beside it, else without doubt. If the
            families alone are too large, all sets and sets of parents are left out, and the network's own joint law is
            used; likewise if there is nothing to fit or doubt (`tree` is None in both cases).

        Example:
            >>> from discreet import Variable
            >>> network = Network.empty([Variable(name, ("0", "1")) for name in "abc"])
            >>> plan = LawPlan.of(network, [frozenset("ab"), frozenset("c")], doubt=True)
            >>> plan.sets, plan.doubt, plan.left_out
            ((('a', 'b'),), True, ())
        """
        families = [network.family(node) for node in network.nodes]
        joined = [frozenset(family) for family in families]

        def fixed(names: Iterable[str]) -> bool:
            """True if the network does not leave the joint law of some variables free; False for no variables."""
            return bool(names) and not leaves_open(network, names)

        apart = tuple(
            parents for parents in parents_apart(network) if any(fixed(table.intersection(parents)) for table in tables)
        )
        sets = [
            network.ordered(table) for table in tables if fixed(table) and not any(table <= family for family in joined)
        ]
        for hidden in [True, False] if doubt else [False]:
            more = (_hidden_name(network),) if hidden else ()
            sizes = {**{variable.name: variable.size for variable in network.schema}, **dict.fromkeys(more, 2)}
            wanted = {scope: (*scope, *more) for scope in sets if network.cells(scope) <= MOST_SET_CELLS}
            chosen, tree = _choose_sets([(*family, *more) for family in families], wanted, sizes, contradict)
            if tree is not None:
                left_out = tuple(scope for scope in sets if scope not in chosen)
                return LawPlan(network, chosen, apart, left_out, hidden, tree if chosen or apart or hidden else None)
        return LawPlan(network, (), (), (*sets, *apart), False, None)

    @property
    def hidden(self) -> str:
        """Name of the hidden variable, "(doubt)" or that in more brackets, whether the plan has one or not."""
        return _hidden_name(self.network)

    @cached_property
    def wide(self) -> Network:
        """Network of the law's rows, with the hidden variable (states "0" and "1") if there is doubt; kept.

        Parents are the earlier variables of a clique. Without a tree it is `network`.
        """
        if self.tree is None:
            return self.network
        more = (Variable(self.hidden, ("0", "1")),) if self.doubt else ()
        return Network((*self.network.variables, *more), self.tree.row_parents())

    def reads(self, names: Iterable[str]) -> bool:
        """True if the law uses all joint measurements of some variables: no set left out contains two of them."""
        variables = frozenset(names)
        return not any(len(variables.intersection(scope)) > 1 for scope in self.left_out)


def _choose_sets(
    scopes: list[Scope],
    sets: Mapping[Scope, Scope],
    sizes: Mapping[str, int],
    contradict: Callable[[Sequence[Scope]], Mapping[Scope, float]] | None,
) -> tuple[tuple[Scope, ...], CliqueTree | None]:
    """Choose sets greedily within the budget, and build their clique tree; no tree if not even the families fit.

    If all sets fit together in LAW_CELLS (2^15) cells of all cliques, all are chosen. Else those that contradict most
    come first, smaller ones first among equals, and a set that does not fit beside those before it is skipped.

    Args:
        scopes: families, with the hidden variable; chosen sets are appended in place if not all fit.
        sets: candidate sets, each with itself plus the hidden variable.
        sizes: number of states of each variable.
        contradict: function from sets to how much each contradicts the network, called only if not all fit; None ranks
            by size alone.

    Returns:
        (chosen sets in the given order, tree); ((), None) if the families' cliques have more than `LAW_CELLS` cells.
    """
    tree, whole = CliqueTree.of(scopes, sizes), CliqueTree.of([*scopes, *sets.values()], sizes)
    if tree.cells > LAW_CELLS:
        return (), None
    if whole.cells <= LAW_CELLS:
        return tuple(sets), whole
    chosen, against = list[Scope](), contradict(tuple(sets)) if contradict else dict.fromkeys(sets, 0.0)
    for scope in sorted(sets, key=lambda scope: (-against[scope], math.prod(sizes[name] for name in scope))):
        wider = CliqueTree.of([*scopes, sets[scope]], sizes)
        if wider.cells <= LAW_CELLS:
            chosen.append(scope)
            scopes.append(sets[scope])
            tree = wider
    return tuple(scope for scope in sets if scope in chosen), tree


def _hidden_name(network: Network) -> str:
    """Choose a name for the hidden variable that no variable has: "(doubt)", in as many more brackets as needed."""
    name = HIDDEN
    while name in network.schema:
        name = f"({name})"
    return name


def replicate_step(draws: int) -> int:
    """Compute the step from one draw with a replicate to the next in the joint law: `draws // 320`, from 1 to 3.

    Example:
        >>> replicate_step(1000), replicate_step(100)
        (3, 1)
    """
    return min(max(1, draws // LEAST_TWINS), MOST_TWIN_STEP)


def pick_replicates(replicates: Tables) -> Tables:
    """Pick the replicate draws that a joint law keeps: draws 0, step, 2 step, ..., by the `replicate_step`.

    Args:
        replicates: a replicate of each draw; families are selected at their first use.
    """
    draws = replicates.draws or 1
    return replicates.of_draws(np.arange(0, draws, replicate_step(draws)))


@dataclass(frozen=True, eq=False)
class JointLaw:
    """Joint law of all variables, one for every draw.

    Args:
        network: network over the variables, whose rows were drawn.
        cells: rows of a network over the variables and possibly a hidden one; shape `(*parents, child, draws)`.
        make_replicates: makes the same rows for the replicate of every `step`-th draw, called at first use; None if
            there are no replicates.
        plan: plan of the law; None if it is that of the rows alone.
    """

    network: Network
    cells: Tables
    make_replicates: Callable[[], Tables] | None = None
    plan: LawPlan | None = None

    @staticmethod
    def of_rows(cells: Tables, replicates: Tables | None) -> JointLaw:
        """Return the law of a network's rows alone, without a plan.

        Args:
            cells: rows, shape `(*parents, child, draws)`.
            replicates: a replicate of each draw, same shape, of which `pick_replicates` keeps some; None if there are
                none.
        """
        return JointLaw(cells.network, cells, None if replicates is None else partial(pick_replicates, replicates))

    @property
    def step(self) -> int:
        """Step from one draw with a replicate to the next (`replicate_step`); the first draw has one."""
        return replicate_step(self.cells.draws or 1)

    @cached_property
    def replicates(self) -> Tables | None:
        """Rows of the replicate of every `step`-th draw, otherwise like `cells`; made at first use, and kept.

        None if there are no replicates.
        """
        return None if self.make_replicates is None else self.make_replicates()

    def rows_of(self, family: Scope) -> Floats:
        """Compute a family's rows `P(child | parents)` under every draw, by exact inference from `cells`.

        Args:
            family: parents, then the child; it need not be a family of the rows' network.

        Returns:
            float64, shape `(*parents, child, draws)`; rows with an impossible condition are uniform.

        Raises:
            InputError: exact inference exceeds its budget of cells.
        """
        law = Laws(self.cells).joint(family)
        total = law.sum(axis=-2, keepdims=True)
        return np.where(total > 0, law / np.where(total > 0, total, 1.0), 1 / law.shape[-2])

    def reads(self, names: Iterable[str]) -> bool:
        """True if the law uses all joint measurements of some variables (`LawPlan.reads`); True without a plan."""
        return self.plan is None or self.plan.reads(names)
