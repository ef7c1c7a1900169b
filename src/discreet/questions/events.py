"""Events inside one query: `in {..}`, `or`, `and`, `not`, counts, information, actions and uncertain evidence.

    P(A=a or B=b | C in {c, d})    probability of an event, given another one
    sd(X | A=a or B=b)             quantity of numbers given an event; also E, var, median, quantile, cov and cor
    P(A | B ~ {b: 4, c: 1})        evidence that is four times as likely in b as in c
    P(A | do(B=b))                 probability if b were brought about
    N(A=a, C=c)                    number of the release's records
    MI(A, B | C=c)                 mutual information, in nats

An event is answered from the joint probabilities of its variables in every draw, under the plain evidence. Where a
comparison divides a bin, the part of the bin's records on either side is that of all records of the bin; the interval
is over all laws inside bins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, listed, shown
from discreet.inference.bin_laws import BinLaw
from discreet.model.network import Network
from discreet.model.query_grammar import (
    HEADS,
    OF_TWO,
    AnyOf,
    NumberQuery,
    NumberRange,
    Observed,
    PlainQuery,
    Probability,
    Query,
    read_evidence,
)
from discreet.model.schema import Schema, Scope, Variable
from discreet.posterior.evidence import measurements, number_of_records
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.answers import AnswerDraws, EvidenceProbability
from discreet.queries.credible import credible_interval
from discreet.queries.query import ROW_LIMIT, find_number_law, noise_share
from discreet.questions.composed import (
    MOST_NESTED,
    MOST_TERMS,
    WEAKEST,
    Atoms,
    Composition,
    Single,
    Values,
    check_terms,
    find_closing,
    refuse,
    scale_of,
)
from discreet.util.arrays import Floats
from discreet.util.similar import did_you_mean

MOST_MIXED = 32
"""Most joint states of an event that numbers are computed given: each is a query, or several."""
BISECTIONS = 50
"""Steps that find a quantile inside a bin: up to 1e-15 of its width."""
TOKEN = re.compile(r'\s*(?:(?P<quoted>"[^"]*")|(?P<mark>[,|(){}~])|(?P<word>[^\s",|(){}~]+))')
HEAD = re.compile(r"\s*([A-Za-z]+)\s*\(")
QUANTITIES = {**HEADS, "median": "quantile", "quantile": "quantile"}
"""Quantity of numbers by the word that begins its query."""
SPECIAL = re.compile(r"[,|=(){}:~<>]|^\s|\s$|\b(?:or|and|not|in|do)\b")
"""Marks and words for which a name or a state is quoted."""
LAWS = "the records of a bin that {} divides are spread alike over all states of the other variables"
CAUSES = "the network's arrows are causes, and none between its variables is missing: {} is believed, not measured"


# -------------------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, eq=False)
class _Axis:
    """The states of a variable of an event, those bins divided that a comparison divides.

    Args:
        variable: the variable.
        position, number: of its axis, and how many axes there are.
        codes: code of the state of each part, shape `(parts,)`.
        edges: ends of each part, shape `(parts, 2)`; NaN for states that are no bin.
    """

    variable: Variable
    position: int
    number: int
    codes: npt.NDArray[np.intp]
    edges: Floats

    def spread(self, truth: Floats) -> Floats:
        """Reshape numbers of this axis' parts so that they broadcast to tables over all axes.

        Args:
            truth: shape `(parts,)`, or `(parts, draws)`.

        Returns:
            The parts at this axis' position and length 1 at the other axes; then the draws, if there are any.
        """
        return truth.reshape(*(-1 if at == self.position else 1 for at in range(self.number)), *truth.shape[1:])

    def observe(self, part: int) -> str | NumberRange:
        """The evidence that a record lies in a part: its state, or the range of its numbers in a divided bin."""
        low, high = self.edges[part].tolist()
        divided = np.count_nonzero(self.codes == self.codes[part]) > 1
        return NumberRange(low, high, below=True) if divided else self.variable.states[self.codes[part]]

    @property
    def cuts(self) -> list[float]:
        """Numbers inside bins at which these are divided, rising; empty if no bin is divided."""
        same = self.codes[1:] == self.codes[:-1]
        return [float(edge) for edge in self.edges[1:, 0][same]]


@dataclass(frozen=True)
class Literal:
    """A variable that has one of some states, or whose number lies in a range.

    Args:
        name: of the variable.
        states: these, or none.
        range: of the number, if there are no states.
    """

    name: str
    states: tuple[str, ...] = ()
    range: NumberRange | None = None

    def __str__(self) -> str:
        """Write it so that it reads back: `A=a`, `A in {a, b}` or `X > 40 and X <= 65`; names are quoted if needed."""
        if self.range is not None:
            text = self.range.write("_").replace("_", _quote(self.name))
            return text.replace(", ", " and ")
        if len(self.states) == 1:
            return f"{_quote(self.name)}={_quote(self.states[0])}"
        return f"{_quote(self.name)} in {{{', '.join(map(_quote, self.states))}}}"

    def literals(self) -> tuple[Literal, ...]:
        """List this literal alone."""
        return (self,)

    def truth(self, axes: Mapping[str, _Axis]) -> Floats:
        """Find the parts of its axis in which it holds, as 1 and else 0, shaped to broadcast to a table over all axes.

        A part of a bin holds if it lies inside the range as a whole; states that are no bin, such as gaps, lie in no
        range.
        """
        axis = axes[self.name]
        if self.range is None:
            holds = np.isin(axis.codes, [axis.variable.code(state) for state in self.states])
            return axis.spread(holds.astype(np.float64))
        low, high = self.range.ends(axis.variable)
        # A part lies inside the range or outside, as it is divided at the range's ends.
        with np.errstate(invalid="ignore"):
            holds = (axis.edges[:, 0] >= low) & (axis.edges[:, 1] <= high)
        return axis.spread(holds.astype(np.float64))


@dataclass(frozen=True)
class Junction:
    """Several conditions, of which all hold, or one.

    Args:
        word: "and" or "or".
        parts: at least two.
    """

    word: str
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        """Write it, junctions inside in brackets."""
        return f" {self.word} ".join(f"({part})" if isinstance(part, Junction) else str(part) for part in self.parts)

    def literals(self) -> tuple[Literal, ...]:
        """List the literals of all parts, in order; those that occur twice are listed twice."""
        return tuple(literal for part in self.parts for literal in part.literals())

    def truth(self, axes: Mapping[str, _Axis]) -> Floats:
        """Find where it holds: the minimum of the parts' truths for "and", the maximum for "or", broadcast together."""
        join = np.minimum if self.word == "and" else np.maximum
        return reduce(join, [part.truth(axes) for part in self.parts])


@dataclass(frozen=True)
class Negation:
    """A condition that does not hold.

    Args:
        part: the condition.
    """

    part: Condition

    def __str__(self) -> str:
        """Write `not ...`."""
        return f"not ({self.part})" if isinstance(self.part, Junction) else f"not {self.part}"

    def literals(self) -> tuple[Literal, ...]:
        """List the literals of its part."""
        return self.part.literals()

    def truth(self, axes: Mapping[str, _Axis]) -> Floats:
        """Find where its part does not hold: 1 less the part's truth, same shape."""
        return np.asarray(1 - self.part.truth(axes))


Condition = Literal | Junction | Negation


def _join(conditions: Sequence[Condition]) -> Condition | None:
    """Join conditions by "and"; a single one is returned as it is, and None without any."""
    return Junction("and", tuple(conditions)) if len(conditions) > 1 else next(iter(conditions), None)


def _quote(text: str) -> str:
    """Write a name or a state, in quotes if it has marks or words of the grammar, or blanks at an end (SPECIAL)."""
    return f'"{text}"' if SPECIAL.search(text) else text


# ----------------------------------------------------------------------------------------------------------- questions


@dataclass(frozen=True)
class Event(Composition):
    """Probability of an event, or of states together with it, given another event.

    Args:
        free: variables of whose states there is a row each.
        event: that is asked for; None if only `free` are.
        plain: plain evidence, on none of the other variables.
        given: another event as evidence; None without one.
        likelihoods: of states of variables, for uncertain evidence: how much more likely what was seen is in them.
        actions: states that are brought about.
        text, at: the whole text, and the position in it.
    """

    free: Scope
    event: Condition | None
    plain: Observed = ()
    given: Condition | None = None
    likelihoods: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    actions: tuple[tuple[str, str], ...] = ()
    text: str = field(default="", compare=False)
    at: int = field(default=0, compare=False)

    unit = "probability"

    def __str__(self) -> str:
        """Write it so that it reads back."""
        return self.write("P", self.free)

    def write(self, head: str, names: Scope) -> str:
        """Write a quantity of some variables under the event's conditions, `HEAD(names, event | evidence)`.

        Conditions joined by "and" are written with commas. Evidence has this order: plain evidence, the event that is
        given, likelihoods, actions; without any the bar is left out.

        Args:
            head: name of the quantity, such as "P".
            names: variables before the event.
        """
        before = [*map(_quote, names), *map(str, _split_and(self.event))]
        plain = [
            seen.write(name) if isinstance(seen, AnyOf) else str(_literal(name, seen)).replace(" and ", ", ")
            for name, seen in self.plain
        ]
        weights = [
            f"{_quote(name)} ~ {{{', '.join(f'{_quote(state)}: {weight:.15g}' for state, weight in weights)}}}"
            for name, weights in self.likelihoods
        ]
        actions = [f"do({_quote(name)}={_quote(state)})" for name, state in self.actions]
        after = [*plain, *map(str, _split_and(self.given)), *weights, *actions]
        return f"{head}({', '.join(before)}{' | ' if after else ''}{', '.join(after)})"

    @property
    def literals(self) -> tuple[Literal, ...]:
        """Literals of the event, then of the evidence event, repeated ones included."""
        return tuple(literal for part in (self.event, self.given) if part is not None for literal in part.literals())

    def names(self, network: Network) -> Scope:
        """List the variables whose joint probabilities the event needs: `free`, then the others in the schema's order.

        Others are those of literals and likelihoods, and those that actions set, with their parents.
        """
        acted = [name for name, _ in self.actions]
        others = {literal.name for literal in self.literals} | {name for name, _ in self.likelihoods}
        others |= {*acted, *(parent for name in acted for parent in network.parents[name])}
        return (*self.free, *network.ordered(others - {*self.free}))

    def axes(self, network: Network) -> dict[str, _Axis]:
        """Divide the states of its variables at the ends of its comparisons (`_divide`); axes in the order of `names`.

        Returns:
            By name of the variable.

        Raises:
            InputError: more than ROW_LIMIT joint parts.
        """
        names, axes = self.names(network), dict[str, _Axis]()
        for position, name in enumerate(names):
            variable = network.schema[name]
            ranges = [each.range for each in self.literals if each.name == name and each.range is not None]
            axes[name] = _divide(variable, ranges, position, len(names))
        states = math.prod(len(axis.codes) for axis in axes.values())
        if states > ROW_LIMIT:
            refuse(self.text, self.at, f"its variables have {states:,} joint states, more than {ROW_LIMIT:,}")
        return axes

    def base(self, network: Network) -> Probability:
        """Return the query of the joint probabilities of its variables (`names`), given the plain evidence."""
        return Probability(tuple((name, None) for name in self.names(network)), self.plain)

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the query of the joint probabilities, and those of the numbers that divide bins."""
        self.check_actions(
            network, {*self.free, *(literal.name for literal in (self.event.literals() if self.event else ()))}
        )
        return (self.base(network), *self.list_shares(network))

    def list_shares(self, network: Network) -> list[NumberQuery]:
        """List the queries of the numbers that divide bins."""
        return [self._share(axis, cut) for axis in self.axes(network).values() for cut in axis.cuts]

    def values(self, atoms: Atoms) -> Values:
        """Compute the probability of the event in every draw, and in the replicates; a row for each state of `free`.

        Joint probabilities under the plain evidence are first multiplied by actions (`_act`), and cells of bins that
        comparisons divide are split (`_refine`). The value is the sum over event and evidence; with an evidence event
        or likelihoods it is divided by the sum over the evidence, NaN where that is 0. If a bin is divided, or the
        answers to the queries have bounds, `_bound` gives the least and largest values. The scale is 0 to 1.

        Args:
            atoms: answers to `atoms`; assumptions on divided bins (LAWS) and actions (CAUSES), and the evidence
                (`tell`), are added.
        """
        network = atoms.posterior.network
        axes, drawn = self.axes(network), atoms.drawn(self.base(network))
        event, evidence = self.weigh(axes)
        tables = [drawn.values] if drawn.replicates is None else [drawn.values, drawn.replicates]
        results = list[Floats]()
        for at, table in enumerate(tables):
            refined = self.refine(table, axes, atoms, at)
            number = self._sum_rows(refined, event * evidence)
            everything = self._sum_rows(refined, evidence).sum(axis=0)
            results.append(_divide_by(number, everything) if self.conditional else number)
            if at == 0:
                self.tell(atoms, everything, results[0])
        cut, ends = [axis for axis in axes.values() if axis.cuts], None
        if cut or drawn.ends is not None:
            laws = [self._act(self._shape(side, network), network) for side in drawn.ends or (drawn.values,) * 2]
            ends = self._bound(laws, list(axes.values()), event, evidence)
            atoms.assumes.extend(LAWS.format(_quote(axis.variable.name)) for axis in cut)
        atoms.assumes.extend(CAUSES.format(f"do({name}={state})") for name, state in self.actions)
        return Values(self._states(network), results[0], (0.0, 1.0), ends, results[1] if results[1:] else None)

    def refine(self, table: Floats, axes: Mapping[str, _Axis], atoms: Atoms, again: int) -> Floats:
        """Divide joint probabilities between the parts of divided bins, after the actions.

        Args:
            table: of the states of its variables, shape `(states, draws)`.
            axes: of these.
            atoms: with the shares of numbers that divide bins.
            again: 0 for draws, 1 for their replicates.

        Returns:
            Shape `(*parts, draws)`.
        """
        network = atoms.posterior.network
        cells = self._shape(table, network)
        return _refine(self._act(cells, network), cells, list(axes.values()), self._shares(atoms, axes, again))

    @property
    def conditional(self) -> bool:
        """True if it is given an event or uncertain evidence, beside plain evidence."""
        return self.given is not None or bool(self.likelihoods)

    def _states(self, network: Network) -> tuple[Mapping[str, str], ...]:
        """List what each row is about, as a mapping.

        With `free` it is each joint state of these, the last varying fastest. Without, it is the event: its states by
        variable if it is a conjunction of single states, else its text under the key "event".
        """
        if not self.free:
            parts = _split_and(self.event)
            if all(isinstance(part, Literal) and len(part.states) == 1 for part in parts):
                return ({literal.name: literal.states[0] for literal in self.event.literals()} if self.event else {},)
            return ({"event": " and ".join(map(str, parts))},)
        grids = np.indices([network.schema[name].size for name in self.free]).reshape(len(self.free), -1)
        return tuple(
            {name: network.schema[name].states[code] for name, code in zip(self.free, row, strict=True)}
            for row in grids.T.tolist()
        )

    def _share(self, axis: _Axis, cut: float) -> NumberQuery:
        """Return the query of the share of a variable's numbers from one on: `>=` for whole numbers, else `>`."""
        return NumberQuery(">=" if axis.variable.whole else ">", axis.variable.name, cut, self.plain)

    def _shares(self, atoms: Atoms, axes: Mapping[str, _Axis], again: int) -> dict[tuple[str, float], Floats]:
        """Collect the shares of numbers beyond each number that divides a bin.

        Args:
            atoms: answers to the queries of `_share`.
            axes: by variable.
            again: 0 for the draws, 1 for the replicates, which must be there.

        Returns:
            By variable and number, shape `(draws,)` each.
        """
        shares = dict[tuple[str, float], Floats]()
        for name, axis in axes.items():
            for cut in axis.cuts:
                drawn = atoms.drawn(self._share(axis, cut))
                values = drawn.replicates if again else drawn.values
                assert values is not None
                shares[name, cut] = values[0]
        return shares

    def _shape(self, table: Floats, network: Network) -> Floats:
        """Reshape joint probabilities, shape `(states, draws)`, to an axis for each of `names`, and draws last."""
        return table.reshape(*(network.schema[name].size for name in self.names(network)), -1)

    def weigh(self, axes: Mapping[str, _Axis]) -> tuple[Floats, Floats]:
        """Compute the weights of cells in the event and in the evidence, in tables over all axes.

        Args:
            axes: by variable, in the order of `names`.

        Returns:
            (event, evidence): the event's truth, 1 everywhere without an event; the evidence event's truth, times the
            likelihoods of the cell's states. A state without a stated likelihood has 0.
        """
        shape = tuple(len(axis.codes) for axis in axes.values())
        event, weighed = (
            np.ones(shape) if part is None else np.broadcast_to(part.truth(axes), shape)
            for part in (self.event, self.given)
        )
        for name, weights in self.likelihoods:
            likelihood = np.zeros(axes[name].variable.size)
            for state, weight in weights:
                likelihood[axes[name].variable.code(state)] = weight
            weighed = weighed * axes[name].spread(likelihood[axes[name].codes])
        for name, state in self.actions:
            weighed = weighed * axes[name].spread(1.0 * (axes[name].codes == axes[name].variable.code(state)))
        if not np.any(weighed > 0):
            self.refuse("the evidence contradicts itself: no joint state of its variables meets it")
        return event, weighed

    def _sum_rows(self, cells: Floats, weights: Floats) -> Floats:
        """Sum weighted cells over all variables but `free`, shape `(rows, draws)`."""
        rows = math.prod(cells.shape[: len(self.free)])
        table = cells.reshape(rows, -1, cells.shape[-1])
        return np.asarray(np.einsum("rk,rkd->rd", weights.reshape(rows, -1), table))

    def _bound(
        self, laws: Sequence[Floats], axes: Sequence[_Axis], event: Floats, evidence: Floats
    ) -> tuple[Floats, Floats]:
        """Find least and largest values over all laws inside bins, shape `(rows, draws)` each.

        Records of a divided bin may all be on the side of the event, or none; likewise of the evidence (`_gather`).
        With a the probability of event and evidence, and b that of the evidence without the event or with another row,
        the value is a / (a + b): the least a with the largest b, and the reverse. Without evidence beside the plain one
        it is a, at most 1.

        Args:
            laws: least and largest joint probabilities over laws inside bins, shape `(*states, draws)` each.
            axes: of the variables.
            event, evidence: as `weigh` returns them.
        """
        sides = list[tuple[Floats, Floats]]()
        for table, extreme in zip(laws, (np.minimum, np.maximum), strict=True):
            masks = (event * evidence, evidence, (1 - event) * evidence)
            number, whole, without = (self._sum_rows(table, _gather(mask, axes, extreme)) for mask in masks)
            sides.append((number, whole.sum(axis=0) - whole + without))
        (low, few), (high, many) = sides
        if not self.conditional:
            return low, np.minimum(high, 1.0)
        return _divide_by(low, low + many), _divide_by(high, high + few)

    def tell(self, atoms: Atoms, everything: Floats, values: Floats) -> None:
        """Add to `atoms` the probability of the evidence, and whether it is too rare; nothing without evidence.

        The evidence is too rare if the intervals of all rows are at least as wide as the level; the question's text is
        then added to `rare`. The probability of the evidence event, given the plain evidence, is added with its
        interval only if there are no likelihoods and no actions; draws count equally, NaN is left out.

        Args:
            atoms: is changed.
            everything: probability of the evidence in every draw, shape (draws,).
            values: the event's, shape `(rows, draws)`.
        """
        if not (self.conditional or self.plain):
            return
        chosen = atoms.pick(values)
        lower, upper = credible_interval(np.clip(values[:, chosen], 0.0, 1.0), atoms.level)
        if bool(np.all(upper - lower >= atoms.level)):
            atoms.rare.append(str(self))
        if self.given is not None and not (self.likelihoods or self.actions):
            counted = np.clip(everything[~np.isnan(everything)], 0.0, 1.0)
            ends = credible_interval(counted, atoms.level)
            text = str(Event((), self.given, self.plain))
            atoms.evidence.append(EvidenceProbability(text, float(counted.mean()), float(ends[0]), float(ends[1])))

    def _act(self, table: Floats, network: Network) -> Floats:
        """Divide joint probabilities by those of the brought-about states given their parents; 0 for other states.

        Where no record has a state of the parents the result is 0; where records have it but the brought-about state
        never occurs it is NaN. Without actions the table is returned as it is.

        Args:
            table: shape `(*states, draws)`, axes in the order of `names`.
            network: whose arrows are taken as causes.

        Source:
            Truncated factorisation: Pearl (2009), *Causality*, equation 1.37.
        """
        names, result = self.names(network), table
        for name, state in self.actions:
            family = (*network.parents[name], name)
            margin = table.sum(axis=tuple(at for at, each in enumerate(names) if each not in family), keepdims=True)
            row = margin.sum(axis=names.index(name), keepdims=True)
            code = [network.schema[name].code(state)]
            share = np.take(margin, code, axis=names.index(name)) / np.where(row > 0, row, np.nan)
            here = np.zeros(network.schema[name].size)
            here[code] = 1.0
            mask = here.reshape(*(-1 if each == name else 1 for each in names), 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                # A state of the parents that no record has adds nothing; one in which the state never occurs, NaN.
                result = np.where(row > 0, result * mask / np.where(share > 0, share, np.nan), 0.0)
        return result

    def check_actions(self, network: Network, targets: Set[str]) -> None:
        """Refuse actions whose effect on targets the network does not tell.

        Raises:
            InputError: the network was learned from records; an action sets a variable that is asked for or observed by
                an event or likelihood; or no action sets an ancestor of what is asked for.
        """
        if not self.actions:
            return
        acted = {name for name, _ in self.actions}
        if network.learned is not None:
            self.refuse(
                "the network was chosen by the records, so its arrows are no causes; do() needs a drawn network"
            )
        seen = {literal.name for literal in self.literals} | {name for name, _ in self.likelihoods} | targets
        if both := network.ordered(acted & seen):
            self.refuse(f"do() sets {listed(map(shown, both))}, which is asked or observed, too; leave it out there")
        if not any(acted & network.ancestors([name]) for name in targets):
            self.refuse(
                f"no arrow of the network leads from {listed(map(shown, network.ordered(acted)))} to "
                f"{listed(map(shown, network.ordered(targets)))}, so do() has no effect; leave it out"
            )

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the question."""
        refuse(self.text, self.at, reason)


@dataclass(frozen=True)
class Mixture(Composition):
    """A quantity of numbers given an event: that of the mixture of their laws in the event's states.

    Args:
        query: the quantity, without evidence.
        event: the evidence, with the variables whose states are mixed; it asks for nothing.
    """

    query: NumberQuery
    event: Event

    def __str__(self) -> str:
        """Write it so that it reads back."""
        head, share = str(self.query).partition("(")[0], () if self.query.at is None else (f"{self.query.at:.15g}",)
        return self.event.write(head, (*self._names, *share))

    @property
    def _names(self) -> Scope:
        """The numbers that it is of."""
        return tuple(name for name, _ in self.query.targets)

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Its unit."""
        return f"number of {self.query.variable}" if self.query.second is None else self.query.quantity

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the queries of the event, and those of the numbers in each of its states."""
        self.event.check_actions(network, {*self._names})
        moments = [query for seen in self._list_states(network) for query in self._moments(seen).values()]
        return (self.event.base(network), *self.event.list_shares(network), *moments)

    def values(self, atoms: Atoms) -> Values:
        """Mix the numbers' laws in the states, by the states' probabilities given the event, in every draw."""
        network = atoms.posterior.network
        axes, drawn = self.event.axes(network), atoms.drawn(self.event.base(network))
        chosen, weights = self._choose(axes)
        tables = [drawn.values] if drawn.replicates is None else [drawn.values, drawn.replicates]
        shares = [
            self.event.refine(table, axes, atoms, at).reshape(len(weights), -1)[chosen] * weights[chosen, None]
            for at, table in enumerate(tables)
        ]
        self.event.tell(atoms, shares[0].sum(axis=0), shares[0])
        queries = [self._moments(seen) for seen in self._list_states(network)]
        moments = {name: [atoms.drawn(each[name]) for each in queries] for name in queries[0]}
        sides = [{name: np.stack([each.values[0] for each in drawns]) for name, drawns in moments.items()}]
        copies = [[each.replicates[0] for each in drawns if each.replicates is not None] for drawns in moments.values()]
        if len(tables) > 1 and all(len(each) == len(queries) for each in copies):
            sides.append(dict(zip(moments, map(np.stack, copies), strict=True)))
        is_open = drawn.ends is not None or any(axis.cuts for axis in axes.values())
        atoms.assumes.extend(LAWS.format(_quote(axis.variable.name)) for axis in axes.values() if axis.cuts)
        atoms.assumes.extend(CAUSES.format(f"do({name}={state})") for name, state in self.event.actions)
        quantity = "" if self.query.at is None else f" {self.query.at:.15g}"
        with_second = "" if self.query.second is None else f" with {self.query.second}"
        state = {self.query.variable: f"{self.query.quantity}{quantity}{with_second}"}
        if self.query.at is not None:
            return self._mix_quantiles(atoms, state, shares[0], moments["quantile"], is_open)
        mixed = [self._mix(part, side) for part, side in zip(shares, sides, strict=False)]
        ends = None if self.query.second else self._bound(shares[0], moments, mixed[0], is_open)
        return Values((state,), mixed[0], scale_of(self.query.quantity), ends, mixed[1] if mixed[1:] else None)

    def _choose(self, axes: Mapping[str, _Axis]) -> tuple[npt.NDArray[np.intp], Floats]:
        """Find the joint states of the event, as positions among all parts, and the likelihoods of all.

        Raises:
            InputError: more than `MOST_MIXED`.
        """
        weights = self.event.weigh(axes)[1].reshape(-1)
        chosen = np.flatnonzero(weights > 0)
        if len(chosen) > MOST_MIXED:
            self.event.refuse(
                f"numbers given an event of {len(chosen):,} joint states are more than the {MOST_MIXED} that are mixed"
            )
        return chosen, weights

    def _list_states(self, network: Network) -> list[Observed]:
        """List the evidence of each joint state of the event: states of variables, and parts of divided bins.

        Raises:
            InputError: more than `MOST_MIXED`; or a divided bin, of two numbers.
        """
        axes = self.event.axes(network)
        if self.query.second is not None and any(axis.cuts for axis in axes.values()):
            self.event.refuse(f"{self.query.quantity}s take comparisons at the edges of bins only; compare with one")
        evidence = list[Observed]()
        for position in self._choose(axes)[0]:
            parts = np.unravel_index(position, [len(axis.codes) for axis in axes.values()])
            seen = [axis.observe(int(part)) for axis, part in zip(axes.values(), parts, strict=True)]
            evidence.append((*self.event.plain, *zip(axes, seen, strict=True)))
        return evidence

    def _moments(self, seen: Observed) -> dict[str, NumberQuery]:
        """The queries of the numbers given one state of the event, by the names of what they are of."""
        query = replace(self.query, evidence=seen)
        if query.at is not None:
            return {"quantile": query}
        queries = {f"mean {name}": NumberQuery("mean", name, None, seen) for name in self._names}
        if query.quantity not in ("mean", "covariance"):
            queries |= {f"variance {name}": NumberQuery("variance", name, None, seen) for name in self._names}
        return queries if query.second is None else {**queries, "covariance": replace(query, quantity="covariance")}

    def _mix(self, shares: Floats, moments: Mapping[str, Floats]) -> Floats:
        """Compute the quantity of the mixture from moments in each state, shape `(states, draws)`: `(1, draws)`."""
        means = {name: _average(shares, moments[f"mean {name}"]) for name in self._names}
        if self.query.quantity == "mean":
            return means[self.query.variable]
        apart = {name: moments[f"mean {name}"] - mean for name, mean in means.items()}
        variances = [
            _average(shares, moments[f"variance {name}"] + apart[name] ** 2)
            for name in self._names
            if self.query.quantity != "covariance"
        ]
        if self.query.second is None:
            return np.sqrt(variances[0]) if self.query.quantity == "sd" else variances[0]
        first, second = apart.values()
        covariance = _average(shares, moments["covariance"] + first * second)
        if self.query.quantity == "covariance":
            return covariance
        return np.clip(covariance / np.sqrt(np.maximum(variances[0] * variances[1], np.finfo(float).tiny)), -1.0, 1.0)

    def _bound(
        self, shares: Floats, moments: Mapping[str, Sequence[AnswerDraws]], mixed: Floats, is_open: bool
    ) -> tuple[Floats, Floats]:
        """Find the least and the largest mean, variance or deviation over all laws inside bins, shape `(1, draws)`.

        The variance of a mixture is the mean variance, and that of the means, which is at most the mean square
        distance from any point. Where the states' probabilities are open, too, it is at most the largest variance and a
        quarter of the square of the means' range.
        """
        lows, highs = _stack_ends(moments[f"mean {self.query.variable}"])
        least, most = (np.min(lows, axis=0)[None], np.max(highs, axis=0)[None])
        if self.query.quantity == "mean":
            return (least, most) if is_open else (_average(shares, lows), _average(shares, highs))
        few, many = _stack_ends(moments[f"variance {self.query.variable}"])
        if is_open:
            low, high = np.min(few, axis=0)[None], np.max(many, axis=0)[None] + (most - least) ** 2 / 4
        else:
            middle = _average(shares, (lows + highs) / 2)
            low = _average(shares, few)
            high = _average(shares, many + np.maximum(np.abs(lows - middle), np.abs(highs - middle)) ** 2)
        if self.query.quantity == "sd":
            low, high = np.sqrt(low), np.sqrt(high)
        return np.minimum(low, mixed), np.maximum(high, mixed)

    def _mix_quantiles(
        self,
        atoms: Atoms,
        state: Mapping[str, str],
        shares: Floats,
        quantiles: Sequence[AnswerDraws],
        is_open: bool,
    ) -> Values:
        """Find the quantile of the mixture in every draw, and the least and largest over all laws inside bins.

        It lies between those in the states. Where the states' probabilities are known and no comparison is plain
        evidence, the bin in which it lies is known, too.
        """
        assert self.query.at is not None
        seen = self._list_states(atoms.posterior.network)
        inside = next(answer.inside for answer in atoms.answers.values() if answer.inside is not None)
        laws = [find_number_law(replace(self.query, evidence=each), atoms.posterior, inside) for each in seen]
        numbers, bins = find_mixed_quantile(laws, shares, self.query.at)
        lows, highs = _stack_ends(quantiles)
        lows, highs = (np.where(shares > 0, side, np.nan) for side in (lows, highs))
        low, high = np.nanmin(lows, axis=0), np.nanmax(highs, axis=0)
        if not is_open and not any(isinstance(value, NumberRange) for _, value in self.event.plain):
            low, high = np.maximum(low, laws[0].lowest[bins]), np.minimum(high, laws[0].highest[bins])
        ends = np.minimum(low, numbers)[None], np.maximum(high, numbers)[None]
        return Values((state,), numbers[None], (-math.inf, math.inf), ends)


@dataclass(frozen=True)
class Count(Composition):
    """Number of the release's records of an event: its share among these records, times their number.

    The share in the population, whose draws a posterior has, varies about that in the records by sampling. Its variance
    given the latent counts of records is left out: deviations from the mean are scaled by the root of the noise's part,
    which is known up to a Monte Carlo error, and is taken to be one standard error larger.

    Args:
        part: probability of the event; None counts all records.
    """

    part: Composition | None

    unit = "records"

    def __str__(self) -> str:
        """Write `N(A=a)`."""
        return "N()" if self.part is None else f"N{str(self.part)[1:]}"

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the queries of the probability; without one, that of the network's first variable, for its draws."""
        return (Probability(((network.nodes[0], None),)),) if self.part is None else self.part.atoms(network)

    def values(self, atoms: Atoms) -> Values:
        """Multiply the share among the records by their number, in every draw; the scale is 0 to infinity.

        Deviations of the share from its mean are multiplied by the root of the noise's part of its variance
        (`noise_share`) plus one standard error, at most 1. Without replicates, or with a basis weaker than "inferred",
        they stay whole, and a note says that sampling counts. Shares are clipped to [0, 1]; bounds over laws inside
        bins move with them. There are no replicates. Without `part` there is one row, the number of all records.

        Args:
            atoms: answers to the queries; notes are added.

        Raises:
            InputError: the number of records is unknown (`_draw_number`).
        """
        drawn = next(answer.drawn for answer in atoms.answers.values() if answer.drawn is not None)
        records = self._draw_number(atoms, drawn.values.shape[1])
        if self.part is None:
            return Values(({"records": "all"},), records[None], (0.0, math.inf))
        values = self.part.values(atoms)
        share = np.ones(len(values.draws))
        # What the network may err by is no sampling; the noise's part of the variance does not hold it.
        answers = [atoms.answers[str(query)] for query in self.part.atoms(atoms.posterior.network)]
        marks = [answer.basis for answer in answers if answer.basis is not None]
        doubted = any(WEAKEST.index(mark) < WEAKEST.index("inferred") for mark in marks)
        if values.replicates is None or doubted:
            atoms.notes.append(f"{self}: the interval counts sampling, too, as if the records were drawn anew")
        else:
            part, error = noise_share(values.draws[:, :: drawn.step], values.replicates, drawn.effective)
            share = np.minimum(part + error, 1.0)
        mean = np.nanmean(values.draws, axis=1, keepdims=True)
        shares = mean + np.sqrt(share)[:, None] * (values.draws - mean)
        moved = [np.clip(shares + side - values.draws, 0.0, 1.0) * records for side in values.bounds]
        ends = None if values.ends is None else (moved[0], moved[1])
        atoms.notes.append(f"{self} counts the records of the release, not of the population")
        return Values(values.states, np.clip(shares, 0.0, 1.0) * records, (0.0, math.inf), ends)

    def _draw_number(self, atoms: Atoms, draws: int) -> Floats:
        """Draw the number of records in every draw, shape `(draws,)`.

        It is the sum over data sets of the public number or of the estimate from noisy totals, with a normal error of
        the estimates' summed variance, at least 0. The seed is fixed.

        Raises:
            InputError: a posterior of which no release is known, or a release whose estimated number is not positive.
        """
        basis = atoms.posterior.basis if isinstance(atoms.posterior, PosteriorDraws) else None
        if basis is None:
            raise InputError(f"{self}: these draws do not know how many records there are; ask a release's posterior")
        mean = variance = 0.0
        for releases, exact in zip(basis.evidence.data_sets, basis.evidence.records, strict=True):
            number, deviation = number_of_records(measurements(releases)) if exact is None else (float(exact), 0.0)
            if not number > 0:
                raise InputError(f"{self}: the release does not tell how many records there are")
            mean, variance = mean + number, variance + deviation**2
        noise = np.random.default_rng(0).standard_normal(draws)
        return np.maximum(mean + math.sqrt(variance) * noise, 0.0)


@dataclass(frozen=True)
class Information(Composition):
    """Mutual information of two variables, in nats: 0 if they are independent.

    Args:
        names: of the variables.
        part: their joint probabilities.
    """

    names: tuple[str, str]
    part: Composition

    unit = "nats"

    def __str__(self) -> str:
        """Write `MI(A, B | C=c)`."""
        return f"MI{str(self.part)[1:]}"

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the queries of the joint probabilities."""
        return self.part.atoms(network)

    def values(self, atoms: Atoms) -> Values:
        """Compute the sum of `p(a, b) log (p(a, b) / (p(a) p(b)))` in every draw, at least 0; one row, in nats.

        If the probabilities have bounds over laws inside bins, its bounds are 0 and the logarithm of the smaller number
        of states. A note says so if a variable is numeric, as its bins are meant. Replicates are there if the
        probabilities have them.
        """
        values, schema = self.part.values(atoms), atoms.posterior.network.schema
        sizes = [schema[name].size for name in self.names]
        most = math.log(max(min(sizes), 1))
        draws, again = (
            None if table is None else _inform(table.reshape(*sizes, -1)) for table in (values.draws, values.replicates)
        )
        assert draws is not None
        ends = None if values.ends is None else (np.zeros_like(draws), np.full_like(draws, most))
        if any(schema[name].numeric for name in self.names):
            atoms.notes.append(f"{self} is of the bins of numbers, which tell no more than the numbers themselves")
        state = {"quantity": f"information of {self.names[0]} and {self.names[1]}"}
        return Values((state,), draws, (0.0, math.inf), ends, again)


# -------------------------------------------------------------------------------------------------------------- tables


def _divide(variable: Variable, ranges: Sequence[NumberRange], position: int, number: int) -> _Axis:
    """Divide the bins of a variable at the ends of ranges that lie strictly inside them.

    Args:
        variable: any; of one without comparisons the states stay whole.
        ranges: comparisons with its number.
        position, number: of its axis, and how many axes there are.

    Returns:
        Parts in the order of the states, those of a bin rising; edges are NaN for states that are no bin.
    """
    cuts = sorted({end for seen in ranges for end in seen.ends(variable)})
    codes, edges = list[int](), list[tuple[float, float]]()
    for code in range(variable.size):
        if not variable.comparable or code >= len(variable.edges) - 1:
            codes.append(code)
            edges.append((math.nan, math.nan))
            continue
        first, last = variable.edges[code : code + 2]
        points = [first, *(cut for cut in cuts if first < cut < last), last]
        codes += [code] * (len(points) - 1)
        edges += pairwise(points)
    return _Axis(variable, position, number, np.array(codes, np.intp), np.array(edges))


def _refine(table: Floats, base: Floats, axes: Sequence[_Axis], shares: Mapping[tuple[str, float], Floats]) -> Floats:
    """Divide the cells of bins that are divided, in the parts that all records of a bin have.

    The share of a part is the difference of the shares beyond its edges, as part of the bin's probability under `base`.
    Shares beyond are limited to those beyond the ends of the bin, and do not rise. A bin of probability 0 has equal
    parts.

    Args:
        table: shape `(*states, draws)`.
        base: probabilities under the plain evidence, same shape, which tell how likely a bin is.
        axes: of the variables.
        shares: shares of numbers beyond those that divide bins, shape `(draws,)` each.

    Returns:
        Shape `(*parts, draws)`.
    """
    for axis in axes:
        if not axis.cuts:
            continue
        bins = len(axis.variable.edges) - 1
        margin = base.sum(axis=tuple(at for at in range(len(axes)) if at != axis.position))[:bins]
        margin = _divide_by(margin, margin.sum(axis=0))
        beyond = np.vstack([np.cumsum(margin[::-1], axis=0)[::-1], np.zeros((1, margin.shape[1]))])
        parts = np.ones((len(axis.codes), table.shape[-1]))
        for code in set(axis.codes[1:][axis.codes[1:] == axis.codes[:-1]].tolist()):
            at = np.flatnonzero(axis.codes == code)
            inner = [shares[axis.variable.name, float(axis.edges[each, 0])] for each in at[1:]]
            above = np.clip([beyond[code], *inner, beyond[code + 1]], beyond[code + 1], beyond[code])
            steps = -np.diff(np.minimum.accumulate(above, axis=0), axis=0)
            parts[at] = np.where(margin[code] > 0, _divide_by(steps, margin[code]), 1 / len(at))
        table = np.take(table, axis.codes, axis=axis.position) * axis.spread(parts)
    return table


def _gather(weights: Floats, axes: Sequence[_Axis], extreme: np.ufunc) -> Floats:
    """Find the least or the largest weight of all parts of each cell.

    Args:
        weights: shape `(*parts)`.
        axes: of the variables.
        extreme: np.minimum or np.maximum.

    Returns:
        Shape `(*states)`: parts of the same state are one again.
    """
    for axis in axes:
        starts = np.flatnonzero(np.diff(axis.codes, prepend=-1))
        weights = extreme.reduceat(weights, starts, axis=axis.position)
    return weights


def _divide_by(number: Floats, total: Floats) -> Floats:
    """Divide elementwise, with broadcasting; NaN where the total is not above 0, as for impossible evidence."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(total > 0, number / total, np.nan))


def _average(shares: Floats, numbers: Floats) -> Floats:
    """Average numbers by shares, shape `(1, draws)`; a number of share 0 does not count, even if it is NaN."""
    products = np.where(shares > 0, shares * numbers, 0.0)
    return _divide_by(products.sum(axis=0), shares.sum(axis=0))[None]


def _stack_ends(drawn: Sequence[AnswerDraws]) -> tuple[Floats, Floats]:
    """Least and largest values over all laws inside bins, of several answers: shape `(answers, draws)` each."""
    low, high = (np.stack([(each.ends or (each.values,) * 2)[side][0] for each in drawn]) for side in (0, 1))
    return low, high


def find_mixed_quantile(laws: Sequence[BinLaw], shares: Floats, level: float) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Find the quantile of a mixture of laws in every draw.

    Args:
        laws: of the same bins.
        shares: weight of each law in every draw, with any sum, shape `(laws, draws)`; laws of weight 0 may be NaN.
        level: share of the numbers below it.

    Returns:
        The quantile, as `BinLaw.quantile`, and the bin in which it lies, shape `(draws,)` each; NaN where all weights
        are 0.
    """
    law, parts = laws[0], _divide_by(shares, shares.sum(axis=0))
    steps = np.stack([np.diff(each.below, axis=0) for each in laws])
    steps = np.where(parts[:, None] > 0, steps * parts[:, None], 0.0)
    below = np.cumsum(np.vstack([np.zeros((1, parts.shape[1])), steps.sum(axis=0)]), axis=0)
    bins, columns = np.argmax(below[1:] >= level - 1e-12, axis=0), np.arange(parts.shape[1])
    inside = np.stack([each.rises[bins, columns] for each in laws])
    low, high = np.zeros(len(bins)), np.ones(len(bins))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        reached = np.where(steps[:, bins, columns] > 0, np.expm1(inside * middle) / np.expm1(inside), 0.0)
        under = below[bins, columns] + (steps[:, bins, columns] * reached).sum(axis=0) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    numbers = law.edges[bins] + np.diff(law.edges)[bins] * high
    if law.integer:  # the upper end of a whole number is the next one, up to rounding
        numbers = np.clip(np.ceil(numbers - 1e-9) - 1, law.lowest[bins], law.highest[bins])
    return np.where(shares.sum(axis=0) > 0, numbers, np.nan), bins


def _inform(table: Floats) -> Floats:
    """Compute the mutual information of two variables in nats, at least 0.

    Args:
        table: joint probabilities, shape `(a, b, draws)`; cells of 0 add nothing, and NaN makes the draw NaN.

    Returns:
        Shape `(1, draws)`.
    """
    product = table.sum(axis=0, keepdims=True) * table.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / product), table)
    return np.asarray(np.maximum(terms.sum(axis=(0, 1)), 0.0)[None])


def _split_and(condition: Condition | None) -> tuple[Condition, ...]:
    """List the parts of a conjunction; any other condition alone, and () for None."""
    if condition is None:
        return ()
    return condition.parts if isinstance(condition, Junction) and condition.word == "and" else (condition,)


def _narrow(conditions: Sequence[Condition]) -> list[Condition]:
    """Join comparisons of the same variable into one range that both allow, at the place of the first.

    Other conditions stay as they are, in their order.
    """
    narrow = dict[object, Condition]()
    for at, part in enumerate(conditions):
        key = part.name if isinstance(part, Literal) and part.range else at
        before = narrow.get(key)
        if isinstance(before, Literal) and before.range and isinstance(part, Literal) and part.range:
            part = Literal(part.name, (), before.range.narrow(part.range))
        narrow[key] = part
    return list(narrow.values())


def _literal(name: str, seen: str | NumberRange | AnyOf) -> Literal:
    """Make a literal of plain evidence: of a range, of several states or of a single one."""
    if isinstance(seen, NumberRange):
        return Literal(name, (), seen)
    return Literal(name, seen.states if isinstance(seen, AnyOf) else (seen,))


# ---------------------------------------------------------------------------------------------------------------- text


@dataclass(frozen=True)
class _Name:
    """A variable without a state, as a target."""

    name: str


@dataclass(frozen=True)
class _Likelihood:
    """A variable with likelihoods of its states, as evidence."""

    name: str
    weights: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class _Action:
    """A state that is brought about, as evidence."""

    name: str
    state: str


_Part = Condition | _Name | _Likelihood | _Action


def parse_event(text: str, schema: Schema) -> Query:
    """Parse a query with an event.

    Args:
        text: as at the top of this file.
        schema: with the names.

    Raises:
        InputError: not such a query, a head other than P, E, N and MI, a bracket or quotation mark that is not closed,
            more than MOST_TERMS conditions, or as `parse_query`; with the position.

    Returns:
        A query with P: `Event`; with N: `Count`, without evidence; with E: `MixedMean`; with MI: `Information`.
    """
    head = HEAD.match(text)
    assert head is not None
    word = head[1]
    if word not in ("P", "N", "MI", *QUANTITIES):
        known = word in ("MAP", "MPE")
        reason = f"{word} takes states and numbers as evidence, no events" if known else f"no query is {word}(...)"
        refuse(text, head.start(1), f"{reason}; events are for P, N, MI, {listed(QUANTITIES)}")
    end = find_closing(text, head.end())
    if end == len(text):
        refuse(text, head.end() - 1, "this bracket is not closed")
    reader = _EventText(text, schema, head.end(), end)
    before = reader.read_items(share=word == "quantile")
    after = reader.read_items() if reader.skip("|") else []
    if reader.at < len(reader.tokens):
        reader.refuse(f"did not expect {shown(reader.peek())}")
    check_terms(text, reader.terms, reader.beyond)
    if word == "N" and after:
        refuse(text, head.end(), "N counts records: write N(A=a, C=c), with a comma for the bar")
    event = reader.join(before, after, head.start(1))
    if word == "N":
        return Count(_plain(event) if before else None)
    if word == "P":
        return event if event.free or event.event else refuse(text, head.end(), "P needs something before the bar")
    if word == "MI":
        if event.event is not None or len(event.free) != 2:
            event.refuse("write MI(A, B | ...) for two variables")
        return Information((event.free[0], event.free[1]), _plain(event))
    return _read_quantity(word, reader.share, event, schema)


def _read_quantity(word: str, share: float | None, event: Event, schema: Schema) -> Composition:
    """Read a quantity of numbers given an event."""
    quantity, names = QUANTITIES[word], event.free
    of_two = quantity in OF_TWO
    if event.event is not None or len(names) != 1 + of_two or (share is None) == (word == "quantile"):
        form = {"cov": "cov(X, Z", "cor": "cor(X, Z", "quantile": "quantile(X, 0.9"}.get(word, f"{word}(X")
        event.refuse(f"write {form} | ...) for {'two numeric variables' if of_two else 'one numeric variable'}")
    for name in names:
        if not schema[name].numeric:
            event.refuse(f"{shown(name)} has no numeric bounds and bins; use P({name} | ...)")
        if name in {*(each.name for each in event.literals), *dict((*event.likelihoods, *event.plain))}:
            event.refuse(f"{shown(name)} is asked, and part of the evidence; leave it out of one of them")
    if of_two:  # covariances are known given states: ranges are events
        ranges = [(name, seen) for name, seen in event.plain if isinstance(seen, NumberRange)]
        conditions = [*(_literal(name, seen) for name, seen in ranges), *_split_and(event.given)]
        event = replace(event, plain=tuple(each for each in event.plain if each not in ranges), given=_join(conditions))
    at = 0.5 if word == "median" else share
    query = NumberQuery(quantity, names[0], at, (), names[1] if of_two else None)
    return Mixture(query, replace(event, free=()))


def _plain(event: Event) -> Composition:
    """Make a plain query (`Single`) of an event if it is one; else return the event.

    It is one if the event is a conjunction of single states of different variables, none of them `free`, without
    evidence event, likelihoods or actions.
    """
    literals = _split_and(event.event)
    states = [(each.name, each.states[0]) for each in literals if isinstance(each, Literal) and len(each.states) == 1]
    names = [*event.free, *(name for name, _ in states)]
    if event.given or event.likelihoods or event.actions or len(states) < len(literals) or len({*names}) < len(names):
        return event
    return Single(Probability((*((name, None) for name in event.free), *states), event.plain))


class _EventText:
    """A text between two brackets, and how far it is read.

    Args:
        text: of the whole query.
        schema: with the names.
        start, end: where what is inside begins and ends.
    """

    def __init__(self, text: str, schema: Schema, start: int, end: int) -> None:
        self.text, self.schema, self.end = text, schema, end
        self.tokens: list[re.Match[str]] = []
        self.at = self.terms = self.beyond = 0
        self.share: float | None = None
        while (match := TOKEN.match(text, start, end)) is not None:
            self.tokens.append(match)
            start = match.end()
        if text[start:end].strip():
            refuse(text, start, "a quotation mark is not closed")

    def refuse(self, reason: str) -> NoReturn:
        """Raise an InputError at the token that is read next."""
        refuse(self.text, self._start(self.at), reason)

    def peek(self, ahead: int = 0) -> str:
        """Return a token without going on, `ahead` tokens after the next; "" behind the last."""
        return self.tokens[self.at + ahead][0].strip() if self.at + ahead < len(self.tokens) else ""

    def skip(self, word: str) -> bool:
        """Go over the next token if it is `word`; return whether it was."""
        there = self.peek() == word
        self.at += there
        return there

    def read_items(self, share: bool = False) -> list[_Part]:
        """Read what stands between commas, up to a bar; of a quantile its share is the second item."""
        items = list[_Part]()
        if self.peek() in ("", "|"):
            return items
        items.append(self._read_or(0))
        while self.peek() == ",":
            self.at += 1
            if share and self.share is None:
                text, start = self._read_span("| , ( ) { } ~")
                self.share = _read_weight(text)
                if not 0 < self.share < 1:
                    refuse(
                        self.text,
                        self._start(start),
                        "the share of a quantile is a number between 0 and 1, such as 0.9",
                    )
                continue
            items.append(self._read_or(0))
        return items

    def join(self, before: Sequence[_Part], after: Sequence[_Part], position: int) -> Event:
        """Make an event of targets and evidence.

        A condition of the evidence is plain evidence if it is a single state or a comparison, its variable occurs in no
        other part of the question, and there are no actions; all others are joined to the event that is given.
        Comparisons of one variable are narrowed to one before.

        Args:
            before: items before the bar.
            after: items behind it.
            position: of the query in the text, for errors.

        Raises:
            InputError: a variable twice without a state, or twice in likelihoods or in actions; likelihoods or actions
                before the bar; or a variable without a state behind it.
        """
        free = tuple(part.name for part in before if isinstance(part, _Name))
        if len({*free}) < len(free):
            refuse(self.text, position, "a variable occurs twice without a state")
        if any(isinstance(part, _Likelihood | _Action) for part in before):
            refuse(self.text, position, "'~' and do() are evidence: write them behind the bar")
        if any(isinstance(part, _Name) for part in after):
            refuse(self.text, position, "evidence needs a state, as in NAME=STATE")
        event = _join([part for part in before if isinstance(part, Literal | Junction | Negation)])
        conditions = [part for part in after if isinstance(part, Literal | Junction | Negation)]
        likelihoods = tuple((part.name, part.weights) for part in after if isinstance(part, _Likelihood))
        actions = tuple((part.name, part.state) for part in after if isinstance(part, _Action))
        for names in ([name for name, _ in likelihoods], [name for name, _ in actions]):
            if len({*names}) < len(names):
                refuse(self.text, position, "a variable occurs twice behind '~' or in do()")
        conditions = _narrow(conditions)
        plain = [part for part in conditions if isinstance(part, Literal) and (part.range or len(part.states) == 1)]
        inside = {*free, *(name for name, _ in likelihoods)}
        inside |= {each.name for part in (event, *conditions) if part not in plain and part for each in part.literals()}
        names = [part.name for part in plain]
        apart = [part for part in plain if part.name not in inside and names.count(part.name) == 1 and not actions]
        evidence = tuple((part.name, part.range or part.states[0]) for part in apart)
        rest = _join([part for part in conditions if part not in apart])
        return Event(free, event, evidence, rest, likelihoods, actions, self.text, position)

    def _start(self, at: int) -> int:
        """Return the position of a token in the text; behind the last token that of the closing bracket."""
        if at >= len(self.tokens):
            return self.end
        match = self.tokens[at]
        return match.start(match.lastgroup or 0)

    def _read_or(self, depth: int) -> _Part:
        """Read conditions with `or` between them; `and` binds closer, and `not` closest."""
        return self._read_junction("or", lambda: self._read_junction("and", lambda: self._read_not(depth)))

    def _read_junction(self, word: str, read: Callable[[], _Part]) -> _Part:
        """Read conditions with a word between them.

        Args:
            word: "or" or "and".
            read: reads one of them.

        Returns:
            A junction, in which junctions of the same word are flattened; a single item as it is.

        Raises:
            InputError: an item that is no condition beside the word.
        """
        start, first = self.at, read()
        if self.peek() != word:
            return first
        parts = [self._condition(first, start)]
        while self.peek() == word:
            self.at += 1
            start = self.at
            parts.append(self._condition(read(), start))
        flat = [
            inner
            for part in parts
            for inner in (part.parts if isinstance(part, Junction) and part.word == word else (part,))
        ]
        return Junction(word, tuple(flat))

    def _condition(self, part: _Part, start: int) -> Condition:
        """Return an item if it is a condition.

        Args:
            part: the item.
            start: position of its first token, to which an error points.

        Raises:
            InputError: a variable without a state, likelihoods or an action.
        """
        if not isinstance(part, _Name | _Likelihood | _Action):
            return part
        self.at = start
        return self.refuse("only conditions, such as NAME=STATE, can be joined by 'or', 'and' and 'not'")

    def _read_not(self, depth: int) -> _Part:
        """Read an action, or a condition, perhaps negated or in brackets.

        Args:
            depth: number of brackets and negations around it.

        Raises:
            InputError: more than MOST_NESTED of them; a bracket that is not closed; or brackets or `not` around what is
                no condition.
        """
        if depth > MOST_NESTED:
            self.refuse(f"more than {MOST_NESTED} brackets are open")
        if self.peek() == "not":
            self.at += 1
            start = self.at
            return Negation(self._condition(self._read_not(depth + 1), start))
        if self.peek() == "do" and self.peek(1) == "(":
            return self._read_action()
        if self.peek() == "(":
            start = self.at
            self.at += 1
            inside = self._read_or(depth + 1)
            if self.peek() != ")":
                self.refuse("a bracket ')' is missing")
            if isinstance(inside, _Name | _Likelihood | _Action):
                self.at = start
                self.refuse("did not expect a bracket; brackets are around conditions, such as NAME=STATE")
            self.at += 1
            return inside
        return self._read_leaf()

    def _read_span(self, stops: str) -> tuple[str, int]:
        """Read tokens up to one that ends a condition, or to `in {`.

        Args:
            stops: marks and words that end it, with blanks between them.

        Returns:
            (text, position of its first token).

        Raises:
            InputError: there is no token before the end.
        """
        start = self.at
        while (token := self.peek()) and token not in stops.split(" "):
            if token == "in" and self.peek(1) == "{":
                break
            self.at += 1
        if self.at == start:
            self.refuse(f"a condition is missing{f' before {shown(token)}' if token else ''}")
        return self.text[self._start(start) : self.tokens[self.at - 1].end()], start

    def _count(self) -> None:
        """Count a term, and keep the position of the first one beyond `MOST_TERMS`."""
        self.terms += 1
        self.beyond = self.beyond if self.terms > MOST_TERMS + 1 else self._start(self.at)

    def _read_leaf(self) -> _Part:
        """Read a name, a state, a number, a comparison, a set of states or likelihoods."""
        self._count()
        text, start = self._read_span("or and not , | ( ) { } ~")
        bare = text[1:-1] if re.fullmatch('"[^"]*"', text) else text
        if self.peek() == "in" and self.peek(1) == "{":
            self.at += 2
            return Literal(self._named(bare, start), tuple(dict.fromkeys(s for s, _ in self._read_states(bare, False))))
        if self.peek() == "~":
            self.at += 1
            if self.peek() != "{":
                self.refuse("write likelihoods of states, as in NAME ~ {STATE: 4, OTHER: 1}")
            self.at += 1
            return _Likelihood(self._named(bare, start), tuple(self._read_states(bare, True)))
        if bare in self.schema:
            return _Name(bare)
        if self.peek() == "{":
            self.refuse("did not expect '{'; write NAME in {STATE, STATE}")
        ((name, seen),) = self._read_evidence(text, start)
        if isinstance(seen, NumberRange) and seen.value and not self.schema[name].whole:
            refuse(
                self.text, self._start(start), "in an event compare a number, as in NAME > 40; one has probability 0"
            )
        return _literal(name, seen)

    def _read_evidence(self, text: str, start: int) -> Observed:
        """Read one plain condition, by the kernel's parser; its errors get the position of the token."""
        try:
            return read_evidence(text, self.schema)
        except InputError as error:
            refuse(self.text, self._start(start), str(error).partition(": ")[2] or str(error))

    def _read_action(self) -> _Action:
        """Read `do(NAME=STATE)`."""
        self._count()
        self.at += 2
        text, start = self._read_span(") | { } ~ (")
        if self.peek() != ")":
            self.refuse("a bracket ')' is missing")
        self.at += 1
        seen = self._read_evidence(text, start)
        if len(seen) != 1 or not isinstance(seen[0][1], str):
            refuse(self.text, self._start(start), "do() takes one state, as in do(NAME=STATE); write several do()")
        return _Action(seen[0][0], seen[0][1])

    def _named(self, name: str, start: int) -> str:
        """Return the name of a variable; an unknown one is refused at its position, with similar names."""
        if name not in self.schema:
            refuse(self.text, self._start(start), f"no variable {shown(name)}{did_you_mean(name, self.schema.names)}")
        return name

    def _read_states(self, name: str, weighed: bool) -> list[tuple[str, float]]:
        """Read states up to a closing bracket, which is passed; each counts as a term.

        Args:
            name: of the variable.
            weighed: whether each state is followed by a colon and its likelihood.

        Returns:
            (state, likelihood) each; the likelihood is 1 without weights.

        Raises:
            InputError: an unknown state, a missing bracket, a likelihood that is no number from 0 on; or, with weights,
                a repeated state or likelihoods that are all 0.
        """
        variable, states = self.schema[name], list[tuple[str, float]]()
        while True:
            self._count()
            text, start = self._read_span(", } | { ) (")
            weight = 1.0
            if weighed:
                text, _, number = text.rpartition(":")
                weight = _read_weight(number)
                if weight < 0 or not text.strip():
                    refuse(self.text, self._start(start), "write a likelihood from 0 on, as in {STATE: 4, OTHER: 1}")
            text = text.strip()
            state = variable.name_state(text[1:-1] if re.fullmatch('"[^"]*"', text) else text)
            if not variable.has(state):
                refuse(self.text, self._start(start), f"{shown(name)} {variable.refuse_state(state)}")
            states.append((state, weight))
            if self.peek() == "}":
                break
            if self.peek() != ",":
                self.refuse("a bracket '}' is missing")
            self.at += 1
        self.at += 1
        if weighed and (len(dict(states)) < len(states) or not any(weight for _, weight in states)):
            self.refuse("likelihoods are of different states, and not all 0")
        return states


def _read_weight(text: str) -> float:
    """Read a likelihood, a finite number from 0 on; -1 if the text is none."""
    try:
        weight = float(text)
    except ValueError:
        return -1.0
    return weight if 0 <= weight < math.inf else -1.0
