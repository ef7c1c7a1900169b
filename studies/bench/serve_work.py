"""How well the work of a question is predicted: CPU seconds that answers take, for each 1e8 cells x draws predicted.

`python -m bench.serve_work DRAWS... [--questions 40]` asks stored draws (`discreet draw`) questions of many kinds,
drawn at random with a fixed seed, in this process, and prints for each kind how many CPU seconds 1e8 of the predicted
work took: the median, and how far single questions are from it. Of 1e8 one second of a core is meant
(`src/discreet/server/work.py`). Questions that are refused, or that take less than 5 ms, are left out.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.server import replies
from discreet.server.catalog import ReleaseCatalog
from discreet.server.parameters import (
    DecisionRequest,
    ExplainRequest,
    MarginalsRequest,
    PredictRequest,
    QueryRequest,
    RegressRequest,
)
from discreet.server.readings import ServedPosterior, read

LEAST_S = 0.005
Asking = tuple[str, Callable[[ServedPosterior], replies.Question]]


def quoted(network: dc.Network, name: str, rng: np.random.Generator | None = None) -> str:
    """A variable in a query, with one of its states where a generator picks it."""
    text = f'"{name}"'
    return text if rng is None else f'{text}="{rng.choice(network.schema[name].states)}"'


def questions(network: dc.Network, number: int, rng: np.random.Generator) -> Iterator[Asking]:
    """Questions of every kind, the largest last."""

    def ask(kind: str, request: Any, answer: Any) -> Asking:
        return kind, lambda reading: answer(reading, request)

    nodes = list(network.nodes)
    for at in range(number):
        names = list(rng.permutation(nodes))
        seen = int(rng.integers(0, min(4, len(nodes) - 2)))
        given = " | " + ", ".join(quoted(network, name, rng) for name in names[:seen]) if seen else ""
        rest = names[seen:]
        for size in (1, 2, 3, 4):
            targets = ", ".join(quoted(network, name) for name in rest[:size])
            yield ask(f"P of {size}", QueryRequest(q=[f"P({targets}{given})"]), replies.ask_queries)
        fixed = ", ".join(quoted(network, name, rng) for name in rest[:3])
        yield ask("P of states", QueryRequest(q=[f"P({fixed}{given})"]), replies.ask_queries)
        some = ", ".join(quoted(network, name) for name in rest[: int(rng.integers(2, 11))])
        yield ask("MAP", QueryRequest(q=[f"MAP({some}{given})"]), replies.ask_queries)
        two = ", ".join(quoted(network, name) for name in rest[:2])
        yield ask("robust", QueryRequest(q=[f"P({two}{given})"], assume="robust"), replies.ask_queries)
        if at % 8 == 0:
            yield ask("nothing", QueryRequest(q=[f"P({two})"], assume="nothing"), replies.ask_queries)
        if at % 4 == 0:
            evidence = [f"{name}={rng.choice(network.schema[name].states)}" for name in names[:seen]]
            yield ask("marginals", MarginalsRequest(e=evidence), replies.ask_marginals)
            records = [{name: str(rng.choice(network.schema[name].states)) for name in names[:3]} for _ in range(20)]
            yield ask("predict 20", PredictRequest(records=records, target=rest[0]), replies.ask_prediction)
            one = f"P({quoted(network, rest[0])}{given})"
            yield ask("decide", DecisionRequest(query=one, payoffs=pays(network, rest[0])), replies.ask_decision)
        if at % 10 == 0:
            yield ask("explain", ExplainRequest(q=[f"P({quoted(network, rest[0])}{given})"]), replies.ask_explanation)
        binary = [name for name in rest if network.schema[name].size == 2]
        if at % 4 == 0 and binary:
            on = [name for name in names if name != binary[0]][: 1 + at % 3]
            for kind in ("linear", "logistic"):
                yield ask(kind, RegressRequest(target=binary[0], on=on, kind=kind), replies.ask_regression)  # type: ignore[arg-type]


def pays(network: dc.Network, name: str) -> dict[str, dict[str, float]]:
    """What two responses pay."""
    states = network.schema[name].states
    return {"go": {state: float(at) for at, state in enumerate(states)}, "stay": dict.fromkeys(states, 0.5)}


def measure(reading: ServedPosterior, number: int, most: float) -> dict[str, list[tuple[float, float, float]]]:
    """By kind: CPU seconds of planning, of the answer, and the work predicted."""
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    posterior, _ = reading.posterior(), reading.checked
    for kind, ask in questions(posterior.network, number, np.random.default_rng(1)):
        try:
            begun = time.process_time()
            question = ask(reading)
            work = question.work() if question.work is not None else 0.0
            planned = time.process_time()
            if work > most:
                continue
            question.make()
            found[kind].append((planned - begun, time.process_time() - planned, work))
        except dc.DiscreetError:
            continue
    return found


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="stored draws")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--most", type=float, default=2e9, help="work above which questions are not asked")
    given = parser.parse_args()
    print(f"{'release':<12} {'kind':<12} {'asked':>5} {'plan ms':>8} {'answer ms':>10} {'s for 1e8':>10} {'range':>16}")
    for path in given.files:
        reading = read(ReleaseCatalog([path]).newest()[0])
        reading.posterior().answer(f"P({quoted(reading.posterior().network, reading.posterior().network.nodes[0])})")
        for kind, rows in measure(reading, given.questions, given.most).items():
            plan, took, work = np.array(rows).T
            kept = (took > LEAST_S) & (work > 0)
            ratios = took[kept] / work[kept] * 1e8 if kept.any() else np.array([np.nan])
            times = f"{1e3 * np.median(plan):>8.1f} {1e3 * np.median(took):>10.1f} {np.median(ratios):>10.2f}"
            print(f"{path.stem:<12} {kind:<12} {len(rows):>5} {times} {ratios.min():>7.2f} {ratios.max():>8.2f}")


if __name__ == "__main__":
    main()
