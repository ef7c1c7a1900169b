"""Every answer says what it rests on: measured, inferred, assumed, or contradicted where the network was trusted."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.inference import exact_laws
from discreet.posterior import basis as module
from discreet.posterior.law_plan import JointLaw
from networks import asia
from oracle import random_draws, small
from releases import guarantee, simulated
from test_fit_check import released

TRIANGLE = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ()), ("d", 2, ()))


def pairs_measured() -> dc.Release:
    """Tables of (a, b), (b, c), (a, c) and d, over a network without arcs."""
    rng = np.random.default_rng(1)
    codes = {name: rng.integers(2, size=500) for name in TRIANGLE.nodes}
    scopes = [("a", "b"), ("b", "c"), ("a", "c"), ("d",)]
    counts = dc.tools.count_codes(TRIANGLE, codes, scopes)
    mechanism = dc.tools.Mechanism(
        "planned", lambda _network, _prior, _guarantee: plan(scopes), dc.planned(pairs_share=0).draw
    )
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(TRIANGLE), guarantee(), rng=rng)


def plan(scopes: list[tuple[str, ...]]) -> dc.kinds.PlannedNoise:
    """Equal budgets."""
    part = Fraction(1, len(scopes))
    return dc.kinds.PlannedNoise(
        "discrete_laplace",
        1,
        dict.fromkeys(scopes, part),
        dict.fromkeys(scopes, float(1 / part)),
        Fraction(1),
        dict.fromkeys(TRIANGLE.nodes, 1.0),
    )


@pytest.mark.parametrize(
    ("query", "mark", "pairs"),
    [
        ("P(a)", "measured", ()),
        ("P(d)", "measured", ()),
        ("P(a, b)", "measured", ()),
        ("P(a | c=s0)", "measured", ()),
        ("P(a, b, c)", "inferred", ()),
        ("P(a | b=s0, c=s1)", "inferred", ()),
        ("P(a | d=s0)", "assumed", (("a", "d"),)),
        ("MAP(a, b | d=s0)", "assumed", (("a", "d"), ("b", "d"))),
        ("MPE(| a=s0)", "assumed", (("a", "d"), ("b", "d"), ("c", "d"))),
    ],
)
def test_what_an_answer_rests_on(query: str, mark: str, pairs: tuple[tuple[str, str], ...]) -> None:
    posterior = dc.noise_aware(pairs_measured(), draws=40, rng=np.random.default_rng(2))
    answer = dc.answer(posterior, query, level=0.9)
    assert (answer.basis, answer.unmeasured) == (mark, pairs)
    assert dc.answer_many(posterior, [query], level=0.9)[0] == answer


def test_marginals_given_evidence_are_marked_one_by_one() -> None:
    posterior = dc.noise_aware(pairs_measured(), draws=40, rng=np.random.default_rng(2))
    found = dc.marginals(posterior, {"a": "s0"}, level=0.9)
    assert [part.basis for part in found] == ["measured", "measured", "assumed"]


def test_what_public_records_alone_tell_is_assumed() -> None:
    """Of d there is no table: neither by itself nor beside another variable is it measured."""
    guide = dc.external.StatedNoise("laplace", 1.0)
    told = dc.external_table([[260, 240], [240, 260]], TRIANGLE, ["a", "b"], guide, guarantee=None, source="x")
    codes = {name: np.arange(40) // place % 2 for place, name in enumerate(TRIANGLE.nodes, 1)}
    public = dc.tools.count_codes(TRIANGLE, codes).tables
    posterior = dc.noise_aware(dc.combine(told, data="different", public=public), draws=40, rng=1)
    marks = {text: dc.answer(posterior, text, level=0.9).basis for text in ("P(a)", "P(a, b)", "P(d)", "P(a, d)")}
    assert marks == {"P(a)": "measured", "P(a, b)": "measured", "P(d)": "assumed", "P(a, d)": "assumed"}


def test_sampled_marginals_say_what_the_law_did_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `answer` does: of a law that left out (a, b) the table of both was not read."""
    posterior = dc.noise_aware(pairs_measured(), draws=40, rng=np.random.default_rng(2))
    assert dc.marginals(posterior, {"a": "s0"}, level=0.9)[0].basis == "measured"
    monkeypatch.setattr(JointLaw, "reads", lambda _law, names: not {"a", "b"} <= set(names))
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 1)
    one, *others = dc.marginals(posterior, {"a": "s0"}, level=0.9)
    assert one.sampling is not None and one.basis == "assumed" == dc.answer(posterior, "P(b | a=s0)", level=0.9).basis
    assert [part.basis for part in others] == ["measured", "assumed"]


@pytest.mark.costly("Marks are those of whole posteriors, trusted and not, of data that deny the network.")
@pytest.mark.usefixtures("hasty")
def test_a_trusted_network_is_contradicted_where_tables_deny_it() -> None:
    wrong, right = released(0.3, 20_000, 1), released(0.0, 20_000, 1)
    for release, options, mark in (
        (wrong, {"trust_network": True}, "contradicted"),
        (wrong, {"prior": dc.Dirichlet.uniform(wrong.network)}, "contradicted"),
        (wrong, {}, "measured"),
        (right, {"trust_network": True}, "measured"),
    ):
        posterior = dc.noise_aware(release, draws=30, rng=np.random.default_rng(3), **options)  # type: ignore[arg-type]
        for query in ("P(a, b)", "P(b | a=s0)"):
            assert dc.answer(posterior, query, level=0.9).basis == mark
        # They sum over b, or hold a and b beside another.
        for query in ("P(c)", "P(c | a=s0)", "P(a, b, c)", "P(d, c)"):
            assert dc.answer(posterior, query, level=0.9).basis == mark, query
        # The row of c given both says nothing of how they go together, nor does that of d given c.
        for query in ("P(a)", "P(c | a=s0, b=s1)", "P(d | c=s0)"):
            assert dc.answer(posterior, query, level=0.9).basis == "measured", query
        told = dc.predict(posterior, {"a": ["s0", "s0"], "b": ["s1", None]}, "c", level=0.9)
        assert told.basis == ("measured", mark)
    assert (
        dc.answer(dc.tools.plug_in(wrong, draws=30, rng=np.random.default_rng(4)), "P(a, b)", level=0.9).basis
        == "contradicted"
    )


def test_the_check_is_made_for_questions_that_need_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "check_fit", lambda *_, **__: asked.append(1) or dc.results.GoodnessOfFit((), 0, 0))
    posterior = dc.noise_aware(released(0.3, 500, 1), draws=30, rng=np.random.default_rng(3), trust_network=True)
    for query in ("P(a)", "P(d | c=s0)"):
        dc.answer(posterior, query, level=0.9)
    assert asked == []
    for query in ("P(c | a=s0)", "P(a, b)", "P(b | a=s0)"):
        dc.answer(posterior, query, level=0.9)
    assert asked == [1]


def test_stored_draws_know_what_the_check_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    posterior = dc.noise_aware(released(0.3, 20_000, 1), draws=30, rng=np.random.default_rng(3), trust_network=True)
    wanted = dc.answer(posterior, "P(a, b)", level=0.9)
    assert wanted.basis == "contradicted"
    posterior.save(tmp_path / "a.draws")
    monkeypatch.setattr(module, "check_fit", lambda *_, **__: pytest.fail("it is in the file"))
    loaded = dc.results.PosteriorDraws.load(tmp_path / "a.draws")
    assert dc.answer(loaded, "P(a, b)", level=0.9) == wanted
    loaded.save(tmp_path / "b.draws")
    assert (tmp_path / "a.draws").read_bytes() == (tmp_path / "b.draws").read_bytes()


@pytest.mark.costly("Released draws of parameters are read whole, as no quicker test of marks does.")
def test_families_are_what_draws_of_parameters_rest_on() -> None:
    rng = np.random.default_rng(5)
    counts_of = simulated(asia(), 200, guarantee(), rng)
    assert counts_of.network == asia().network
    from releases import simulated_counts

    prior = dc.Dirichlet.uniform(asia().network)
    made = dc.simulate(dc.research.posterior_sampler(), simulated_counts(asia(), 200, rng), prior, guarantee(), rng=rng)
    for posterior in (dc.noise_aware(made, draws=20, rng=rng), dc.tools.plug_in(made, draws=20, rng=rng)):
        assert dc.answer(posterior, "P(lung | smoke=yes)", level=0.9).basis == "measured"
        told = dc.answer(posterior, "P(asia | dysp=yes)", level=0.9)
        assert told.basis == "assumed" and told.unmeasured == (("asia", "dysp"),)


def test_of_draws_put_together_nobody_knows() -> None:
    answer = dc.answer(dc.results.PosteriorDraws(random_draws(TRIANGLE, 5, 1)), "P(a, b)", level=0.9)
    assert answer.basis is None and answer.unmeasured == ()
