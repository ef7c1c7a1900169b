"""What is paid for can be read: a release that no reader would take is refused before anything is charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.discovery.declared_columns import Columns, NoPrior
from discreet.discovery.kinds.found_columns import FoundDomain
from discreet.releases import release_head
from discreet.releases.codec import encode
from discreet.util import limits
from discreet.util.limits import STATES
from folding import every
from registry import EVERY, NETWORK, Variant
from tiny import counts_of

EXTREMES = [(1e-300, 1), (1e-7, "1e-3"), (1e13, "1e6")]
"""Concentrations of a prior, and epsilons."""
DEVIATIONS = [(1e-12, 1), (1.0, "1e-9"), (1e12, "1e6")]


def opened() -> dc.results.Account:
    limit = dc.Guarantee(epsilon="1e12", delta="0.9", relation="add-remove", unit="record")
    return dc.Ledger("sqlite://").open("records", limit)


def promise(epsilon: Any = 1) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


def read(release: dc.Release) -> None:
    """By the reader of its kind."""
    match release.payload:
        case dc.kinds.ChosenNetwork():
            release.learned_network  # noqa: B018 - it is made
        case FoundDomain():
            assert release.payload.schema.names
        case _ if not release.networks:
            told = (
                {"covariates": dc.research.UniformSphere(2, 1.0, 1.0)} if release.mechanism == "noisy_gradients" else {}
            )
            str(dc.read(release, draws=40, rng=1, **told))
        case _:
            posterior = dc.noise_aware(release, draws=40, rng=1)
            assert all(np.all(np.isfinite(posterior.probabilities[node])) for node in posterior.network.nodes)
            str(dc.answer(posterior, f"P({posterior.network.nodes[-1]})"))


def priors(variant: Variant) -> list[tuple[Any, Any]]:
    over = variant.private(0).over
    if isinstance(over, dc.designs.Design):
        return [(dc.designs.Normal(over, deviation), epsilon) for deviation, epsilon in DEVIATIONS]
    if isinstance(over, Columns):
        return [(NoPrior(over), epsilon) for _, epsilon in EXTREMES]
    return [(dc.Dirichlet.uniform(over, concentration), epsilon) for concentration, epsilon in EXTREMES]


@pytest.mark.costly("What was paid for at the limits of priors and budgets is read, of every mechanism.")
@every("name", EVERY)
def test_what_is_charged_at_the_limits_is_read(name: str) -> None:
    variant = EVERY[name]
    for prior, epsilon in priors(variant):
        account = opened()
        try:
            made = dc.release(
                variant.make(NETWORK), variant.private(40), prior, variant.promise(epsilon), account=account
            )
        except dc.InputError:
            assert not account.charges()
            continue
        assert len(account.charges()) == 1
        read(dc.Release.loads(made.dumps()))


@pytest.mark.costly("Priors at the ends of floats change answers by no more than draws tell.")
def test_small_priors_of_draws_are_read_like_less_small_ones() -> None:
    counts, flat = counts_of(NETWORK, [(0, 1, 1), (1, 2, 0), (1, 0, 0)] * 40), dc.Dirichlet.uniform(NETWORK, 1.0)
    means = []
    for concentration in (1e-5, 1e-300):
        prior = dc.Dirichlet.uniform(NETWORK, concentration)
        made = dc.simulate(dc.research.posterior_sampler(2), counts, prior, promise(2), rng=1)
        means.append(dc.noise_aware(made, draws=400, rng=2, prior=flat).mean())
    # Posteriors are the same to a part in 10^5; 400 draws tell each mean to .01 or better.
    assert all(np.abs(means[0][node] - means[1][node]).max() < 0.1 for node in NETWORK.nodes)


def test_a_large_prior_is_refused_before_a_charge() -> None:
    """Rounding would cost more than is paid."""
    counts = counts_of(NETWORK, [(0, 1, 1), (1, 2, 0)] * 20)
    for mechanism in (dc.research.posterior_sampler(), dc.research.map_estimate()):
        account = opened()
        for prior in (1e13, 6e8):  # the rows of two states or more sum to more than 1e9
            with pytest.raises(dc.InputError, match="rows sum to at most 1e\\+09"):
                dc.release(mechanism, counts, dc.Dirichlet.uniform(NETWORK, prior), promise(), account=account)
        assert not account.charges()


@pytest.mark.costly("Draws of earlier versions under priors beyond today's limits are read whole.")
def test_draws_under_a_large_prior_are_read_where_they_were_released() -> None:
    """By versions that took such priors."""
    counts = counts_of(NETWORK, [(0, 1, 1), (1, 2, 0)] * 20)
    for mechanism in (dc.research.posterior_sampler(), dc.research.map_estimate()):
        made = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(NETWORK, 1.0), promise(), rng=1)
        read(dc.Release.loads(replace(made, prior=dc.Dirichlet.uniform(NETWORK, 1e13)).dumps()))


# ------------------------------------------------------------------------------------------------------------ documents


def coin(states: int) -> dc.Network:
    return dc.Network((dc.Variable("a", tuple(map(str, range(states)))),), {"a": ()})


def many(variables: int) -> dc.Network:
    return dc.Network.empty(dc.Schema(tuple(dc.Variable(f"v{at}", ("0", "1")) for at in range(variables))))


def tables(network: dc.Network, number: int) -> list[dc.Tables]:
    rng = np.random.default_rng(3)
    return [dc.Tables(network, {"a": rng.dirichlet(np.ones(network.schema["a"].size))}) for _ in range(number)]


LIMITED = 2**16
"""Characters of a document, for tests of size."""
UNREADABLE: dict[str, tuple[dc.Network, Callable[[dc.Network], dc.tools.Mechanism], str]] = {
    "many states": (coin(states=STATES + 1), lambda _: dc.laplace(), "states of a variable"),
    "many variables": (many(9), lambda _: dc.laplace(), "9 variables are more than"),
    "many cells": (coin(states=LIMITED // 16), lambda _: dc.laplace(), "characters of the release"),
    "many draws": (coin(states=4), lambda _: dc.research.posterior_sampler(LIMITED // 64), "characters of the release"),
    "many candidates": (
        coin(states=40),
        lambda over: dc.research.map_estimate(tables(over, LIMITED // 900)), "characters of the release",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_no_document_can_hold_is_refused_before_the_charge(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, make, message = UNREADABLE[case]
    monkeypatch.setattr(limits, "VARIABLES", 8)
    if "characters" in message:
        monkeypatch.setattr(release_head, "DOCUMENT_BYTES", LIMITED)
    counts = dc.tools.count_codes(network, {node: [0, 1] for node in network.nodes})
    account = opened()
    with pytest.raises(dc.InputError, match=f"nobody could read this release.*{message}"):
        dc.release(make(network), counts, dc.Dirichlet.uniform(network), promise(50), account=account)
    assert not account.charges()


def test_a_document_that_is_near_its_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is estimated of its size is not below what it has, and not far above."""
    network = coin(states=4)
    counts = dc.tools.count_codes(network, {"a": [0, 1, 2, 3] * 9})
    made = dc.simulate(dc.research.posterior_sampler(900), counts, dc.Dirichlet.uniform(network), promise(50), rng=1)
    size = len(made.dumps())
    for limit, fits in ((2 * size, True), (size, False)):
        monkeypatch.setattr(release_head, "DOCUMENT_BYTES", limit)
        if fits:
            dc.simulate(dc.research.posterior_sampler(900), counts, made.prior, promise(50), rng=1)
        else:
            with pytest.raises(dc.InputError, match="characters of the release"):
                dc.simulate(dc.research.posterior_sampler(900), counts, made.prior, promise(50), rng=1)


@every("name", EVERY)
def test_a_payload_has_no_more_numbers_than_its_mechanism_says(name: str) -> None:
    variant = EVERY[name]
    made = dc.simulate(variant.make(NETWORK), variant.private(40), variant.prior, variant.promise(), rng=1)
    numbers = variant.make(NETWORK).numbers(made.prior.over, made.calibration)

    def count(part: Any) -> int:
        parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return sum(map(count, parts)) + (isinstance(part, int | float) and not isinstance(part, bool))

    # What is in a document of any size beside them: scales, a total, sums of a design, a table of scores (`OWN_CELLS`).
    assert count(encode(made.payload)) <= 2 * numbers + 400
    assert len(repr(-1.2345678901234567e-305)) + 2 <= release_head.NUMBER_BYTES
    assert len(str(-(2**63))) + 2 <= release_head.NUMBER_BYTES
