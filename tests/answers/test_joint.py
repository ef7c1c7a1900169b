"""The exact joint posterior: against enumeration of all data sets, several releases, public records, and its gates.

Monte Carlo: chains return when the worst entry is worth 400 independent draws; a mean of 400 draws lies within 6.5
standard errors of its expectation but for a chance below 1e-9, and seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

import discreet as dc
from all_data_sets import ERRORS, NETWORK, PRIOR, agrees, data_sets, enumerated, log_prior
from discreet.evidence import chains as module
from discreet.evidence import chains as sums
from discreet.evidence.chains import draw_jointly
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.releases.measurement import Measurement
from folding import every
from networks import asia
from releases import guarantee, noisy_release, simulated
from tiny import network_of

TYPES = [(x, y) for x in range(2) for y in range(3)]


def told(table: Sequence[Sequence[int]], scale: float, records: int | None, number: int) -> dc.Release:
    return replace(noisy_release(PRIOR, {"y": np.array(table)}, scale, records), id=f"{number:032x}")


def laplace(z: np.ndarray, scale: float) -> Callable[[np.ndarray], np.ndarray]:
    """Of each data set."""
    return lambda sets: -np.abs(z - sets).sum(axis=(-2, -1)) / scale


Z = np.array([[3, 0, -1], [1, 4, 2]])
OTHER = np.array([[1, 2, 0], [0, 2, 3]])


@every("public", [None, np.array([[2, 0, 1], [0, 0, 7]])])
def test_a_public_number_of_records(public: np.ndarray | None) -> None:
    release = told(Z, 1.5, 6, 1)
    counts = None if public is None else dc.Tables(NETWORK, {"x": public.sum(axis=1), "y": public})
    evidence = dc.combine(release, data="same", public=counts)
    posterior = draw_jointly(evidence, PRIOR, 2000, np.random.default_rng(1))
    agrees(posterior, *enumerated(laplace(Z, 1.5), data_sets(6, exactly=True), public))


def test_a_private_number_of_records() -> None:
    """Its prior is flat; data sets beyond 16 records have less than 1e-4 of the mass."""
    posterior = draw_jointly(dc.tools.evidence_of(told(Z, 0.8, None, 1)), PRIOR, 1000, np.random.default_rng(2))
    agrees(posterior, *enumerated(laplace(Z, 0.8), data_sets(16, exactly=False)))


def test_releases_on_the_same_records() -> None:
    """The sum over data sets is outside of the product of both likelihoods."""
    both = dc.combine(told(Z, 1.5, 6, 1), told(OTHER, 1.0, None, 2), data="same")
    posterior = draw_jointly(both, PRIOR, 2000, np.random.default_rng(3))
    one, other = laplace(Z, 1.5), laplace(OTHER, 1.0)
    agrees(posterior, *enumerated(lambda counts: one(counts) + other(counts), data_sets(6, exactly=True)))


def test_releases_on_different_records() -> None:
    """Pairs of data sets share the probabilities alone."""
    both = dc.combine(told(Z, 1.5, 4, 1), told(OTHER, 1.0, 3, 2), data="different")
    posterior = draw_jointly(both, PRIOR, 2000, np.random.default_rng(4))
    firsts, seconds = data_sets(4, exactly=True), data_sets(3, exactly=True)
    one, other = laplace(Z, 1.5), laplace(OTHER, 1.0)
    logs, sums = [], []
    for first in firsts:
        for second in seconds:
            ways = sum(float(gammaln(n.sum() + 1) - gammaln(n + 1).sum()) for n in (first, second))
            total = first + second
            together = float(gammaln(total.sum() + 1) - gammaln(total + 1).sum())
            logs.append(ways - together + one(first) + other(second))
            sums.append(total)
    by_sum: dict[tuple[int, ...], float] = {}
    for total, log in zip(sums, logs, strict=True):
        key = tuple(total.ravel())
        by_sum[key] = float(np.logaddexp(by_sum.get(key, -np.inf), log))
    mean, deviation = enumerated(
        lambda _sets: np.array(list(by_sum.values())), np.array(list(by_sum)).reshape(-1, 2, 3)
    )
    agrees(posterior, mean, deviation)
    # And that is not what the same numbers say of one data set.
    same = enumerated(lambda counts: one(counts) + other(counts), data_sets(4, exactly=True))[1]
    assert np.abs(same["x"] / deviation["x"] - 1).max() > 0.05


FORK = network_of({"a": 2, "b": 2, "c": 2}, "a>b a>c")
STAR = (("a", "b"), ("a", "c"))
TOLD = (np.array([[3, 0], [-1, 4]]), np.array([[1, 2], [2, 1]]))


def star_release(records: int | None, scale: float) -> dc.Release:
    """A release of both tables of a fork, as one star."""
    counts = dc.tools.count_codes(FORK, {name: np.zeros(records or 0, np.int64) for name in FORK.nodes})
    relation = "add-remove" if records is None else "replace"
    prior = dc.Dirichlet.uniform(FORK, 0.5)
    made = dc.simulate(dc.planned(pairs_share=0), counts, prior, guarantee(1, relation), rng=np.random.default_rng(0))
    assert set(made.payload.stars) == set(STAR)
    scales = dict.fromkeys(STAR, scale)
    payload = replace(made.payload, tables=dict(zip(STAR, TOLD, strict=True)), scales=scales)
    return replace(made, payload=payload, calibration=replace(made.calibration, scales=scales))


@every("by_type", [False, True])
def test_stars_of_tables(by_type: bool) -> None:
    look_at_stars(by_type, 6, 6, 1.5)


@pytest.mark.costly("Noise that tables share tells of the number of records, too, which takes larger data sets.")
@every("by_type", [False, True])
def test_stars_of_tables_of_any_number_of_records(by_type: bool) -> None:
    look_at_stars(by_type, None, 14, 0.8)


def look_at_stars(by_type: bool, records: int | None, most: int, scale: float) -> None:
    """Density `exp(-N / scale)`, N the sum over states of `a` of the longer row; against all data sets of 8 types.

    Means and deviations of P(a), P(b | a) and P(c | a) as sums of Beta laws.
    """
    sizes = range(most, most + 1) if records else range(most + 1)
    sets = np.concatenate(
        [np.diff([(-1, *bars, n + 7) for bars in itertools.combinations(range(n + 7), 7)], axis=1) - 1 for n in sizes]
    ).reshape(-1, 2, 2, 2)
    rows = [sets.sum(axis=(2, 3)), sets.sum(axis=3), sets.sum(axis=2)]
    norms = [np.abs(told - row).sum(axis=-1) for told, row in zip(TOLD, rows[1:], strict=True)]
    logs = -np.maximum(*norms).sum(axis=-1) / scale
    logs += gammaln(sets.sum(axis=(1, 2, 3)) + 1) - gammaln(sets + 1).sum(axis=(1, 2, 3))
    for cells in rows:
        total = gammaln(1) - gammaln(1 + cells.sum(axis=-1)) + (gammaln(cells + 0.5) - gammaln(0.5)).sum(axis=-1)
        logs += total.reshape(len(sets), -1).sum(axis=-1)
    weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECORDS_PER_TYPE", 0 if by_type else 10**6)
        posterior = draw_jointly(
            dc.tools.evidence_of(star_release(records, scale)),
            dc.Dirichlet.uniform(FORK, 0.5),
            2000,
            np.random.default_rng(5),
        )
    assert posterior.mixing is not None and posterior.mixing.effective >= 400
    for node, cells in zip("abc", rows, strict=True):
        shape = cells + 0.5
        total = shape.sum(axis=-1, keepdims=True)
        mean = np.tensordot(weights, shape / total, 1)
        deviation = np.sqrt(np.tensordot(weights, shape * (shape + 1) / (total * (total + 1)), 1) - mean**2)
        found = posterior.probabilities[node]
        assert (np.abs(found.mean(axis=-1) - mean) / deviation).max() < ERRORS / math.sqrt(400)
        assert np.abs(found.std(axis=-1) / deviation - 1).max() < 0.25


def test_stars_of_several_releases_are_told_apart() -> None:
    """Two stars over the same tables, on the same records: by the sum of both densities they say more than one."""
    one = star_release(6, 1.5)
    both = dc.combine(replace(one, id=f"{1:032x}"), replace(one, id=f"{2:032x}"), data="same")
    prior, rng = dc.Dirichlet.uniform(FORK, 0.5), np.random.default_rng(6)
    twice = draw_jointly(both, prior, 2000, rng)
    sharper = draw_jointly(dc.tools.evidence_of(star_release(6, 0.75)), prior, 2000, rng)
    for node in FORK.nodes:
        off = twice.probabilities[node].mean(axis=-1) - sharper.probabilities[node].mean(axis=-1)
        assert (np.abs(off) / sharper.probabilities[node].std(axis=-1)).max() < ERRORS * math.sqrt(2 / 400)


@pytest.mark.parametrize("sizes", [(2,), (3,), (4, 2), (3, 5)])
def test_a_record_adds_to_contrasts_what_their_definition_says(sizes: tuple[int, ...]) -> None:
    """A contrast is the difference of two neighbouring states, along every axis."""
    table = np.random.default_rng(6).integers(0, 50, sizes)
    found = np.zeros(math.prod(size - 1 for size in sizes), np.int64)
    for cell, contrast, amount in sums._list_contrast_weights(sizes):
        found[contrast] += amount * table.flat[cell]
    for axis in range(len(sizes)):
        table = -np.diff(table, axis=axis)
    assert np.array_equal(found, table.ravel())


def test_a_table_of_a_sample_counts_those_who_are_in_it() -> None:
    """Whether a record is in the sample is one more variable of two states, out and in, and the last axis."""
    part, members = Measurement(("x",), np.array([3, 5]), DiscreteLaplace(1.0), sampling=0.25), dict[str, float]()
    told = sums.read_sums(NETWORK, part, (0, 0), members, 1.5)
    assert members == {"member 0": 0.25} and told.parts[0][0] == ("x", "member 0")
    assert told.parts[0][1].tolist() == [[1, 0, 1], [3, 1, 1]]


def test_of_the_draws_of_all_chains_in_turn_the_last_are_taken() -> None:
    network = dc.Network((dc.Variable("x", ("no", "yes")),), {"x": ()})
    chains = [np.array([[step + chain, -1.0] for step in (0, 10, 20)]) for chain in range(2)]
    assert module._split_by_family(network, chains, 3)["x"][0].tolist() == [11, 20, 21]


def test_replicates_share_the_counts_and_nothing_else() -> None:
    """Their covariance is the variance of the mean given the counts: by enumeration, to a tenth of the variance."""
    posterior = draw_jointly(dc.tools.evidence_of(told(Z, 1.5, 6, 1)), PRIOR, 4000, np.random.default_rng(5))
    assert posterior.replicates is not None
    sets = data_sets(6, exactly=True)
    logs = log_prior(sets, 0.5, np.zeros((2, 3))) + laplace(Z, 1.5)(sets)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    given = (0.5 + sets[:, 0].sum(axis=1)) / (1 + sets.sum(axis=(1, 2)))
    between = float(weights @ given**2 - (weights @ given) ** 2)
    found = np.cov(posterior.probabilities["x"][0], posterior.replicates["x"][0])
    assert abs(found[0, 1] - between) < 0.1 * found[0, 0]


def test_draws_are_the_same_for_a_seed_and_any_number_of_them() -> None:
    evidence = dc.tools.evidence_of(told(Z, 1.5, 6, 1))
    one, again = (draw_jointly(evidence, PRIOR, 90, np.random.default_rng(6)) for _ in range(2))
    assert np.array_equal(one.probabilities["y"], again.probabilities["y"])
    assert one.probabilities.draws == 90
    many = draw_jointly(evidence, PRIOR, 2600, np.random.default_rng(6))
    assert many.probabilities.draws == 2600
    for node in ("x", "y"):
        assert np.allclose(many.probabilities[node].sum(axis=-2), 1)


@pytest.mark.costly("A thousand sweeps of real chains are refused, not made-up diagnostics.")
def test_chains_that_do_not_mix_are_refused_and_say_why() -> None:
    release = simulated(asia(), 2000, guarantee("0.1"), np.random.default_rng(7))
    seen: list[dc.results.Mixing] = []
    with pytest.raises(
        dc.DiscreetError, match=r"not mixed after 1,000 sweeps.*independent draws of 400.*another method"
    ):
        draw_jointly(
            dc.tools.evidence_of(release),
            release.prior,
            100,
            np.random.default_rng(8),
            progress=seen.append,
            most_updates=1.0,
        )
    assert [mixing.sweeps for mixing in seen] == [1000]
    assert seen[0].worst.startswith("P(") and seen[0].chains == 4


@every(
    "r_hat, rounds, needed", [(1.5, [1000], "25,000"), (1.012, [1000, 2000, 3500], "1,800"), (1.1, [1000, 2000], "")]
)
def test_chains_go_on_while_the_last_round_says_that_they_can_mix(r_hat: float, rounds: list[int], needed: str) -> None:
    """In time for 3,500 sweeps: of 25,000 that are missing none is begun, and the last round takes what is left.

    Those of 1.1 seem to need ten times the last round, and then mix.
    """
    seen: list[int] = []

    def measure(network: dc.Network, given: object, done: int) -> dc.results.Mixing:
        return dc.results.Mixing(4, done, 500.0, "P(x=no)", 1.0 if not needed and done == 2000 else r_hat)

    evidence = dc.tools.evidence_of(told(Z, 1.5, 6, 1))
    updates = 3500 * module.updates_per_sweep(evidence) * (1 if module.COMPILED else module.PYTHON_SLOWDOWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_measure_mixing", measure)
        arguments = (evidence, PRIOR, 100, np.random.default_rng(1))
        if needed:
            with pytest.raises(
                dc.DiscreetError, match=rf"R-hat is {r_hat:.3f} .*need some {needed} more, and could make"
            ):
                draw_jointly(*arguments, progress=lambda mixing: seen.append(mixing.sweeps), most_updates=updates)
        else:
            draw_jointly(*arguments, progress=lambda mixing: seen.append(mixing.sweeps), most_updates=updates)
    assert seen == rounds


def test_the_number_of_records_is_not_cut_off_where_the_noise_was_low() -> None:
    """One row under noise of 2,000, read as -60 records: the law of their number is flat until the noise says no.

    By sums over a grid; means within a tenth of a deviation, far beyond the errors of 4,000 draws of these chains.
    """
    network = dc.Network((dc.Variable("x", ("no", "yes")),), {"x": ()})
    prior = dc.Dirichlet.uniform(network, 1.0)
    release = noisy_release(prior, {"x": np.array([-50, -10])}, 2000.0)
    posterior = draw_jointly(dc.tools.evidence_of(release), prior, 4000, np.random.default_rng(3))
    n = np.arange(0, 60_000, 50.0)
    # P(n | z): every split of n is equally likely under a uniform prior.
    weights = np.array([np.mean(np.exp(-(np.abs(-50 - k) + np.abs(-10 - (m - k))) / 2000)) for m in n
                        for k in [np.linspace(0, m, 101)]])  # fmt: skip
    weights /= weights.sum()
    mean = float(weights @ n)
    assert mean > 1900
    told = module._Task.of(dc.tools.evidence_of(release), prior)
    assert told.most[0] > n[np.searchsorted(weights.cumsum(), 0.9999)]
    assert abs(posterior.probabilities["x"][0].mean() - 0.5) < 0.05
    # A uniform split of n records leaves theta uniform but for what the two numbers say of it.
    assert abs(posterior.probabilities["x"][0].std() - 12**-0.5) < 0.03


def test_numbers_beyond_memory_are_refused() -> None:
    """A chain of 40 variables has too many types to count records by type, and ten billion records are too many."""
    names = [f"v{k}" for k in range(40)]
    network = dc.Network(
        tuple(dc.Variable(name, ("0", "1")) for name in names),
        {name: (names[k - 1],) if k else () for k, name in enumerate(names)},
    )
    tables = {name: np.array([[10**10, 0], [0, 0]]) for name in names[1:]}
    release = noisy_release(dc.Dirichlet.uniform(network), tables, 1.0)
    with pytest.raises(dc.DiscreetError, match="memory"):
        draw_jointly(dc.tools.evidence_of(release), release.prior, 10, np.random.default_rng(0))


@pytest.mark.parametrize("records", [10**9, pytest.param(10**12, marks=pytest.mark.thorough)])
def test_so_many_records_of_few_types_are_counted_by_type(records: int) -> None:
    """Steps of chains of 10^12 records take half a minute to find their length."""
    tenth = records // 10
    release = told([[4 * tenth, tenth, 0], [tenth, 0, 4 * tenth]], 1.0, records, 1)
    posterior = draw_jointly(dc.tools.evidence_of(release), PRIOR, 400, np.random.default_rng(0))
    assert np.abs(posterior.probabilities["x"][0] - 0.5).max() < 10 / math.sqrt(records)


@pytest.mark.parametrize("mechanism", ["planned", "laplace", "fourier", "allocated", "sampled"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_every_payload_is_read(mechanism: str, relation: str) -> None:
    """Without noise to speak of, the posterior is that of the counts: means within 6.5 errors.

    Contrasts that are next to exact leave the chains no way from one data set to the next: these have a little noise.
    """
    if mechanism == "sampled" and relation == "replace":
        pytest.skip("sampling: records are sampled under add-remove only")
    make = {"sampled": lambda: dc.research.allocated(sampling="0.5")}.get(mechanism, dc.tools.MECHANISMS.get(mechanism))
    assert make is not None
    rng = np.random.default_rng(9)
    counts = dc.tools.count_codes(NETWORK, {"x": rng.integers(0, 2, 60), "y": rng.integers(0, 3, 60)})
    release = dc.simulate(make(), counts, PRIOR, guarantee(60 if mechanism == "fourier" else 500, relation), rng=rng)
    posterior = draw_jointly(dc.tools.evidence_of(release), PRIOR, 2000, rng)
    exact = PRIOR.updated(counts.tables).mean()
    for node in ("x", "y"):
        off = np.abs(posterior.mean()[node] - exact[node]) / posterior.probabilities[node].std(axis=-1)
        assert off.max() < ERRORS / math.sqrt(400) + 0.05


EDGES = dc.Network(
    (dc.Variable("a", ("0", "1")), dc.Variable("one", ("only",)), dc.Variable("member 0", ("x", "y", "z")),
     dc.Variable("apart", ("0", "1"))),
    {"a": (), "one": ("a",), "member 0": ("one", "a"), "apart": ()},
)  # fmt: skip


@pytest.mark.costly("Chains of every kind of noise end well on networks with nothing to move.")
@every("n", [0, 20])
@every("mechanism", ["laplace", "planned", "fourier", "sampled"])
def test_no_records_one_state_and_nodes_apart(mechanism: str, n: int, hasty: None) -> None:
    """Chains mix, and rows are probabilities; a node may even be called what the memberships of samples are."""
    make = {"sampled": lambda: dc.research.allocated(sampling="0.5")}.get(mechanism, dc.tools.MECHANISMS.get(mechanism))
    assert make is not None
    rng = np.random.default_rng(10)
    counts = dc.tools.count_codes(
        EDGES, {variable.name: rng.integers(0, variable.size, n) for variable in EDGES.schema}
    )
    release = dc.simulate(make(), counts, dc.Dirichlet.uniform(EDGES, 0.5), guarantee(), rng=rng)
    posterior = draw_jointly(dc.tools.evidence_of(release), release.prior, 200, rng)
    for node in EDGES.nodes:
        assert np.allclose(posterior.probabilities[node].sum(axis=-2), 1)
        assert np.all(posterior.probabilities[node] > 0)


def test_the_cost_that_is_predicted() -> None:
    network = asia().network
    release = simulated(asia(), 700, guarantee(1, "replace"), np.random.default_rng(1))
    assert module.updates_per_sweep(dc.tools.evidence_of(release)) == 700 * len(network.nodes)
    many = simulated(asia(), 70_000, guarantee(1, "replace"), np.random.default_rng(1))
    assert module.updates_per_sweep(dc.tools.evidence_of(many)) == module.RECORDS_PER_TYPE * 256 * len(network.nodes)
    private = simulated(asia(), 700, guarantee(1), np.random.default_rng(1))
    assert 700 < module.updates_per_sweep(dc.tools.evidence_of(private)) / len(network.nodes) < 1500
