"""Figures by others: the document, what cannot be one, and what answers say of what nobody measured."""

from __future__ import annotations

import doctest
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import discreet as dc
from discreet.posterior.evidence import measured_anywhere, measured_sets
from discreet.releases.release import release_schema
from folding import every
from oracle import small
from releases import guarantee, noisy_release

NETWORK = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("b",)))
EXACT, LAPLACE = dc.external.StatedNoise("rounded", 1), dc.external.StatedNoise("laplace", 2)
A = (60, 40)


def figures(
    values: Any = A, over: Any = ("a",), noise: Any = EXACT, promise: Any = None, **more: Any
) -> dc.external.External:
    """Exact counts of a, unless something else is said."""
    return dc.external_table(values, NETWORK, over, noise, guarantee=promise, source="census 3", **more)


def several() -> dc.external.External:
    """All kinds of figures in one document, axes in another order than the schema's."""
    pairs = figures([[1.5, 2, 3.25], [4, 5, 6]], ("a", "b"), LAPLACE, guarantee(2))
    turned = pairs.also([[1, 2], [3, 4], [5, 6]], ("b", "a"), dc.external.StatedNoise("discrete_laplace", 1.5))
    summed = turned.also([7.5], ("b",), dc.external.StatedNoise("gaussian", 3), [[0.5, 0, -2]])
    return summed.also(100, (), EXACT).also([10, 20, 70], ("b",), dc.external.StatedNoise("rounded", 10))


# ------------------------------------------------------------------------------------------------------ the document


def test_the_document_comes_back(tmp_path: Path) -> None:
    made = several()
    made.save(tmp_path / "x.json")
    back = dc.load(tmp_path / "x.json")
    assert isinstance(back, dc.external.External)
    assert back.dumps() == made.dumps() == dc.external.External.load(tmp_path / "x.json").dumps()
    assert (back.id, back.records, back.guarantee, back.source) == (made.id, 100, guarantee(2), "census 3")
    for one, other in zip(made.measurements, back.measurements, strict=True):
        assert (one.scope, one.noise, one.scale) == (other.scope, other.noise, other.scale)
        assert np.array_equal(one.values, other.values)
        assert (one.weights is None) == (other.weights is None)
    jsonschema.Draft202012Validator(json.loads(release_schema())).validate(json.loads(made.dumps()))
    with pytest.raises(FileExistsError):
        made.save(tmp_path / "x.json", replace=False)


def test_the_same_figures_are_the_same_document_and_others_are_not() -> None:
    assert figures().id == figures().id
    others = [
        figures((61, 39)),
        figures(promise="by law"),
        figures(noise=dc.external.StatedNoise("rounded", 2)),
        several(),
    ]
    assert len({part.id for part in (figures(), *others)}) == 5


def test_whose_promise_it_is_stands_in_every_line() -> None:
    assert figures().promise == "public figures of census 3, which promise nothing"
    told = figures(promise=guarantee(2)).promise
    assert told == "guaranteed by census 3, not by this package: epsilon 2, add-remove one record"
    assert figures(promise="secret by law").promise.endswith("secret by law")
    assert several().summary().count("(") == 5 and "rounded to multiples of 1 to 10" in several().summary()


def test_their_promise_is_never_added_to_ours() -> None:
    ours = replace(noisy_release(dc.Dirichlet.uniform(NETWORK), tables(), 2.0), private=True)
    theirs = figures(promise=guarantee(2))
    same = dc.combine(ours, theirs, data="same")
    assert same.guarantees == (None,)
    assert dc.combine(ours, theirs, data="different").guarantees == (ours.guarantee, None)
    assert (same.releases, same.external, same.parts) == ((ours,), (theirs,), (ours, theirs))
    assert same.private and same.records == (100,)
    back = dc.results.Combined.loads(same.dumps())
    assert back.dumps() == same.dumps() and isinstance(back.data_sets[0][1], dc.external.External)


def tables() -> dict[str, np.ndarray]:
    """Noisy counts of all families."""
    return {"a": np.array([58, 43]), "b": np.array([[20, 21, 19], [9, 8, 25]]), "c": np.full((3, 2), 16)}


@every(
    ("make", "message"),
    [
        (lambda: figures((1, 2, 3)), "have shape (2,), not (3,)"),
        (lambda: figures((1.5, 2)), "whole numbers"),
        (lambda: figures((1.5, 2), noise=dc.external.StatedNoise("discrete_gaussian", 1)), "whole numbers"),
        (lambda: figures((1.0, np.nan), noise=LAPLACE), "finite numbers"),
        (lambda: figures((1.0, np.inf), noise=LAPLACE), "finite numbers"),
        (lambda: figures((1.0, 2.0**61), noise=LAPLACE), "none beyond 2^60"),
        (lambda: figures(("x", "y")), "an array of numbers"),
        (lambda: figures([[1], [2, 3]]), "an array of numbers"),
        (lambda: figures((True, False)), "an array of numbers"),
        (lambda: figures(over=("z",)), "no variable 'z'"),
        (lambda: figures(over="a"), "a list of names"),
        (lambda: figures(np.ones((2, 2)), over=("a", "a")), "'a' twice"),
        (lambda: figures(noise="laplace"), "a StatedNoise"),
        (lambda: figures(noise=dc.external.StatedNoise("uniform", 1)), "noise is one of laplace"),  # type: ignore[arg-type]
        (lambda: dc.external.StatedNoise("laplace", 0), "greater than 0"),
        (lambda: dc.external.StatedNoise("laplace", float("nan")), "greater than 0"),
        (lambda: dc.external.StatedNoise("laplace", 2.0**63), "below 2^63"),
        (lambda: dc.external.StatedNoise("laplace", "wide"), "is a number"),  # type: ignore[arg-type]
        (lambda: figures([1.0], noise=LAPLACE, weights=[[1, 2, 3]]), "the weights have shape (1, 2)"),
        (lambda: figures([1.0], noise=LAPLACE, weights=[[0, 0]]), "a weight that is not 0"),
        (lambda: figures([1.0], noise=LAPLACE, weights=[[np.inf, 0]]), "finite numbers"),
        (lambda: figures([], noise=LAPLACE, weights=np.ones((0, 2))), "a list of numbers"),
        (
            lambda: figures([1], noise=dc.external.StatedNoise("discrete_laplace", 1), weights=[[0.5, 0]]),
            "whole numbers",
        ),
        (lambda: figures(promise=" "), "needs some"),
        (lambda: figures(promise=2), "a sentence, or None"),
        (lambda: figures().also((50, 51), ("a",), EXACT), "have the same sum"),
        (lambda: dc.external.External(NETWORK, (), None, "x"), "at least one table"),
        (lambda: replace(figures(), source=" "), "their source"),
        (lambda: replace(figures(), source="x" * 1001), "characters"),
        (lambda: dc.external_table(A, "net", ["a"], EXACT, guarantee=None, source="x"), "of a Network"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_figure_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(dc.InputError) as error:
        make()
    assert message in str(error.value)


@every(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "version"),
        (lambda d: d.update(more=1), "more"),
        (lambda d: d.pop("source"), "source"),
        (lambda d: d.update(guarantee={"epsilon": "1"}), "guarantee"),
        (lambda d: d["measurements"].clear(), "at least one table"),
        (lambda d: d["measurements"][0].update(values=[1.0]), "not those of its variables"),
        (lambda d: d["measurements"][0].update(variables=["z"]), "no variable 'z'"),
        (lambda d: d["measurements"][0].update(variables=["a"] * 31), "variables of a table"),
        (lambda d: d["measurements"][0]["noise"].update(scale=0), "noise.scale"),
        (lambda d: d["measurements"][0]["noise"].update(scale=1e300), "below 2^63"),
        (lambda d: d["measurements"][0]["noise"].update(law="none"), "law"),
        (lambda d: d["measurements"][2].update(weights=[[1.0], [2.0, 3.0]]), "equally many weights"),
        (lambda d: d["measurements"][2].update(weights=[[1.0]]), "the weights have shape"),
        (lambda d: d["measurements"][0].update(values=["1"] * 6), "values"),
        (lambda d: d["network"]["parents"].update(a=["b"]), "cycle"),
        (lambda d: d.update(network=huge()), "cells of all tables"),
    ],
)
def test_a_damaged_document_is_refused_in_one_line(change: Callable[[dict[str, Any]], object], message: str) -> None:
    document = json.loads(several().dumps())
    change(document)
    with pytest.raises(dc.InputError) as error:
        dc.tools.loads(json.dumps(document))
    assert message in str(error.value) and len(str(error.value)) <= 500


def huge() -> dict[str, Any]:
    """A small text that declares a family of 2^24 cells."""
    names = [f"v{k}" for k in range(24)]
    variables = [{"name": name, "states": ["0", "1"]} for name in names]
    return {"variables": variables, "parents": {**{name: [] for name in names}, "v23": names[:23]}}


def test_the_same_figures_are_not_read_twice() -> None:
    with pytest.raises(dc.InputError, match="there twice"):
        dc.combine(figures(), figures(), data="same")
    with pytest.raises(dc.InputError, match="different numbers of records"):
        dc.combine(figures(), figures((50, 51)), data="same")


# -------------------------------------------------------------------------------------------------------- who reads it


def test_sums_alone_need_a_number_of_records() -> None:
    alone = figures([40.5], noise=LAPLACE, weights=[[0, 1]])
    for read in (lambda: dc.noise_aware(alone, draws=10, rng=np.random.default_rng(1)), lambda: dc.check_fit(alone)):
        with pytest.raises(dc.InputError, match="do not tell the number of records"):
            read()
    both = alone.also(100, (), EXACT)
    assert measured_sets(dc.tools.evidence_of(both)) == (frozenset("a"),)
    prior = dc.Dirichlet.uniform(NETWORK)
    posterior = dc.noise_aware(both, draws=400, rng=np.random.default_rng(1), prior=prior, method="pooled")
    told = dc.answer(posterior, "P(a)", level=0.95)
    # 40.5 of 100, off by 2.8 records; the mean of 400 draws by a twentieth of their deviation of .057.
    assert told.basis == "measured" and told.rows[1]["mean"] == pytest.approx(0.405, abs=0.02)


def test_sums_that_leave_something_open_are_no_measured_set() -> None:
    """One of three states and the number of records leave the other two open; two of them do not."""
    one = figures([20.0], ("b",), LAPLACE, weights=[[0, 1, 0]]).also(100, (), EXACT)
    two = figures([20.0, 30.0], ("b",), LAPLACE, weights=[[0, 1, 0], [0, 0, 1]]).also(100, (), EXACT)
    assert measured_sets(dc.tools.evidence_of(one)) == (frozenset(),)
    assert measured_sets(dc.tools.evidence_of(two)) == (frozenset("b"),)
    assert measured_anywhere(dc.tools.evidence_of(one), in_part=True) == (frozenset("b"),)


def test_answers_say_what_nobody_measured() -> None:
    told = figures().also((30.5, 69.5), ("c",), LAPLACE)
    wanted = {
        "P(a)": ("measured", ()),
        "P(c)": ("measured", ()),
        "P(b)": ("prior", (("b",),)),
        "P(a, b)": ("prior", (("b",),)),
        "P(a, c)": ("prior", (("b",), ("b", "c"))),
        "P(c | b=s0)": ("prior", (("b", "c"),)),
    }
    for prior in (None, dc.Dirichlet.uniform(NETWORK)):
        posterior = dc.noise_aware(told, draws=40, rng=np.random.default_rng(1), prior=prior, method="pooled")
        answers = dc.answer_many(posterior, wanted, level=0.9)
        assert {part.query: (part.basis, part.prior_only) for part in answers} == wanted


def test_figures_on_other_records_leave_what_releases_measured_as_measured() -> None:
    ours = noisy_release(dc.Dirichlet.uniform(NETWORK), tables(), 2.0)
    both = dc.combine(figures(), ours, data="different")
    posterior = dc.noise_aware(both, draws=60, rng=np.random.default_rng(1))
    assert posterior.method == "sequential"
    for query in ("P(a)", "P(b | a=s0)", "P(b, c)"):
        answer = dc.answer(posterior, query, level=0.9)
        assert (answer.basis, answer.prior_only) == ("measured", ()), query
    assert dc.answer(posterior, "P(a, c)", level=0.9).unmeasured == (("a", "c"),)


@pytest.mark.costly("Chains over draws and figures by others together.")
def test_draws_of_parameters_are_read_beside_figures() -> None:
    from releases import simulated_counts

    rng, prior = np.random.default_rng(1), dc.Dirichlet.uniform(NETWORK)
    theta = dc.Tables(NETWORK, {node: table[..., 0] for node, table in prior.draw(1, rng=rng).items()})
    made = dc.simulate(dc.research.posterior_sampler(), simulated_counts(theta, 50, rng), prior, guarantee(), rng=rng)
    both = dc.combine(made, figures(), data="same")
    posterior = dc.noise_aware(both, draws=100, rng=2)
    assert posterior.method == "exact" and posterior.probabilities.draws == 100


def test_everything_else_reads_figures_alone() -> None:
    rng, told = np.random.default_rng(1), several()
    assert dc.tools.plug_in(told, draws=20, rng=rng).probabilities.draws == 20
    assert dc.estimate(told, rng=rng)["a"].shape == (2,)
    assert dc.check_fit(told).pairs_in_tables == 1
    posterior = dc.noise_aware(told, draws=20, rng=rng)
    assert dc.tools.simulate_records(posterior.mean(), 30, rng=rng).num_rows == 30
    assert len(dc.marginals(posterior, {}, level=0.9)) == 3


def test_the_page_runs() -> None:
    page = Path(__file__).parent.parent / "docs" / "external.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10 and failed == 0
