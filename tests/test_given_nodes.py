"""Posterior sampling of a part of a network: transitions of a Markov chain, given the state before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import discreet as dc
import shell
from discreet.research.scores.likelihood_sensitivity import log_range
from enumeration import picked_loss
from folding import every
from networks import theta_of
from tiny import all_datasets, network_of

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
STATES = ("a", "b", "c")
CHAIN = dc.Network(
    (dc.Variable("previous", STATES), dc.Variable("state", STATES)), {"previous": (), "state": ("previous",)}
)
PRIOR = dc.Dirichlet.uniform(CHAIN, 1.0)
SMALL = network_of({"a": 2, "b": 2}, "a>b")


def promise(epsilon: object = 1, relation: dc.Relation = REPLACE, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="transition")


def transitions(size: int, moves: np.ndarray, rng: np.random.Generator) -> dc.results.Counts:
    """Steps of one chain."""
    states = [int(rng.integers(3))]
    for _ in range(size):
        states.append(int(rng.choice(3, p=moves[states[-1]])))
    return dc.tools.count_codes(CHAIN, {"previous": np.array(states[:-1]), "state": np.array(states[1:])}, ())


def sampled(size: int, guarantee: dc.Guarantee, seed: int, draws: int = 1) -> tuple[np.ndarray, dc.Release]:
    """The truth, from the prior, and a release."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(3), 3)
    mechanism = dc.research.posterior_sampler(draws, given="previous")
    return moves, dc.simulate(mechanism, transitions(size, moves, rng), PRIOR, guarantee, rng=rng)


@every("relation", [ADD_REMOVE, REPLACE])
@every("given", [("a",), ("b",)])
def test_the_whole_law_keeps_the_promise(relation: dc.Relation, given: tuple[str, ...]) -> None:
    """All releases on a grid of two steps, all pairs of up to two records, and crowds of forty."""
    sets = [*all_datasets(SMALL, 2), *(((i, j),) * 40 for i in range(2) for j in range(2))]
    records = [(i, j) for i in range(2) for j in range(2)]
    if relation is ADD_REMOVE:
        pairs = [(rest, (*rest, one)) for rest in sets for one in records]
    else:
        pairs = [((*rest, one), (*rest, other)) for rest in sets for one in records for other in records]
    loss = picked_loss(dc.research.posterior_sampler(given=given), SMALL, promise(2, relation), pairs, 2)
    assert 1 < loss <= 2


def test_a_transition_costs_what_the_one_row_costs() -> None:
    """Epsilon buys the whole range for the next state; with the state before drawn as well, half of it."""
    alone, both = (
        dc.research.posterior_sampler(given=given).calibrate(CHAIN, PRIOR, promise(6)) for given in (["previous"], ())
    )
    ranges = [log_range(3, found.floors["state"]) * found.temper for found in (alone, both)]  # type: ignore[union-attr]
    assert abs(ranges[0] - 3) < 1e-3 and abs(ranges[1] - 1.5) < 1e-3
    assert alone.floors["previous"] == 1 / 3  # type: ignore[union-attr]


def test_the_release_says_nothing_of_what_is_given() -> None:
    _, one = sampled(300, promise(3), 1)
    _, other = sampled(5, promise(3), 2)
    for release in (one, other):
        payload = release.payload
        assert isinstance(payload, dc.research.ParameterDraws)
        assert payload.untold == ("previous",) and np.all(payload.cells["previous"] == 1 / 3)
        assert not np.all(payload.cells["state"] == payload.cells["state"][0, 0, 0])
        assert "nothing of previous" in payload.summary(release.calibration)
        assert dc.tools.loads(release.dumps()).payload.untold == ("previous",)  # type: ignore[union-attr]


@pytest.mark.costly("A prior's mean is known to a hundredth from thousands of draws only.")
@every("reader", ["noise_aware", "plug_in"])
def test_readers_keep_to_the_prior_of_what_is_given(reader: str) -> None:
    """Means of 4,000 prior draws, standard deviation .004 each: eight of them, false alarm below 1e-13."""
    _, release = sampled(2000, promise(3), 3)
    prior = dc.Dirichlet(dc.Tables(CHAIN, {"previous": np.array([8.0, 1.0, 1.0]), "state": np.ones((3, 3))}))
    draws, rng = 4000, np.random.default_rng(4)
    read = dc.noise_aware if reader == "noise_aware" else dc.tools.plug_in
    posterior = read(release, draws=draws, rng=rng, prior=prior)
    assert np.all(np.abs(posterior.mean()["previous"] - [0.8, 0.1, 0.1]) < 0.04)


def test_answers_say_which_part_is_prior_only() -> None:
    _, release = sampled(500, promise(3), 5)
    posterior = dc.noise_aware(release, draws=200, rng=np.random.default_rng(1), prior=release.prior)
    asked = ("P(state | previous=a)", "P(state)", "P(previous)")
    told = {question: dc.answer(posterior, question, level=0.9) for question in asked}
    assert told["P(state | previous=a)"].prior_only == ()
    assert told["P(state)"].prior_only == told["P(previous)"].prior_only == (("previous",),)
    assert told["P(state)"].basis == "prior"


@pytest.mark.parametrize(
    ("relation", "epsilon"),
    [
        pytest.param(
            ADD_REMOVE, 6, marks=pytest.mark.costly("Whether intervals of transitions hold shows in many runs.")
        ),
        pytest.param(REPLACE, 1, marks=pytest.mark.thorough),
    ],
)
def test_transitions_are_covered(relation: dc.Relation, epsilon: int) -> None:
    """Of twelve chains 108 probabilities, truths from the prior, seeds fixed.

    Fewer than two thirds at a level of 95 % are one in a hundred million, even if a row is known as one:
    Binomial(36, .95) below 24.
    """
    held = []
    for seed in range(12):
        truth, release = sampled(200, promise(epsilon, relation), 100 + seed)
        posterior = dc.noise_aware(release, draws=400, rng=np.random.default_rng(seed), prior=PRIOR)
        low, high = np.quantile(posterior.probabilities["state"], [0.025, 0.975], axis=-1)
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(held) > 2 / 3


@pytest.mark.costly("A part of a network of eight nodes is read, as no quicker test of what is given does.")
def test_a_part_of_a_larger_network_is_read_as_exactly_as_the_whole() -> None:
    """Asia given its roots: other nodes are drawn, and their parents' laws are not needed for their rows."""
    network = theta_of("asia").network
    roots = [node for node in network.nodes if not network.parents[node]]
    rng = np.random.default_rng(1)
    records = dc.tools.count_codes(network, {node: rng.integers(0, 2, 400) for node in network.nodes}, ())
    mechanism = dc.research.posterior_sampler(given=roots)
    release = dc.simulate(mechanism, records, dc.Dirichlet.uniform(network, 1.0), promise(8), rng=rng)
    assert set(release.payload.untold) == set(roots)  # type: ignore[union-attr]
    posterior = dc.noise_aware(release, draws=100, rng=rng, prior=release.prior)
    assert all(np.all(np.isfinite(posterior.probabilities[node])) for node in network.nodes)


WRONG = {
    "an unknown node": ({"given": "nobody"}, promise(1), "no node 'nobody'"),
    "every node": ({"given": "previous, state"}, promise(1), "nothing to draw"),
    "a delta": ({"given": ["previous"]}, promise(1, REPLACE, "1e-6"), "leave out floor, temper and given"),
}


@every("name", WRONG)
def test_what_cannot_be_given_is_refused(name: str) -> None:
    options, guarantee, message = WRONG[name]
    with pytest.raises(dc.InputError, match=message):
        dc.research.posterior_sampler(**options).calibrate(CHAIN, PRIOR, guarantee)  # type: ignore[arg-type]


@pytest.mark.costly("What is given of a chain is said by every command on the way from records to answers.")
def test_a_chain_from_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    parts = [{"name": name, "states": list(STATES)} for name in ("previous", "state")]
    Path("variables.json").write_text(json.dumps({"variables": parts}), encoding="utf-8")
    Path("arcs.txt").write_text("previous -> state", encoding="utf-8")
    rng = np.random.default_rng(2)
    pd.DataFrame({name: rng.choice(STATES, 300) for name in ("previous", "state")}).to_csv("steps.csv", index=False)
    command = (
        "release steps.csv --network arcs.txt --schema variables.json --account replace --epsilon 2 "
        "--mechanism posterior_sampler --option given=previous --output chain-release.json"
    )
    run.json(command)
    told = [run.json(f'query chain-release.json "{question}"') for question in ("P(state | previous=a)", "P(state)")]
    marks = [part["answers"][0]["prior_only"] for part in told]
    assert marks == [[], [["previous"]]]
    for rest in ("sample chain-release.json -n 5 --output s.csv", "export chain-release.json --output s.bif"):
        code, _, err = run(rest)
        assert code == 0 and "not measured, prior only: previous" in err
    _, explained, _ = run('explain chain-release.json "P(state)"')
    assert "P(state): not measured, prior only: previous" in explained
    run.json(command.replace("chain-release", "again").replace("epsilon 2", "epsilon 1"))
    assert run("combine chain-release.json again.json --data same --output both.json")[0] == 0
