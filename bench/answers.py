"""CPU milliseconds of the answers of one network under draws that are there already: what a served release costs.

`python -m bench.answers [--network alarm]` draws the posterior of a made-up release (`planned`, epsilon 1, 10,000
records) once and asks for all marginals with 95 % intervals and the part of the noise, again and again; the fastest
repeat after the first counts, which prepares what later ones share.
"""

from __future__ import annotations

import argparse

import numpy as np

import discreet as dc

from .posterior import made_up, timed


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="alarm")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    release = made_up(given.network, "planned", "1", 10_000)
    posterior = dc.noise_aware(release, draws=given.draws, rng=np.random.default_rng(1))
    dc.marginals(posterior)
    cpu, _ = min(timed(lambda: dc.marginals(posterior)) for _ in range(given.repeats))
    nodes = len(release.network.nodes)
    print(f"{given.network}: all {nodes} marginals of {given.draws} draws {1e3 * cpu:.0f} ms of CPU")


if __name__ == "__main__":
    main()
