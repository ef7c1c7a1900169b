"""Error rates of private logistic regression on the five data sets of Williams and McSherry (2010), Tables 2 and 3.

    python -m bench.logistic [--sets SYNTH,CM1] [--epsilons 0.1,1] [--methods auto,1,2] [--seeds 40] [--posterior]

Each seed draws a data set, and simulates the release of a method: "auto" (the estimator's rule), "objective", or so
many noisy gradients. Printed are the error rate of the released classifier and, with `--posterior`, those of the
posterior of the weights: *expected*, averaged over draws (the paper's), and *mean*, of the classifier at the posterior
mean, and the share of true weights that 95 % intervals cover, where they are known. Where the law of features is not
declared, a tenth of epsilon buys histograms of them. DISCREET_DATA tells where the public tables of PIMA and ADULT are.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

import discreet as dc
from experiments.logistic_sets import PUBLISHED, SETS, error, errors_of_draws, released

__all__ = ["Found", "run"]


@dataclass(frozen=True)
class Found:
    """Error rates of one seed in per cent, and the share of true weights covered; NaN where there are none."""

    released: float
    expected: float
    mean: float
    covered: float


def run(
    name: str, epsilon: float, method: str, seed: int, *, relation: str, deviation: float, posterior: bool
) -> Found:
    """Release, infer and compare on one seed."""
    task, rng = SETS[name](np.random.default_rng([seed, 1])), np.random.default_rng([seed, 2])
    made, law = released(task, epsilon, method, rng, relation=relation, deviation=deviation, posterior=posterior)
    assert isinstance(made.payload, dc.designs.GradientTrace)
    point, nothing = error(made.payload.weights[None], task)[0], float("nan")
    if not posterior:
        return Found(point, nothing, nothing, nothing)
    drawn = dc.read(made, draws=1000, rng=rng, covariates=law).weights
    covered = nothing
    if task.truth is not None:
        low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
        covered = float(np.mean((low <= task.truth) & (task.truth <= high)))
    return Found(point, *errors_of_draws(drawn, task), covered)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilons", default="0.1,1")
    parser.add_argument("--methods", default="auto", help="auto, objective, or numbers of gradients")
    parser.add_argument("--relation", default="add-remove")
    parser.add_argument("--deviation", type=float, default=2.5, help="of the prior")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--posterior", action="store_true", help="draw the weights, too: about a second each")
    asked = parser.parse_args()
    for name in asked.sets.split(","):
        for epsilon in map(float, asked.epsilons.split(",")):
            for method in asked.methods.split(","):
                begun = time.process_time()
                rows = [
                    run(name, epsilon, method, seed, relation=asked.relation, deviation=asked.deviation,
                        posterior=asked.posterior)
                    for seed in range(asked.first, asked.first + asked.seeds)
                ]  # fmt: skip
                spent = (time.process_time() - begun) / len(rows)
                columns = {
                    key: np.array([getattr(row, key) for row in rows]) for key in ("released", "expected", "mean")
                }
                shown = "  ".join(f"{key} {part.mean():6.2f} +- {part.std():5.2f}" for key, part in columns.items())
                covered = 100 * np.array([row.covered for row in rows])
                print(
                    f"{name:5} eps {epsilon:<4g} {method:9} {shown}",
                    f"published {PUBLISHED['Inference'][name].get(epsilon, (np.nan,))[0]:6.2f}",
                    f"covered {covered.mean():5.1f} +- {covered.std() / len(rows) ** 0.5:.1f}  {spent:.1f} s CPU",
                    sep="  ",
                    flush=True,
                )


if __name__ == "__main__":
    main()
