"""CPU seconds for joint draws of all families from noisy tables, how far chains have converged, and NumPyro's NUTS.

`python -m bench.posterior [asia child alarm]` releases made-up records of each network (`planned` and `laplace`), and
draws all its families under the learned prior. `--long 10` draws again by chains ten times as long: the root of the
mean of the squared differences of all posterior means, in standard errors of these, is 1 where nothing is left of where
the chains started. `--nuts alarm` reads one `laplace` release under its own Dirichlet prior, by `noise_aware`, whose
draws are independent of each other, and by NumPyro's NUTS; what is compared is the smallest effective number of draws
of any probability, for each CPU second. Without numpyro and arviz that part is skipped, and says so.

The model of NUTS has no whole numbers: a cell's records are Poisson with a Gamma(alpha) intensity, which makes rows
Dirichlet; the Poisson law is replaced by a normal one, so that the law of a noisy cell is normal-Laplace; the state is
the logarithms of the intensities. Row totals are free there; ours follow from the ancestors' draws, so that its
posterior is narrower. Means are compared to show that both sample nearly the same. NUTS is charged for sampling (with
a few seconds of compiling), not for adapting, and only for families with a table of their own, where ours draws all.
Where R-hat is above 1.1 its chains have not met, and the ratio says only that.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from experiments.networks import theta_of

import discreet as dc
from discreet.inference.sampling import sample_codes
from discreet.posterior.pooled import shrinkage

Floats = npt.NDArray[np.float64]


def made_up(name: str, mechanism: str, epsilon: str, records: int) -> dc.Release:
    """A simulated release of records of a network."""
    theta, rng = theta_of(name), np.random.default_rng(3)
    counts = dc.tools.count_codes(theta.network, sample_codes(theta, records, rng))
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.tools.MECHANISMS[mechanism](), counts, dc.Dirichlet.uniform(theta.network), promise, rng=rng)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of all threads, and seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def all_families(release: dc.Release, draws: int, prior: dc.Dirichlet | None = None) -> dict[str, Floats]:
    """Draws of every table, shape `(*parents, child, draws)`."""
    cells = dc.noise_aware(release, draws=draws, rng=np.random.default_rng(1), prior=prior, method="pooled").cells
    return {node: cells[node] for node in release.network.nodes}


def seconds(release: dc.Release, draws: int, label: str, repeats: int) -> None:
    """Print the fastest repeat of the learned prior's draws."""
    all_families(release, 1)
    cpu, wall = min(timed(lambda: all_families(release, draws)) for _ in range(repeats))
    cells = sum(release.network.cells(release.network.family(node)) for node in release.network.nodes)
    each = cpu / draws / cells * 1e6
    print(f"{label} {cpu:6.2f} s CPU, {wall:6.2f} s; {each:.1f} us of CPU for a cell and draw", flush=True)


def convergence(release: dc.Release, draws: int, longer: int, label: str) -> None:
    """Print how far the means are from those of longer chains, in standard errors of the difference."""
    found = all_families(release, draws)
    with patch.object(shrinkage, "SWEEPS", shrinkage.CHAIN_SWEEPS * longer):
        aim = all_families(release, draws)
    squares = []
    for node, table in found.items():
        variance = (table.var(axis=-1) + aim[node].var(axis=-1)) / draws
        known = variance > 0
        squares.append(((table.mean(axis=-1) - aim[node].mean(axis=-1)) ** 2)[known] / variance[known])
    each = np.concatenate(squares)
    print(
        f"{label} against chains {longer} times as long: {math.sqrt(each.mean()):.2f} standard errors in the square"
        f" mean, at most {math.sqrt(each.max()):.1f}, of {each.size} probabilities",
        flush=True,
    )


def nuts(release: dc.Release, warmup: int, samples: int) -> tuple[Mapping[str, Floats], float, float]:
    """Draws of every table by NUTS, two chains.

    Args:
        release: of `NoisyCounts`.
        warmup: iterations of adaptation, not timed.
        samples: of each chain.

    Returns:
        Draws of every family with a table, shape `(*parents, child, chains, samples)`; CPU seconds and seconds
        of sampling.
    """
    import jax
    import jax.numpy as jnp
    import numpyro
    from jax.scipy.special import log_ndtr
    from numpyro import distributions

    numpyro.enable_x64()
    network, payload = release.network, release.payload
    assert isinstance(payload, dc.kinds.NoisyCounts)
    rows, noisy, alpha, scale, first = [], [], [], [], 0
    for node in payload.tables:
        table = payload.tables[node].reshape(-1, network.schema[node].size)
        rows.append(np.repeat(first + np.arange(len(table)), table.shape[1]))
        first += len(table)
        noisy.append(table.ravel())
        alpha.append(release.prior.alpha[node].ravel())
        scale.append(np.full(table.size, float(payload.scales[node])))
    row, z, a, b = np.concatenate(rows), *(np.concatenate(part).astype(float) for part in (noisy, alpha, scale))

    def model() -> None:
        logs = numpyro.sample("logs", distributions.ImproperUniform(distributions.constraints.real, (), (len(z),)))
        intensity = jnp.exp(logs)
        deviation = jnp.sqrt(intensity + 0.01)
        off, ratio = z - intensity, deviation / b
        left = -off / b + log_ndtr(off / deviation - ratio)
        right = off / b + log_ndtr(-off / deviation - ratio)
        numpyro.factor("posterior", (a * logs + ratio**2 / 2 + jnp.logaddexp(left, right)).sum())

    start = numpyro.infer.init_to_value(values={"logs": jnp.log(jnp.maximum(z, 1.0))})
    sampler = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model, init_strategy=start, max_tree_depth=8),
        num_warmup=warmup,
        num_samples=samples,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.warmup(jax.random.key(0))
    cpu, wall = timed(lambda: jax.block_until_ready((sampler.run(jax.random.key(1)), sampler.get_samples())))
    intensity = np.exp(np.asarray(sampler.get_samples(group_by_chain=True)["logs"])).transpose(2, 0, 1)
    totals = np.zeros((first, *intensity.shape[1:]))
    np.add.at(totals, row, intensity)
    theta, found, after = intensity / totals[row], dict[str, Floats](), 0
    for node in payload.tables:
        shape = network.shape(node)
        found[node] = theta[after : after + np.prod(shape)].reshape(*shape, *theta.shape[1:])
        after += int(np.prod(shape))
    return found, cpu, wall


def beside_nuts(name: str, epsilon: str, records: int, draws: int, warmup: int, samples: int) -> None:
    """Print effective draws for each CPU second, ours and NUTS's."""
    missing = [package for package in ("numpyro", "arviz") if find_spec(package) is None]
    if missing:
        print(f"NUTS on {name}: skipped, {' and '.join(missing)} not installed")
        return
    import arviz

    release = made_up(name, "laplace", epsilon, records)
    ours = dict[str, Floats]()
    cpu, wall = min(timed(lambda: ours.update(all_families(release, draws, release.prior))) for _ in range(3))
    print(f"{name}, laplace, Dirichlet prior: {draws} independent draws in {cpu:.2f} s CPU, {wall:.2f} s", flush=True)
    theirs, their_cpu, their_wall = nuts(release, warmup, samples)
    flat = np.concatenate([table.reshape(-1, 2, samples) for table in theirs.values()])
    effective = np.array([float(arviz.ess(cell)) for cell in flat])
    mixed = max(float(arviz.rhat(cell)) for cell in flat)
    print(f"NUTS: 2 chains of {samples} in {their_cpu:.1f} s CPU, {their_wall:.1f} s; R-hat up to {mixed:.3f}")
    means = np.concatenate([table.reshape(-1, draws).mean(axis=-1) for table in (ours[node] for node in theirs)])
    print(f"mean absolute difference of the means: {np.abs(means - flat.mean(axis=(1, 2))).mean():.4f}")
    for kind, number in (("least", effective.min()), ("median", np.median(effective))):
        rates = draws / cpu, number / their_cpu, draws / wall, number / their_wall
        print(
            f"{kind:6s} effective draws: NUTS {number:.0f}; each CPU second ours {rates[0]:.0f}, NUTS {rates[1]:.2f}:"
            f" {rates[0] / rates[1]:.0f} times; for each second {rates[2] / rates[3]:.0f} times"
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["asia", "child", "alarm"])
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--long", type=int, default=0, help="times as long as usual, chains to compare with")
    parser.add_argument("--nuts", default="alarm", help="network of the comparison with NUTS; empty for none")
    parser.add_argument("--warmup", type=int, default=400)
    parser.add_argument("--samples", type=int, default=600)
    given = parser.parse_args()
    for name in given.networks:
        for mechanism in ("planned", "laplace"):
            release = made_up(name, mechanism, given.epsilon, given.records)
            label = f"{name:8s} {mechanism:8s} {given.draws} draws:"
            seconds(release, given.draws, label, given.repeats)
            if given.long > 1:
                convergence(release, given.draws, given.long, label)
    if given.nuts:
        beside_nuts(given.nuts, given.epsilon, given.records, given.draws, given.warmup, given.samples)


if __name__ == "__main__":
    main()
