"""Explanations: rows and entries against brute force, shares against known errors, bounds against simulated noise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import discreet as dc
from design_releases import PUBLISHED, committed
from discreet.model.query_grammar import Probability, parse_query
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.queries.row_shares import Dependence, dependence, row_effects
from discreet.reporting import explain as explaining
from discreet.reporting.explanation import InferenceLimits
from discreet.research.scores.families import Family
from experiments.corrected_bounds import dirichlet_kl
from folding import every
from oracle import conditional, random_draws, small, with_draws
from releases import simulated_counts
from shell import opened
from test_documents import KINDS, release
from tiny import counts_of

NETWORK = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("a", "b")), ("d", 2, ("b",)))
QUERIES: list[tuple[list[str], dict[str, int]]] = [
    (["c"], {}),
    (["a"], {"c": 1}),
    (["a", "d"], {"c": 0}),
    (["d"], {"a": 1}),
]


def theta_of(seed: int) -> dc.Tables:
    """Probabilities of all rows."""
    return dc.Tables(NETWORK, {node: table[..., 0] for node, table in random_draws(NETWORK, 1, seed).items()})


def asked(theta: dc.Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> np.ndarray:
    """The answer by the joint of all variables."""
    return np.asarray(conditional(with_draws(theta), targets, evidence)[..., 0])


def replaced(theta: dc.Tables, node: str, row: tuple[int, ...], values: np.ndarray) -> dc.Tables:
    """The tables with another row."""
    tables = {name: np.array(table) for name, table in theta.items()}
    tables[node][row] = values
    return dc.Tables(theta.network, tables)


# ------------------------------------------------------------------------------------------------------- one row


@every(("targets", "evidence"), QUERIES)
def test_a_changed_entry_moves_the_answer_as_brute_force_says(targets: list[str], evidence: dict[str, int]) -> None:
    """Any change, however large; and Laskey's derivative is the limit of small ones."""
    theta = theta_of(3)
    effects = row_effects(theta, targets, evidence)
    np.testing.assert_allclose(effects.value, asked(theta, targets, evidence), atol=1e-12)
    for node in NETWORK.nodes:
        gradient = effects.gradient(node)
        for cell in product(*map(range, NETWORK.shape(node))):
            row, now = theta[node][cell[:-1]], theta[node][cell]

            def answer(x: float, cell: tuple[int, ...] = cell, row: np.ndarray = row, node: str = node) -> np.ndarray:
                kept = row * (1 - x) / (1 - row[cell[-1]])
                kept[cell[-1]] = x
                return asked(replaced(theta, node, cell[:-1], kept), targets, evidence)

            slope = (answer(now + 1e-6) - answer(now - 1e-6)) / 2e-6
            np.testing.assert_allclose(gradient[cell] / (1 - now), slope, atol=1e-7)
            if node not in effects.weights:
                np.testing.assert_allclose(answer(0.9), effects.value, atol=1e-12)
                continue
            for x in (0.0, 0.3, 1.0):
                found = effects.moved(node, cell, (x - now) / (1 - now))
                np.testing.assert_allclose(found, answer(x), atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_change_that_rules_the_evidence_out_leaves_the_answer() -> None:
    """As every smaller change does: a certain cell that does not allow it, and the only one that does, emptied."""
    network = small(("a", 2, ()), ("b", 2, ("a",)))
    theta = dc.Tables(network, {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.25, 0.75]]})
    effects = row_effects(theta, ["a"], {"b": 1})
    np.testing.assert_allclose(effects.value, [0.0, 1.0])
    for cell, share in (((0,), 1.0), ((1,), -1.0)):
        np.testing.assert_array_equal(effects.moved("a", cell, share), effects.value)
    everywhere = effects.moved("a", ..., np.array([1.0]))
    np.testing.assert_array_equal(everywhere, [effects.value, effects.value])


def test_all_cells_at_once_are_each_by_itself() -> None:
    theta = theta_of(4)
    effects = row_effects(theta, ["a"], {"c": 1})
    shares = np.random.default_rng(0).uniform(0, 0.5, (*NETWORK.shape("c")[:-1], 1))
    every_cell = effects.moved("c", ..., shares)
    for cell in product(*map(range, NETWORK.shape("c"))):
        np.testing.assert_array_equal(every_cell[cell], effects.moved("c", cell, float(shares[(*cell[:-1], 0)])))


# ------------------------------------------------------------------------------------------------------- shares


def noisy_draws(draws: int, *, noise: float, replicates: bool = True, worth: float = 3000.0) -> PosteriorDraws:
    """Rows with Dirichlet errors of known size: a part `noise` of their variance is shared with the replicates."""
    rng, theta = np.random.default_rng(6), theta_of(5)

    def errors(shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = {}
        for node, table in theta.items():
            own = rng.standard_normal((*table.shape, draws))
            mixed = math.sqrt(noise) * shared[node] + math.sqrt(1 - noise) * own
            moved = table[..., None] + mixed * np.sqrt(table * (1 - table) / worth)[..., None]
            found[node] = np.clip(moved, 0, None) / np.clip(moved, 0, None).sum(axis=-2, keepdims=True)
        return found

    shared = {node: rng.standard_normal((*table.shape, draws)) for node, table in theta.items()}
    cells, again = (dc.Tables(NETWORK, errors(shared), draws=draws) for _ in range(2))
    return PosteriorDraws(cells, "pooled", again if replicates else None)


def taken_apart(posterior: PosteriorDraws, text: str, rows: int = 100) -> Dependence:
    query = parse_query(text, NETWORK.schema)
    assert isinstance(query, Probability)
    return dependence(posterior, query, level=0.95, rows=rows)


@every(("text", "noise"), [("P(c=s0)", 0.3), ("P(a=s1 | c=s1)", 0.8), ("P(d | a=s1)", 0.0)])
def test_shares_are_those_of_rows_that_err_alone(text: str, noise: float) -> None:
    """Each row's variance is that of the answer where the other rows stay at their means, by brute force.

    4,000 draws: covariances err by 1.6 % of the whole, seven of which are allowed.
    """
    posterior = noisy_draws(4000, noise=noise)
    found = taken_apart(posterior, text)
    query = parse_query(text, NETWORK.schema)
    targets = [name for name, _ in query.targets]
    evidence = {name: NETWORK.schema[name].code(state) for name, state in query.evidence}
    kept = tuple(0 if state == "s0" else 1 if state == "s1" else slice(None) for _, state in query.targets)
    mean = posterior.mean()

    def variance(moving: Mapping[str, np.ndarray]) -> float:
        tables = {node: np.repeat(table[..., None], 4000, axis=-1) for node, table in mean.items()} | dict(moving)
        answers = np.asarray(conditional(dc.Tables(NETWORK, tables, draws=4000), targets, evidence)[kept])
        return float(answers.var(axis=-1).sum())

    whole = variance(posterior.probabilities)
    assert found.explained > 0.97
    assert found.noise == pytest.approx(noise, abs=0.11)
    assert sum(found.tables.values()) == pytest.approx(1, abs=1e-9)
    for row in found.rows:
        place = tuple(NETWORK.schema[name].code(state) for name, state in row.given.items())
        alone = np.repeat(mean[row.node][..., None], 4000, axis=-1)
        alone[place] = posterior.probabilities[row.node][place]
        assert row.variance == pytest.approx(variance({row.node: alone}) / whole, abs=0.11)
        assert row.noise == pytest.approx(noise * row.variance, abs=0.11)
    for node, part in found.tables.items():
        inside = math.fsum(row.variance for row in found.rows if row.node == node)
        assert part == pytest.approx(inside, abs=1e-4)


def test_without_replicates_nobody_knows_what_is_noise() -> None:
    found = taken_apart(noisy_draws(500, noise=0.5, replicates=False), "P(c=s0)")
    assert found.noise is None and all(row.noise is None for row in found.rows)


def test_entries_and_the_record_that_moves_most_are_those_of_brute_force() -> None:
    """Rows are Dirichlet draws of a known sum, so one record more is `(A theta + e) / (A + 1)`; 20,000 draws."""
    rng, theta, worth = np.random.default_rng(7), theta_of(8), 200.0
    tables = {
        node: np.moveaxis(np.apply_along_axis(lambda row: rng.dirichlet(worth * row, 20_000), -1, table), -2, -1)
        for node, table in theta.items()
    }
    posterior = PosteriorDraws(dc.Tables(NETWORK, tables, draws=20_000))
    found = taken_apart(posterior, "P(a=s1 | c=s1, d=s0)", rows=3)
    mean, evidence = posterior.mean(), {"c": 1, "d": 0}
    reached = {}
    for node in NETWORK.nodes:
        for cell in product(*map(range, NETWORK.shape(node))):
            row = worth * mean[node][cell[:-1]]
            row[cell[-1]] += 1
            more = replaced(mean, node, cell[:-1], row / (worth + 1))
            reached[node, cell] = float(asked(more, ["a"], evidence)[1])
    before = float(asked(mean, ["a"], evidence)[1])
    best = max(reached, key=lambda key: abs(reached[key] - before))
    assert found.record is not None
    node, cell = best
    assert (found.record.node, found.record.state) == (node, NETWORK.schema[node].states[cell[-1]])
    assert found.record.before == pytest.approx(before)
    # The sum of a row is read from its variance: to 3 % here, ten times its standard error.
    assert found.record.after - before == pytest.approx(reached[best] - before, rel=0.1)
    assert len(found.rows) == 3
    for share in found.rows:
        place = tuple(NETWORK.schema[name].code(state) for name, state in share.given.items())
        code = NETWORK.schema[share.node].code(share.state)
        lower, upper = dc.tools.credible_interval(posterior.probabilities[share.node][(*place, code)], 0.95)
        row = mean[share.node][place]
        for end, value in ((lower, share.low), (upper, share.high)):
            kept = row * (1 - end) / (1 - row[code])
            kept[code] = end
            assert value == pytest.approx(float(asked(replaced(mean, share.node, place, kept), ["a"], evidence)[1]))


# --------------------------------------------------------------------------------------------- bounds for a release


MADE = {
    "laplace": (lambda: dc.laplace(), "add-remove", "0"),
    "laplace, replaced": (lambda: dc.laplace(), "replace", "0"),
    "planned": (lambda: dc.planned(pairs_share=0), "add-remove", "0"),
    "fourier": (lambda: dc.research.fourier(), "replace", "0"),
    "gaussian": (lambda: dc.gaussian(), "add-remove", "1e-5"),
}


@pytest.mark.costly("How often a limit is exceeded shows in many releases, not in one.")
@every("kind", list(MADE))
def test_the_divergence_limit_is_exceeded_less_often_than_it_says(kind: str) -> None:
    """80 data sets and releases each; a limit that fails with a probability of .05 fails 18 times once in 1.5e7."""
    make, relation, delta = MADE[kind]
    promise = dc.Guarantee(epsilon=1, delta=delta, relation=relation, unit="record")
    theta, rng = theta_of(9), np.random.default_rng(10)
    prior = dc.Dirichlet.uniform(NETWORK, 1.0)
    exceeded, close = 0, 0.0
    for _ in range(80):
        counts = simulated_counts(theta, 600, rng)
        made = dc.simulate(make(), counts, prior, promise, rng=rng)
        limit = explaining._describe_divergence(made)
        assert limit.limit is not None
        margins = pooled_margins(NETWORK, made.payload.measurements, made.records)
        most = 600 if relation == "replace" else np.inf
        actual = 0.0
        for node in NETWORK.nodes:
            table = np.clip(margins.table(NETWORK.family(node)), 0, most)
            actual += float(dirichlet_kl(table + 1.0, counts.tables[node] + 1.0).sum())
        exceeded += actual > limit.limit
        close = max(close, actual / limit.limit)
    assert exceeded < 18
    assert close > 0.05  # a limit that is never within twenty times would say nothing


def test_the_expected_divergence_is_that_of_simulated_releases() -> None:
    """400 releases of one set of 100,000 records, all rows far above the noise; the mean is known to about 5 %."""
    theta, rng = theta_of(9), np.random.default_rng(11)
    theta = theta.map(lambda table: (table + 0.3) / (table + 0.3).sum(axis=-1, keepdims=True))
    counts, prior = simulated_counts(theta, 100_000, rng), dc.Dirichlet.uniform(NETWORK, 1.0)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    seen, told = [], []
    for _ in range(400):
        made = dc.simulate(dc.laplace(), counts, prior, promise, rng=rng)
        found = explaining._describe_divergence(made)
        assert found.large == found.rows == 12
        margins = pooled_margins(NETWORK, made.payload.measurements, made.records)
        tables = {node: margins.table(NETWORK.family(node)) + 1.0 for node in NETWORK.nodes}
        seen.append(sum(float(dirichlet_kl(tables[node], counts.tables[node] + 1.0).sum()) for node in NETWORK.nodes))
        told.append(found.expected)
    assert np.mean(told) == pytest.approx(np.mean(seen), rel=0.2)


# ------------------------------------------------------------------------------------------------------ all kinds


SLOW = {"sampler", "map"}
"""Of these one relation, that of the other test, is enough: particles take seconds."""


@pytest.mark.costly("Each kind of release has words of its own, under each relation.")
@every(("kind", "relation"), [(kind, r) for kind in KINDS for r in list(dc.Relation)[:2] if kind not in SLOW])
def test_every_kind_of_release_is_explained(kind: str, relation: dc.Relation) -> None:
    made = release(kind, relation)
    first, second, *_ = made.network.schema
    queries = [f"P({second.name} | {first.name}={first.states[0]})", f"MAP({first.name})"]
    found = dc.explain(made, queries, rng=np.random.default_rng(1), draws=20)
    promise, telling = found.promise, found.telling
    assert promise.presence == (2.0 if relation is dc.Relation.ADD_REMOVE else None)
    if promise.delta * (1 + math.exp(2)) >= 1 and relation is dc.Relation.ADD_REMOVE:
        assert promise.value is None and "its values: nothing is promised" in str(found)
    else:
        assert promise.value == (4.0 if relation is dc.Relation.ADD_REMOVE else 2.0)
    assert telling.distance >= math.tanh(1) and telling.units >= 1
    assert found.divergence is not None and found.divergence.record > 0
    text = str(found)
    assert "MAP(a): only probabilities" in text
    assert json.loads(json.dumps(found.document()))["promise"]["unit"] == "record"
    if kind in ("choice", "sampled") and not found.dependences:
        assert "no answers" in text
        return
    assert found.dependences[0].query == queries[0]
    assert "depends on" in text and "prior of rows Dirichlet(1)" in text


def test_an_explanation_follows_from_the_document_alone() -> None:
    made = release("planned")
    read = dc.Release.loads(made.dumps())
    one, other = (dc.explain(part, "P(b | a=s0)", rng=np.random.default_rng(1), draws=100) for part in (made, read))
    assert str(one) == str(other) and one.document() == other.document()


def test_draws_of_a_posterior_tell_less_than_their_epsilon() -> None:
    found = dc.explain(release("sampler"), rng=np.random.default_rng(1))
    assert found.telling.draws == 2 and found.telling.draws_distance == pytest.approx(
        1 - (1 - math.tanh(1.9 / 4)) * (1 - math.tanh(0.1 / 2))
    )
    assert found.divergence is not None and found.divergence.trimmed and found.divergence.record < 0.13
    assert "2 posterior draws together" in str(found)
    public = dc.explain(release("sampler", dc.Relation.REPLACE), rng=np.random.default_rng(1)).telling
    assert public.draws_distance == pytest.approx(math.tanh(0.5))


def test_draws_of_a_family_move_by_no_more_than_enumeration_says() -> None:
    """A coin's posterior on its grid, for every number of ones among up to 30 records."""
    coin = Family("bernoulli", (dc.Variable("x", ("no", "yes")),), {"floor": 0.1})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    counts = counts_of(coin.network, [(0,), (1,)])
    prior = dc.Dirichlet.uniform(coin.network)
    made = dc.simulate(dc.research.sampled(coin), counts, prior, promise, rng=np.random.default_rng(2))
    found = dc.explain(made, rng=np.random.default_rng(1)).divergence
    assert found is not None and found.trimmed
    table, most = coin.table, 0.0
    for n in (1, 5, 30):
        scores = [table.steps[0] * (n - k) + table.steps[1] * k for k in range(n + 1)]
        laws = [softmax(table.base + made.payload.rate * score / 2**20) for score in scores]
        pairs = [*pairwise(laws), *pairwise(laws[::-1])]
        most = max(most, *(float(np.sum(p * np.log(p / q))) for p, q in pairs))
    assert 0.2 * found.record < most <= found.record


@every("name", sorted(PUBLISHED))
def test_releases_over_designs_have_the_first_two_parts(name: str) -> None:
    made = dc.Release.loads(committed(name))
    found = dc.explain(made, ["P(x)"], rng=np.random.default_rng(1))
    assert found.divergence is None and not found.dependences and "over a design" in found.notes[0]
    power, delta = math.exp(made.guarantee.epsilon), float(made.guarantee.delta)
    assert found.telling.distance == pytest.approx((power - 1 + 2 * delta) / (power + 1))


def test_numbers_of_a_promise() -> None:
    """Epsilon 1, by hand: odds 1 : 99 times e is 2.67 %, times e^2 is 6.95 %."""
    promise = dc.Guarantee(epsilon=1, delta="1e-6", relation="add-remove", unit="patient")
    prior = dc.Dirichlet.uniform(NETWORK)
    counts = simulated_counts(theta_of(1), 50, np.random.default_rng(2))
    made = dc.simulate(dc.gaussian(), counts, prior, promise, rng=np.random.default_rng(3))
    found = dc.explain(made, rng=np.random.default_rng(4))
    rare = found.promise.beliefs[0.01]
    assert rare == pytest.approx((math.e / (math.e + 99), math.e**2 / (math.e**2 + 99)))
    assert found.promise.value_delta == pytest.approx(1e-6 * (1 + math.e))
    assert found.telling.necessary is None
    text = str(found)
    assert "learned of one patient" in text and "differ in one patient" in text and "2.7 %" in text
    assert "anything may be told" in text and "simulation" in text


def test_what_cannot_be_explained_is_refused_or_said() -> None:
    made, rng = release("laplace"), np.random.default_rng(0)
    for wrong in ({"draws": 0}, {"rows": 0}, {"level": 1.0}):
        with pytest.raises(dc.InputError):
            dc.explain(made, rng=rng, **wrong)
    with pytest.raises(dc.InputError, match="no variable"):
        dc.explain(made, "P(nothing)", rng=rng)
    with pytest.raises(dc.InputError, match="a release or combined releases were expected, not PosteriorDraws"):
        dc.explain(made.posterior(draws=50, rng=rng))  # type: ignore[call-overload]
    found = dc.explain(made, "P(d)", rng=rng, draws=50)
    assert not found.dependences and "no draw of the tables moves this answer" in found.notes[0]


def test_a_prior_that_cannot_be_drawn_under_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others keep their answers."""
    drawn = dc.noise_aware

    def refused(*given: object, prior: dc.Dirichlet | None = None, **options: object) -> object:
        if prior is not None and prior.alpha["a"][0] == 1:
            raise dc.InputError("too flat")
        return drawn(*given, prior=prior, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(explaining, "noise_aware", refused)
    found = dc.explain(release("laplace"), "P(b)", rng=1, draws=50)
    assert "Dirichlet(0.25)" in {part.prior for part in found.priors} and found.dependences
    assert found.notes == ("no answers under Dirichlet(1): too flat",)


def test_without_a_whole_family_no_counts_are_taken_for_exact() -> None:
    """The root has a single state, so that it tells nothing, and its child is measured by itself."""
    network = small(("a", 1, ()), ("b", 2, ("a",)))
    scopes, codes = [("a",), ("b",)], {"a": np.zeros(100, int), "b": np.arange(100) % 2}
    shares, whole = {("a",): Fraction(1, 2), ("b",): Fraction(1, 2)}, Fraction(1)
    scales = dict.fromkeys("ab", 1.0)
    noise = dc.kinds.PlannedNoise("discrete_laplace", 1, shares, dict.fromkeys(shares, 2.0), whole, scales)
    planned = dc.tools.Mechanism("planned", lambda *_given: noise, dc.planned(pairs_share=0).draw)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    counts = dc.tools.count_codes(network, codes, scopes)
    made = dc.simulate(planned, counts, dc.Dirichlet.uniform(network), promise, rng=1)
    found = dc.explain(made)
    assert found.divergence is not None and found.divergence.limit is None
    text = str(found)
    assert "no counts were released" in text and "not measured as a whole, and not counted: b" in text


# ------------------------------------------------------------------------------------------------------- the shell


def test_releases_of_the_same_records_reveal_what_their_guarantees_add_up_to(tmp_path: Path) -> None:
    """The belief of a record's presence after both is that of the sum of their epsilons, .5 and 1.5."""
    coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    counts, prior = counts_of(coin, [(0,), (1,), (1,)]), dc.Dirichlet.uniform(coin)
    promises = [dc.Guarantee(epsilon=e, delta=0, relation="add-remove", unit="record") for e in ("2", "0.5", "1.5")]
    account = dc.Ledger(f"sqlite:///{tmp_path}/ledger.db").open("coins", promises[0])
    first, second = (dc.release(dc.laplace(), counts, prior, promise, account=account) for promise in promises[1:])
    told = dc.explain(dc.combine(first, second, data="same"), rng=1)
    (together,) = told.together
    assert isinstance(together, InferenceLimits) and (together.presence, together.value) == (2.0, 4.0)
    assert together.beliefs[0.5][0] == pytest.approx(1 / (1 + math.exp(-2)))
    presences = [part.promise.presence for part in told.parts.values() if isinstance(part.promise, InferenceLimits)]
    assert presences == [0.5, 1.5] and list(told.parts) == [first.id, second.id]
    text = str(told)
    assert "all of its releases together" in text and f"Release {second.id}" in text
    assert str(told.parts[first.id].promise.guarantee) in text


def test_figures_by_others_have_no_explanation() -> None:
    coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    noise = dc.external.StatedNoise("laplace", 2)
    one, other = (dc.external_table([52, 48], coin, ["coin"], noise, guarantee=None, source=name) for name in "ab")
    for evidence in (one, dc.combine(one, other, data="same")):
        with pytest.raises(dc.InputError, match="figures by others"):
            dc.explain(evidence)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    shell = opened(tmp_path, monkeypatch, capfd)
    release("laplace").save("made.json")
    code, text, _ = shell('explain made.json "P(b | a=s0)" --rows 2 --draws 100')
    assert code == 0
    assert "What can be learned of one record" in text and "What P(b | a=s0) depends on" in text
    told = shell.json("explain made.json")
    assert set(told) == {"promise", "telling", "divergence", "dependences", "priors", "notes", "reach"}
    assert told["promise"]["beliefs"]["0.5"][0] == pytest.approx(1 / (1 + math.exp(-2)))
    dc.combine(release("laplace"), release("gaussian"), data="different").save("both.json")
    told = shell.json("explain both.json")
    assert all("no one guarantee" in limits for limits in told["together"])  # simulations promise nothing
    assert all(set(each) > {"promise", "telling"} for each in told["releases"].values()) and len(told["releases"]) == 2
    assert "no query" in shell.fails("explain made.json nonsense")
    assert "seed" in shell.fails("explain made.json --seed=-1")
