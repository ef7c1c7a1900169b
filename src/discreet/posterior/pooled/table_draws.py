"""What tables say of variables whose law the network fixes, and joint laws that agree with it.

A network leaves the joint law of some variables open where each has those before it as parents, and these likewise
(`saturated.leaves_open`). The law of all other sets follows from its independences, whatever was measured: of two
parents that are not joined, and of their children. So such sets are drawn by themselves where tables hold them: from
what all tables tell of the set and its subsets, under a complete network of these variables alone, by the same model as
all families (`latent_counts.py`). The joint law of the variables that a question is about is then moved, draw by draw,
to the margins that were measured, as little as can be: by proportional fitting, which finds the law of least relative
entropy to the network's with these margins, and with the network's own margin of each pair that no table holds.

Pairs leave triples open: of three variables whose pairs were measured, and that no table holds together, each draw gets
an interaction of its own (`discrepancy.py`). So does each pair that no table holds: pairs that were audited teach how
far the network is off in such pairs.

Draws of a set take their margins of single variables from draws of these, so that all answers agree on them; that odds
ratios are independent of the margins is an approximation.

Source: Deming and Stephan (1940), Csiszar (1975) for proportional fitting; Bishop, Fienberg and Holland (1975) for
margins and odds ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference import elimination
from discreet.inference.drawn_points import drawn_codes
from discreet.inference.interactions import subsets
from discreet.model.arrays import Floats, Ints, margin
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.evidence import audited_sets, measured_sets, measurements
from discreet.posterior.pooled.discrepancy import INTERACTION_SIZES, draw_interaction, pair_weights, triple_weights
from discreet.posterior.pooled.latent_counts import LatentCounts
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.pooled.plain_pairs import draw_plain_pairs, move_pairs, move_to_pairs
from discreet.posterior.pooled.raking import fit_margins, scale_to
from discreet.posterior.saturated import leaves_open, projected, saturated
from discreet.releases.combined import Combined

__all__ = ["MOST_LAW_VALUES", "MOST_LOOSE", "Assume", "TableDraws"]

Assume = Literal["network", "robust"]
"""What is believed of pairs that no table holds."""
Picked = npt.NDArray[np.intp]

MOST_LOOSE = 6
"""Variables of a question whose triples get such interactions; larger ones are marked as assumed."""
MOST_HELD_NODES = 60
"""Nodes of a network up to which made-up records keep every pair that no table holds."""
MOST_SET_CELLS = 1000
"""Of a set that is drawn by itself, as of a family that is enlarged."""
MOST_LAW_VALUES = 2**22
"""Of a joint law under all draws: 32 MiB, some seconds; larger ones stay as the network has them."""
MOST_AUDITED_PAIRS, AUDIT_DRAWS = 60, 100
"""Pairs that are learned from, and draws of what the network says of them."""
CLEAR_NOISE_DEVIATIONS = 4.0
"""Deviations of the noise: it puts a state of which there are so many records below 0 in one of 30,000 draws."""
MADE_UP_RECORDS = 2**12
"""Records of each draw from which sampling errors are taken, in the size that the number of records gives them."""
PLAIN_STREAM = 2
"""Stream of a set's generator that draws pairs without bias; that of posterior draws is 0, of twin draws 1."""


@dataclass(frozen=True, eq=False)
class _Selection:
    """A selection among a posterior's draws.

    Args:
        draws: of the posterior.
        picked: positions of some of them.
        twins: 1 for their twin draws, else 0.
    """

    draws: int
    picked: Picked
    twins: int


class TableDraws:
    """Joint laws under a posterior's draws, moved to what was measured.

    Args:
        evidence: tables and contrasts of one data set.
        network: whose rows the posterior draws.
        cells: the posterior's draws.
        seed: of the generators; every set of variables has one of its own, whatever else is asked.
        weights: prior mean of the components of rows, shape (COMPONENTS,), as the network's rows use them.
    """

    def __init__(self, evidence: Combined, network: Network, cells: Tables, seed: int, weights: Floats) -> None:
        self._evidence = evidence
        self.network = network
        self._cells = cells
        self.weights = weights
        self.assume: Assume = "robust"
        self.seed = seed
        self._tables = measured_sets(evidence)
        self._pairs = frozenset(frozenset(pair) for table in self._tables for pair in combinations(table, 2))
        self._drawn: dict[tuple[Scope, int], tuple[Floats, Floats]] = {}
        self._opened: dict[Scope, bool] = {}

    def assuming(self, assume: Assume) -> TableDraws:
        """Draws of tables in which pairs that no table holds are as the network has them ("network"), or not quite.

        "robust", which is what is done, gives each an interaction of its own, of a size that audited pairs teach, or
        without those a prior.
        """
        other = copy(self)
        other.assume = assume
        return other

    def say(self, names: Iterable[str]) -> bool:
        """Whether tables say of some variables what the network fixes, so that `joint` is to be asked."""
        asked = tuple(names)
        return (
            not all(map(self._is_open, self.measured(asked)))
            or bool(self._list_loose_triples(asked))
            or bool(self._list_doubtful_pairs(asked))
        )

    def joint(
        self,
        cells: Tables,
        names: Sequence[str],
        *,
        twins: bool = False,
        picked: Picked | None = None,
        own: Floats | None = None,
        memory: dict[Scope, Floats] | None = None,
    ) -> Floats | None:
        """Joint law of some variables.

        Args:
            cells: the posterior's draws, or their twin draws, or some of these.
            names: different variables.
            twins: whether they are twin draws.
            picked: which of the draws they are, by position; None: all.
            own: the network's joint law of the variables under these draws; None finds it.
            memory: keeps the laws of all parts but those with the first variable, for calls with the same draws in
                which only that one is another; laws differ by rounding from those without.

        Returns:
            Shape `(*sizes, draws)`; None where the network leaves all open that was measured of them, or where a table
            of all of them is too large.
        """
        parts, which = self.measured(names), np.arange(cells.draws or 1) if picked is None else picked
        if not self.say(names) or self.network.cells(names) * which.size > MOST_LAW_VALUES:
            return None
        drawn = _Selection(self._cells.draws or 1, which, int(twins))
        if len(names) == 1:  # say: a table has it
            return self._pick_draws(tuple(names), drawn)
        try:
            law = elimination.joint(cells, names, {}) if own is None else own
        except InputError:
            return None
        kept = {} if memory is None else memory

        def recall(part: Scope, find: Callable[[Floats, Sequence[str], Scope, _Selection], Floats]) -> Floats:
            if names[0] in part:
                return find(law, names, part, drawn)
            if part not in kept:
                kept[part] = find(law, names, part, drawn)
            return kept[part]

        wanted = {part: recall(part, self._find_margin) for part in parts}
        # Of pairs in no table the network's odds stay: fitting alone would make them depend through what they share.
        wanted |= {pair: recall(pair, self._model_pair) for pair in self._list_unmeasured_pairs(names)}
        # Where one is of all of them, the last of all rounds would leave it as it is.
        whole = next((part for part in wanted if len(part) == len(names)), None)
        if whole is None:
            law = fit_margins(law, names, wanted)
        else:
            law = wanted[whole].transpose([*map(whole.index, names), len(names)])
        for triple in self._list_loose_triples(names):
            own = margin(law, names, triple)
            law = scale_to(law, names, triple, _normalise_law(own + self._draw_interaction(own, triple, drawn)))
        return np.asarray(law)

    def rows_beyond(self, cells: Tables, node: str, picked: Picked | None = None) -> dict[Scope, Floats]:
        """Rows of a node given more than its parents, where tables say that it depends on more.

        Args:
            cells: the posterior's draws.
            node: of the network.
            picked: positions of the draws that are wanted; None for their mean.

        Returns:
            By set of variables, the node last and the others before it in the network's order: `P(node | others)`, an
            axis for each, then one of draws (of 1 for the mean); nothing where the network's own rows say all.
        """
        which, believed = np.arange(cells.draws or 1) if picked is None else picked, self
        some = cells.of_draws(which)
        if picked is None:
            believed = self.assuming("network")
        found = dict[Scope, Floats]()
        for others in believed._list_companions(node):
            scope = (*others, node)
            law = believed.joint(some, scope, picked=which)
            if law is None:
                law = elimination.joint(some, scope, {})
            if picked is None:
                law = law.mean(axis=-1, keepdims=True)
            total = law.sum(axis=-2, keepdims=True)
            found[scope] = np.where(total > 0, law / np.where(total > 0, total, 1.0), 1 / law.shape[-2])
        return found

    def _list_companions(self, node: str) -> list[Scope]:
        """Sets of earlier nodes that a node is measured with, or doubtful; where there are any, all that shall stay.

        What stays is its family's law, and that of each pair with an earlier node that no table holds: of those, in a
        large network, which a table joins with what moves.
        """
        order, family = self.network.order, self.network.family(node)
        before, large = order[: order.index(node)], len(order) > MOST_HELD_NODES
        apart: list[Scope] = [(name, node) for name in before if frozenset((name, node)) not in self._pairs]
        moved = self._list_moved(before, node)
        if self.assume == "robust" and not large:
            moved += apart
        if not moved:
            return []
        if large:
            apart = self._list_joined(apart, set().union(*moved))
        if len(order) <= MOST_LOOSE:
            moved += [triple for triple in self._list_loose_triples((*before, node)) if node in triple]
        largest = _keep_largest([*moved, family, *apart])
        return [tuple(name for name in before if name in part) for part in largest]

    def _list_moved(self, before: Scope, node: str) -> list[Scope]:
        """List sets of a node and earlier ones that tables hold, but for parts of its family that they leave open."""
        family = self.network.family(node)
        parts = [part for part in self.measured((*before, node)) if node in part]
        return [part for part in parts if not (set(part).issubset(family) and self._is_open(part))]

    def _list_joined(self, pairs: Sequence[Scope], near: set[str]) -> list[Scope]:
        """List the pairs of which a table holds one together with one of some other variables."""
        return [pair for pair in pairs if any(frozenset((a, b)) in self._pairs for a in pair for b in near)]

    def without_bias(self, law: Floats, names: Scope) -> Floats:
        """A law of some variables under every draw, moved to what tables tell of their pairs without bias.

        Args:
            law: shape `(*sizes, draws)`.
            names: of its axes.

        Returns:
            Shape as the law's; cells may be negative. The law itself where no table holds a pair, or the noise may have
            made a categorical state of one of its variables. Equal for equal arguments; see `plain_pairs.py`.
        """
        ordered = self.network.ordered(names)
        plain, records, rng = self._draw_plain_pairs(ordered, law.shape[-1])
        return move_to_pairs(law, names, plain, records, rng) if plain else law

    def pairs_without_bias(self, cells: Tables, names: Iterable[str]) -> dict[Scope, Floats]:
        """Laws of all pairs of variables, moved like `without_bias`, where their joint law is too large.

        Args:
            cells: the posterior's draws.
            names: different variables.

        Returns:
            By pair, in the schema's order, shape `(*sizes, draws)`.

        Raises:
            InputError: a network too large for exact inference.
        """
        ordered = self.network.ordered(names)
        own: dict[Scope, Floats] = {pair: elimination.joint(cells, pair, {}) for pair in combinations(ordered, 2)}
        laws = dict(own)
        for pair in own:
            read = self.joint(cells, pair)
            laws[pair] = own[pair] if read is None else read
        plain, records, _ = self._draw_plain_pairs(ordered, cells.draws or 1)
        if not plain:
            return laws
        errors = {pair: -own[pair] for pair in plain}
        for part, codes in drawn_codes(cells, ordered, MADE_UP_RECORDS):
            for pair, error in errors.items():
                error[..., part] += _count_pairs(codes, pair, error.shape[:2]) / MADE_UP_RECORDS
        size = (MADE_UP_RECORDS / records) ** 0.5
        return move_pairs(laws, plain, {pair: error * size for pair, error in errors.items()})

    def _draw_plain_pairs(self, names: Scope, draws: int) -> tuple[dict[Scope, Floats], int, np.random.Generator]:
        """Pairs that tables hold, without bias; the number of records; and a generator. No pairs where noise is all."""
        pairs = [pair for pair in combinations(names, 2) if frozenset(pair) in self._pairs]
        told, rng = self._fit_tables(pairs), self._make_generator(names, PLAIN_STREAM)
        clear = all(self._is_clear(told, name) for name in {name for pair in pairs for name in pair})
        return draw_plain_pairs(told, pairs, draws, rng) if clear else {}, max(1, round(told.total[0])), rng

    def _is_clear(self, told: Margins, name: str) -> bool:
        """Whether the number of records, and those in each state that is no bin, are well above their noise."""
        total, variance = told.total
        counts = [] if self.network.schema[name].numeric else told.table((name,)).tolist()
        return bool(min([total, *counts]) > CLEAR_NOISE_DEVIATIONS * max(variance**0.5, told.deviation((name,))))

    def measured(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """The largest parts of some variables that a table has, in the schema's order."""
        asked = frozenset(names)
        largest = _keep_largest(asked & table for table in self._tables)
        return tuple(sorted(self.network.ordered(part) for part in largest if part))

    def _list_unmeasured_pairs(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """Pairs of some variables that no table holds."""
        pairs = combinations(self.network.ordered(set(names)), 2)
        return tuple(pair for pair in pairs if frozenset(pair) not in self._pairs)

    def _list_doubtful_pairs(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """List the pairs of few variables of which the network is not believed."""
        asked = set(names)
        return self._list_unmeasured_pairs(asked) if self.assume == "robust" and len(asked) <= MOST_LOOSE else ()

    def _list_loose_triples(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """Triples that no table holds, of pairs that were measured or are doubtful; of few variables."""
        asked = self.network.ordered(set(names))
        if len(asked) > MOST_LOOSE:
            return ()
        return tuple(
            triple
            for triple in combinations(asked, 3)
            if (self.assume == "robust" or all(frozenset(pair) in self._pairs for pair in combinations(triple, 2)))
            and not any(table.issuperset(triple) for table in self._tables)
        )

    def _model_pair(self, law: Floats, names: Sequence[str], pair: Scope, of: _Selection) -> Floats:
        """The margin of a pair that no table holds: odds ratios of the network's law, margins that were measured."""
        own = margin(law, names, pair)
        own = self._fit_singles(own, pair, law, names, of)
        return _normalise_law(own + self._draw_interaction(own, pair, of)) if self._list_doubtful_pairs(pair) else own

    def _fit_singles(self, own: Floats, part: Scope, law: Floats, names: Sequence[str], of: _Selection) -> Floats:
        """The law of a part moved to what was measured of its single variables, or else is in another law."""
        singles: dict[Scope, Floats] = {(name,): self._find_margin(law, names, (name,), of) for name in part}
        return fit_margins(own, part, singles)

    def _draw_interaction(self, law: Floats, names: Scope, of: _Selection) -> Floats:
        """Draw what a set may have beyond its parts, the same for a draw whatever is asked; shape as the law's."""
        rng = self._make_generator(names, of.twins)
        tau = rng.choice(
            INTERACTION_SIZES, size=of.draws, p=self._triple_size_weights if len(names) > 2 else self._pair_size_weights
        )
        return draw_interaction(law, tau, rng, of.draws, of.picked)

    @cached_property
    def _pair_size_weights(self) -> Floats:
        """Weights of the sizes of pairs' interactions, learned from those that were audited.

        Beyond what the network says with the tables of the first stage alone. Pairs that were chosen for their misfit
        count like those taken at random.
        """
        pairs = audited_sets(self._evidence)[:MOST_AUDITED_PAIRS]
        first = saturated(self._evidence.network, measured_sets(self._evidence, audits=False))
        cells = projected(self._cells.of_draws(np.arange(min(AUDIT_DRAWS, self._cells.draws or 1))), first)
        laws = {pair: elimination.joint(cells, pair, {}) for pair in pairs}
        return pair_weights(self._fit_tables(pairs), laws)

    @cached_property
    def _triple_size_weights(self) -> Floats:
        """Weights of the sizes of triples' interactions, which follow from those of pairs."""
        return triple_weights(self._pair_size_weights)

    def _make_generator(self, names: Scope, more: int = 0) -> np.random.Generator:
        """Make the generator of a set of variables, the same whatever else was asked."""
        return np.random.default_rng([self.seed, more, *(self.network.nodes.index(name) for name in names)])

    def _is_open(self, part: Scope) -> bool:
        """Whether the network leaves their law open; a set that is too large, or in no table, is taken as it is."""
        if part not in self._opened:
            own = self.network.cells(part) > MOST_SET_CELLS or not any(table.issuperset(part) for table in self._tables)
            self._opened[part] = own or leaves_open(self.network, part)
        return self._opened[part]

    def _find_margin(self, law: Floats, names: Sequence[str], part: Scope, of: _Selection) -> Floats:
        """The margin of a part: of what was measured, or of the law itself where the network leaves that open."""
        if self._is_open(part):
            return margin(law, names, part)
        drawn = self._pick_draws(part, of)
        return self._fit_singles(drawn, part, law, names, of) if len(part) > 1 else drawn

    def _pick_draws(self, part: Scope, of: _Selection) -> Floats:
        """Draws of what was measured of a part."""
        return self._draw_set(part, of.draws)[of.twins][..., of.picked]

    def _draw_set(self, part: Scope, draws: int) -> tuple[Floats, Floats]:
        """Draw a set's law, and twin draws of it, shape `(*sizes, draws)`."""
        if (part, draws) not in self._drawn:
            ordered = tuple(sorted(part, key=self.network.order.index))
            whole = Network(
                tuple(self.network.schema[name] for name in part),
                {name: ordered[: ordered.index(name)] for name in part},
            )
            counts = LatentCounts(
                self._read_margins(whole),
                draws,
                self._make_generator(part),
                weights=self.weights,
                doubt=True,
                quick=True,
            )
            self._drawn[part, draws] = (
                elimination.joint(counts.cells, part, {}),
                elimination.joint(counts.twins, part, {}),
            )
        return self._drawn[part, draws]

    def _read_margins(self, whole: Network) -> Margins:
        """Read off all tables the margins of a complete network."""
        inside = subsets([whole.nodes])
        told = self._fit_tables(inside)
        kept = [subset for subset in inside if subset in told.values]
        return Margins(
            whole, {subset: told.values[subset] for subset in kept}, {subset: told.variances[subset] for subset in kept}
        )

    def _fit_tables(self, also: Iterable[Scope]) -> Margins:
        """Least squares of all tables, with the interactions of some sets and their subsets."""
        parts, records = measurements(self._evidence.parts), self._evidence.records[0]
        return pooled_margins(self.network, parts, records, also=subsets(also))


def _count_pairs(codes: Mapping[str, Ints], pair: Scope, sizes: tuple[int, ...]) -> Floats:
    """How many records of each draw have each states of a pair, shape `(*sizes, draws)`."""
    flat = codes[pair[0]] * sizes[1] + codes[pair[1]]
    cells = sizes[0] * sizes[1]
    counts = np.bincount((flat + cells * np.arange(len(flat))[:, None]).ravel(), minlength=cells * len(flat))
    return np.moveaxis(counts.reshape(-1, *sizes), 0, -1).astype(np.float64)


def _normalise_law(law: Floats) -> Floats:
    """No cell below 0, and a sum of 1 for each draw."""
    kept = np.maximum(law, 0.0)
    return np.asarray(kept / kept.sum(axis=tuple(range(law.ndim - 1))))


def _keep_largest(sets: Iterable[Iterable[str]]) -> list[frozenset[str]]:
    """Keep the sets that lie in no other, each once."""
    once = dict.fromkeys(map(frozenset, sets))
    return [part for part in once if not any(part < other for other in once)]
