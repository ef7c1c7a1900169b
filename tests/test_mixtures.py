"""Quantities of numbers given any evidence of the language: by hand in every draw, and exact without noise."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from folding import every

SMOKE = dc.Variable("smoke", ("yes", "former", "no"))
ILL = dc.Variable("ill", ("yes", "no"))
AGE = dc.Variable("age", bounds=(0, 100), bins=(30, 45, 60, 75), type="real")
WEIGHT = dc.Variable("weight", bounds=(0, 120), bins=(30, 45, 60), type="real")
NETWORK = dc.Network(
    (SMOKE, ILL, AGE, WEIGHT), {"smoke": (), "ill": ("smoke",), "age": ("smoke", "ill"), "weight": ("age", "smoke")}
)
POSTERIOR = dc.results.PosteriorDraws(dc.Dirichlet.uniform(NETWORK).draw(40, rng=7))
LIKELIHOODS = {"yes": 4.0, "former": 1.0, "no": 0.0}


def draws(text: str) -> np.ndarray:
    """The first row of an answer in every draw."""
    return POSTERIOR.answer(text).draws[0]


def cells(evidence: str) -> dict[str, np.ndarray]:
    """Joint states of the event's variables, as evidence, with their weights in every draw."""
    if evidence == "do(ill=yes)":  # the truncated factorisation: P(smoke) where ill is yes
        return {f"smoke={smoke}, ill=yes": draws(f"P(smoke={smoke})") for smoke in SMOKE.states}
    if evidence.startswith("smoke ~"):
        return {f"smoke={smoke}": LIKELIHOODS[smoke] * draws(f"P(smoke={smoke})") for smoke in ("yes", "former")}
    if evidence.startswith("smoke in"):
        return {f"smoke={smoke}": draws(f"P(smoke={smoke})") for smoke in ("yes", "former")}
    states = [(smoke, ill) for smoke, ill in product(SMOKE.states, ILL.states) if smoke == "yes" or ill == "yes"]
    return {f"smoke={smoke}, ill={ill}": draws(f"P(smoke={smoke}, ill={ill})") for smoke, ill in states}


EVENTS = ("smoke=yes or ill=yes", "not (not smoke=yes and ill=no)", "smoke in {yes, former}",
          "smoke ~ {yes: 4, former: 1}", "do(ill=yes)")  # fmt: skip


@every("evidence", EVENTS)
def test_moments_given_an_event_are_those_of_the_mixture(evidence: str) -> None:
    states = cells(evidence)
    weights = np.stack(list(states.values()))
    weights = weights / weights.sum(axis=0)
    means, variances = (np.stack([draws(f"{head}(weight | {state})") for state in states]) for head in ("E", "var"))
    mean = (weights * means).sum(axis=0)
    variance = (weights * (variances + means**2)).sum(axis=0) - mean**2
    assert np.allclose(draws(f"E(weight | {evidence})"), mean)
    assert np.allclose(draws(f"var(weight | {evidence})"), variance)
    assert np.allclose(draws(f"sd(weight | {evidence})"), np.sqrt(variance))


@every("evidence", EVENTS)
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_given_an_event_is_that_of_the_mixture(evidence: str, level: float) -> None:
    """The share of the mixture's numbers below the quantile, added up over the states in one draw, is its level."""
    numbers = draws(f"quantile(weight, {level} | {evidence})")
    states = cells(evidence)
    for at in (0, 39):
        parts = [weights[at] for weights in states.values()]
        below = [draws(f"P(weight < {float(numbers[at])!r} | {state})")[at] for state in states]
        assert np.dot(parts, below) / sum(parts) == pytest.approx(level, abs=1e-9)


@every("head", ["E(age", "sd(age", "var(age", "quantile(age, 0.3", "median(age"])
def test_an_event_of_one_state_is_the_state(head: str) -> None:
    plain, event = (POSTERIOR.answer(f"{head} | ill=yes, {text})") for text in ("smoke=yes", "smoke in {yes}"))
    assert np.allclose(plain.draws, event.draws, rtol=1e-9)
    assert plain.unit == event.unit
    assert plain.rows[0]["lower"] >= event.rows[0]["lower"] - 1e-9
    assert plain.rows[0]["upper"] <= event.rows[0]["upper"] + 1e-9


def test_every_law_inside_the_bins_lies_between_the_ends() -> None:
    """All records at the lower ends of their bins, or at the upper ones, or half at each: numbers within the ends."""
    weights = np.stack(list(cells(EVENTS[0]).values()))
    bins = np.stack([POSTERIOR.answer(f"P(age | {state})").draws for state in cells(EVENTS[0])])
    shares = np.einsum("sd,sbd->bd", weights / weights.sum(axis=0), bins)
    edges = np.array(AGE.edges)
    for low_part in (0.0, 0.5, 1.0):
        places = np.concatenate([edges[:-1], edges[1:]])
        law = np.concatenate([low_part * shares, (1 - low_part) * shares])
        mean = places @ law
        order = np.argsort(places, kind="stable")
        reached = np.argmax(np.cumsum(law[order], axis=0) >= 0.5 - 1e-12, axis=0)
        numbers = {"E(age": mean, "var(age": (places[:, None] - mean) ** 2, "median(age": places[order][reached]}
        numbers["var(age"] = (numbers["var(age"] * law).sum(axis=0)
        for head, values in numbers.items():
            drawn = POSTERIOR.answer(f"{head} | {EVENTS[0]})").drawn
            assert drawn is not None
            assert drawn.ends is not None
            assert np.all(drawn.ends[0][0] <= values + 1e-9)
            assert np.all(values <= drawn.ends[1][0] + 1e-9)


@cache
def population() -> dict[str, np.ndarray]:
    """60,000 records whose numbers depend on each other and on states."""
    rng, size = np.random.default_rng(4), 60_000
    smoke = rng.choice(SMOKE.states, size, p=[0.3, 0.3, 0.4])
    ill = np.where(rng.random(size) < np.where(smoke == "yes", 0.6, 0.2), "yes", "no")
    age = np.clip(rng.normal(50, 15, size) + 8 * (ill == "yes"), 0, 99)
    heavy = np.clip(0.5 * age + 10 * (smoke == "yes") + rng.normal(20, 8, size), 0, 119)
    return {"smoke": smoke, "ill": ill, "age": age, "weight": heavy}


@cache
def without_noise() -> dc.results.PosteriorDraws:
    """A posterior of these records at epsilon 1000."""
    counts = dc.count(dc.read_records(pa.table(population()), NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=1000, delta=0, relation="add-remove", unit="person")
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=1).posterior(rng=2)


@pytest.mark.costly("Every quantity by every kind of evidence, beside the records.")
def test_quantities_without_noise_are_those_of_the_records() -> None:
    smoke, ill, age, heavy = population().values()
    event, likelihood = (smoke == "yes") | (ill == "yes"), np.vectorize(LIKELIHOODS.get)(smoke)
    either = "smoke=yes or ill=yes"
    cases = {
        f"E(age | {either})": (age[event].mean(), 0.2),
        f"sd(age | {either})": (age[event].std(), 0.4),
        f"median(age | {either})": (np.median(age[event]), 0.5),
        f"quantile(age, 0.9 | {either})": (np.quantile(age[event], 0.9), 0.7),
        f"cor(age, weight | {either})": (np.corrcoef(age[event], heavy[event])[0, 1], 0.03),
        "cor(age, weight | not smoke=no)": (np.corrcoef(age[smoke != "no"], heavy[smoke != "no"])[0, 1], 0.02),
        "E(weight | smoke ~ {yes: 4, former: 1})": (np.average(heavy, weights=likelihood), 0.2),
        "sd(weight | smoke ~ {yes: 4, former: 1})": (np.sqrt(np.cov(heavy, aweights=likelihood)), 0.4),
        "E(age | do(ill=yes))": (
            sum(age[(smoke == each) & (ill == "yes")].mean() * (smoke == each).mean() for each in SMOKE.states), 0.3,
        ),
        "sd(age | weight > 52 or ill=yes)": (age[(heavy > 52) | (ill == "yes")].std(), 0.4),
        "median(age | weight > 52, smoke=yes or ill=yes)": (np.median(age[event & (heavy > 52)]), 1.0),
    }  # fmt: skip
    for text, (truth, error) in cases.items():
        row = without_noise().answer(text).rows[0]
        assert row["mean"] == pytest.approx(truth, abs=error), text
        assert row["lower"] <= truth <= row["upper"], text


@pytest.mark.costly("Many draws of correlations in each range.")
def test_a_correlation_given_a_range_is_that_of_its_bins() -> None:
    """Covariances are known given states; a range that ends at the edges of bins is an event of these."""
    network = dc.Network((*NETWORK.variables, dc.Variable("dose", bounds=(0, 10), bins=(2, 5, 8), type="real")),
                         {**NETWORK.parents, "dose": ("age",)})  # fmt: skip
    columns = population()
    dose = np.clip(columns["age"] / 10 + np.random.default_rng(3).normal(0, 1.5, 60_000), 0, 9.99)
    counts = dc.count(dc.read_records(pa.table({**columns, "dose": dose}), network.schema), network)
    promise = dc.Guarantee(epsilon=1000, delta=0, relation="add-remove", unit="person")
    posterior = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1).posterior(rng=2)
    answer = posterior.answer("cor(age, weight | dose >= 5)")
    assert answer.query == "cor(age, weight | dose >= 5)"
    truth = np.corrcoef(columns["age"][dose >= 5], columns["weight"][dose >= 5])[0, 1]
    assert answer.rows[0]["mean"] == pytest.approx(truth, abs=0.08)
    with pytest.raises(dc.InputError, match="at 1, correlations take comparisons at the edges of bins only"):
        posterior.answer("cor(age, weight | dose >= 6)")


@every(
    ("text", "most"),
    [
        ("P(weight < 45 | age > 80)", 1),
        ("E(weight | age > 80)", 120),
        ("median(weight | age > 80)", 120),
        ("sd(weight | age > 80)", 60),
    ],
)
def test_evidence_that_no_record_need_have_leaves_an_interval(text: str, most: float) -> None:
    """Of those of 75 to 100 all may be 80 at most: then nothing is known of those above, and numbers are anywhere."""
    (row,) = POSTERIOR.answer(text).rows
    assert row["lower"] == pytest.approx(0, abs=1e-9)
    assert most - 1e-9 <= row["upper"] <= most + 1


@every(
    ("text", "reason"),
    [
        ("sd(age | age > 40, ill=yes or smoke=no)", "at 1, 'age' is asked, and part of the evidence"),
        ("median(age | age ~ {0_to_30: 1})", "at 1, 'age' is asked, and part of the evidence"),
        ("quantile(age, 2 | ill=yes or smoke=no)", "at 15, the share of a quantile is a number between 0 and 1"),
        ("quantile(age | ill=yes or smoke=no)", r"at 1, write quantile\(X, 0.9 \| ...\)"),
        ("cor(age | ill=yes or smoke=no)", r"at 1, write cor\(X, Z \| ...\) for two numeric variables"),
        ("sd(smoke | not ill=yes)", "at 1, 'smoke' has no numeric bounds"),
        ("sd(age | do(weight=0_to_30))", "at 1, no arrow of the network leads from 'weight' to 'age'"),
    ],
)
def test_what_is_no_quantity_is_refused_at_its_place(text: str, reason: str) -> None:
    with pytest.raises(dc.InputError, match=reason):
        POSTERIOR.answer(text)
