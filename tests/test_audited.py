"""Audited releases: how many pairs, which, and at what price; the proof by enumeration; what files and readers make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.mechanisms.noise import SimulatedNoise, deviation_for
from discreet.mechanisms.planned import find_choice_scale
from discreet.noise.noise_laws import DiscreteGaussian, DiscreteLaplace
from discreet.planning.pair_budget import (
    affordable_pairs,
    all_pairs,
    chosen_pairs,
    count_pairs,
    plan_pairs,
    prefers_gaussian,
    queried_pairs,
)
from discreet.releases.kinds.tables_with_pairs import pairs_beyond
from discreet.verify import tiny_data
from discreet.verify.audit import audit
from discreet.verify.losses import _solve_epsilon
from enumeration import Scripted, among, numbers
from folding import every
from tiny import Record, all_records, counts_of, network_of

ADD_REMOVE, REPLACE = dc.tools.RECORD_RELATIONS
PAIRS = network_of(dict.fromkeys("abcde", 2), "a>b c>d")
"""Measured as the tables of a, b, e and of c, d; six pairs lie in none."""
CHAIN = network_of({"a": 2, "b": 2, "c": 2}, "a>b b>c")
"""One pair lies in no table."""
SOME, ALL = 600, 10**6
"""Records for which three of six pairs are measured at epsilon 1, and all."""
SOME_REPLACED = 4 * SOME
"""The same where two cells of a pair move."""


def promise(epsilon: object = 1, relation: dc.Relation = ADD_REMOVE, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def calibrated(mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee) -> dc.kinds.NoiseWithPairs:
    found = mechanism.calibrate(network, dc.Dirichlet.uniform(network), guarantee)
    assert isinstance(found, dc.kinds.NoiseWithPairs)
    return found


# ------------------------------------------------------------------------------------------------ the proof

ONE_SIDED = (0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 100)
"""Cells of tables whose variables are always in the second state."""
FIRST = [(500, 30, 1, 2, 30, -3, 40, 20, 1, 10, 2, 30, 90), (10**6, *ONE_SIDED), (-40, *(9,) * 12)]
"""Answers of the first stage: of the number of records, where that is asked, and of twelve cells."""
CROWDS = ((), ((0, 0, 0, 0, 0),) * 3)
EDGE = ((0, 0, 1, 1, 0),) * 449
"""One record more would let three pairs be measured and not none, were their number known."""


def lengths(one: Scripted, other: Scripted) -> float:
    """What all noise that was asked for costs, at its worst answers."""
    if (one.scales, one.blocks) != (other.scales, other.blocks):
        return math.inf
    moved = tuple(after - before for before, after in zip(one.values, other.values, strict=True))
    return _add_lengths(moved, tuple(one.scales), tuple(one.blocks))


@lru_cache(maxsize=4096)
def _add_lengths(
    steps: tuple[int, ...], scales: tuple[float, ...], blocks: tuple[tuple[tuple[int, ...], ...], ...]
) -> float:
    longest: dict[float, int] = {}
    for rows in blocks:
        moved = [[steps[cell] for cell in row] for row in rows]
        if len(set(map(sum, moved))) > 1:
            return math.inf
        scale = scales[rows[0][0]]
        longest[scale] = longest.get(scale, 0) + max(sum(map(abs, row)) for row in moved)
    return float(sum((length / Fraction(scale) for scale, length in longest.items()), Fraction()))


def choices(one: Scripted, other: Scripted, answers: Sequence[int]) -> float:
    """What the choices that were made cost."""
    total = 0.0
    for (scores, scale), (others, same), at in zip(one.scores, other.scores, answers, strict=True):
        assert scale == same
        logs = [part / scale - np.logaddexp.reduce(part / scale) for part in (scores, others)]
        total += abs(float(logs[0][at] - logs[1][at]))
    return total


def paths(run: Scripted) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Ways to answer the choices and the picks of a run: all of the first, at either end of the others."""
    offered = [range(len(scores)) for scores, _ in run.scores]
    maxima = product(*(listed if not place else listed[:: len(listed) - 1] for place, listed in enumerate(offered)))
    return product(maxima, product(*((0, width - 1) for width in run.widths)))


@lru_cache(maxsize=1024)
def counted(network: dc.Network, data: tuple[Record, ...]) -> dc.results.Counts:
    """Counts of whole records, so that any table can be taken from them."""
    codes = np.array(data, np.int64).reshape(-1, len(network.nodes)).T
    return dc.tools.count_codes(network, dict(zip(network.nodes, codes, strict=True)), [network.nodes])


def largest_loss(
    mechanism: dc.tools.Mechanism,
    network: dc.Network,
    guarantee: dc.Guarantee,
    shared: Sequence[tuple[tuple[Record, ...], Sequence[tuple[int, ...]]]],
) -> float:
    """A bound of the largest log ratio over neighbours with each crowd, for all choices after each first answer."""
    if not calibrated(mechanism, network, guarantee).records:
        shared = [(EDGE, FIRST)]
    return max(
        _crowd_loss(mechanism, network, guarantee, tuple(record[: len(network.nodes)] for record in crowd), firsts)
        for crowd, firsts in shared
    )


def _crowd_loss(
    mechanism: dc.tools.Mechanism,
    network: dc.Network,
    guarantee: dc.Guarantee,
    crowd: tuple[Record, ...],
    firsts: Sequence[tuple[int, ...]],
) -> float:
    """The same with one of them: in others a public number of records may be another."""
    calibration, prior = calibrated(mechanism, network, guarantee), dc.Dirichlet.uniform(network)
    pairs = list(among(network, guarantee.relation, [crowd]))
    counts = {data: counted(network, data) for pair in pairs for data in pair}

    def run(data: tuple[Record, ...], **script: object) -> tuple[Scripted, object]:
        script["noisy"] = script["noisy"][calibration.total_scale is None :]  # type: ignore[index]
        source = Scripted(**script)  # type: ignore[arg-type]
        return source, numbers(mechanism.draw(counts[data], prior, calibration, source))

    largest = 0.0
    for first in firsts:
        for maxima, picks in paths(run(pairs[0][0], noisy=first)[0]):
            seen = {data: run(data, noisy=first, maxima=maxima, picks=picks) for data in counts}
            for one, other in pairs:
                (a, released), (b, same) = seen[one], seen[other]
                if released != same or a.widths != b.widths or len(a.scores) != len(b.scores):
                    return math.inf
                largest = max(largest, lengths(a, b) + choices(a, b, maxima))
    return largest


@pytest.mark.costly("The guarantee of both stages of the default mechanism, by enumeration.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every(("network", "records"), [(PAIRS, SOME), (PAIRS, ALL), (PAIRS, None), (CHAIN, ALL), (CHAIN, None)])
def test_the_guarantee_holds(network: dc.Network, records: int | None, relation: dc.Relation) -> None:
    if relation is REPLACE and records == SOME:
        records = SOME_REPLACED
    shared = [(crowd, [first]) for crowd, first in zip(CROWDS, FIRST[:2], strict=True)]
    found = largest_loss(dc.planned(records=records), network, promise(1, relation), shared)
    assert 0.98 < found <= 1 + 1e-9


@pytest.mark.thorough
@every("relation", dc.tools.RECORD_RELATIONS)
def test_the_guarantee_holds_after_each_first_answer_with_each_crowd(relation: dc.Relation) -> None:
    mechanism = dc.planned(records=SOME if relation is ADD_REMOVE else SOME_REPLACED)
    found = largest_loss(mechanism, PAIRS, promise(1, relation), [(crowd, FIRST[:2]) for crowd in CROWDS])
    assert 0.98 < found <= 1 + 1e-9


def test_some_pairs_are_chosen_where_the_proof_looks_for_choices() -> None:
    for records, relation, chosen in ((SOME, ADD_REMOVE, 2), (SOME_REPLACED, REPLACE, 2), (ALL, ADD_REMOVE, 0)):
        mechanism = dc.planned(records=records)
        calibration = calibrated(mechanism, PAIRS, promise(1, relation))
        source = Scripted(FIRST[1])
        payload = mechanism.draw(counts_of(PAIRS, []), dc.Dirichlet.uniform(PAIRS), calibration, source)
        assert isinstance(payload, dc.kinds.TablesWithPairs)
        assert (payload.chosen, len(source.scores)) == (chosen, chosen)
        assert len(payload.pairs) == (3 if chosen else 6)


@pytest.mark.costly("A choice that is charged too much is found by the exact scores of neighbours.")
@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_choice_is_nearly_as_dear_as_it_is_charged(relation: dc.Relation) -> None:
    """One score rises by the sensitivity and the others fall by it: no constant of the scale can be left out."""
    network, crowd = PAIRS, ((0, 0, 0, 0, 0),) * 40
    mechanism, moved = dc.planned(records=SOME if relation is ADD_REMOVE else SOME_REPLACED), 1 + (relation is REPLACE)
    calibration, prior = calibrated(mechanism, network, promise(1, relation)), dc.Dirichlet.uniform(network)
    best = 0.0
    for one, other in among(network, relation, [crowd]):
        a, b = Scripted(ONE_SIDED), Scripted(ONE_SIDED)
        for source, data in ((a, one), (b, other)):
            mechanism.draw(counts_of(network, data), prior, calibration, source)
        best = max(best, float(np.abs(a.scores[0][0] - b.scores[0][0]).max()))
    assert best == moved
    part = calibration.selection * calibration.second
    assert 2 * 2 * moved / Fraction(find_choice_scale(calibration, 2)) <= part
    assert 2 * 2 * moved / find_choice_scale(calibration, 2) == pytest.approx(float(part), rel=1e-9)


@every("relation", dc.tools.RECORD_RELATIONS)
def test_all_choices_together_cost_their_part(relation: dc.Relation) -> None:
    network, moved = network_of(dict.fromkeys("abcdefg", 2)), 1 + (relation is REPLACE)
    mechanism = dc.planned(records=2000 * moved**2, pairs_share="0.2")
    calibration = calibrated(mechanism, network, promise(1, relation))
    source = Scripted()
    payload = mechanism.draw(counts_of(network, []), dc.Dirichlet.uniform(network), calibration, source)
    assert isinstance(payload, dc.kinds.TablesWithPairs)
    assert (len(payload.pairs), payload.chosen, len(source.scores)) == (6, 4, 4)
    spent = sum(2 * moved / Fraction(scale) for _, scale in source.scores)
    assert float(spent) == pytest.approx(1 / 20, rel=1e-9)
    assert spent <= Fraction(1, 20)


# ------------------------------------------------------------------------------------------- how many, and which


def test_how_many_pairs_follows_the_rule() -> None:
    def pairs(records: float, epsilon: Fraction, candidates: int) -> int:
        return count_pairs(affordable_pairs(records, epsilon, 1), candidates)

    fifth = Fraction(1, 5)
    assert [pairs(n, fifth, 9) for n in (28_155, 2_450, 2_449, 450, 449, 0, -50)] == [9, 9, 6, 3, 0, 0, 0]
    assert pairs(28_155, fifth * Fraction(2, 10), 9) == 4
    assert [pairs(10**5, fifth, candidates) for candidates in (70, 93, 95, 283)] == [70, 93, 70, 70]
    assert [chosen_pairs(number, 22) for number in (3, 5, 6, 8, 22)] == [2, 3, 4, 5, 0]


def test_as_many_pairs_are_afforded_as_noise_leaves_shares_good_enough() -> None:
    """One pair more would deviate by more than a sampling error and .005 of the records, under either law."""
    for moved, few in product((1, 2), (True, False)):
        for law, budget, n in (
            (DiscreteLaplace, Fraction(1, 5), 5_000 if few else 50_000),
            (DiscreteGaussian, Fraction(1, 100), 2_000 if few else 60_000),
        ):
            most = affordable_pairs(n, budget, moved, law)
            deviations = [
                math.sqrt(moved * count / (2 * budget))
                if law is DiscreteGaussian
                else math.sqrt(2) * moved * count / budget
                for count in (most, most + 1)
            ]
            assert most > 3 and deviations[0] <= (n**0.5 if few else 0.005 * n) < deviations[1]
            assert affordable_pairs(-3, budget, moved, law) == 0
    assert not prefers_gaussian(Fraction(1, 5), Fraction(1, 1000), 1, 10)  # 71 records, of 71 by Laplace noise
    assert prefers_gaussian(Fraction(1, 5), Fraction(1, 1000), 1, 11)


def test_candidates_are_all_pairs_or_some_that_their_names_choose() -> None:
    names = [f"v{index}" for index in range(60)]
    assert len(all_pairs(network_of(dict.fromkeys(names[:45], 2)))) == 990
    some = all_pairs(network_of(dict.fromkeys(names, 2)))
    assert len(set(some)) == 1000 and all(names.index(one) < names.index(other) for one, other in some)
    assert list(some) == sorted(some, key=lambda pair: tuple(map(names.index, pair)))
    # Other states or arcs choose no others, and every variable has its share: 33 of 1,000 pairs, at least 15.
    assert some == all_pairs(network_of(dict.fromkeys(names, 3), "v0>v1"))
    assert min(sum(name in pair for pair in some) for name in names) >= 15


def test_pairs_of_one_state_and_of_large_tables_are_left_out() -> None:
    assert all_pairs(network_of({"a": 2, "b": 1, "c": 2})) == (("a", "c"),)
    assert all_pairs(network_of({"a": 2, "b": 200, "c": 200})) == (("a", "b"), ("a", "c"))


def test_a_workload_names_the_pairs() -> None:
    network = network_of(dict.fromkeys("abcdef", 2), "a>b")
    assert queried_pairs(network, ["P(a, c | f=s0)", "P(d)"]) == (("a", "c"), ("a", "f"), ("c", "f"))
    assert queried_pairs(network, ["MAP(b, e)"]) == (("b", "e"),)
    assert len(queried_pairs(network, ["MPE(| a=s0)"])) == 15
    assert pairs_beyond([("a", "b"), ("b", "c")], [("a", "b", "d")]) == (("b", "c"),)


def simulated(network: dc.Network, n: int, seed: int, guarantee: dc.Guarantee, **options: object) -> dc.Release:
    rng = np.random.default_rng(seed)
    codes = {node: rng.integers(network.schema[node].size, size=n) for node in network.nodes}
    mechanism = dc.planned(**options)  # type: ignore[arg-type]
    counts = dc.tools.count_codes(network, codes, mechanism.scopes(network))
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), guarantee, rng=rng)


def test_a_workload_of_a_large_network_is_audited() -> None:
    network = network_of({f"v{index}": 2 for index in range(24)}, "v0>v1 v1>v2")
    made = simulated(network, 20_000, 3, promise(), workload=["P(v3, v9 | v20=s1)"])
    assert isinstance(made.payload, dc.kinds.TablesWithPairs)
    assert set(made.payload.pairs) == {("v3", "v9"), ("v3", "v20"), ("v9", "v20")}
    every = simulated(network, 20_000, 3, promise()).payload
    assert isinstance(every, dc.kinds.TablesWithPairs) and len(every.pairs) == 19 and every.chosen == 12


def test_a_network_beyond_exact_inference_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fails once the budget is charged, whatever inference could do."""

    def refused(*_: object) -> None:
        raise dc.InputError("too large")

    monkeypatch.setattr(Laws, "marginals", refused)
    made = simulated(network_of({f"v{index}": 2 for index in range(24)}), 20_000, 3, promise())
    assert isinstance(made.payload, dc.kinds.TablesWithPairs) and made.payload.chosen


@every("relation", dc.tools.RECORD_RELATIONS)
@every("delta", ["0", "0.01"])
def test_budgets_add_up(relation: dc.Relation, delta: str) -> None:
    guarantee = promise("0.7", relation, delta)
    noise = calibrated(dc.planned(), PAIRS, guarantee)
    pilot = noise.total_epsilon or Fraction()
    assert noise.total <= guarantee.epsilon
    assert noise.second == guarantee.epsilon / 5
    assert float(noise.plan.total + noise.second + pilot) == pytest.approx(0.7, rel=1e-9)
    assert float(noise.alone.total + pilot) == pytest.approx(0.7, rel=1e-9)
    assert (noise.total_scale is None) == (relation is REPLACE)


@every("share", ["0.1", "0.5"])
def test_the_share_is_what_pairs_get(share: str) -> None:
    made = simulated(PAIRS, 100_000, 1, promise(), pairs_share=share)
    assert isinstance(made.payload, dc.kinds.TablesWithPairs)
    assert made.payload.scale == pytest.approx(6 / float(share))


def test_without_arcs_pairs_get_more() -> None:
    network = network_of(dict.fromkeys("abcdef", 2))
    for given, share in ((None, "0.8"), ("0.3", "0.3")):
        found = calibrated(dc.planned(records=ALL, pairs_share=given), network, promise())
        assert found.second == Fraction(share)


def test_few_records_leave_everything_to_the_plan() -> None:
    payload = simulated(PAIRS, 200, 1, promise()).payload
    assert isinstance(payload, dc.kinds.TablesWithPairs)
    assert not payload.pairs
    assert payload.summary(None).endswith("; no pair beside them was worth measuring")
    alone = dc.planned(pairs_share=0).calibrate(PAIRS, dc.Dirichlet.uniform(PAIRS), promise("0.99"))
    assert dict(payload.first.scales) == dict(alone.scales)


@every("case", ["nothing is left out", "a share of 0", "a stated number of records is small"])
def test_it_is_a_planned_release_where(case: str) -> None:
    network = network_of({"a": 2, "b": 2}, "a>b") if case.startswith("nothing") else PAIRS
    options = {"pairs_share": 0} if "share" in case else {"records": 100} if "records" in case else {}
    made = simulated(network, 1000, 2, promise(), **options)
    plan = dc.planned(pairs_share=0).calibrate(network, dc.Dirichlet.uniform(network), promise())
    assert isinstance(made.payload, dc.kinds.NoisyTables)
    assert (made.mechanism, made.calibration) == ("planned", plan)


def test_what_the_first_stage_misjudges_is_chosen_first_and_the_rest_is_fair() -> None:
    """b and c are one variable in truth. 300 releases: chosen in all of them; one of the others at random."""
    rng = np.random.default_rng(11)
    n = 6000
    b = rng.integers(2, size=n)
    codes = {"a": rng.integers(2, size=n), "b": b, "c": b, "d": rng.integers(2, size=n), "e": rng.integers(2, size=n)}
    counts, prior = dc.tools.count_codes(PAIRS, codes), dc.Dirichlet.uniform(PAIRS)
    mechanism = dc.planned(records=SOME)
    calibration = calibrated(mechanism, PAIRS, promise())
    candidates = pairs_beyond(all_pairs(PAIRS), calibration.plan.scales)
    places = []
    for seed in range(300):
        payload = mechanism.draw(counts, prior, calibration, SimulatedNoise(np.random.default_rng(seed)))
        assert isinstance(payload, dc.kinds.TablesWithPairs)
        *chosen, other = payload.pairs
        assert (len(chosen), payload.chosen, chosen[0]) == (2, 2, ("b", "c"))
        assert [part.selection for part in payload.measurements][-3:] == ["chosen", "chosen", "random"]
        places.append([pair for pair in candidates if pair not in chosen].index(other))
    # Of four, each with 1/4: 75 +- 7.5; five deviations and a half have a chance below 1e-6 for all four.
    assert all(abs(places.count(place) - 75) < 42 for place in range(4))


def test_noise_on_pairs_has_the_scale_it_states() -> None:
    rng, errors = np.random.default_rng(7), []
    codes = {node: rng.integers(2, size=100_000) for node in PAIRS.nodes}
    exact, prior = dc.tools.count_codes(PAIRS, codes, [PAIRS.nodes]), dc.Dirichlet.uniform(PAIRS)
    mechanism = dc.planned()
    calibration = calibrated(mechanism, PAIRS, promise())
    for _ in range(60):
        payload = mechanism.draw(exact, prior, calibration, SimulatedNoise(rng))
        assert isinstance(payload, dc.kinds.TablesWithPairs)
        assert payload.scale == pytest.approx(30)
        errors += [np.abs(table - exact.joint(pair)) for pair, table in payload.pairs.items()]
    flat = np.concatenate([error.ravel() for error in errors])
    # 1,440 cells; the mean of |noise| has a relative error of 1 / sqrt(1,440): five of them and a half.
    assert np.mean(flat) == pytest.approx(30, rel=5.5 / math.sqrt(flat.size))


# ----------------------------------------------------------------------------------------------- files and readers


@every("relation", dc.tools.RECORD_RELATIONS)
@every("n", [200, SOME, ALL])
def test_a_file_is_what_was_released(n: int, relation: dc.Relation) -> None:
    made = simulated(PAIRS, n, 5, promise(1, relation))
    said = {
        200: "no pair beside them",
        SOME: "3 pairs beside them (2 of them chosen" if relation is ADD_REMOVE else "no pair beside them",
        ALL: "6 pairs beside them (all that",
    }
    assert said[n] in made.payload.summary(made.calibration)  # type: ignore[union-attr]
    again = dc.Release.loads(made.dumps())
    assert again.dumps() == made.dumps()
    assert again.calibration == made.calibration
    assert list(again.payload.pairs) == list(made.payload.pairs)  # type: ignore[union-attr]


def damaged(payload: dc.kinds.TablesWithPairs, **changes: object) -> dc.kinds.TablesWithPairs:
    return replace(payload, **changes)  # type: ignore[arg-type]


def test_what_is_no_audit_is_refused() -> None:
    payload = simulated(PAIRS, 100_000, 5, promise()).payload
    assert isinstance(payload, dc.kinds.TablesWithPairs)
    table = np.zeros((2, 2), np.int64)
    for text, changes in (
        ("no table of the first stage holds", {"pairs": {("a", "b"): table}}),
        ("no table of the first stage holds", {"pairs": {("a", "x"): table}}),
        ("64-bit integers", {"pairs": {("a", "c"): table.astype(float)}}),
        ("64-bit integers", {"pairs": {("a", "c"): table[0]}}),
        ("a scale", {"scale": None}),
        ("a scale", {"pairs": {}, "chosen": 0}),
        ("positive noise scale", {"scale": 2.0**63}),
        ("chosen", {"chosen": 7}),
        ("chosen", {"chosen": -1}),
    ):
        with pytest.raises(dc.InputError, match=text):
            damaged(payload, **changes)
    other = network_of(dict.fromkeys("abcde", 2), "a>b")
    with pytest.raises(dc.InputError, match="first stage"):
        damaged(payload, network=other)


def test_a_calibration_that_is_none_is_refused() -> None:
    noise = calibrated(dc.planned(), PAIRS, promise())
    for changes in (
        {"second": Fraction(0)},
        {"selection": Fraction(1)},
        {"selection": Fraction(0)},
        {"total_scale": None},
        {"total_epsilon": Fraction(-1)},
        {"records": 10},
    ):
        with pytest.raises(dc.InputError):
            replace(noise, **changes)  # type: ignore[arg-type]


def test_pairs_that_were_measured_are_answered_from_them() -> None:
    """The network says a and c are independent, and they are one variable: read with it, and without."""
    rng = np.random.default_rng(1)
    a, b, d, e = (rng.integers(2, size=20_000) for _ in range(4))
    codes = {"a": a, "b": b, "c": a, "d": d, "e": e}
    counts, prior = dc.tools.count_codes(PAIRS, codes), dc.Dirichlet.uniform(PAIRS)
    made = dc.simulate(dc.planned(), counts, prior, promise(), rng=rng)
    posterior = dc.noise_aware(made, draws=400, rng=np.random.default_rng(2))
    answer = dc.answer(posterior, "P(a=s0, c=s0)", level=0.95)
    assert answer.basis == "measured"
    assert answer.rows[0]["mean"] == pytest.approx(0.5, abs=0.02)
    assert dc.answer(posterior, "P(a, c, d)", level=0.95).basis == "inferred"
    plain = dc.simulate(dc.planned(pairs_share=0), counts, prior, promise(), rng=rng)
    blind = dc.answer(dc.noise_aware(plain, draws=400, rng=np.random.default_rng(2)), "P(a=s0, c=s0)", level=0.95)
    assert (blind.basis, blind.rows[0]["mean"]) == ("assumed", pytest.approx(0.25, abs=0.02))


# ------------------------------------------------------------------------------------------------------- bad input


@every(
    ("options", "text"),
    [
        ({"pairs_share": 1}, "pairs_share"),
        ({"pairs_share": "-0.1"}, "pairs_share"),
        ({"pairs_share": "much"}, "pairs_share"),
        ({"records": 0}, "records"),
        ({"workload": "P(a)"}, "list of queries"),
    ],
)
def test_what_it_cannot_take_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(dc.InputError, match=text):
        dc.planned(**options)  # type: ignore[arg-type]


def test_what_cannot_be_calibrated_costs_nothing(tmp_path: Path) -> None:
    account = dc.Ledger(f"sqlite:///{tmp_path}/l.db").open("a", promise(10))
    counts = counts_of(PAIRS, all_records(PAIRS))
    prior = dc.Dirichlet.uniform(PAIRS)
    for mechanism, guarantee, text in (
        (dc.planned(), promise("1e-16"), "too small"),
        (dc.planned(pairs_share="1e-16"), promise(), "too small"),
        (dc.planned(workload=["P(z)"]), promise(), "z"),
    ):
        with pytest.raises(dc.InputError, match=text):
            dc.release(mechanism, counts, prior, guarantee, account=account)
    families = dc.results.Counts(counts.tables, counts.policy)
    with pytest.raises(dc.InputError, match="no table that was counted holds"):
        dc.release(dc.planned(), families, prior, promise(), account=account)
    assert not account.charges()
    made = dc.release(dc.planned(), counts, prior, promise(), account=account)
    assert [charge.guarantee for charge in account.charges()] == [promise()]
    assert made.private


# ------------------------------------------------------------------------------------------- Gaussian noise on pairs

COINS = network_of(dict.fromkeys("abc", 2))
"""All three pairs lie in no table."""


@pytest.mark.costly("The default mechanism's loss under a delta is exact only with both stages together.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
def test_with_a_delta_the_exact_loss_keeps_the_guarantee(relation: dc.Relation) -> None:
    """The audit's hockey-stick of all Gaussian noise together, of both stages, at delta; half of it is for each."""
    guarantee = promise(1, relation, "0.01")
    mechanism = dc.planned(records=ALL)
    noise = calibrated(mechanism, COINS, guarantee)
    assert noise.rho is not None and noise.plan.noise == "discrete_gaussian"
    with mock.patch.object(tiny_data, "CROWD_RECORDS", 0):  # what a crowd adds noise does not see
        (found,) = audit(mechanism, guarantee, {"coins": COINS}, most=2)
    assert found.exact and found.holds and not found.leak
    assert found.measured > 0.5


@every("relation", dc.tools.RECORD_RELATIONS)
@every("chosen", [False, True])
def test_gaussian_noise_on_pairs_spends_its_part(relation: dc.Relation, chosen: bool) -> None:
    """Sums of rho, and the exact epsilon of the second stage alone at its delta: within, and nearly all of it."""
    moved = 1 + (relation is REPLACE)
    network = network_of(dict.fromkeys("abcdefg", 2)) if chosen else COINS
    guarantee = promise(1, relation, "0.01")
    mechanism = dc.planned(records=100 * moved if chosen else ALL)
    noise = calibrated(mechanism, network, guarantee)
    source = Scripted()
    payload = mechanism.draw(counts_of(network, []), dc.Dirichlet.uniform(network), noise, source)
    assert isinstance(payload, dc.kinds.TablesWithPairs) and payload.noise == "discrete_gaussian"
    number, scale = len(payload.pairs), payload.scale
    assert bool(payload.chosen) == chosen == bool(source.scores) and scale is not None
    spent = number * Fraction(moved) / (2 * Fraction(scale) ** 2)
    budget = noise.for_pairs(payload.chosen, DiscreteGaussian)
    assert spent <= budget and float(spent / budget) > 1 - 1e-9
    epsilon = float(noise.second * (1 - noise.selection if chosen else 1))
    assert noise.delta == Fraction(1, 200)
    steps = (1,) * (number * moved)
    exact = _solve_epsilon(((scale, steps),), epsilon, float(noise.delta))
    assert 0.7 * epsilon < exact <= epsilon
    assert noise.total <= guarantee.epsilon


@every("relation", dc.tools.RECORD_RELATIONS)
@every("records", [None, ALL])
def test_both_stages_share_the_delta(relation: dc.Relation, records: int | None) -> None:
    """The plan of the first stage is that of what the second leaves; without a second it may have all."""
    guarantee = promise(1, relation, "0.01")
    noise = calibrated(dc.planned(records=records), COINS, guarantee)
    prior, half = dc.Dirichlet.uniform(COINS), Fraction(1, 200)
    assert noise.delta == half
    part, pilot = 1 - noise.second, noise.total_epsilon or 0
    alone = dc.planned(pairs_share=0)
    assert noise.plan == alone.calibrate(COINS, prior, promise(part - pilot, relation, half))
    if records is None:
        assert noise.alone == alone.calibrate(COINS, prior, promise(1 - pilot, relation, 2 * half))
    for rho, epsilon in ((noise.rho, noise.second), (noise.rho_chosen, noise.second * (1 - noise.selection))):
        _, kept, _ = deviation_for(1, promise(epsilon, relation, half))
        assert rho is not None and 0 < kept - rho < 1e-12 * kept


def test_a_delta_that_gaussian_noise_makes_nothing_of_is_left_to_the_plan() -> None:
    """Of six pairs Laplace noise is less at that delta; without one there is no other."""
    noise = calibrated(dc.planned(records=ALL), PAIRS, promise(1, ADD_REMOVE, "1e-9"))
    assert (noise.delta, noise.rho, noise.rho_chosen) == (None, None, None)
    assert calibrated(dc.planned(records=ALL), PAIRS, promise()).rho is None


def test_few_records_are_better_served_by_laplace_noise_whatever_the_delta() -> None:
    """Of eight records Gaussian noise lets no pair be measured, Laplace noise four; the file says which it is."""
    network = network_of(dict.fromkeys("abcdefghi", 2))
    guarantee = promise(3, ADD_REMOVE, "1e-6")
    noise = calibrated(dc.planned(records=8), network, guarantee)
    assert noise.rho is not None
    assert plan_pairs(8, 36, noise.second, noise.rho, 1) == (4, DiscreteLaplace)
    assert plan_pairs(10_000, 36, noise.second, noise.rho, 1) == (36, DiscreteGaussian)
    made = simulated(network, 8, 3, guarantee, records=8)
    assert (
        isinstance(made.payload, dc.kinds.TablesWithPairs)
        and made.payload.noise is None
        and len(made.payload.pairs) == 4
    )
    again = dc.Release.loads(made.dumps())
    assert again.payload.agrees(again.calibration)
    spent = 4 * Fraction(1) / Fraction(made.payload.scale or 0)
    assert spent <= noise.second * (1 - noise.selection)


def test_gaussian_pairs_are_read_as_such_and_survive_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    network = network_of(dict.fromkeys("abcd", 2))
    a = rng.integers(2, size=20_000)
    codes = {"a": a, "b": np.where(rng.random(20_000) < 0.8, a, 1 - a)}
    codes |= {name: rng.integers(2, size=20_000) for name in "cd"}
    guarantee = promise(1, ADD_REMOVE, "0.01")
    release = dc.simulate(
        dc.planned(), dc.tools.count_codes(network, codes), dc.Dirichlet.uniform(network), guarantee, rng=rng
    )
    release.save(tmp_path / "r.json")
    again = dc.Release.load(tmp_path / "r.json")
    assert again.dumps() == release.dumps()
    payload = again.payload
    assert (
        isinstance(payload, dc.kinds.TablesWithPairs)
        and payload.noise == "discrete_gaussian"
        and len(payload.pairs) == 6
    )
    assert {part.tag for part in payload.measurements if part.selection} == {"discrete_gaussian"}
    assert "Gaussian noise of scale" in payload.summary(again.calibration)
    answer = dc.answer(dc.noise_aware(again, draws=200, rng=rng), "P(a=s0, b=s0)", level=0.95)
    assert answer.basis == "measured" and answer.rows[0]["mean"] == pytest.approx(0.4, abs=0.02)
    assert isinstance(payload.scale, float)
    for wrong in (replace(payload, noise=None), replace(payload, scale=payload.scale * 1.01)):
        assert not wrong.agrees(again.calibration)
    with pytest.raises(dc.InputError, match="delta and its losses"):
        replace(again.calibration, rho=None)  # type: ignore[type-var]
    with pytest.raises(dc.InputError, match="losses above 0"):
        replace(again.calibration, rho=Fraction())  # type: ignore[type-var]


def test_gaussian_noise_on_pairs_has_the_scale_it_states() -> None:
    """Variance over 600 tables of 4 cells; chi-square, false alarm 1e-8 on either side."""
    network = network_of(dict.fromkeys("abcdefghi", 2))
    guarantee, errors, scale = promise(1, ADD_REMOVE, "1e-4"), list[np.ndarray](), 0.0
    rng = np.random.default_rng(12)
    codes = {node: rng.integers(2, size=20_000) for node in network.nodes}
    counts = dc.tools.count_codes(network, codes)
    mechanism, prior = dc.planned(), dc.Dirichlet.uniform(network)
    calibration = calibrated(mechanism, network, guarantee)
    for seed in range(17):
        payload = mechanism.draw(counts, prior, calibration, SimulatedNoise(np.random.default_rng(seed)))
        assert isinstance(payload, dc.kinds.TablesWithPairs) and payload.scale is not None
        scale = payload.scale
        errors += [payload.pairs[pair] - counts.joint(pair) for pair in payload.pairs]
    off = np.concatenate([error.ravel() for error in errors])
    statistic = float(np.sum(off**2)) / scale**2
    assert stats.chi2.cdf(statistic, off.size) > 1e-8
    assert stats.chi2.sf(statistic, off.size) > 1e-8
