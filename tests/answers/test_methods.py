"""Which way a posterior is drawn: what is chosen, what can be asked for, and what combined evidence comes to.

Monte Carlo: means of 2,000 draws (at least 400 independent ones of chains) are compared within 6.5 standard errors,
which a right answer exceeds with a chance below 1e-9; seeds are fixed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import discreet as dc
from discreet.evidence import chains as module
from discreet.posterior.methods import able_readers
from discreet.research.readers import compiling
from discreet.research.readers.compiling import COMPILED
from folding import every
from networks import asia
from releases import guarantee, noisy_release, simulated, simulated_counts

NETWORK = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("a", "b"))), {"x": (), "y": ("x",)})
PRIOR = dc.Dirichlet.uniform(NETWORK, 0.5)
THETA = dc.Tables(NETWORK, {"x": [0.3, 0.7], "y": [[0.8, 0.2], [0.4, 0.6]]})
RNG = np.random.default_rng
PRIOR_OF_ASIA = dc.Dirichlet.uniform(asia().network)


def made(mechanism: dc.tools.Mechanism, n: int, seed: int, epsilon: float = 1, relation: str = "replace") -> dc.Release:
    counts = simulated_counts(THETA, n, RNG(seed))
    counts = dc.results.Counts(counts.tables, counts.policy, {("x", "y"): np.array(counts.tables["y"])})
    return dc.simulate(
        mechanism, counts, PRIOR, guarantee(epsilon, relation), rng=RNG([seed, round(1000 * float(epsilon))])
    )


def drawn(evidence: dc.Release | dc.results.Combined, **given: object) -> dc.results.PosteriorDraws:
    return dc.noise_aware(evidence, draws=2000, rng=RNG(5), **given)  # type: ignore[arg-type]


LAPLACE, PLANNED, FOURIER = (
    made(dc.laplace(), 5000, 1),
    made(dc.planned(pairs_share=0), 5000, 2),
    made(dc.research.fourier(), 5000, 3),
)
STAGES, DRAWS = made(dc.research.allocated(), 5000, 4), made(dc.research.posterior_sampler(), 5000, 5)
FEW = made(dc.laplace(), 40, 6)


CHOSEN = [
    (LAPLACE, None, "pooled"),
    (PLANNED, None, "pooled"),
    (LAPLACE, PRIOR, "pooled"),
    (FOURIER, None, "pooled"),
    (FOURIER, PRIOR, "pooled"),
    (STAGES, None, "pooled"),
    (DRAWS, None, "particles"),
    (FEW, None, "pooled"),
    (FEW, PRIOR, "pooled"),
    (dc.combine(LAPLACE, PLANNED, data="same"), None, "pooled"),
    (dc.combine(LAPLACE, PLANNED, data="same"), PRIOR, "pooled"),
    (dc.combine(LAPLACE, PLANNED, data="different"), PRIOR, "sequential"),
    (dc.combine(LAPLACE, DRAWS, data="different"), None, "sequential"),
    (dc.combine(LAPLACE, DRAWS, data="different"), PRIOR, "sequential"),
]
"""The method that is taken without a compiler."""


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="numba: not installed"))]
)
@pytest.mark.parametrize(("evidence", "prior", "method"), CHOSEN)
def test_the_method_that_is_chosen(
    evidence: dc.Release | dc.results.Combined,
    prior: dc.Dirichlet | None,
    method: str,
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exact one if its chains are compiled, a Dirichlet prior is given, and it reads all of the evidence."""
    monkeypatch.setattr(module, "COMPILED", compiled)
    sampled = any(
        isinstance(release.payload, dc.research.ParameterDraws) for release in dc.tools.evidence_of(evidence).releases
    )
    expected = "exact" if compiled and prior is not None and not sampled else method
    posterior = dc.noise_aware(evidence, draws=50, rng=RNG(1), prior=prior)
    assert posterior.method == expected
    assert (posterior.mixing is not None) == (expected == "exact")
    assert (posterior.replicates is None) == (expected in ("particles", "sequential"))


def test_what_takes_too_long_is_not_chosen() -> None:
    release = simulated(asia(), 5000, guarantee(), RNG(20))
    assert dc.noise_aware(release, draws=20, rng=RNG(1), prior=release.prior).method == "pooled"


@every(
    ("evidence", "method"),
    [
        (PLANNED, "independent"),
        (DRAWS, "pooled"),
        (LAPLACE, "particles"),
        (LAPLACE, "sequential"),
        (LAPLACE, "guess"),
        (dc.combine(LAPLACE, PLANNED, data="different"), "pooled"),
    ],
)
def test_methods_that_cannot_read_it(evidence: dc.Release, method: dc.tools.Method) -> None:
    with pytest.raises(dc.InputError, match="cannot read this evidence; there is: "):
        dc.noise_aware(evidence, draws=10, rng=RNG(0), method=method)


def test_parameter_draws_of_the_same_records_are_read_by_the_exact_chains_alone() -> None:
    both = dc.combine(DRAWS, made(dc.research.posterior_sampler(), 5000, 7), data="same")
    assert [reader.method for reader in able_readers(both)] == ["exact"]


def test_chains_that_do_not_mix_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for them, so nobody is told that they failed."""
    monkeypatch.setattr(module, "COMPILED", True)
    monkeypatch.setattr(module, "MOST_QUICK_UPDATES", 1.0)
    release = simulated(asia(), 150, guarantee("0.01"), RNG(8))
    assert dc.noise_aware(release, draws=50, rng=RNG(8), prior=release.prior).method == "pooled"


def near(posteriors: Sequence[dc.results.PosteriorDraws], node: str, width: float) -> None:
    """Means within 6.5 errors of each other, and deviations within a share."""
    first, *others = posteriors
    for other in others:
        deviation = first.probabilities[node].std(axis=-1)
        off = np.abs(first.probabilities[node].mean(axis=-1) - other.probabilities[node].mean(axis=-1)) / deviation
        assert off.max() < 6.5 / np.sqrt(400) * np.sqrt(2)
        assert np.abs(other.probabilities[node].std(axis=-1) / deviation - 1).max() < width


@every("relation", ["replace", "add-remove"])
def test_methods_agree_where_one_table_says_it_all(relation: str) -> None:
    release = made(dc.laplace(), 400, 9, 1, relation)
    posteriors = [drawn(release, prior=PRIOR, method=method) for method in ("exact", "pooled")]
    for node in NETWORK.nodes:
        near(posteriors, node, 0.25)


def test_releases_on_the_same_records_are_pooled_as_the_chains_say() -> None:
    both = dc.combine(made(dc.laplace(), 400, 10, "0.1"), made(dc.laplace(), 400, 10, "0.12"), data="same")
    posteriors = [drawn(both, prior=PRIOR, method=method) for method in ("exact", "pooled")]
    near(posteriors, "y", 0.25)
    alone = drawn(both.releases[1], prior=PRIOR, method="pooled")
    assert posteriors[1].probabilities["y"].std(axis=-1).mean() < alone.probabilities["y"].std(axis=-1).mean()


def test_different_records_are_read_one_after_the_other_as_the_chains_say() -> None:
    both = dc.combine(made(dc.laplace(), 300, 11), made(dc.laplace(), 500, 12), data="different")
    posteriors = [drawn(both, prior=PRIOR, method=method) for method in ("exact", "sequential")]
    for node in NETWORK.nodes:
        near(posteriors, node, 0.25)


@pytest.mark.costly("Draws by every method, chains among them.")
def test_public_records_are_certain() -> None:
    """Beside a release that says next to nothing they are all there is; the exact posterior agrees."""
    public = dc.Tables(NETWORK, {"x": np.array([30, 70]), "y": np.array([[24, 6], [28, 42]])})
    vague = noisy_release(PRIOR, {"y": np.array([[3, 1], [2, 4]])}, 1000.0, 10)
    evidence = dc.combine(vague, data="same", public=public)
    exact = PRIOR.updated(public)
    posteriors = [drawn(evidence, prior=PRIOR, method=method) for method in ("exact", "pooled")]
    for posterior in posteriors:
        for node in NETWORK.nodes:
            known = exact.alpha[node]
            mean = known / known.sum(axis=-1, keepdims=True)
            deviation = np.sqrt(mean * (1 - mean) / (known.sum(axis=-1, keepdims=True) + 1))
            assert np.abs((posterior.probabilities[node].mean(axis=-1) - mean) / deviation).max() < 0.5
            assert np.abs(posterior.probabilities[node].std(axis=-1) / deviation - 1).max() < 0.25


def test_public_records_beside_a_learned_prior() -> None:
    """They narrow intervals of a learned prior, too."""
    release = simulated(asia(), 500, guarantee("0.5"), RNG(13))
    public = dc.external.public_counts(dc.tools.simulate_records(asia(), 2000, rng=RNG(14)), asia().network)
    alone = dc.noise_aware(release, draws=400, rng=RNG(15))
    beside = dc.noise_aware(dc.combine(release, data="same", public=public), draws=400, rng=RNG(15))
    assert alone.method == beside.method == "pooled"
    for node in asia().network.nodes:
        assert beside.probabilities[node].std(axis=-1).mean() < alone.probabilities[node].std(axis=-1).mean()


def test_the_exact_posterior_learns_no_prior_and_takes_the_curators() -> None:
    """What was learned from the release has seen it already."""
    release = made(dc.planned(pairs_share=0), 300, 16)
    alone, told = (drawn(release, method="exact", prior=prior) for prior in (None, release.prior))
    assert alone.method == "exact"
    np.testing.assert_array_equal(alone.probabilities["y"], told.probabilities["y"])


def test_a_posterior_as_a_prior_keeps_two_moments() -> None:
    """Of 200,000 draws of beta laws: concentrations come back within 3 %, about six standard errors."""
    prior = dc.Dirichlet(dc.Tables(NETWORK, {"x": [3.0, 9.0], "y": [[0.5, 0.5], [40.0, 2.0]]}))
    again = dc.Dirichlet.matching(prior.draw(200_000, rng=RNG(17)))
    for node in NETWORK.nodes:
        assert np.abs(again.alpha[node] / prior.alpha[node] - 1).max() < 0.03


def test_matching_at_the_edges() -> None:
    sure = dc.Tables(NETWORK, {"x": np.ones((2, 5)) / 2, "y": np.full((2, 2, 5), 0.5)}, draws=5)
    assert float(dc.Dirichlet.matching(sure).alpha["x"].sum()) == pytest.approx(1e12)
    ends = dc.Tables(NETWORK, {"x": np.array([[1, 0, 1, 0], [0, 1, 0, 1.0]]), "y": np.full((2, 2, 4), 0.5)}, draws=4)
    found = dc.Dirichlet.matching(ends).alpha["x"]
    assert found.sum() == pytest.approx(1e-2) and np.all(found > 0)
    with pytest.raises(dc.InputError, match="two draws"):
        dc.Dirichlet.matching(PRIOR.draw(1, rng=RNG(0)))
    one = dc.Network((dc.Variable("z", ("only",)),), {"z": ()})
    assert dc.Dirichlet.matching(dc.Dirichlet.uniform(one).draw(3, rng=RNG(0))).alpha["z"].shape == (1,)


def test_replicates_must_be_draws_of_the_same_families() -> None:
    cells = PRIOR.draw(10, rng=RNG(0))
    with pytest.raises(dc.InputError, match="replicates"):
        dc.results.PosteriorDraws(cells, replicates=PRIOR.draw(9, rng=RNG(0)))
    assert dc.results.PosteriorDraws(cells, replicates=PRIOR.draw(10, rng=RNG(1))).replicates is not None


@every("release", [LAPLACE, PLANNED, FOURIER, STAGES])
def test_the_share_of_the_noise_grows_with_it(release: dc.Release) -> None:
    """Twins share their counts: exact counts leave nothing to share, hardly any budget leaves everything."""
    kind = {
        LAPLACE: dc.laplace,
        PLANNED: lambda: dc.planned(pairs_share=0),
        FOURIER: dc.research.fourier,
        STAGES: dc.research.allocated,
    }[release]
    shares = []
    for epsilon in (300, "0.05"):
        posterior = dc.noise_aware(made(kind(), 3000, 18, epsilon), draws=600, rng=RNG(5))
        shares.append(dc.answer(posterior, "P(y=a | x=no)", level=0.9).rows[0]["noise"])
    assert shares[0] < 0.15 < 0.5 < shares[1]


def test_priors_of_another_network_and_no_draws_are_refused() -> None:
    both = dc.combine(LAPLACE, PLANNED, data="different")
    with pytest.raises(dc.InputError, match="another network"):
        drawn(both, prior=dc.Dirichlet.uniform(asia().network))
    with pytest.raises(dc.InputError, match="at least one draw"):
        dc.noise_aware(both, draws=0, rng=RNG(0))
    with pytest.raises(dc.InputError, match="release"):
        dc.noise_aware("release.json", draws=1, rng=RNG(0))  # type: ignore[arg-type]
    assert replace(LAPLACE).id == LAPLACE.id


@every(("prior", "method"), [(None, "pooled"), (PRIOR_OF_ASIA, "pooled")])
def test_threads_draw_what_one_thread_draws(prior: dc.Dirichlet | None, method: dc.tools.Method) -> None:
    """Each asks for the families in another order, and for draws and replicates at the same time."""
    release = simulated(asia(), 500, guarantee(), RNG(21))
    nodes = asia().network.nodes

    def read(posterior: dc.results.PosteriorDraws, turn: int) -> None:
        for node in nodes[turn:] + nodes[:turn]:
            assert posterior.replicates is not None
            assert posterior.probabilities[node].shape == posterior.replicates[node].shape

    alone, shared = (dc.noise_aware(release, draws=60, rng=RNG(22), prior=prior, method=method) for _ in range(2))
    for node in nodes:
        assert alone.probabilities[node].shape[-1] == 60
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda turn: read(shared, turn), range(4)))
    for node in nodes:
        assert np.array_equal(alone.probabilities[node], shared.probabilities[node])


def test_code_is_compiled_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a read-only installation numba refuses a cache: it compiles in every process then."""
    asked: list[bool] = []

    class Stub:
        @staticmethod
        def njit(cache: bool = False, **_: object) -> Callable[[object], object]:
            asked.append(cache)
            if cache:
                raise RuntimeError("no locator available")
            return lambda function: function

    monkeypatch.setitem(sys.modules, "numba", Stub)  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "numba.extending", SimpleNamespace(typeof_impl=Mock()))  # type: ignore[misc]
    monkeypatch.setattr(compiling, "COMPILED", True)
    length = compiling.compiled(len)
    assert asked == []
    assert length("abc") == 3
    assert asked == [True, False]


# ------------------------------------------------------------------------------------------ the same numbers


SEEDED = """
import sys

import numpy as np
import discreet as dc

for _ in range(2):
    made = dc.noise_aware(dc.tools.loads(sys.argv[1]), draws=20, rng=np.random.default_rng(3))
    print(made.probabilities["y"].tolist())
"""


@pytest.mark.costly("Compiled chains that draw otherwise than plain ones are found by running both.")
@pytest.mark.skipif(not COMPILED, reason="numba (extra `fast`) is not installed: nothing to compare with")
def test_a_seed_makes_the_same_draws_with_a_compiler_and_without() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", SEEDED, PLANNED.dumps()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NUMBA_DISABLE_JIT": plain},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for plain in ("0", "1")
    ]
    assert len(said[0]) == 2 and len(set(said[0] + said[1])) == 1
