"""The fit check: right networks pass, wrong ones are named, and its variance is what theory and simulation say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, kstest

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import contrast_matrices
from discreet.posterior import fit_check
from discreet.posterior.evidence import measurements
from discreet.posterior.fit_check import _correct_p_values, _InteractionMoments
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.util.arrays import margin
from networks import asia, theta_of
from oracle import full_joint, small, with_draws
from releases import guarantee, noisy_release, simulated, simulated_counts

NETWORK = small(("a", 2, ()), ("b", 3, ()), ("c", 2, ("a", "b")), ("d", 2, ("c",)))
ALPHA = 1e-7
"""Chance that a right network fails one of the tests of levels below; there are four."""


def law(tie: float) -> dc.Tables:
    """Of NETWORK for 0; else b goes with a: P(b | a) differs by `tie` between the states of a."""
    joined = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("a", "b")), ("d", 2, ("c",)))
    shift = np.array([[tie, 0, -tie], [-tie, 0, tie]]) / 2
    rows = {
        "a": np.array([0.5, 0.5]),
        "b": np.array([0.3, 0.3, 0.4]) + shift,
        "c": np.array([[[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], [[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]]]),
        "d": np.array([[0.8, 0.2], [0.3, 0.7]]),
    }
    return dc.Tables(joined, rows)


def released(tie: float, n: int, seed: int, epsilon: float = 1.0, relation: str = "add-remove") -> dc.Release:
    """Over NETWORK."""
    rng = np.random.default_rng(seed)
    counts = simulated_counts(law(tie), n, rng)
    tables = {**counts.tables, "b": counts.tables["b"].sum(axis=0)}
    own = dc.results.Counts(dc.Tables(NETWORK, tables), counts.policy)
    promise = guarantee(epsilon, relation)
    return dc.simulate(dc.planned(pairs_share=0), own, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)


def test_holm_by_hand() -> None:
    assert _correct_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert _correct_p_values([0.9, 0.8]) == [1.0, 1.0]
    assert _correct_p_values([]) == []


@pytest.mark.costly("A test that cries wolf shows in the law of its p-values over many releases.")
@pytest.mark.parametrize(
    ("epsilon", "relation"), [(0.3, "add-remove"), pytest.param(3.0, "replace", marks=pytest.mark.thorough)]
)
def test_a_right_network_passes_as_often_as_it_says(epsilon: float, relation: str) -> None:
    """p-values of 150 releases are uniform, or larger; Laplace noise makes them larger where it rules."""
    releases = 150
    found = [dc.check_fit(released(0.0, 4_000, seed, epsilon, relation)) for seed in range(releases)]
    assert all(len(check.tests) == 1 and check.tests[0].variables == ("a", "b") for check in found)
    p = np.array([check.tests[0].p for check in found])
    for level in (0.05, 0.2):
        assert binom.sf((p < level).sum() - 1, releases, level) > ALPHA
    assert kstest(p, "uniform", alternative="greater").pvalue > ALPHA
    assert binom.sf(sum(bool(check.contradicted) for check in found) - 1, releases, 0.01) > ALPHA
    # And not so large that nothing is ever found.
    assert (p < 0.5).sum() > 40


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_a_wrong_network_is_named_with_its_arc_and_effect(epsilon: float) -> None:
    tie = 0.08
    # Half the sum over cells of |P(a, b) - P(a) P(b)|.
    effect = tie / 2
    for seed in range(4):
        check = dc.check_fit(released(tie, 30_000, seed, epsilon))
        assert [test.variables for test in check.contradicted] == [("a", "b")]
        first = check.contradicted[0]
        assert first.arcs == (("a", "b"),) and first.p < 1e-4
        assert first.effect == pytest.approx(effect, abs=0.012)
        assert str(check).startswith("1 of 1 testable independence contradicted, most of all a - b (effect 0.0")
        assert "add a -> b" in str(check) and "4 of 6 pairs of variables lie in a table" in str(check)


def test_what_is_contradicted_is_drawn_dashed_wherever_the_network_is() -> None:
    """In the report and in a notebook, with what `fit` says; nothing is dashed where the network is right."""
    for tie, dashed in ((0.08, 1), (0.0, 0)):
        release = released(tie, 30_000, 0)
        check, posterior = dc.check_fit(release), release.posterior(rng=1)
        assert check.contradicted_pairs == (("a", "b"),) * dashed
        alone = release.network.to_svg(refuted=check.contradicted_pairs)
        for drawn in (alone, posterior._repr_html_(), dc.report(release, posterior=posterior)):
            assert drawn.count("stroke-dasharray") == drawn.count("<title>a and b: contradicted</title>") == dashed
        assert ("a and b are not independent" in alone) == bool(dashed)
        assert str(check).replace(">", "&gt;") in posterior._repr_html_()


def test_an_effect_that_changes_no_answer_is_no_contradiction() -> None:
    check = dc.check_fit(released(0.006, 10_000_000, 1, 3.0))
    assert check.tests[0].p < 0.01 and check.tests[0].effect < fit_check.LEAST_EFFECT
    assert check.contradicted == ()


def test_the_same_release_gives_the_same_check() -> None:
    release = released(0.0, 1_000, 5)
    assert dc.check_fit(release) == dc.check_fit(release)
    other = dc.check_fit(release, rng=np.random.default_rng(9))
    assert other != dc.check_fit(release) and other.tests[0].p == pytest.approx(
        dc.check_fit(release).tests[0].p, abs=0.1
    )


def test_a_larger_network_can_be_asked() -> None:
    """The network that has the arc is not contradicted, and leaves nothing to test."""
    release = released(0.3, 5_000, 2)
    joined = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("a", "b")), ("d", 2, ("c",)))
    check = dc.check_fit(release, network=joined)
    assert check.tests == () and check.pairs_in_tables == 4
    assert str(check) == "nothing that the network says could be tested; 4 of 6 pairs of variables lie in a table"
    with pytest.raises(dc.InputError, match="variables and states of the release"):
        dc.check_fit(release, network=small(("a", 2, ())))


def test_contrasts_and_several_data_sets_are_tested() -> None:
    rng = np.random.default_rng(3)
    counts = simulated_counts(law(0.2), 20_000, rng)
    own = dc.results.Counts(dc.Tables(NETWORK, {**counts.tables, "b": counts.tables["b"].sum(axis=0)}), counts.policy)
    contrasts = dc.simulate(dc.research.fourier(), own, dc.Dirichlet.uniform(NETWORK), guarantee(), rng=rng)
    assert [test.variables for test in dc.check_fit(contrasts).contradicted] == [("a", "b")]
    both = dc.combine(released(0.0, 2_000, 1), released(0.2, 20_000, 2), data="different")
    assert [test.variables for test in dc.check_fit(both).contradicted] == [("a", "b")]


def test_what_measured_nothing_tests_nothing() -> None:
    counts = simulated_counts(asia(), 300, np.random.default_rng(4))
    prior = dc.Dirichlet.uniform(asia().network)
    release = dc.simulate(dc.research.posterior_sampler(), counts, prior, guarantee(), rng=np.random.default_rng(5))
    assert dc.check_fit(release) == dc.results.GoodnessOfFit((), 0, 28)


def test_pairs_of_families_that_are_cut_or_alone_do_no_harm() -> None:
    """A single variable, one of one state, and a network without arcs."""
    network = small(("a", 1, ()), ("b", 2, ()), ("c", 2, ("a", "b")))
    release = noisy_release(dc.Dirichlet.uniform(network), {"c": np.full((1, 2, 2), 40)}, 2.0)
    assert [test.variables for test in dc.check_fit(release).tests] == []


# ------------------------------------------------------------------------------------------- the variance of a test


def moments(theta: dc.Tables, names: tuple[str, ...]) -> tuple[_InteractionMoments, dc.Tables]:
    """What the network says of an interaction, its ancestors taken in as `fit` does."""
    release = simulated(theta, 1_000, guarantee(), np.random.default_rng(0))
    network = theta.network
    also = [network.ordered(names)]
    margins = pooled_margins(network, measurements([release]), None, also=also)
    cells = with_draws(theta)
    found = _InteractionMoments(names, Laws(cells).joint(names)[..., 0])
    joint, axes = full_joint(cells)[..., 0], network.nodes
    for node in network.ancestors(names):
        union = (*network.family(node), *(name for name in names if name not in network.family(node)))
        found.add(margins, margin(joint.sum(axis=tuple(i for i, n in enumerate(axes) if n not in union)),
                                  tuple(n for n in axes if n in union), union), union, node)  # fmt: skip
    return found, cells


CHAIN = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("b",)), ("e", 2, ()), ("d", 2, ("c", "e")))


def chain() -> dc.Tables:
    """Random rows."""
    rng = np.random.default_rng(7)
    return dc.Tables(
        CHAIN, {node: rng.dirichlet(np.ones(CHAIN.shape(node)[-1]), CHAIN.shape(node)[:-1]) for node in CHAIN.nodes}
    )


@pytest.mark.parametrize("names", [("a", "c"), ("c", "e"), ("a", "d"), ("a", "b", "c"), ("b", "d"), ("a", "c", "e")])
def test_sampling_is_what_a_projection_on_the_scores_leaves(names: tuple[str, ...]) -> None:
    """By brute force: least squares of the contrasts on all functions of families, weighted by the joint law."""
    theta = chain()
    found, cells = moments(theta, names)
    joint = full_joint(cells)[..., 0].ravel()
    states = np.array(list(product(*(range(variable.size) for variable in CHAIN.variables))))
    at = {name: states[:, index] for index, name in enumerate(CHAIN.nodes)}
    phi = np.ones((1, 1, len(joint)))
    for name in names:
        matrix = contrast_matrices([CHAIN.schema[name].size])[0][1:]
        phi = (phi.reshape(-1, 1, len(joint)) * matrix[:, at[name]][None]).reshape(-1, 1, len(joint))
    phi = phi.reshape(-1, len(joint))
    scores = []
    for node in CHAIN.nodes:
        codes = np.ravel_multi_index([at[name] for name in CHAIN.family(node)], CHAIN.shape(node))
        onehot = np.eye(CHAIN.cells(CHAIN.family(node)))[codes]
        parents = CHAIN.parents[node]
        sizes = [CHAIN.schema[name].size for name in parents]
        rows = np.ravel_multi_index([at[name] for name in parents], sizes) if parents else 0 * codes
        chance = theta[node].reshape(-1, CHAIN.schema[node].size)
        expected = np.zeros_like(onehot)
        for k in range(CHAIN.schema[node].size):
            expected[np.arange(len(joint)), rows * CHAIN.schema[node].size + k] = chance[rows, k]
        scores.append(onehot - expected)
    design = np.concatenate(scores, axis=1) * np.sqrt(joint)[:, None]
    centred = (phi - (phi @ joint)[:, None]) * np.sqrt(joint)
    left = centred.T - design @ np.linalg.lstsq(design, centred.T, rcond=None)[0]
    np.testing.assert_allclose(found.sampling, left.T @ left, atol=1e-10)
    np.testing.assert_allclose(found.mean, phi @ joint, atol=1e-12)


@pytest.mark.parametrize("names", [("a", "c"), ("c", "e"), ("a", "d"), ("a", "b", "c")])
def test_noise_is_how_errors_of_counts_move_what_the_network_says(names: tuple[str, ...]) -> None:
    """Against differences: an error in each interaction of the families, and the fitted network's prediction."""
    theta, n, step = chain(), 1_000.0, 1e-3
    found, cells = moments(theta, names)
    joint = full_joint(cells)[..., 0] * n
    axes = CHAIN.nodes

    def predicted(counts: np.ndarray) -> np.ndarray:
        rows = {}
        for node in CHAIN.nodes:
            family = CHAIN.family(node)
            table = margin(counts.sum(axis=tuple(i for i, name in enumerate(axes) if name not in family)),
                           tuple(name for name in axes if name in family), family)  # fmt: skip
            rows[node] = table / table.sum(axis=-1, keepdims=True)
        law = full_joint(with_draws(dc.Tables(CHAIN, rows)))[..., 0]
        over = margin(law.sum(axis=tuple(i for i, name in enumerate(axes) if name not in names)),
                      tuple(name for name in axes if name in names), names)  # fmt: skip
        return np.asarray(counts.sum() * found.contrasts @ over.ravel())

    for subset, loads in found.noise.items():
        # An orthonormal coordinate of the interaction, spread evenly over the cells of the whole joint table.
        matrices = contrast_matrices([CHAIN.schema[name].size for name in subset])
        shape = [CHAIN.schema[name].size if name in subset else 1 for name in axes]
        for index, rows in enumerate(product(*(range(1, len(matrix)) for matrix in matrices))):
            direction = np.ones(())
            for matrix, row in zip(matrices, rows, strict=True):
                direction = np.multiply.outer(direction, matrix[row])
            whole = np.broadcast_to(direction.reshape(shape), joint.shape)
            whole = whole * direction.size / joint.size
            moved = (predicted(joint + step * whole) - predicted(joint - step * whole)) / (2 * step)
            np.testing.assert_allclose(loads[:, index], moved, atol=1e-6)


def test_every_set_that_a_table_holds_and_no_arc_joins_is_tested() -> None:
    theta = theta_of("child")
    release = simulated_child(theta)
    tested = {test.variables for test in dc.check_fit(release).tests}
    place = theta.network.order.index
    for part in measurements([release]):
        for one in part.scope:
            for other in part.scope:
                if place(one) < place(other) and one not in theta.network.parents[other]:
                    assert (one, other) in tested


def simulated_child(theta: dc.Tables) -> dc.Release:
    """A release of 2,000 records."""
    from discreet.inference.sampling import sample_codes

    rng = np.random.default_rng(8)
    counts = dc.tools.count_codes(theta.network, sample_codes(theta, 2_000, rng))
    return dc.simulate(dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(theta.network), guarantee(), rng=rng)
