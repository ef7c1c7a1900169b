"""Every mechanism of the registry and the options that change what it publishes, with the guarantee that each needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import discreet as dc
from design_cases import CLASSES, NUMBER, design
from discreet.discovery.made_up_columns import MADE_UP
from discreet.mechanisms import MECHANISMS, mechanisms_over
from discreet.releases.kinds.number_tables import NumberTables
from discreet.research.scores.score_tables import SCORE_STEPS, record_types
from discreet.verify.made_up import NETWORKS
from discreet.verify.tiny_data import audit_networks
from tiny import TINY, counts_of

NETWORK = TINY["complete, three states"]
RECORDS = [(0, 1, 1), (1, 2, 0), (1, 0, 0), (0, 0, 1), (1, 1, 1)]
DELTA = "1e-6"
LARGE_DELTA = "0.3"
"""So large that Gaussian noise is better than Laplace noise even on tiny networks of two tables."""
RELATIONS = dc.tools.RECORD_RELATIONS


@dataclass(frozen=True)
class Variant:
    """A mechanism with its options.

    Args:
        mechanism: its name in the registry.
        make: the mechanism for a network.
        payload: what it publishes.
        delta: of the guarantee that it is asked to keep.
        relations: that it works under.
        private: so many records' statistic, that it draws from; those of `NETWORK` by default.
        unlike: a statistic of another kind.
    """

    mechanism: str
    make: Callable[[dc.Network], dc.tools.Mechanism]
    payload: type
    delta: str = "0"
    relations: tuple[dc.Relation, ...] = RELATIONS
    private: Callable[[int], Any] = lambda records: counts_of(NETWORK, (RECORDS * 9)[:records])
    unlike: Callable[[], Any] = lambda: numbers(3)

    @property
    def prior(self) -> Any:
        """Over what the statistic is over."""
        over = self.private(0).over
        if isinstance(over, dc.discovery.Columns):
            return dc.discovery.NoPrior(over)
        return dc.designs.Normal(over, 2.0) if isinstance(over, dc.designs.Design) else dc.Dirichlet.uniform(over)

    def promise(
        self, epsilon: object = 1, relation: dc.Relation = dc.Relation.ADD_REMOVE, unit: str = "record"
    ) -> dc.Guarantee:
        """A guarantee that the mechanism can keep."""
        return dc.Guarantee(epsilon=epsilon, delta=self.delta, relation=relation, unit=unit)


def candidates(network: dc.Network) -> Sequence[dc.Tables]:
    """Three sets of probabilities, all positive."""
    draws = dc.Dirichlet.uniform(network, 5.0).draw(3, rng=np.random.default_rng(17))
    return [dc.Tables(network, {node: draws[node][..., at] for node in network.nodes}) for at in range(3)]


def score(network: dc.Network) -> dc.research.ScoreTable:
    """Some score of three candidates, and a base measure."""
    size = len(record_types(network)[network.nodes[0]])
    steps = np.random.default_rng(23).integers(0, SCORE_STEPS + 1, (size, 3))
    return dc.research.ScoreTable(network, ("z",), np.arange(3.0)[:, None], np.array([0.0, 0.5, -1.0]), steps)


def family(network: dc.Network) -> dc.research.ScoreTable:
    """Some law of records with one parameter, on a grid of four."""
    size = len(record_types(network)[network.nodes[0]])
    tilt = np.random.default_rng(29).normal(size=size)
    places = {values: at for at, values in enumerate(zip(*record_types(network).values(), strict=True))}

    def log_likelihood(types: Any, candidates: np.ndarray) -> np.ndarray:
        return tilt[[places[values] for values in zip(*types.values(), strict=True)]][:, None] * candidates.T

    return dc.research.own_family(network, log_likelihood, [0, 0.5, 1, 2])


def varied(network: dc.Network) -> str:
    """The last node that has more than one state."""
    return [node for node in network.nodes if network.schema[node].size > 1][-1]


NUMBERS = audit_networks()["a -> x, numbers"]
"""With a column of numbers."""


def unjoined(records: int) -> dc.results.Counts:
    """Counts over the same variables without arcs, for what chooses them."""
    return counts_of(dc.Network.empty(NETWORK.variables), (RECORDS * 9)[:records])


def numbers(records: int) -> dc.designs.Moments:
    """Sums of a linear regression."""
    rng = np.random.default_rng(1)
    over, features = design(2, NUMBER), rng.uniform(-1, 1, (records, 2))
    return dc.designs.sum_moments(dc.designs.read_rows(over, features, rng.uniform(-3, 7, records)))


def texts(records: int) -> dc.discovery.ColumnValues:
    """Values of a column of text, one logical and one of numbers."""
    over = dc.discovery.Columns(tuple(dc.discovery.NamedColumn(kind, kind) for kind in ("text", "boolean", "number")))
    data = ([("a", True, 2.5)] * 5 + [("b", False, -1e9)] * 4) * 40
    return MADE_UP.statistic_from(dc.discovery.found_domain(), over, data[:records])


def classes(records: int) -> dc.designs.Gradients:
    """Records of a logistic regression."""
    rng = np.random.default_rng(1)
    over, features = design(2, CLASSES), rng.uniform(-1, 1, (records, 2))
    return dc.designs.sum_gradients(dc.designs.read_rows(over, features, rng.choice(CLASSES.states, records)))


def points(records: int) -> dc.designs.Rows:
    """Points of a plane."""
    return dc.designs.read_rows(design(2, intercept=False), np.random.default_rng(1).uniform(-1, 1, (records, 2)))


PAYLOADS = {
    "planned": dc.kinds.NoisyTables,  # every pair lies in the one table of `NETWORK`
    "laplace": dc.kinds.NoisyCounts,
    "fourier": dc.research.NoisyCoefficients,
    "gaussian": dc.kinds.NoisyCounts,
    "allocated": dc.research.TwoStageCounts,
    "posterior_sampler": dc.research.ParameterDraws,
    "map_estimate": dc.research.ParameterDraws,
}
NEEDS_DELTA = {"gaussian": DELTA}
NO_DELTA = tuple(name for name, entry in MECHANISMS.items() if entry.delta == "refused")
"""Refuse a delta: they would charge for it and not use it."""

DEFAULTS = {
    name: Variant(name, lambda _, make=make: make(), PAYLOADS[name], NEEDS_DELTA.get(name, "0"))
    for name, make in mechanisms_over("network").items()
}
"""All mechanisms over a network, with default options."""

VARIANTS = DEFAULTS | {
    "planned, workload": Variant(
        "planned", lambda net: dc.planned(pairs_share=0, workload=[f"P({varied(net)})"]), dc.kinds.NoisyTables
    ),
    "planned, pairs": Variant(
        "planned",
        lambda _: dc.planned(pairs_share="0.3"),
        dc.kinds.TablesWithPairs,
        private=lambda records: counts_of(TINY["fork"], [(0, 1, 1), (1, 1, 0), (1, 0, 0)] * records),
    ),
    "planned, numbers": Variant(
        "planned",
        lambda _: dc.planned(),
        NumberTables,
        private=lambda records: NETWORKS.statistic_from(dc.planned(), NUMBERS, ([(0, -2.5), (1, 0.5)] * 18)[:records]),
    ),
    "planned, numbers and delta": Variant(
        "planned",
        lambda _: dc.planned(),
        NumberTables,
        LARGE_DELTA,
        private=lambda records: NETWORKS.statistic_from(dc.planned(), NUMBERS, ([(0, -2.5), (1, 0.5)] * 18)[:records]),
    ),
    "planned, delta": Variant("planned", lambda _: dc.planned(pairs_share=0), dc.kinds.NoisyTables, LARGE_DELTA),
    "laplace, all tables": Variant(
        "laplace", lambda net: dc.laplace(dict.fromkeys(net.nodes, "0.001")), dc.kinds.NoisyCounts
    ),
    "fourier, stealth": Variant("fourier", lambda _: dc.research.fourier(stealth=0.9), dc.research.NoisyCoefficients),
    "allocated, sampled": Variant(
        "allocated",
        lambda _: dc.research.allocated(first="0.3", sampling="1/3", weights="structure"),
        dc.research.TwoStageCounts,
        relations=(dc.Relation.ADD_REMOVE,),
    ),
    "posterior_sampler, 3 draws": Variant(
        "posterior_sampler", lambda _: dc.research.posterior_sampler(3), dc.research.ParameterDraws
    ),
    "posterior_sampler, given": Variant(
        "posterior_sampler",
        lambda net: dc.research.posterior_sampler(given=[n for n in net.nodes if n != varied(net)][:1]),
        dc.research.ParameterDraws,
    ),
    "posterior_sampler, delta": Variant(
        "posterior_sampler", lambda _: dc.research.posterior_sampler(2), dc.research.ParameterDraws, DELTA
    ),
    "map_estimate, candidates": Variant(
        "map_estimate", lambda net: dc.research.map_estimate(candidates(net)), dc.research.Choice
    ),
    "scored": Variant("scored", lambda net: dc.research.scored(score(net), 2), dc.research.ScoredChoice),
    "sampled": Variant("sampled", lambda net: dc.research.sampled(family(net)), dc.research.ScoredChoice),
}  # fmt: skip
"""All over a network, and every option that changes the calibration or the payload."""

OVER_DESIGNS = {
    name: Variant(name, lambda _, name=name: MECHANISMS[name].example, payload, private=private, unlike=unlike)
    for name, payload, private, unlike in (
        ("grouped_moments", dc.designs.GroupedMoments, numbers, lambda: classes(3)),
        ("noisy_moments", dc.designs.NoisyMoments, numbers, lambda: classes(3)),
        ("truncated_posterior", dc.research.WeightDraws, numbers, lambda: classes(3)),
        ("noisy_gradients", dc.designs.GradientTrace, classes, lambda: numbers(3)),
        ("objective_perturbation", dc.designs.GradientTrace, classes, lambda: numbers(3)),
        ("factored", dc.research.FactoredChoice, points, lambda: numbers(3)),
    )
}
CHOOSING = {
    "structure": Variant("structure", lambda _: dc.structure(), dc.kinds.ChosenNetwork, private=unjoined),
    "structure, a tree with an arc": Variant(
        "structure", lambda _: dc.structure(1, required="a -> b"), dc.kinds.ChosenNetwork, private=unjoined
    ),
}
"""What chooses a network."""
OVER_COLUMNS = {
    "found_domain": Variant(
        "found_domain",
        lambda _: dc.discovery.found_domain(),
        dc.discovery.FoundDomain,
        DELTA,
        private=texts,
        unlike=lambda: numbers(3),
    )
}
"""What finds a domain."""
EVERY = VARIANTS | OVER_DESIGNS | OVER_COLUMNS | CHOOSING
"""The whole registry."""


def arrays(payload: Any) -> dict[str, np.ndarray]:
    """All that a payload says of the records, by name."""
    match payload:
        case dc.kinds.NoisyCounts():
            return dict(payload.tables)
        case dc.kinds.NoisyTables():
            return {"x".join(scope): table for scope, table in payload.tables.items()}
        case dc.kinds.TablesWithPairs():
            return {**arrays(payload.first), **{"x".join(pair): table for pair, table in payload.pairs.items()}}
        case NumberTables():
            rulers = {f"ruler {ruler.number}": ruler.counts for ruler in payload.rulers}
            return {**arrays(payload.first), "offsets": payload.offsets, "moments": payload.moments, **rulers}
        case dc.research.NoisyCoefficients():
            return {"x".join(subset): array for subset, array in payload.components.items()}
        case dc.research.TwoStageCounts():
            stages = {"first": payload.first, "second": payload.second}
            return {f"{name} {node}": table for name, stage in stages.items() for node, table in stage.tables.items()}
        case dc.research.ParameterDraws():
            return dict(payload.cells)
        case dc.research.Choice():
            return {"index": np.array(payload.index)}
        case dc.research.ScoredChoice():
            return {"indices": payload.indices}
        case dc.discovery.FoundDomain():
            return {part.name: part.counts for part in payload.parts}
        case dc.kinds.ChosenNetwork():
            nodes = payload.network.nodes
            return {node: np.isin(nodes, parents) for node, parents in payload.parents.items()}
        case (
            dc.designs.NoisyMoments()
            | dc.designs.GroupedMoments()
            | dc.designs.GradientTrace()
            | dc.research.WeightDraws()
            | dc.research.FactoredChoice()
        ):
            values = {name: getattr(payload, name) for name in payload.__dataclass_fields__}
            found = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
            return found | (
                {"index": np.array(payload.index)} if isinstance(payload, dc.research.FactoredChoice) else {}
            )
        case _:
            raise AssertionError(f"no payload: {type(payload).__name__}")
