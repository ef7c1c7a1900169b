"""One front door: whatever was released is read by it, and what it gives follows the one protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.read import READERS, Gives, load_function, posterior_kind, readers_of
from discreet.util.pack_entries import of_packs
from every_kind import PAYLOADS
from folding import every
from registry import CHOOSING, EVERY, NETWORK

DRAWS, CHAINS = 60, 400
"""Joint draws, and those of chains, which have intervals where enough of them are independent."""
READ = {name: variant for name, variant in EVERY.items() if name not in {*CHOOSING, "found_domain"}}
"""Every mechanism that measures something, with its options; a found domain has no posterior."""
MORE: dict[str, Callable[[dc.Release], dict[str, Any]]] = {
    "noisy_gradients": lambda release: {"covariates": dc.research.uniform_law(release.over)}
}
"""What readers need beside a release."""


@cache
def released(name: str) -> dc.Release:
    """A small simulated release of a mechanism."""
    variant = EVERY[name]
    statistic, prior = variant.private(40), variant.prior
    one = name == "truncated_posterior"  # by itself it releases one draw, which has no interval
    made = dc.research.truncated_posterior(draws=DRAWS, variance=0.04) if one else variant.make(NETWORK)
    return dc.simulate(made, statistic, prior, variant.promise(8), rng=5)


def follows_the_protocol(posterior: Any) -> None:
    """All that every posterior has, and how its parts agree."""
    assert isinstance(posterior, dc.results.Posterior)
    rows, narrow = posterior.rows(level=0.9), posterior.rows(level=0.5)
    assert rows and len(rows) == len(narrow)
    for wide, inner in zip(rows, narrow, strict=True):
        assert wide["lower"] <= inner["lower"] <= inner["upper"] <= wide["upper"]
        assert {"mean", "lower", "upper"} <= wide.keys()
        assert np.isfinite([wide["mean"], wide["lower"], wide["upper"]]).all()
    assert [row["level"] for row in posterior.tidy(level=0.9)] == [0.9] * len(rows)
    lower, upper = posterior.interval(level=0.9)
    means = posterior.mean()
    for low, mean, high in (
        zip(*((ends[node] for node in means) for ends in (lower, means, upper)), strict=True)
        if isinstance(means, dc.Tables)
        else [(lower, means, upper)]
    ):
        assert low.shape == mean.shape == high.shape
        assert np.all(low <= high)
    assert posterior.draws > 0
    assert 0 < posterior.ess() <= posterior.draws
    assert posterior.method in posterior.summary(level=0.9)
    assert "<" in posterior._repr_html_()
    for level in (0, 1):
        with pytest.raises(dc.InputError, match="level"):
            posterior.interval(level=level)


@pytest.mark.costly("Each kind of release is read whole, by its own reader.")
@every("name", READ)
def test_every_release_is_read_by_the_one_door(name: str) -> None:
    release = released(name)
    draws = CHAINS if posterior_kind(release) == "weights" else DRAWS
    posterior = release.posterior(draws=draws, rng=3, **MORE.get(name, lambda _: {})(release))
    follows_the_protocol(posterior)


@every("name", ["planned", "sampled", "grouped_moments", "objective_perturbation"])
def test_the_method_of_a_release_is_the_door(name: str) -> None:
    release = released(name)
    assert release.posterior(draws=DRAWS, rng=3).rows() == dc.read(release, draws=DRAWS, rng=3).rows()
    assert release.posterior(draws=DRAWS, rng=4).rows() != dc.read(release, draws=DRAWS, rng=3).rows()


@every("name", MORE)
def test_what_a_reader_needs_beside_the_release_is_said(name: str) -> None:
    with pytest.raises(dc.InputError, match=rf"{next(iter(MORE[name](released(name))))}="):
        released(name).posterior()


@every("name", CHOOSING)
def test_a_chosen_network_says_that_it_has_no_posterior(name: str) -> None:
    with pytest.raises(dc.InputError, match="there is no posterior of it; release with its network"):
        released(name).posterior()


def own_choice() -> tuple[dc.Release, Any]:
    """A choice by a score of the curator's own, with the score."""
    design = dc.designs.Design((dc.Variable("side", bounds=(-1, 1)),), intercept=False)

    def near(records: Any, candidates: np.ndarray) -> np.ndarray:
        return (np.sign(records["side"])[:, None] == candidates[:, 0]).astype(float)

    factor = dc.research.own_factor(design, near, [-1.0, 1.0], low=0, high=1)
    statistic = dc.tools.statistic_of(dc.research.factored(factor), dc.designs.read_rows(design, [[1.0]] * 4), design)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    return dc.simulate(dc.research.factored(factor), statistic, dc.designs.Normal(design, 1.0), promise, rng=1), factor


def make_up(law: int, records: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two laws: mostly -1, and mostly 1."""
    return {"side": np.where(rng.random(records) < (0.2, 0.8)[law], 1.0, -1.0)}


def test_a_choice_by_an_own_score_is_read_with_that_score() -> None:
    release, factor = own_choice()
    with pytest.raises(dc.InputError, match=r"score=own_factor.*make_up=function.*prior="):
        release.posterior()
    given: dict[str, Any] = {"score": factor, "make_up": make_up, "prior": [0.5, 0.5]}
    posterior = release.posterior(draws=200, rng=2, **given)
    follows_the_protocol(posterior)
    same = dc.read(release, score=factor, make_up=make_up, prior=[0.5, 0.5], rng=2, draws=200)
    assert posterior.weights.tolist() == same.weights.tolist()
    assert (posterior.draws, [row["name"] for row in posterior.rows()]) == (200, ["0", "1"])


def test_what_is_left_open_of_a_law_shrinks_with_the_made_up_data_sets() -> None:
    weights, errors = np.array([0.3, 0.7]), np.array([0.2, 0.1])
    lower, upper = dc.research.LawWeights(weights, errors, 100).interval(level=0.95)
    # By hand: d w_0 = w_0 (1 - w_0) (d l_0 - d l_1).
    wide = 1.959964 * 0.3 * 0.7 * np.hypot(0.2, 0.1)
    assert np.allclose([upper - weights, weights - lower], wide)
    closer = dc.research.LawWeights(weights, errors / 2, 400).interval(level=0.95)
    assert np.allclose(closer[1] - closer[0], wide)


def test_other_readers_are_asked_for_by_name() -> None:
    release = released("sampled")
    parameters = dc.read(release, method="parameters", draws=DRAWS, rng=4)
    follows_the_protocol(parameters)
    assert np.array_equal(parameters.index, dc.read(release, method="parameters", draws=DRAWS, rng=4).index)
    assert release.posterior(draws=DRAWS, rng=4, method="choice").method == "choice"
    direction = released("factored")
    components = direction.posterior(method="components", draws=CHAINS, rng=4)
    follows_the_protocol(components)
    assert {row["component"] for row in components.rows()} == {1}
    with pytest.raises(dc.InputError, match="'exact' cannot read this evidence; there is: direction, components"):
        direction.posterior(method="exact")
    with pytest.raises(dc.InputError, match=r"the method 'direction', which takes likelihood, not prior"):
        direction.posterior(prior=None)
    with pytest.raises(dc.InputError, match="the method 'moments', which takes no options, not covariates"):
        released("noisy_moments").posterior(covariates=None)
    with pytest.raises(dc.InputError, match="a release or combined releases were expected, not str"):
        dc.read("release.json")  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="at least one draw"):
        dc.read(direction, draws=0)


def test_principal_components_have_a_posterior() -> None:
    design = dc.designs.Design((dc.Variable("x", bounds=(-1, 1)), dc.Variable("y", bounds=(-1, 1))))
    along = np.random.default_rng(1).uniform(-0.9, 0.9, 3000)
    rows = dc.designs.read_rows(design, np.stack([along, along], axis=1))
    promise = dc.Guarantee(epsilon=5, delta=0, relation="replace", unit="record")
    normal = dc.designs.Normal(design, 1.0)
    release = dc.simulate(dc.designs.noisy_moments(), dc.designs.sum_moments(rows), normal, promise, rng=1)
    posterior = release.posterior(draws=400, rng=1)
    follows_the_protocol(posterior)
    first = {row["name"]: row for row in posterior.rows() if row["component"] == 1}
    assert first["x"]["mean"] == pytest.approx(0.5**0.5, abs=0.05)
    assert first["variance"]["lower"] < 2 * 0.27 < first["variance"]["upper"]  # the variance of `along`, twice


def test_figures_by_others_and_combined_releases_are_read_by_it(tmp_path: Path) -> None:
    release = released("laplace")
    noise = dc.external.StatedNoise("laplace", 2)
    first = release.network.nodes[0]
    shape = release.network.shape(first)
    figures = dc.external_table(np.full(shape, 20), release.network, [first], noise, guarantee=None, source="a friend")
    both = dc.combine(release, figures, data="different")
    for evidence in (figures, both):
        follows_the_protocol(evidence.posterior(draws=DRAWS, rng=3))
    loaded = release.posterior(draws=DRAWS, rng=3)
    loaded.save(tmp_path / "a.draws")
    assert dc.results.PosteriorDraws.load(tmp_path / "a.draws").rows() == loaded.rows()
    with pytest.raises(dc.InputError, match="only draws over a network can be stored yet"):
        released("noisy_moments").posterior(draws=40, rng=1).save(tmp_path / "b.draws")


def test_the_list_of_readers_says_what_is_read_and_where() -> None:
    every_reader = (*READERS, *of_packs("discreet.readers"))
    kinds = tuple({kind for reader in every_reader for kind in reader.kinds})
    assert all(issubclass(payload, kinds) for payload in PAYLOADS)
    for reader in every_reader:
        found = load_function(reader.home)
        ways = reader.way and [reader.way.draw, *filter(None, [reader.way.eager])]
        assert all(map(load_function, [*(ways or ()), *filter(None, [reader.plain])]))
        parameters = list(inspect.signature(found).parameters)
        assert {"draws", "rng", *reader.options, *(["method"] if reader.method else [])} <= set(parameters)
        assert reader.cost and reader.gives in get_args(Gives)
    for name in EVERY:
        able = readers_of(released(name))
        assert able[0].gives == posterior_kind(released(name))
    assert posterior_kind(released("sampled")) == "family"
