"""What a release holds as rows, and what it is in a few lines: for frames, notebooks and terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.display.text_tables import html_text, with_noun
from discreet.model.design import Design
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.privacy.guarantee import as_text
from discreet.releases.kinds import Payload
from discreet.releases.kinds.candidate_choice import Choice
from discreet.releases.kinds.chosen_network import ChosenNetwork
from discreet.releases.kinds.factored_choice import FactoredChoice
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.kinds.noisy_sums import GroupedMoments, NoisyMoments
from discreet.releases.kinds.parameter_draws import ParameterDraws
from discreet.releases.kinds.scored_choice import ScoredChoice
from discreet.releases.kinds.weight_draws import WeightDraws
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Array, Floats

if TYPE_CHECKING:
    from discreet.releases.release import Release

Rows = Iterator[dict[str, Any]]


@singledispatch
def release_rows(payload: Payload) -> list[dict[str, Any]]:
    """What was released, a row for each number, as it was published.

    Args:
        payload: of a release; a kind whose numbers are not measurements registers how it is listed.

    Returns:
        Of tables and contrasts rows of "variables", "states", "value" with its noise, "scale" of the noise and its
        law, "noise"; of a chosen network its arcs; of draws and candidates their numbers; of a regression the noisy
        sums of products, or its weights.
    """
    return [row for part in payload.measurements for row in measured_rows(part, cast("Network", payload.over))]


@release_rows.register
def _(payload: ParameterDraws) -> list[dict[str, Any]]:
    return list(_list_probabilities(payload.cells))


@release_rows.register
def _(payload: Choice) -> list[dict[str, Any]]:
    return list(_list_probabilities(payload.candidates[payload.index]))


@release_rows.register
def _(payload: ChosenNetwork) -> list[dict[str, Any]]:
    return [{"parent": parent, "child": child} for parent, child in payload.chosen.arcs]


@release_rows.register
def _(payload: ScoredChoice) -> list[dict[str, Any]]:
    return list(_list_drawn(payload.table_of_scores.names, payload.chosen))


@release_rows.register
def _(payload: FactoredChoice) -> list[dict[str, Any]]:
    is_direction = payload.kind == "direction"
    names = list(payload.design.names) if is_direction else [*map(str, range(payload.candidates.shape[1]))]
    return list(_list_drawn(names, payload.candidates[payload.index][None]))


@release_rows.register
def _(payload: WeightDraws) -> list[dict[str, Any]]:
    return list(_list_drawn(_name_weights(payload.design), payload.weights))


@release_rows.register
def _(payload: GradientTrace) -> list[dict[str, Any]]:
    names = _name_weights(payload.design)
    return [{"name": name, "weight": float(weight)} for name, weight in zip(names, payload.weights, strict=True)]


@release_rows.register
def _(payload: NoisyMoments | GroupedMoments) -> list[dict[str, Any]]:
    return list(_list_sums(payload.design, payload.sums, payload.variances, payload.noisy_total))


def measured_rows(part: Measurement, network: Network) -> Rows:
    """The cells of a table, contrasts of neighbouring states, or weighted sums.

    Args:
        part: what was measured.
        network: of its variables.

    Yields:
        Rows as of `release_rows`; of weighted sums the states are their numbers.
    """
    axes = [_list_states(network.schema[name], part.contrasts) for name in part.scope]
    if part.weights is not None:
        axes = [[f"sum {number}" for number in range(1, len(part.weights) + 1)]]
    what = {"variables": ", ".join(part.scope)}
    noise = {"scale": part.scale, "noise": part.tag, "contrast": part.contrasts}
    noise |= {} if part.sampling is None else {"sampled": part.sampling}
    for states, value in zip(product(*axes), np.ravel(part.values).tolist(), strict=True):
        yield {**what, "states": ", ".join(states), "value": value, **noise}


def _list_states(variable: Variable, contrasts: bool) -> Sequence[str]:
    """List the states of an axis, or pairs of neighbouring ones."""
    states = variable.states
    return [f"{one} - {other}" for one, other in pairwise(states)] if contrasts else states


def _list_probabilities(tables: Tables) -> Rows:
    """List the probabilities of a network, of each draw where there are draws."""
    network = tables.network
    for node, table in tables.items():
        family = network.family(node)
        numbers: Array = table if tables.draws else table[..., None]
        for states, row in zip(
            product(*(network.schema[name].states for name in family)),
            numbers.reshape(-1, numbers.shape[-1]).tolist(),
            strict=True,
        ):
            given = ", ".join(f"{name}={state}" for name, state in zip(family[:-1], states[:-1], strict=True))
            for draw, probability in enumerate(row):
                at = {"draw": draw} if tables.draws else {}
                yield {"node": node, "given": given, "state": states[-1], **at, "probability": probability}


def _list_drawn(names: Sequence[str], numbers: Floats) -> Rows:
    """List the numbers of each draw."""
    for draw, row in enumerate(numbers.tolist()):
        yield from ({"draw": draw, "name": name, "value": value} for name, value in zip(names, row, strict=True))


def _name_weights(design: Design) -> list[str]:
    """Name the weights of a design, of each class where there are more than two."""
    names = [*design.names, *(["intercept"] if design.intercept else [])]
    if design.outputs == 1 or design.target is None:
        return names
    return [f"{state}: {name}" for state in design.target.states for name in names]


def _list_sums(design: Design, sums: Floats, variances: Floats, noisy_total: bool) -> Rows:
    """List sums of products of coordinates between -1 and 1; of squares twice them, less the number of records."""
    names = [*design.names, *(["1"] if design.intercept else []), *([design.target.name] if design.target else [])]
    pairs: list[tuple[str, str]] = [("1", "1")] if noisy_total else []
    pairs += [(names[i], names[j]) for i, j in design.moments]
    for (one, other), value, variance in zip(pairs, sums.tolist(), variances.tolist(), strict=True):
        yield {"first": one, "second": other, "value": value, "deviation": variance**0.5}


def facts_html(facts: Mapping[str, str]) -> str:
    """What `release_facts` says, as a table of HTML in which names are text."""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td style="text-align: left">{html_text(told)}</td></tr>'
        for name, told in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def release_facts(release: Release) -> Mapping[str, str]:
    """What a release is, in a few words each; nothing of it comes from a record but the public number of records.

    Args:
        release: of any kind.

    Returns:
        By what is said, in the order in which it is read.
    """
    promise = str(release.guarantee)
    if not release.private:
        promise = f"none: this is a simulation, which protects nobody; a private one would promise {promise}"
    kind = f"{release.mechanism}, over {_describe_structure(release)}"
    spent = f"epsilon {as_text(release.guarantee.epsilon)}"
    spent += f", delta {as_text(release.guarantee.delta)}" if release.guarantee.delta else ""
    facts = {
        "release": f"{release.id} of {release.date.isoformat()}",
        "promise": promise,
        "unit": "; ".join(release.unit_lines) or f"one {release.guarantee.unit}",
        "mechanism": kind,
        "spent": spent if release.private else "nothing",
        "records": "their number is private" if release.records is None else f"{release.records:,}, which is public",
        "holds": release.payload.summary(release.calibration),
    }
    for network in release.networks:
        if network.learned:
            facts["network"] = str(network.learned)
    return facts


def _describe_structure(release: Release) -> str:
    """Describe the network, or the design."""
    for network in release.networks:
        return f"a network of {with_noun(len(network.nodes), 'variable')} and {with_noun(len(network.arcs), 'arc')}"
    design = release.design
    target = "no target" if design.target is None else f"the target {design.target.name}"
    return f"a design of {with_noun(len(design.features), 'feature')} and {target}"
