"""Coverage and cost of posteriors with a latent node, of made-up records whose classes are known.

`python -m bench.latent [--runs 10] [--first-seed 1] [--settings NAME ...]` prints a line for each setting: sets that
were read, how many 95 % intervals hold the truth, and CPU seconds of a reading; then a line for all sets together, with
standard errors over sets. A set has one release of a table of all questions (`planned`, add-remove). The truth is put
in the order of the posterior's classes, by the order that is nearest in deviations, before it is compared: the rule by
which draws get theirs. So where parameters are drawn from the prior, 95 % hold if the reader is right, for any labels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

import discreet as dc

DRAWS, LEVEL = 1000, 0.95
QUANTITIES = ("class", "question given class", "question given question", "class given two answers")
FAR = np.array([[0.1, 0.2, 0.15, 0.9, 0.8, 0.5], [0.8, 0.9, 0.85, 0.2, 0.3, 0.6]])
FAR_OF_THREE = np.array([[0.1, 0.15, 0.1, 0.9, 0.85], [0.9, 0.8, 0.15, 0.1, 0.2], [0.85, 0.2, 0.9, 0.8, 0.1]])


@dataclass(frozen=True)
class Setting:
    """Questions with two answers, classes, records and epsilon; parameters from the prior, near each other, or far."""

    questions: int
    classes: int
    records: int
    epsilon: float
    parameters: str

    def draw_truth(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Shares of the classes, and P(yes) by class and question."""
        if self.parameters == "prior":
            return rng.dirichlet(np.ones(self.classes)), rng.random((self.classes, self.questions))
        if self.parameters == "near":
            return np.array([0.6, 0.4]), np.repeat([[0.35], [0.65]], self.questions, axis=1)
        if self.classes == 3:
            return np.array([0.5, 0.3, 0.2]), FAR_OF_THREE
        return np.array([0.6, 0.4]), FAR[:, np.arange(self.questions) % FAR.shape[1]]


SETTINGS = {
    "five, 1,000, epsilon 1": Setting(5, 2, 1_000, 1, "prior"),
    "five, 10,000, epsilon 1": Setting(5, 2, 10_000, 1, "prior"),
    "five, 1,000, epsilon 3": Setting(5, 2, 1_000, 3, "prior"),
    "five, 10,000, epsilon 3": Setting(5, 2, 10_000, 3, "prior"),
    "six near": Setting(6, 2, 1_000, 1, "near"),
    "five near": Setting(5, 2, 10_000, 3, "near"),
    "three classes": Setting(5, 3, 10_000, 3, "far"),
    "six far": Setting(6, 2, 1_000, 3, "far"),
    "ten": Setting(10, 2, 2_000, 1, "far"),
    "shape of adult": Setting(8, 2, 32_561, 1, "prior"),
    "shape of bfi": Setting(10, 2, 2_632, 1, "prior"),
}
COSTLY = ("ten", "shape of adult", "shape of bfi")
"""Settings of some seconds a set, which are measured by name."""


def networks_of(setting: Setting) -> tuple[dc.Network, dc.Network]:
    """The network with the class, and that of the questions alone, which a release measures together."""
    questions = [dc.Variable(f"q{number + 1}", ("no", "yes")) for number in range(setting.questions)]
    node = dc.Variable("class", tuple(f"c{number}" for number in range(setting.classes)))
    names = [question.name for question in questions]
    arcs = [(before, after) for at, after in enumerate(names) for before in names[:at]]
    return dc.Network.naive_bayes([node, *questions], "class"), dc.Network.from_edges(arcs, questions)


def answers_of(shares: np.ndarray, yes: np.ndarray, records: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Codes of the records' answers by question."""
    classes = rng.choice(len(shares), records, p=shares)
    return {f"q{at + 1}": (rng.random(records) < yes[classes, at]).astype(np.int64) for at in range(yes.shape[1])}


def is_inside(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether the middle 95 % of draws, the last axis, hold the truth."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=-1)
    return (low <= truth) & (truth <= high)


def held_by(posterior: dc.results.PosteriorDraws, shares: np.ndarray, yes: np.ndarray) -> list[float]:
    """Share of the intervals of each quantity that hold the truth."""
    drawn_shares = posterior.probabilities["class"]
    drawn = np.stack([posterior.probabilities[f"q{at + 1}"][:, 1] for at in range(yes.shape[1])], axis=1)
    features = np.concatenate([drawn_shares[:, None], drawn], axis=1)

    def miss(order: Sequence[int]) -> float:
        truth = np.concatenate([shares[list(order)][:, None], yes[list(order)]], axis=1)
        return float((((truth - features.mean(-1)) / features.std(-1)) ** 2).sum())

    order = list(min(permutations(range(len(shares))), key=miss))
    shares, yes = shares[order], yes[order]
    pairs = []
    for at in range(yes.shape[1]):
        after = (at + 1) % yes.shape[1]
        row = posterior.answer(f"P(q{after + 1} | q{at + 1}=yes)").rows[1]
        truth = (shares * yes[:, at] * yes[:, after]).sum() / (shares * yes[:, at]).sum()
        pairs.append(row["lower"] <= truth <= row["upper"])
    row, weights = posterior.answer("P(class | q1=yes, q2=no)").rows[0], shares * yes[:, 0] * (1 - yes[:, 1])
    of_class = row["lower"] <= weights[0] / weights.sum() <= row["upper"]
    parts = is_inside(drawn_shares[:1], shares[:1]), is_inside(drawn, yes), np.array(pairs), np.array([of_class])
    return [float(part.mean()) for part in parts]


def read_set(setting: Setting, seed: tuple[int, ...]) -> tuple[list[float], float] | str:
    """What held of a made-up set, and CPU seconds of the reading; the refusal of a set that was not read."""
    rng, (full, observed) = np.random.default_rng(seed), networks_of(setting)
    shares, yes = setting.draw_truth(rng)
    counts = dc.tools.count_codes(observed, answers_of(shares, yes, setting.records, rng))
    promise = dc.Guarantee(epsilon=str(setting.epsilon), delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(observed), promise, rng=rng)
    start = time.process_time()
    try:
        posterior = dc.read(release, method="latent", network=full, draws=DRAWS, rng=rng)
    except dc.DiscreetError as error:
        return str(error)
    return held_by(posterior, shares, yes), time.process_time() - start


def line_of(name: str, held: np.ndarray, asked: int, seconds: Sequence[float]) -> str:
    """One line of the table, in percent with standard errors over sets."""
    errors = held.std(axis=0) / len(held) ** 0.5
    cells = [f"{100 * mean:.1f} +- {100 * error:.1f}" for mean, error in zip(held.mean(axis=0), errors, strict=True)]
    return f"| {name} | {len(held)} of {asked} | {' | '.join(cells)} | {np.median(seconds):.1f} |"


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument(
        "--settings", nargs="+", choices=list(SETTINGS), default=[each for each in SETTINGS if each not in COSTLY]
    )
    chosen = parser.parse_args()
    print(f"| setting | sets read | {' | '.join(QUANTITIES)} | CPU s |\n|---|---|{'---|' * (len(QUANTITIES) + 1)}")
    everything, times, asked = list[list[float]](), list[float](), 0
    for name in chosen.settings:
        results = [
            read_set(SETTINGS[name], (chosen.first_seed, list(SETTINGS).index(name), run)) for run in range(chosen.runs)
        ]
        read = [result for result in results if not isinstance(result, str)]
        everything += [held for held, _ in read]
        times, asked = times + [seconds for _, seconds in read], asked + len(results)
        if read:
            print(
                line_of(name, np.array([held for held, _ in read]), len(results), [each for _, each in read]),
                flush=True,
            )
    if everything:
        print(line_of("all", np.array(everything), asked, times))


if __name__ == "__main__":
    main()
