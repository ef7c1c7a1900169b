"""CPU milliseconds of the answers of one network under draws that are there already: what a served release costs.

`python -m bench.answers [--network alarm]` draws the posterior of a made-up release (`planned`, epsilon 1, 10,000
records) once and asks for all marginals with 95 % intervals and the part of the noise, again and again; the fastest
repeat after the first counts, which prepares what later ones share. Then it asks questions given one to six states, as
drawn records show them: each of one other variable, and of all others; medians over questions, of medians over repeats.
"""

from __future__ import annotations

import argparse
import random
import statistics

import numpy as np

import discreet as dc

from .posterior import made_up, timed

QUESTIONS, MOST_STATES = 8, 6


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="alarm")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    release = made_up(given.network, "planned", "1", 10_000)
    posterior = dc.noise_aware(release, draws=given.draws, rng=np.random.default_rng(1))
    first, _ = timed(lambda: dc.marginals(posterior))
    cpu, _ = min(timed(lambda: dc.marginals(posterior)) for _ in range(given.repeats))
    nodes = len(release.network.nodes)
    print(
        f"{given.network}: all {nodes} marginals of {given.draws} draws {1e3 * cpu:.0f} ms of CPU, first {first:.2f} s"
    )
    print_clicks(posterior, given.repeats)


def print_clicks(posterior: dc.results.PosteriorDraws, repeats: int) -> None:
    """Print how long answers given some states take."""
    (stream,) = dc.sample(posterior, QUESTIONS, rng=np.random.default_rng(2))
    records, rng = stream.read_all().to_pylist(), random.Random(3)
    for number in range(1, MOST_STATES + 1):
        one, every, firsts = list[float](), list[float](), list[float]()
        for record in records:
            target, *names = rng.sample(list(posterior.network.nodes), number + 1)
            seen = {name: record[name] for name in names}
            text = f"P({target} | {', '.join(f'{name}={state}' for name, state in seen.items())})"
            cpus = [timed(lambda text=text: dc.answer(posterior, text))[0] for _ in range(repeats + 1)]
            firsts.append(cpus[0])
            one.append(statistics.median(cpus[1:]))
            every.append(statistics.median(timed(lambda s=seen: dc.marginals(posterior, s))[0] for _ in range(repeats)))
        print(
            f"given {number} states: one variable {1e3 * statistics.median(one):.0f} ms (largest {1e3 * max(one):.0f}, "
            f"when first asked {1e3 * statistics.median(firsts):.0f}), all others {1e3 * statistics.median(every):.0f} "
            f"(largest {1e3 * max(every):.0f})"
        )


if __name__ == "__main__":
    main()
