"""What is run for Williams and McSherry's Tables 2 and 3: heuristics, posteriors, and what has no privacy.

The posterior of the heuristic's own sums says whether inference helps; the posterior of one vector gradient has better
noise as well: one draw for the whole gradient, from the K-norm mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.designs.readers.importance import Density, WeightLikelihood, weighted_draws
from discreet.designs.readers.logistic import gradient_evidence, public_evidence
from discreet.designs.readers.weight_posterior import gradients_of

from .harness import Task
from .logistic_sets import SETS, Classification, Law, error, errors_of_draws, missing_sets, released
from .pinq import READINGS, measured_step, pinq_heuristic, sums_evidence

__all__ = ["CHAINED", "EPSILONS", "HEURISTIC", "KNOWN", "OURS", "SAME", "measure", "plan"]

EPSILONS = (0.1, 1.0)
DEVIATION = 2.5
"""Of the prior: the estimator's default."""
DRAWS, WANTED, SHOWN = 300, 200, 100
"""Draws in each round of a posterior, independent ones that end it, and those that errors are averaged over."""
KNOWN = ("SYNTH", "CM1", "CM2")
"""Sets whose features have a known law."""
SMALL = ("SYNTH", "PIMA")
"""Sets of a thousand records and fewer."""
HEURISTIC = "heuristic, T = 1"
SAME = "inference on the heuristic's own T = 1 sums"
OURS = "posterior of one vector gradient (ours)"
CHAINED = f"{OURS}, expected, dc.read"
"""Names of rows."""


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """All sets whose tables are there; more repeats for what is cheap.

    Heuristics on small sets take milliseconds; `dc.read` draws more than the other posteriors: quick runs give
    it SYNTH only.
    """
    there = [name for name in SETS if name not in missing_sets()]
    chains = ("SYNTH",) if quick else there
    return [
        *(({"set": name, "part": "chains"}, 2 if quick else 8) for name in chains),
        *(({"set": name, "part": "heuristic"}, 100 if name in SMALL or not quick else 16) for name in there),
        *(({"set": name, "part": "learned"}, 8 if quick else 60) for name in there),
        *(({"set": name, "part": "same sums"}, (24 if name in SMALL else 8) if quick else 60) for name in KNOWN),
    ]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Error rates of every method of a part, per cent."""
    name = task.setting["set"]
    part: Callable[[Task, Classification, float], Iterator[tuple[str, float]]] = {
        "chains": _chains,
        "heuristic": _heuristics,
        "learned": _learned,
        "same sums": _same_sums,
    }[task.setting["part"]]
    records = SETS[name](task.rng(f"records {name}"))
    for epsilon in EPSILONS:
        for method, value in part(task, records, epsilon):
            yield {"epsilon": epsilon, "method": method, "metric": "error", "value": value}


def _heuristics(task: Task, records: Classification, epsilon: float) -> Iterator[tuple[str, float]]:
    """All readings."""
    name = task.setting["set"]
    # No constant, and the paper's unit: SYNTH's features go from -1/2 to 1/2.
    features = records.points[:, :-1] / (2 if name == "SYNTH" else 1)
    for method, reading in READINGS.items():
        rng = task.rng(f"heuristic {name} {epsilon} {method}")
        found = np.append(pinq_heuristic(features, records.labels, reading, epsilon, rng), 0.0)
        yield f"heuristic, {method}", float(error(found[None], records)[0])


def _same_sums(task: Task, records: Classification, epsilon: float) -> Iterator[tuple[str, float]]:
    """The heuristic's single step and the posterior of the same noisy sums, in the unit of the scaled features."""
    name = task.setting["set"]
    unit = 2 if name == "SYNTH" else 1
    rng = task.rng(f"sums {name} {epsilon}")
    start, sums, scale = measured_step(records.points[:, :-1] / unit, records.labels, epsilon, rng)
    yield HEURISTIC, float(error(np.append(start + sums, 0.0)[None], records)[0])
    assert records.law is not None
    law = replace(records.law, constant=None)
    told = sums_evidence(start / unit, unit * sums, unit * scale, records.published, law)
    drawn = np.column_stack([_drawn(told, len(start), rng), np.zeros(SHOWN)])
    expected, at_mean = errors_of_draws(drawn, records, thinned=1)
    yield f"{SAME}, expected", expected
    yield f"{SAME}, at the mean", at_mean


def _learned(task: Task, records: Classification, epsilon: float) -> Iterator[tuple[str, float]]:
    """Inference, the estimator's rule and what has no privacy."""
    made, law = _release(task, records, epsilon, "1", posterior=True)
    yield from _inference(task, records, epsilon, made, law)
    shipped, _ = _release(task, records, epsilon, "auto", posterior=False)
    assert isinstance(shipped.payload, dc.designs.GradientTrace)
    yield "shipped rule", float(error(shipped.payload.weights[None], records)[0])
    likely = public_evidence(records.points, records.labels)
    exact, _ = Density(records.points.shape[1], DEVIATION, (likely,)).mode()
    yield "non-private", float(error(exact[None], records)[0])
    if np.isfinite(records.bayes):
        yield "best classifier", records.bayes


def _inference(
    task: Task, records: Classification, epsilon: float, made: dc.Release, law: Law
) -> Iterator[tuple[str, float]]:
    """Errors of the posterior of one gradient, by weighted draws."""
    rng = task.rng(f"draws {task.setting['set']} {epsilon}")
    expected, at_mean = errors_of_draws(
        _drawn(gradient_evidence(gradients_of(made), law), law.size, rng), records, thinned=1
    )
    yield f"{OURS}, expected", expected
    yield f"{OURS}, at the mean", at_mean


def _drawn(evidence: WeightLikelihood, size: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draws of equal weight of a posterior."""
    found = weighted_draws(Density(size, DEVIATION, (evidence,)), draws=DRAWS, wanted=WANTED, rng=rng)
    return found.equal(SHOWN)


def _chains(task: Task, records: Classification, epsilon: float) -> Iterator[tuple[str, float]]:
    """The same and `dc.read` of one release."""
    made, law = _release(task, records, epsilon, "1", posterior=True)
    yield from _inference(task, records, epsilon, made, law)
    rng = task.rng(f"chains {task.setting['set']} {epsilon}")
    drawn = dc.read(made, draws=1000, rng=rng, covariates=law).weights
    expected, at_mean = errors_of_draws(drawn, records, thinned=1000 // SHOWN)
    yield CHAINED, expected
    yield f"{OURS}, at the mean, dc.read", at_mean


def _release(
    task: Task, records: Classification, epsilon: float, method: str, *, posterior: bool
) -> tuple[dc.Release, Any]:
    """A release with noise of its own."""
    rng = task.rng(f"noise {task.setting['set']} {epsilon} {method}")
    return released(records, epsilon, method, rng, relation="add-remove", deviation=DEVIATION, posterior=posterior)
