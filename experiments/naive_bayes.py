"""Naive Bayes from private counts: Figure 1 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016), and what is offered.

Sixteen binary variables and a binary class, 50 training records, Beta(1, 1) priors, accuracy of the posterior
predictive distribution on 950 others. The paper prints no numbers and no law of the parameters; here every feature's
probabilities are uniform on (0, 1) and P(class) is uniform on (0.3, 0.7), drawn anew in each repeat. The reference
values come from another simulation of the same set-up.

As the paper does it: continuous Laplace noise on the tables of all 17 nodes, clipped to [0, n]; continuous Laplace
noise of its scale on the coefficients of the Fourier domain, with a shift, where only the runs without a negative cell
count; one draw from the trimmed posterior. How it chose the shift and the floors is not printed. The floors are shown
in two readings: for a changed record, which is what epsilon promises, and for a changed attribute, which is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.theory.contrasts import coefficients, family_tables, stealth_shift
from discreet.theory.lipschitz import floor_for
from discreet.theory.truncated import truncated_beta

from . import Codes, Floats, counts_of, markdown, mean_and_error, run

__all__ = [
    "EPSILONS",
    "METHODS",
    "NETWORK",
    "REFERENCE",
    "accuracies",
    "accuracy",
    "difference",
    "fourier_as_printed",
    "laplace_as_printed",
    "one_draw_of_counts",
    "posterior_mean",
    "repeat",
    "report",
    "sampler_for_attributes",
    "sampler_for_records",
    "shift_for",
]

FEATURES = tuple(f"x{number}" for number in range(1, 17))
NETWORK = dc.Network(
    tuple(dc.Variable(name, ("no", "yes")) for name in ("y", *FEATURES)), {"y": (), **dict.fromkeys(FEATURES, ("y",))}
)
PRIOR = dc.Dirichlet.uniform(NETWORK, 1.0)
TRAINING, TESTED = 50, 950
EPSILONS = (0.1, 1.0, 5.0, 10.0, 30.0, 100.0)
SUCCESS = 0.9
"""Share of the Fourier runs without a negative cell."""

REFERENCE: Mapping[str, tuple[float | None, ...]] = {
    "Laplace, printed": (0.47, 0.68, 0.89, 0.94, 0.965, 0.969),
    "Fourier 90 %, printed": (0.54, 0.64, 0.89, 0.94, 0.963, 0.968),
    "sampler, record level": (0.50, 0.56, 0.79, 0.87, 0.936, 0.96),
    "sampler, attribute level (NOT eps-DP)": (0.68, 0.92, 0.96, 0.96, 0.96, 0.96),
    "Laplace, printed, one draw": (None, 0.64, 0.855, 0.93, None, None),
    "non-private": (0.969,) * 6,
}
"""Mean accuracies by method, one for each of `EPSILONS`, of 60 repeats."""


# ------------------------------------------------------------------------------------------ prediction


@dataclass(frozen=True, eq=False)
class Task:
    """One repeat.

    Args:
        counts: of the training records.
        tested: states of the features, shape (16, records tested).
        classes: states of the class, shape (records tested,).
    """

    counts: dc.Counts
    tested: Codes
    classes: Codes


def repeat(rng: np.random.Generator) -> Task:
    """Draw parameters, training records and others to be classified."""
    ones = rng.uniform(0.3, 0.7), rng.random((len(FEATURES), 2))
    tables = {"y": np.array([1 - ones[0], ones[0]])}
    tables |= {name: np.stack([1 - p, p], axis=-1) for name, p in zip(FEATURES, ones[1], strict=True)}
    codes = sample_codes(dc.Tables(NETWORK, tables), TRAINING + TESTED, rng)
    counts = counts_of(NETWORK, {name: column[:TRAINING] for name, column in codes.items()})
    return Task(counts, np.stack([codes[name][TRAINING:] for name in FEATURES]), codes["y"][TRAINING:])


def accuracy(task: Task, cells: dc.Tables) -> float:
    """Share of records whose class is the more probable one under the mean of `P(y, x)` over draws.

    Args:
        task: what to classify.
        cells: draws of the probabilities, shape `(*parents, child, draws)`; with independent rows their posterior means
            as a single draw give the posterior predictive exactly.

    Returns:
        Between 0 and 1; ties count as class "no".
    """
    with np.errstate(divide="ignore"):
        features = np.log(np.stack([cells[name] for name in FEATURES]))
        scores = np.broadcast_to(np.log(cells["y"])[:, None, :], (2, task.classes.size, cells.draws or 1)).copy()
    for each, states in zip(features, task.tested, strict=True):
        scores += each[:, states, :]
    joint = np.exp(scores - scores.max(axis=(0, 2), keepdims=True)).sum(axis=-1)
    return float(np.mean((joint[1] > joint[0]) == (task.classes == 1)))


def posterior_mean(counts: Mapping[str, Floats]) -> dc.Tables:
    """Means of the Beta posteriors after counts, which are taken as they are; a single draw."""
    means = {name: (1 + table) / (1 + table).sum(axis=-1, keepdims=True) for name, table in counts.items()}
    return dc.Tables(NETWORK, {name: mean[..., None] for name, mean in means.items()}, draws=1)


# ------------------------------------------------------------------------------------------ as printed


def _clipped_laplace(task: Task, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Algorithm 1: noise of scale `2 * 17 / epsilon` on every cell, then clipped to [0, n]."""
    scale = 2 * len(NETWORK.nodes) / epsilon
    return {
        name: np.clip(table + rng.laplace(scale=scale, size=table.shape), 0, TRAINING)
        for name, table in task.counts.tables.items()
    }


def laplace_as_printed(task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """Algorithm 1 and the posterior means. Guarantee: epsilon, REPLACE, in exact arithmetic."""
    return posterior_mean(_clipped_laplace(task, epsilon, rng))


def one_draw_of_counts(task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """Algorithm 1 and a single draw from the posterior, to be compared with the sampler. Guarantee: as there."""
    noisy = dc.Tables(NETWORK, _clipped_laplace(task, epsilon, rng))
    return PRIOR.updated(noisy).draws(1, rng)


@cache
def shift_for(epsilon: float) -> int:
    """Records to add so that noise of the printed scale leaves no cell of an empty table below 0 in 90 % of runs."""
    rng = np.random.default_rng(SEED)
    return stealth_shift(NETWORK, _fourier_scale(epsilon), SUCCESS, noisy_total=True, rng=rng)


def _fourier_scale(epsilon: float) -> float:
    """Algorithm 2, un-normalised: twice the number of coefficients, over epsilon."""
    return 2 * len(NETWORK.downward_closure) / epsilon


def _printed_shift(epsilon: float, t: float) -> float:
    """Algorithm 2, un-normalised: records added to the empty coefficient."""
    return 4 * t * len(NETWORK.downward_closure) ** 2 / epsilon


def fourier_as_printed(
    task: Task, epsilon: float, rng: np.random.Generator, *, t: float | None = None
) -> dc.Tables | None:
    """Algorithm 2 with the printed scale, noise on the public number of records included.

    Args:
        task: what is learned.
        epsilon: REPLACE, nats, in exact arithmetic.
        rng: source of the noise.
        t: of the printed shift `4 t |N_I|^2 / epsilon`; None for the smallest that succeeds in 90 % of runs.

    Returns:
        Posterior means, the shift left in as printed; None where a cell is negative: such runs are not plotted.
    """
    shift = shift_for(epsilon) if t is None else _printed_shift(epsilon, t)
    noisy = {
        subset: array + rng.laplace(scale=_fourier_scale(epsilon), size=array.shape)
        for subset, array in coefficients(task.counts.tables).items()
    }
    noisy[()] = noisy[()] + shift
    tables = family_tables(NETWORK, noisy)
    return None if min(table.min() for table in tables.values()) < 0 else posterior_mean(tables)


def _trimmed(task: Task, floor: float, rng: np.random.Generator) -> dc.Tables:
    """One draw of every row from its posterior on [floor, 1 - floor]."""
    tables = task.counts.tables
    no, yes = 1.0 + np.concatenate([table.reshape(-1, 2) for table in tables.values()]).T
    one = truncated_beta(yes, no, floor, 1 - floor, yes.size, rng)
    rows = np.split(np.stack([1 - one, one], axis=-1), np.cumsum([table.size // 2 for table in tables.values()])[:-1])
    draws = {name: row.reshape(*table.shape, 1) for (name, table), row in zip(tables.items(), rows, strict=True)}
    return dc.Tables(NETWORK, draws, draws=1)


def sampler_for_records(task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """One trimmed draw; the log range of each of 17 nodes is `epsilon / 34`. Guarantee: epsilon, REPLACE."""
    return _trimmed(task, floor_for(2, epsilon / (2 * len(NETWORK.nodes))), rng)


def sampler_for_attributes(task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """One trimmed draw; the log range of each node is `epsilon / 2`. NOT eps-DP: a record costs 17 epsilon."""
    return _trimmed(task, floor_for(2, epsilon / 2), rng)


# ------------------------------------------------------------------------------------------ what the package offers

DRAWS = 500


def _release(mechanism: dc.Mechanism[Any], task: Task, epsilon: float, rng: np.random.Generator) -> dc.Release:
    """A simulated release under REPLACE."""
    guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation="replace", unit="record")
    return dc.simulate(mechanism, task.counts, PRIOR, guarantee, rng=rng)


def _plug_in_mean(mechanism: dc.Mechanism[Any], task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """Rows of this posterior are independent, so that its means give the predictive distribution."""
    mean = dc.plug_in(_release(mechanism, task, epsilon, rng), draws=DRAWS, rng=rng).mean()
    return dc.Tables(NETWORK, {name: table[..., None] for name, table in mean.items()}, draws=1)


def _noise_aware_draws(mechanism: dc.Mechanism[Any], task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """Rows of this posterior are not independent: `P(y, x)` is averaged over its draws."""
    return dc.noise_aware(_release(mechanism, task, epsilon, rng), draws=DRAWS, rng=rng).cells


def _without_noise(task: Task, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """No privacy at all."""
    return posterior_mean(task.counts.tables)


Method = Callable[[Task, float, np.random.Generator], dc.Tables | None]
METHODS: Mapping[str, Method] = {
    "Laplace, printed": laplace_as_printed,
    "Laplace, printed, one draw": one_draw_of_counts,
    "Fourier 90 %, printed": fourier_as_printed,
    "Fourier, printed, t = ln 10": lambda task, epsilon, rng: fourier_as_printed(task, epsilon, rng, t=np.log(10)),
    "sampler, record level": sampler_for_records,
    "sampler, attribute level (NOT eps-DP)": sampler_for_attributes,
    "discreet: laplace, plug_in": lambda task, epsilon, rng: _plug_in_mean(dc.laplace(), task, epsilon, rng),
    "discreet: laplace, noise_aware": lambda task, epsilon, rng: _noise_aware_draws(dc.laplace(), task, epsilon, rng),
    "discreet: fourier, plug_in": lambda task, epsilon, rng: _plug_in_mean(dc.fourier(), task, epsilon, rng),
    "discreet: posterior_sampler, its draw": lambda task, epsilon, rng: _plug_in_mean(
        dc.posterior_sampler(), task, epsilon, rng
    ),
    "non-private": _without_noise,
}
"""From a task and epsilon to draws of the probabilities; None for a run that is not counted."""


# ------------------------------------------------------------------------------------------ the command

SEED = 2016


def accuracies(methods: Iterable[str], repeats: int, epsilons: Sequence[float]) -> dict[tuple[str, float], list[float]]:
    """Accuracy of some methods in each repeat.

    Args:
        methods: names in `METHODS`.
        repeats: tasks; all methods and epsilons see the same ones.
        epsilons: nats.

    Returns:
        By method and epsilon; runs that are not counted are left out.
    """
    found: dict[tuple[str, float], list[float]] = {(name, epsilon): [] for name in methods for epsilon in epsilons}
    rows = {name: row for row, name in enumerate(METHODS)}
    for seed in range(repeats):
        task = repeat(np.random.default_rng([SEED, seed]))
        for (name, epsilon), values in found.items():
            rng = np.random.default_rng([SEED, seed, rows[name], round(10 * epsilon)])
            cells = METHODS[name](task, epsilon, rng)
            if cells is not None:
                values.append(accuracy(task, cells))
    return found


def difference(value: float, accuracies: Sequence[float]) -> tuple[float, float]:
    """Mean less a reference value of 60 repeats, and over its standard error, at the same standard deviation."""
    gap = float(np.mean(accuracies)) - value
    return gap, gap / float(np.std(accuracies, ddof=1) * np.sqrt(1 / len(accuracies) + 1 / 60))


def report(quick: bool) -> str:
    """Accuracies beside the reference values."""
    repeats, epsilons = (8, (1.0, 10.0)) if quick else (60, EPSILONS)
    found = accuracies(METHODS, repeats, epsilons)
    header = ["method", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    rows = [
        [name, *(mean_and_error(found[name, epsilon]) if found[name, epsilon] else "-" for epsilon in epsilons)]
        for name in METHODS
    ]
    fourier = [
        [
            f"{epsilon:g}",
            f"{shift_for(epsilon) / 4:.1f}",
            f"{_printed_shift(epsilon, np.log(10)) / 4:.1f}",
            f"{kept:.0%}",
        ]
        for epsilon in epsilons
        for kept in [len(found["Fourier 90 %, printed", epsilon]) / repeats]
    ]
    return (
        "Bayesian naive Bayes of Zhang et al. (2016), Figure 1: accuracy of the posterior predictive.\n\n"
        f"{len(FEATURES)} binary features, {TRAINING} training and {TESTED} test records, made up; feature "
        f"probabilities U(0, 1), P(class) U(.3, .7), drawn anew in {repeats} repeats (seeds [{SEED}, "
        f"0..{repeats - 1}]); prior Beta(1, 1). Guarantee: epsilon as in the column, delta 0, replace one record, but "
        "for the row that says otherwise and the last; rows as printed in exact arithmetic, all noise simulated. "
        f"Fourier as printed counts only runs without a negative cell; plug_in and noise_aware use {DRAWS} draws. "
        f"± standard error over repeats.\n\n{markdown(header, rows)}\n"
        "Difference from the reference values, and in brackets over its standard error (the reference has 60 "
        f"repeats):\n\n{markdown(header, _differences(found, epsilons))}\n"
        "Fourier as printed, records added to each of the four cells of a feature's table:\n\n"
        + markdown(["epsilon", "shift for 90 %", "printed shift, t = ln 10", "runs kept with the former"], fourier)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the report."""
    run("Bayesian naive Bayes of Zhang et al. (2016), Figure 1", report, arguments)


def _differences(found: Mapping[tuple[str, float], Sequence[float]], epsilons: Sequence[float]) -> list[list[str]]:
    """A row for each method with reference values."""
    rows = []
    for name, values in REFERENCE.items():
        row = [name]
        for epsilon in epsilons:
            value = values[EPSILONS.index(epsilon)]
            if value is None or len(found[name, epsilon]) < 2:
                row.append("-")
            else:
                gap, errors = difference(value, found[name, epsilon])
                row.append(f"{gap:+.3f} ({errors:+.1f})")
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
