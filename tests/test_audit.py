"""The package's own audit: it passes what is honest, finds every planted bug, and agrees with enumeration."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.cli.cli import main
from discreet.mechanisms import mechanisms_over
from discreet.mechanisms.gaussian import gaussian
from discreet.mechanisms.laplace import laplace
from discreet.mechanisms.noise import SimulatedNoise
from discreet.mechanisms.planned import planned
from discreet.research import checks as pack_checks
from discreet.research.mechanisms import posterior_sampler as sampling
from discreet.research.mechanisms.allocated import allocated
from discreet.research.mechanisms.fourier import fourier
from discreet.research.mechanisms.map_estimate import map_estimate
from discreet.research.mechanisms.posterior_sampler import posterior_sampler
from discreet.research.scores.lattice import LatticeLaw
from discreet.verify import audit as auditing
from discreet.verify import made_up, tiny_data
from discreet.verify.losses import _may_credit_coin
from discreet.verify.made_up import NETWORKS
from enumeration import SIDES, Pair, among, choice_loss, gaussian_delta, noise_loss, picked_loss, told_delta
from flawed import (
    ADD_REMOVE,
    ARC,
    BITS,
    CANDIDATES,
    COIN,
    DISHONEST,
    FLAWS,
    PAIRS,
    REPLACE,
    Coinless,
    by_source,
    exact_means,
    gaussian_flaws,
    promise,
    recalibrated,
)
from folding import every
from tiny import STRICT, TINY, all_records, neighbours


@pytest.fixture(autouse=True)
def tabulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data sets have few different rows: their laws on the grid, pure functions of them, are most of the work."""
    tables = sampling.lattice_law

    @cache
    def remembered(exponents: bytes, floor: float, resolution: int) -> LatticeLaw:
        return tables(np.frombuffer(exponents), floor, resolution)

    monkeypatch.setattr(sampling, "lattice_law", lambda exponents, *rest: remembered(exponents.tobytes(), *rest))


# --------------------------------------------------------------------------------------------------- what is promised


def delta_of(name: str) -> str:
    return "1e-4" if name == "gaussian" else "0"


FAMILIES = {name: tiny_data.audit_networks()[name] for name in ("a -> b, three states", "a -> c <- b")}
"""Of the audit's networks those that have all that the others have."""
ARC_ALONE = {"a -> b": tiny_data.audit_networks()["a -> b"]}
ROWS = ("posterior_sampler", "map_estimate")
"""Mechanisms that draw rows: all paths of a row are followed after each script of noise, which takes seconds."""


@pytest.mark.costly("The guarantee of every mechanism over a network, by enumeration of small data sets.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", mechanisms_over("network"))
def test_every_mechanism_of_the_registry_passes(name: str, relation: dc.Relation) -> None:
    """Under REPLACE no noise is beside rows: there they are followed in all families, else on one arc."""
    passes(name, relation, ARC_ALONE if name in ROWS and relation is ADD_REMOVE else FAMILIES)


@pytest.mark.thorough
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", mechanisms_over("network"))
def test_every_mechanism_passes_on_all_networks(name: str, relation: dc.Relation) -> None:
    passes(name, relation, tiny_data.audit_networks())


def test_the_networks_are_those_of_the_audit() -> None:
    findings = dc.audit(laplace(), promise(1, ADD_REMOVE), most=1)
    assert [finding.network for finding in findings] == list(tiny_data.audit_networks())


def passes(name: str, relation: dc.Relation, networks: Mapping[str, dc.Network]) -> None:
    findings = dc.audit(dc.tools.MECHANISMS[name](), promise(1, relation, delta_of(name)), networks, most=1)
    assert [finding.network for finding in findings] == list(networks)
    assert all(finding.exact and finding.holds and not finding.leak for finding in findings)
    # Nothing is far from tight: Gaussian noise is converted through rho, a posterior is bounded in the limit only.
    assert all(finding.measured > 0.8 for finding in findings)
    assert all(
        finding.measured > 1 - 1e-8 for finding in findings if name in ("planned", "laplace", "fourier", "allocated")
    )


WITH_OPTIONS = [posterior_sampler(3, temper=0.1), posterior_sampler(floor=0.3), map_estimate(floor=0.3)]
"""Of mechanisms that draw rows."""


@pytest.mark.costly("Each option changes what is released, and so has to be enumerated by itself.", always=True)
def test_options_pass() -> None:
    guarantee = promise(2, ADD_REMOVE)
    noisy = [fourier(stealth=0.5), allocated(sampling="0.2", weights="structure")]
    for mechanism, networks in [*((part, FAMILIES) for part in noisy), *((part, ARC_ALONE) for part in WITH_OPTIONS)]:
        assert all(finding.holds for finding in dc.audit(mechanism, guarantee, networks, most=1))
    assert all(finding.holds for finding in dc.audit(map_estimate(CANDIDATES), guarantee, {"arc": ARC}))


@pytest.mark.thorough
@every("mechanism", WITH_OPTIONS)
def test_options_pass_in_all_families(mechanism: dc.tools.Mechanism) -> None:
    assert all(finding.holds for finding in dc.audit(mechanism, promise(2, ADD_REMOVE), FAMILIES, most=1))


@pytest.mark.costly("Merged tables have neighbours of their own, which only their enumeration holds.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
def test_merged_tables_and_several_of_them_pass(relation: dc.Relation) -> None:
    """Data sets that agree in every family's counts and not in the merged table's are different ones."""
    for network, mechanism in (
        (TINY["chain"], planned(pairs_share=0)),
        (TINY["fork"], planned(pairs_share=0, workload=["P(b)"])),
    ):
        (finding,) = dc.audit(mechanism, promise(1, relation), {"merged": network}, most=2)
        assert finding.holds and not finding.leak
        assert finding.measured > 1 - 1e-8
    (finding,) = dc.audit(planned(pairs_share=0), promise(1, relation), {"pairs": PAIRS}, most=1)
    assert finding.holds and finding.measured > 1 - 1e-8
    (finding,) = dc.audit(planned(pairs_share=0), promise("0.5", relation, "0.1"), {"gaussian": TINY["chain"]}, most=1)
    assert finding.holds and 0.2 < finding.measured < 0.5


@every("relation", dc.tools.RECORD_RELATIONS)
def test_neighbours_share_crowds_or_next_to_nothing(relation: dc.Relation) -> None:
    """Each pair differs by one record; some pairs have crowds of equal records, without which no posterior is sharp."""
    kinds = NETWORKS.kinds_of(ARC)
    units = tiny_data.units_of(partial(NETWORKS.kinds_of, ARC), STRICT)
    pairs = list(tiny_data.neighbours(units, tiny_data.rests_of(kinds, 1, 40), relation))
    apart = 1 if relation is ADD_REMOVE else 2
    for one, other in pairs:
        moved = Counter(one), Counter(other)
        assert (moved[0] - moved[1]).total() + (moved[1] - moved[0]).total() == apart
    crowds = {max(Counter(one).values()) for one, other in pairs if len(one) > 1}
    assert max(crowds) >= 40 and any(len(set(one)) > 1 for one, _ in pairs if len(one) > 40)


def test_a_promise_that_is_not_offered_is_refused() -> None:
    with pytest.raises(dc.InputError, match="add-remove guarantees only"):
        dc.audit(allocated(sampling="0.5"), promise(1, REPLACE))
    with pytest.raises(dc.InputError, match="delta"):
        dc.audit(gaussian(), promise(1, ADD_REMOVE))


@every("draws", [1, 2, 5])
def test_independent_draws_cost_alike(draws: int) -> None:
    """One draw is enumerated; the budget is that of all."""
    for finding in dc.audit(posterior_sampler(draws), promise(1, REPLACE), {"coin": COIN}):
        assert 0.95 < finding.measured <= 1


@pytest.mark.costly("A loss that underflows out of an audit is a privacy bug that nothing else shows.", always=True)
@pytest.mark.parametrize(
    "networks",
    [
        pytest.param({"coin": COIN, **ARC_ALONE}, id="two states"),
        pytest.param(FAMILIES, id="all families", marks=pytest.mark.thorough),
    ],
)
def test_weights_that_underflow_are_followed(
    networks: Mapping[str, dc.Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd of 760 nats: grid points whose weight is 0 for one data set and not for its neighbour."""
    monkeypatch.setattr(pack_checks, "PEAK_NATS", 760.0)
    for epsilon in (20, 60):
        findings = dc.audit(posterior_sampler(), promise(epsilon, ADD_REMOVE), networks, most=1)
        assert all(0.4 * epsilon < finding.measured <= epsilon for finding in findings)
        assert all(finding.holds for finding in findings)


# ------------------------------------------------------------------------------------------------------ planted bugs


@pytest.mark.costly(
    "An audit that finds nothing would pass every mechanism: each planted flaw must be found.",
    always=True,
)
@every("name", FLAWS)
def test_every_bug_is_found(name: str) -> None:
    flaw = FLAWS[name]
    (finding,) = dc.audit(flaw.make(), promise(1, flaw.relation), {"tiny": flaw.network}, most=1)
    assert not finding.holds
    assert finding.measured > 1.09
    assert bool(finding.leak) is math.isinf(finding.measured)
    if flaw.loss is not None:
        assert finding.measured == pytest.approx(flaw.loss, rel=1e-7)


@pytest.mark.costly(
    "An audit that measures too little hides privacy bugs; all laws are enumerated beside it.", always=True
)
@pytest.mark.parametrize("name", FLAWS)
def test_what_is_measured_is_what_enumeration_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same pairs of data sets and the same grid, where the data are not so many that the coin matters."""
    flaw, relation = FLAWS[name], FLAWS[name].relation
    network, guarantee = flaw.network, promise(1, relation)
    crowds = [(record,) * 6 for record in all_records(network)]
    pairs: list[Pair] = [*neighbours(network, relation, 1), *among(network, relation, crowds)]
    match flaw.kind:
        case "noise":
            expected = float(noise_loss(flaw.make(), network, guarantee, pairs))
        case "stages":
            pairs = pairs[:4]
            if name == "allocated: budgets from the counts":
                pairs = list(neighbours(network, relation, 3))
            first = SIDES if len(pairs) == 4 else [(0, 0, 0, 0)]
            expected = float(noise_loss(flaw.make(), network, guarantee, pairs, first))
        case "rows":
            expected = picked_loss(flaw.make(), network, guarantee, pairs, 1)
        case _:
            expected = choice_loss(flaw.make(), network, guarantee, pairs)
    monkeypatch.setattr(pack_checks, "ENUMERATED_STEPS", 1)
    monkeypatch.setattr(auditing, "neighbours", lambda *_: iter(pairs))
    (finding,) = dc.audit(flaw.make(), guarantee, {"tiny": network})
    assert finding.measured == pytest.approx(expected, rel=1e-7)
    assert finding.pairs == len(pairs)


@every("relation", dc.tools.RECORD_RELATIONS)
@every("mechanism", [gaussian(), *gaussian_flaws().values()])
def test_gaussian_losses_are_those_of_enumeration(mechanism: dc.tools.Mechanism, relation: dc.Relation) -> None:
    """At the measured epsilon the exact hockey-stick divergence is delta."""
    guarantee = promise(1, relation, "1e-3")
    (finding,) = dc.audit(mechanism, guarantee, {"coin": COIN}, most=2)
    at = replace_epsilon(guarantee, finding.measured)
    shown = replace(mechanism, calibrate=lambda network, prior, _: mechanism.calibrate(network, prior, guarantee))
    assert gaussian_delta(shown, COIN, at) == pytest.approx(1e-3, rel=1e-6)
    assert finding.holds is (gaussian_delta(mechanism, COIN, guarantee) <= 1e-3)


def replace_epsilon(guarantee: dc.Guarantee, epsilon: float) -> dc.Guarantee:
    return promise(epsilon, guarantee.relation, guarantee.delta)


def test_a_scale_that_depends_on_the_records_is_a_leak() -> None:
    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: Any, noise: Any) -> Any:
        return gaussian().draw(counts, prior, replace(own, scale=own.scale + counts.records), noise)

    (finding,) = dc.audit(replace(gaussian(), draw=draw), promise(1, ADD_REMOVE, "1e-3"), {"coin": COIN})
    assert finding.leak == "with the answers of the noise held fixed, what is asked of it depends on the records"
    assert not finding.holds


def test_a_sample_that_is_used_twice_is_not_passed() -> None:
    """It would cost more than two samples do."""
    honest = allocated(sampling="0.5")

    class Again:
        def __init__(self, noise: Any) -> None:
            self.noise = noise

        def thin(self, values: np.ndarray, probability: Any) -> np.ndarray:
            return self.noise.thin(values, probability)

        def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
            self.noise.discrete_laplace(values, scale)
            return self.noise.discrete_laplace(values, scale)

    twice = replace(honest, draw=lambda counts, prior, own, noise: honest.draw(counts, prior, own, Again(noise)))
    with pytest.raises(dc.InputError, match="used twice"):
        dc.audit(twice, promise(1, ADD_REMOVE), {"bits": BITS})


# ------------------------------------------------------------------------------------------------ the statistical bound


def seeded(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The audit's draws from a fixed seed."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(pack_checks, "ExactNoise", lambda: SimulatedNoise(rng))


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
@pytest.mark.parametrize("delta", ["0.01", "1e-5"])
def test_the_bound_does_not_exceed_an_honest_loss(
    relation: dc.Relation, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By construction wrong once in a million; here the seed is fixed, so it is never wrong by chance."""
    seeded(monkeypatch, 17)
    networks = {"coin": COIN, "three states": FAMILIES["a -> b, three states"]}
    findings = dc.audit(posterior_sampler(), promise(1, relation, delta), networks, most=1)
    assert all(finding.holds and not finding.exact for finding in findings)


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_the_bound_is_below_the_exact_loss(relation: dc.Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit, a temper so large that there is something to see: at the bound more than delta is left, exactly."""
    seeded(monkeypatch, 18)
    mechanism = recalibrated(posterior_sampler(), lambda own: replace(own, temper=1.0))
    (finding,) = dc.audit(mechanism, promise(1, relation, "0.01"), {"coin": COIN}, most=1)
    concentration = float(dc.Dirichlet.uniform(COIN).alpha["a"].min())
    assert finding.measured > 0.5
    calibration = mechanism.calibrate(COIN, dc.Dirichlet.uniform(COIN), promise(1, relation, "0.01"))
    assert told_delta(relation, concentration, calibration, 1.0, finding.measured) > 0.01


def test_a_number_beside_draws_adds_its_loss_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a nat, of an event that has half the probability; and no more than there is, exactly."""
    seeded(monkeypatch, 18)
    prior, pairs, asked = dc.Dirichlet.uniform(COIN), {((), ((0,),)): 1}, promise(1, ADD_REMOVE, "0.01")
    own = replace(posterior_sampler().calibrate(COIN, prior, asked), temper=1.0, total_scale=2.0)
    bound = pack_checks._bound_loss(posterior_sampler(), own, prior, pairs, asked)
    assert told_delta(ADD_REMOVE, float(prior.alpha["a"].min()), own, 1.0, bound) > 0.01
    monkeypatch.setattr(pack_checks, "_bound_pair", lambda *given: given[-1])
    for scale, wanted in ((2.0, 0.5 + 0.02), (None, 0.01)):
        own = replace(own, total_scale=scale)
        assert pack_checks._bound_loss(posterior_sampler(), own, prior, pairs, asked) == pytest.approx(wanted)


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_a_temper_thirty_times_too_large_is_refuted(relation: dc.Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch, 19)
    mechanism = recalibrated(posterior_sampler(), lambda own: replace(own, temper=30 * own.temper))
    (finding,) = dc.audit(mechanism, promise(1, relation, "1e-4"), {"coin": COIN}, most=1)
    assert not finding.holds
    assert not finding.exact


# ---------------------------------------------------------------------------------------------------- the command line


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["audit", *words])
        out, err = capfd.readouterr()
        return code, out, err

    return command


@pytest.fixture
def arc_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command looks at one network alone."""
    monkeypatch.setattr(made_up, "audit_networks", lambda: ARC_ALONE)


def test_the_command_prints_a_table(run: Run) -> None:
    code, out, err = run("laplace", "--records", "1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["network", "relation", "promised", "measured", "how", "pairs", "holds"]
    assert len(lines) == 1 + 2 * len(tiny_data.audit_networks())
    assert all(line.endswith("yes") for line in lines[1:])


def test_the_command_prints_json(run: Run) -> None:
    code, out, _ = run("fourier", "--relation", "replace", "--epsilon", "1/3", "--records", "1", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["mechanism"] == "fourier"
    assert found["refused"] == {}
    assert [part["network"] for part in found["findings"]] == list(tiny_data.audit_networks())
    for part in found["findings"]:
        assert (part["promised"], part["delta"], part["relation"]) == ("1/3", "0", "replace")
        assert part["measured"] == pytest.approx(1 / 3)
        assert part["holds"] is part["exact"] is True


@pytest.mark.usefixtures("arc_alone")
def test_a_broken_promise_is_exit_code_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.research.mechanisms.fourier.fourier", FLAWS["fourier: half the scale"].make)
    code, out, _ = run("fourier", "--records", "1")
    assert code == 1
    assert all(line.endswith("NO") for line in out.splitlines()[1:])


@pytest.mark.usefixtures("arc_alone")
def test_a_leak_is_exit_code_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.research.mechanisms.fourier.fourier", FLAWS["fourier: an exact total"].make)
    code, out, _ = run("fourier", "--records", "1", "--relation", "add-remove")
    assert code == 1
    assert all(line.endswith("NO") and " inf " in line for line in out.splitlines()[1:])


@pytest.mark.usefixtures("arc_alone")
def test_options_reach_the_mechanism(run: Run) -> None:
    code, out, err = run("allocated", "--option", "sampling=0.5", "--records", "1", "--json")
    assert code == 0
    assert {part["relation"] for part in json.loads(out)["findings"]} == {"add-remove"}
    assert list(json.loads(out)["refused"]) == ["replace"]
    assert "not offered for replace" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "no mechanism 'nothing'"),
        (("laplace", "--option", "draws=2"), "no option of 'laplace'"),
        (("laplace", "--records", "0"), "at least one record"),
        (("laplace", "--delta", "1e-6"), "delta 0"),
        (("gaussian", "--delta", "0"), "delta"),
        (("laplace", "--relation", "neither"), "unknown relation"),
        (("allocated", "--option", "sampling=0.5", "--relation", "replace"), "add-remove guarantees only"),
    ],
)
def test_what_cannot_be_audited_is_refused(run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert message in err


@pytest.mark.usefixtures("arc_alone")
def test_gaussian_noise_gets_a_delta(run: Run) -> None:
    code, out, _ = run("gaussian", "--records", "1", "--relation", "add-remove", "--json")
    assert code == 0
    assert {part["delta"] for part in json.loads(out)["findings"]} == {"0.000001"}


@pytest.mark.usefixtures("arc_alone")
def test_a_delta_makes_the_sampler_bound_pair(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch, 20)
    code, out, _ = run("posterior_sampler", "--delta", "1e-6", "--records", "1", "--relation", "add-remove")
    assert code == 0
    assert out.count("at least, 99.9999 % sure") == 1


# ---------------------------------------------------------------------------------------------------- dishonest draws


def found(mechanism: dc.tools.Mechanism, network: dc.Network = COIN, delta: object = 0) -> auditing.Finding:
    (finding,) = dc.audit(mechanism, promise(1, ADD_REMOVE, delta), {"tiny": network}, most=2)
    return finding


def test_rows_that_depend_on_each_other_are_a_leak_and_no_loss() -> None:
    assert "depends on the answers for another" in found(*DISHONEST["rows that depend on each other"]).leak


@every(("chance", "credited"), [((0.5, 0.5), True), ((0.9, 0.1), False), ((), False)])
def test_a_coin_counts_if_it_sends_a_row_anywhere_alike(chance: tuple[float, ...], credited: bool) -> None:
    """Two points, both reached by the coin with half a chance each, or not."""
    log: Any = SimpleNamespace(astray=tuple((0, math.log(part)) for part in chance), rows=({(0,): 0.0, (1,): 0.0},))
    assert _may_credit_coin(log, log, 0) is credited
    assert not _may_credit_coin(log, SimpleNamespace(astray=None, rows=log.rows), 0)  # type: ignore[arg-type]


@every("turned", [False, True])
def test_the_bound_looks_at_two_neighbours_both_ways(turned: bool) -> None:
    """Without records all draws are below a half, with one they are anywhere: one way there is log 2 to see at most."""
    prior, guarantee = dc.Dirichlet.uniform(COIN), promise(1, ADD_REMOVE, "1e-4")
    rng = np.random.default_rng(31)

    def draw(counts: dc.results.Counts, _: dc.Dirichlet, own: Any, __: Any) -> Any:
        first = rng.uniform(0, 1 if counts.records else 0.5, own.draws)
        return SimpleNamespace(network=COIN, cells={"a": np.stack([first, 1 - first])})

    pair: Any = ((), ((0,),))
    calibration = posterior_sampler().calibrate(COIN, prior, guarantee)
    looked = pack_checks._bound_pair(
        replace(posterior_sampler(), draw=draw), calibration, prior, pair[::-1] if turned else pair, 1e-4
    )
    assert looked > 2


def test_the_bound_counts_other_draws_than_those_that_it_chose_by() -> None:
    """Draws with a record differ from those without in the first half alone: there is nothing that the second shows."""
    prior, guarantee = dc.Dirichlet.uniform(COIN), promise(1, ADD_REMOVE, "1e-4")

    def draw(counts: dc.results.Counts, _: dc.Dirichlet, own: Any, __: Any) -> Any:
        first = np.full(own.draws, 0.5)
        first[: own.draws // 2] += 0.4 * counts.records
        return SimpleNamespace(network=COIN, cells={"a": np.stack([first, 1 - first])})

    calibration = posterior_sampler().calibrate(COIN, prior, guarantee)
    odd = replace(posterior_sampler(), draw=draw)
    assert pack_checks._bound_pair(odd, calibration, prior, ((), ((0,),)), 1e-4) == 0


@every("name", DISHONEST)
def test_every_dishonest_draw_is_found(name: str) -> None:
    finding = found(*DISHONEST[name])
    assert not finding.holds
    assert bool(finding.leak) is math.isinf(finding.measured)


def test_a_coin_that_is_ignored_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of 760 nats, where weights underflow: only a coin that is heeded keeps the promise."""
    monkeypatch.setattr(pack_checks, "PEAK_NATS", 760.0)
    honest = posterior_sampler()
    ignored = by_source(honest, Coinless)
    with_coin, without = (
        dc.audit(each, promise(20, ADD_REMOVE), {"coin": COIN}, most=1)[0] for each in (honest, ignored)
    )
    assert with_coin.holds
    assert not without.holds
    assert not without.leak


def test_an_exact_mean_in_place_of_draws_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws are equal: an event must count them although nothing lies beyond."""
    seeded(monkeypatch, 21)
    mechanism, prior, guarantee = exact_means(), dc.Dirichlet.uniform(COIN), promise(1, ADD_REMOVE, "1e-4")
    own = mechanism.calibrate(COIN, prior, guarantee)
    assert pack_checks._bound_pair(mechanism, own, prior, ((), ((0,),)), 1e-4) > 5


def test_a_calibration_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(dc.InputError, match="does not know calibrations of type str"):
        found(replace(fourier(), calibrate=lambda *_: "much"))


def test_a_draw_that_always_fails_is_refused() -> None:
    with pytest.raises(dc.InputError, match="fails whatever the records are"):
        found(replace(fourier(), draw=lambda *_: [].pop()))


@pytest.mark.usefixtures("arc_alone")
def test_what_is_not_refuted_is_not_called_a_yes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch, 22)
    _, out, _ = run("posterior_sampler", "--delta", "1e-6", "--records", "1", "--relation", "add-remove")
    assert all(line.endswith("not refuted") for line in out.splitlines()[1:])
