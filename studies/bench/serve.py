"""What `discreet serve` costs beside the library: CPU of requests, start, memory, and many clients at once.

`python -m bench.serve [--network alarm] [--draws FILE] [--rounds 5] [--queries 40] [--soak SECONDS]` makes a release
of a network up, or takes stored draws, and starts servers on loopback. Requests and calls of the library are asked in
turn in one run, with the same questions; CPU seconds of the server are those of all its threads, from /proc. A median
of rounds is printed, with its range. `--soak` asks for so long and prints how memory, threads and open files went:
growth is judged by the slope of the second half of the run, so that caches may fill before.
"""

from __future__ import annotations

import argparse
import http.client
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np

import discreet as dc
from discreet.server.catalog import ReleaseCatalog
from discreet.server.parameters import MarginalsRequest, QueryRequest
from discreet.server.readings import ServedPosterior, read
from discreet.server.replies import ask_marginals, ask_queries
from experiments.networks import theta_of

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from serving import Served, served

NO_LIMITS = ("--rate", "1000000", "--queue", "100000", "--seconds", "600", "--most-work", "1e12")
CLIENTS = 64


def make_draws(name: str, folder: Path) -> Path:
    """Stored draws of a release of 10,000 made-up records, as `discreet draw` makes them."""
    theta = theta_of(name)
    rng = np.random.default_rng(1)
    records = dc.read_records(dc.tools.simulate_records(theta, 10_000, rng=rng), theta.network.schema)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    counts, prior = dc.count(records, theta.network), dc.Dirichlet.uniform(theta.network)
    release = dc.simulate(dc.planned(), counts, prior, promise, rng=rng)
    release.posterior(draws=1000, rng=0).save(folder / f"{name}.draws")
    return folder / f"{name}.draws"


class Client:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask once."""
        self.connection.request("GET", path)
        got = self.connection.getresponse()
        return got.status, got.read()


def server_cpu_s(server: Served) -> float:
    """CPU seconds of all threads of the server that are alive."""
    tasks = Path(f"/proc/{server.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def asked_paths(reading: ServedPosterior, number: int, rng: random.Random) -> tuple[list[str], list[str]]:
    """Different queries, and different evidence of one variable."""
    network = reading.posterior().network
    queries, seen = set[str](), []
    while len(queries) < number:
        target, *given = rng.sample(list(network.nodes), rng.randint(1, 4))
        told = ", ".join(f'"{name}"="{rng.choice(network.schema[name].states)}"' for name in given)
        queries.add(f'P("{target}"{" | " + told if told else ""})')
    for name in network.nodes:
        seen += [f"{name}={state}" for state in network.schema[name].states]
    rng.shuffle(seen)
    return sorted(queries), seen


def answered(server: Served, client: Client, paths: Sequence[str]) -> float:
    """Milliseconds of CPU that the server took for each of these requests."""
    before = server_cpu_s(server)
    for path in paths:
        status, _ = client.get(path)
        assert status == 200, path
    return (server_cpu_s(server) - before) / len(paths) * 1e3


def called(ask: Callable[[str], object], texts: Sequence[str]) -> float:
    """Milliseconds of CPU that the same took here."""
    before = time.process_time()
    for text in texts:
        ask(text)
    return (time.process_time() - before) / len(texts) * 1e3


def told(name: str, values: Sequence[float], unit: str, target: str = "") -> None:
    """Print a row."""
    middle = statistics.median(values)
    spread = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else ""
    print(f"{name:<58} {middle:>9.2f} {unit:<4} {spread:<20} {target}", flush=True)


def costs(server: Served, file: Path, rounds: int, number: int) -> None:
    """CPU of requests, beside the library in this process."""
    reading, client, rng = read(ReleaseCatalog([file]).newest()[0]), Client(server.url), random.Random(1)
    posterior, _ = reading.posterior(), reading.checked
    base = f"/releases/{file.stem}"
    rows: dict[str, list[float]] = {}
    client.get(f"{base}/query?q=" + quote(f'P("{posterior.network.nodes[0]}")'))
    for turn in range(rounds + 1):
        queries, seen = asked_paths(reading, number, rng)
        level = 0.9 + 0.001 * turn  # so that nothing is kept
        # What a question has drawn by tables stays in both processes: both have heard each once, at another level.
        answered(server, client, [f"{base}/query?level=0.5&q={quote(q)}" for q in queries])
        called(lambda q: dc.answer(posterior, q, level=0.5), queries)
        found = {
            "query, over HTTP": answered(server, client, [f"{base}/query?level={level}&q={quote(q)}" for q in queries]),
            "query, of the library": called(lambda q, at=level: dc.answer(posterior, q, level=at), queries),
            "query, of the library, as JSON": called(
                lambda q, at=level: ask_queries(reading, QueryRequest(q=[q], level=at)).make(), queries
            ),
            "cached query": answered(server, client, [f"{base}/query?level={level}&q={quote(queries[0])}"] * 200),
            "click, over HTTP": answered(
                server, client, [f"{base}/marginals?level={level}&e={quote(e)}" for e in seen[:10]]
            ),
            "click, of the library": called(
                lambda e, at=level: ask_marginals(reading, MarginalsRequest(e=[e], level=at)).make(), seen[:10]
            ),
            "cached click": answered(server, client, [f"{base}/marginals?level={level}&e={quote(seen[0])}"] * 100),
            "health": answered(server, client, ["/healthz"] * 200),
        }
        if turn:  # the first one warms up
            for name, value in found.items():
                rows.setdefault(name, []).append(value)
    targets = {"cached query": "at most 0.5", "cached click": "at most 0.5", "click, over HTTP": "at most 15"}
    for name, values in rows.items():
        told(name, values, "ms", targets.get(name, ""))
    added = [one - other for one, other in zip(rows["query, over HTTP"], rows["query, of the library"], strict=True)]
    told("query: what HTTP adds to the library", added, "ms", "at most 1")


def starts(file: Path, rounds: int) -> None:
    """CPU and memory of the start, and of the first answer."""
    first, listening, sizes = [], [], []
    path = f"/releases/{file.stem}/query?q="
    network = dc.results.PosteriorDraws.load(file).network
    for _ in range(rounds):
        with served([file], "--no-prepare", *NO_LIMITS) as server:
            listening.append(server.cpu_s())
            assert server.ask(path + quote(f'P("{network.nodes[0]}")')).status == 200
            first.append(server.cpu_s())
            sizes.append(server.status("VmRSS") / 1024)
    told("start, until it listens", listening, "s")
    told("start, to the first answer", first, "s", "at most 2")
    told("memory after the first answer", sizes, "MiB", "at most 150 + 12")


def memory(file: Path, folder: Path) -> None:
    """Memory of more releases, and of requests at once."""
    version = ReleaseCatalog([file]).newest()[0]
    path, files, raw = "/query?q=" + quote(f'P("{version.network.nodes[0]}")'), [file], file.read_bytes()
    for number in range(4):  # the same numbers under another id: the draws in a file are of the document in its head
        content = raw[:-32].replace(version.id.encode(), f"{number:032x}".encode())
        files.append(folder / f"copy{number}.draws")
        files[-1].write_bytes(content + sha256(content).digest())
    used = []
    for number in (1, 5):
        with served(files[:number], *NO_LIMITS, "--no-prepare") as server:
            for each in files[:number]:
                assert server.ask(f"/releases/{each.stem}{path}").status == 200
            used.append(server.status("VmRSS") / 1024)
    told("memory of another release", [(used[1] - used[0]) / 4], "MiB", "at most 12 and its draws")
    for workers in (1, 8):
        with served([file], *NO_LIMITS, "--no-prepare", "--workers", str(workers)) as server:
            _, seen = asked_paths(read(ReleaseCatalog([file]).newest()[0]), 1, random.Random(1))
            paths = [f"/releases/{file.stem}/marginals?e={quote(one)}" for one in seen[:40]]
            server.ask(paths[0])
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(server.ask, paths))
            used.append(server.status("VmHWM") / 1024)
    told("memory of another request at once", [(used[3] - used[2]) / 7], "MiB", "at most 15")


def crowd(server: Served, file: Path, seconds: float) -> None:
    """Many clients at once, each of a connection that stays open."""
    queries, _ = asked_paths(read(ReleaseCatalog([file]).newest()[0]), 500, random.Random(2))
    until = time.monotonic() + seconds

    def run(number: int) -> tuple[list[float], set[int]]:
        client, rng, took, statuses = Client(server.url), random.Random(number), [], set()
        while time.monotonic() < until:
            begun = time.perf_counter()
            status, _ = client.get(f"/releases/{file.stem}/query?q={quote(rng.choice(queries))}")
            took.append(time.perf_counter() - begun)
            statuses.add(status)
        return took, statuses

    with ThreadPoolExecutor(CLIENTS) as pool:
        results = list(pool.map(run, range(CLIENTS)))
    took = np.sort([1e3 * one for each, _ in results for one in each])
    middle, last = np.percentile(took, [50, 99])
    statuses = sorted(set().union(*(each for _, each in results)))
    times = f"p50 {middle:.1f} ms, p99 {last:.1f} ms, ratio {last / middle:.1f} (at most 20)"
    print(f"{CLIENTS} clients, {len(took):,} requests: {times}; statuses {statuses}", flush=True)


def soak(server: Served, file: Path, seconds: float) -> None:
    """Ask without end; print memory, threads and files."""
    rng, reading, client = random.Random(3), read(ReleaseCatalog([file]).newest()[0]), Client(server.url)
    begun, next_look, seen = time.monotonic(), 0.0, []
    while (now := time.monotonic() - begun) < seconds:
        queries, states = asked_paths(reading, 20, rng)
        for query in queries:
            client.get(f"/releases/{file.stem}/query?level={rng.uniform(0.5, 0.99)}&q={quote(query)}")
        client.get(f"/releases/{file.stem}/marginals?level={rng.uniform(0.5, 0.99)}&e={quote(states[0])}")
        client.get(f"/releases/{file.stem}/synthetic?n=2000&seed={rng.randrange(10**6)}&format=parquet")
        Client(server.url).get("/healthz")
        if now >= next_look:
            seen.append((now, server.status("VmRSS") / 1024, server.status("Threads"), server.files()))
            print("soak {:7.0f} s: {:7.1f} MiB, {} threads, {} files".format(*seen[-1]), flush=True)
            next_look = now + seconds / 12
    late = np.array(seen[len(seen) // 2 :])
    if len(late) > 2:
        slope = np.polyfit(late[:, 0], late[:, 1], 1)[0] * 3600
        print(f"growth in the second half: {slope:.2f} MiB an hour", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="alarm")
    parser.add_argument("--draws", type=Path, help="stored draws; without it they are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=5.0, help="of many clients at once")
    parser.add_argument("--soak", type=float, default=0.0, help="seconds of a soak, after all else")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        file = given.draws or make_draws(given.network, Path(name))
        starts(file, given.rounds)
        memory(file, Path(name))
        with served([file], *NO_LIMITS, "--no-prepare") as server:
            costs(server, file, given.rounds, given.queries)
        with served([file], "--rate", "1000000") as server:
            crowd(server, file, given.seconds)
            if given.soak:
                soak(server, file, given.soak)


if __name__ == "__main__":
    main()
