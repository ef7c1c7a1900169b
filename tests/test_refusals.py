"""What is refused leads where it says: every error is ours, and names a way that is there."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.verify import made_up, tiny_data
from folding import every
from shell import Shell, opened

WAIT = dc.Variable.binned("wait", (0, 60), 12)
NETWORK = dc.Network((WAIT,), {"wait": ()})
DESIGN = dc.designs.Design((dc.Variable("x", bounds=(0, 1)),), intercept=False)
NORMAL = dc.designs.Normal(DESIGN, 1.0)
COIN = dc.Network((dc.Variable("flip", ("tails", "heads")),), {"flip": ()})
RATES = np.linspace(0.05, 1, 5)
SCORE = {"variables": [{"name": "a", "states": ["no", "yes"]}], "candidates": [[0.2], [0.8]], "range": [0, 1],
         "scores": [[1, 0], [0, 1]]}  # fmt: skip
FAMILY = {"family": "exponential", "variables": [{"name": "wait", "bounds": [0, 60], "bins": 12}],
          "parameters": {"low": 0.05, "high": 1}, "points": 16}  # fmt: skip
HOURLY = "1 hour in one wait"
MEANT = "the 1 is in the unit of column 'wait', whose bounds are 0 to 60, whatever 'hour in one wait' says"


def factor(**given: object) -> object:
    return dc.research.own_factor(
        DESIGN, lambda r, z: r["x"][:, None] * z[:, 0], [0, 1], **{"low": 0, "high": 1, **given}
    )


def score(over: object = NETWORK, **given: object) -> object:
    return dc.research.own_score(
        over, lambda t, z: -abs(t["wait"][:, None] - z[:, 0]), [5, 9], **{"low": -9, "high": 0, **given}
    )


def family(**given: object) -> object:
    return dc.research.own_family(NETWORK, lambda t, z: -t["wait"][:, None] * z[:, 0] + np.log(z[:, 0]), RATES, **given)


def never(types: object, rates: np.ndarray) -> np.ndarray:
    """A likelihood that is 0 of the last bin, whatever the rate."""
    wait = types["wait"][:, None]
    return np.where(wait > 55, -np.inf, -wait * rates[:, 0])


def named(**given: object) -> dc.research.Family:
    return dc.research.Family("exponential", (WAIT,), {"low": 0.05, "high": 1.0}, **given)


ODD: dict[str, tuple[Callable[[], object], str]] = {
    "range of a factor": (lambda: factor(low="a"), "the low end of a score's range must be a number"),
    "no range of a factor": (lambda: factor(low=None), "the low end of a score's range must be a number"),
    "base of a factor": (lambda: factor(base=["a", "b"]), "log weights of a base measure must be numbers"),
    "a network of a factor": (lambda: dc.research.own_factor(NETWORK, len, [1, 2], low=0, high=1), "needs a Design"),
    "range of a score": (lambda: score(high="a"), "the high end of a score's range must be a number"),
    "base of a score": (lambda: score(base=["x", "y"]), "log weights of a base measure must be numbers"),
    "a schema of a score": (lambda: score(NETWORK.schema), "a score needs a Network: `Network.empty"),
    "prior of a family": (lambda: family(prior=["a"] * 5), "weights of a prior must be numbers"),
    "bound of a family": (lambda: family(bound="a"), "a bound on log-likelihoods must be a number"),
    "a record that cannot be": (
        lambda: dc.research.own_family(NETWORK, never, RATES, bound=3),
        "type of record wait=57.5 has a likelihood of 0 under every candidate",
    ),
    "Lipschitz constant": (lambda: named(lipschitz="a"), "the lipschitz of a family must be a number"),
    "one variable": (
        lambda: dc.research.Family("exponential", WAIT, {"low": 0.05, "high": 1.0}),
        "needs a tuple of variables",
    ),
    "nothing to sample": (lambda: dc.research.sampled(None), "needs a Family"),
    "nothing to score": (lambda: dc.research.scored(None), "a choice needs a Family"),
    "no prior": (lambda: chosen("own", None), "a release needs a prior"),
    "temper of a family": (lambda: dc.research.sampled(named(), temper="a"), "temper must be a number"),
    "temper": (lambda: dc.research.posterior_sampler(temper="a"), "temper must be a number"),
    "no given nodes": (lambda: dc.research.posterior_sampler(given=None), "given must be a list of names of nodes"),
    "given numbers": (lambda: dc.research.posterior_sampler(given=(3,)), "given must be a list of names of nodes"),
}


@every("case", ODD)
def test_odd_arguments_are_refused_in_words(case: str) -> None:
    made, message = ODD[case]
    with warnings.catch_warnings(), pytest.raises(dc.InputError, match=message):
        warnings.simplefilter("error")
        made()


def test_payoffs_whose_sums_would_overflow_are_refused() -> None:
    posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(COIN).draw(100, rng=np.random.default_rng(0)), "prior")
    utility = dc.decisions.payoff(
        COIN, "P(flip)", {"a": {"tails": 1e308, "heads": -1e308}, "b": {"tails": 0, "heads": 0}}
    )
    with pytest.raises(dc.InputError, match=r"within 1e\+100 of 0"):
        dc.decide(posterior, utility, ["a", "b"], bounds=(-1e308, 1e308))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    for name, document in (("score", SCORE), ("wait", FAMILY)):
        Path(f"{name}.json").write_text(json.dumps(document))
    Path("waits.csv").write_text("wait\n" + "5\n20\n" * 50)
    return shell


def chosen(kind: str, prior: object = NORMAL) -> dc.Release:
    """A simulated choice over a design."""
    side = dc.research.CategoricalFactor(np.array([[0.7, 0.3], [0.3, 0.7]]), 0.05)
    mechanism = dc.research.factored(side if kind == "categorical" else factor())
    statistic = dc.tools.statistic_of(mechanism, dc.designs.read_rows(DESIGN, np.ones((40, 1))), DESIGN)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    return dc.simulate(mechanism, statistic, prior, promise, rng=np.random.default_rng(3))


def test_a_choice_by_an_own_score_is_sent_to_what_reads_it(run: Shell) -> None:
    chosen("own").save("own.json")
    for command in (
        "fit own.json", "query own.json", "export own.json --output o.bif", "sample own.json -n 3 --output o.csv",
        "combine own.json --output both.json", "decide own.json --quantity 'P(x=1)'",
    ):  # fmt: skip
        said = run(command)[2]
        assert "(score=own_factor(...))" in said if command.startswith("query") else "`.posterior()`" in said, command
    for read in (dc.read, dc.Release.posterior):
        with pytest.raises(dc.InputError, match=r"pass `read` that score \(score=own_factor\(...\)\)"):
            read(chosen("own"), draws=9, rng=1)


def test_a_choice_of_states_is_decided_by(run: Shell) -> None:
    chosen("categorical").save("side.json")
    payoffs = '{"one": {"0": 0, "1": 1}, "none": {"0": 1, "1": 0}}'
    told = run.json(f"decide side.json --query 'P(x)' --payoffs '{payoffs}' --seed 1")
    (answer,) = run.json("query side.json 'P(x=1)'")["answers"]
    (one,) = [row["mean"] for row in told["decisions"][0]["values"] if row["response"] == "one"]
    assert abs(one - answer["values"][0]["mean"]) < 0.1
    assert "ask it with `query`" in run("export side.json --output o.bif")[2]


def test_a_score_is_named_where_it_is_wanted(run: Shell) -> None:
    words = "--account add-remove --epsilon 1 --output r.json"
    said = run.fails(f"release d.parquet --network asia.bif --mechanism scored {words}")
    assert "give its JSON file with --score" in said
    assert run("check waits.csv --score wait.json")[0] == 0
    Path("waits.csv").write_text("wait\n5\n99\n")
    assert "`check` shows how many" in run.fails(f"release waits.csv --score wait.json {words}")
    code, out, _ = run("check waits.csv --score wait.json")
    assert code == 2 and "out of bounds" in out


def test_figures_by_others_are_not_explained_as_if_they_were_combined(run: Shell) -> None:
    Path("cells.csv").write_text("smoke,count\nyes,12\nno,9\n")
    run("external cells.csv --network asia.bif --noise laplace --scale 2 --source survey --output theirs.json")
    said = run.fails("explain theirs.json")
    assert "figures by others" in said and "combined" not in said
    run("release d.parquet --network asia.bif --account add-remove --epsilon 1 --output r.json")
    told = run("combine r.json theirs.json --data different --output both.json")[1]
    assert "data set 1: 1 release(s), " in told
    assert "data set 2: 1 document(s) of figures by others, " in told
    Path("cells.csv").write_text("smoke,count\nyes,12\n")
    run("external cells.csv --network asia.bif --noise laplace --scale 2 --source survey --output one.json")
    assert "(n, ()" not in run.fails("query one.json")


def test_too_few_draws_for_an_interval_are_refused(run: Shell) -> None:
    run("release d.parquet --network asia.bif --account add-remove --epsilon 1 --output r.json")
    for command in ("decide r.json --quantity 'P(smoke=yes)'", "explain r.json 'P(smoke=yes)'"):
        assert "1 draws are too few for a level of 0.95; draw about 40" in run.fails(f"{command} --draws 1")


def test_a_choice_of_a_network_is_explained_without_a_posterior(run: Shell) -> None:
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    three = dc.Network.empty(dc.Schema(tuple(dc.Variable(name, ("tails", "heads")) for name in ("flip", "b", "c"))))
    mechanism, rng = dc.structure(1), np.random.default_rng(1)
    codes = {name: rng.integers(0, 2, 9) for name in three.nodes}
    counts = dc.tools.count_codes(three, codes, tuple(mechanism.scopes(three)))
    made = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(three), promise, rng=rng)
    told = str(dc.explain(made, "P(flip)", rng=np.random.default_rng(1)))
    assert "there is no posterior" in told
    assert "divergence" not in told


# ------------------------------------------------------------------------------------------------------------- plans


def test_a_family_and_a_score_are_planned(run: Shell) -> None:
    told = run.json("plan --score wait.json --epsilon 1 --records 500 --repeats 20")["expected"]
    errors = {(part["relation"], part["mechanism"]): part["errors"]["rate"] for part in told}
    assert set(errors) == {(r.value, m) for r in dc.tools.RECORD_RELATIONS for m in ("(no privacy)", "sampled")}
    for relation in dc.tools.RECORD_RELATIONS:
        assert 0 < errors[relation.value, "(no privacy)"] < errors[relation.value, "sampled"] < 0.4
    by_score = run.json("plan --score score.json --epsilon 0.001 --records 50 --repeats 20")["expected"]
    assert [part["errors"]["score"] > 0 for part in by_score] == [False, True, False, True]
    assert "mechanism 'laplace' takes no score" in run.fails(
        "plan --score wait.json --epsilon 1 --records 9 --mechanism laplace"
    )
    assert "1 to 100,000,000 records" in run.fails("plan --score wait.json --epsilon 1 --records 0")


def test_more_budget_errs_less_in_the_plan_of_a_family() -> None:
    errors = []
    for epsilon in (1, 50):
        promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="replace", unit="record")
        own, rng = named(points=64), np.random.default_rng(5)
        _, drawn = dc.research.plan_score(dc.research.sampled(own), own.table, promise, 300, rng=rng, repeats=200)
        errors.append((drawn.errors[0], drawn.spread[0]))
    (much, off), (little, less) = errors
    # At most five standard errors apart if they were equal: a chance below 1e-6, and they differ by tens of them.
    assert much - little > 5 * np.hypot(off, less)


def test_given_nodes_are_audited_where_there_are_such(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = {name: tiny_data.audit_networks()[name] for name in ("one coin", "a -> b")}
    monkeypatch.setattr(made_up, "audit_networks", lambda: networks)
    found = run.json("audit posterior_sampler --option given=a --records 1")["findings"]
    assert [(part["network"], part["relation"]) for part in found] == [("a -> b", "add-remove"), ("a -> b", "replace")]
    assert all(part["holds"] for part in found)
    assert "nodes" in run.fails("audit posterior_sampler --option given=nobody")


def test_candidates_come_from_bif_files(run: Shell) -> None:
    for name, heads in (("fair", 0.5), ("bent", 0.9)):
        dc.Tables(COIN, {"flip": [1 - heads, heads]}).write(f"{name}.bif")
    Path("flips.csv").write_text("flip\n" + "heads\n" * 90 + "tails\n" * 10)
    words = "--mechanism map_estimate --option candidates=fair.bif,bent.bif"
    told = run(f"release flips.csv --network fair.bif {words} --account replace --epsilon 3 --output coin.json")
    assert told[0] == 0, told
    assert dc.load("coin.json").payload.index == 1  # the odds are e^30 and more
    (found,) = run.json("audit map_estimate --option candidates=fair.bif,bent.bif --relation replace")["findings"]
    assert found["holds"] and found["measured"] > 0.9


# ------------------------------------------------------------------------------------------------------ units of change


def test_a_metric_is_told_in_the_unit_of_its_column(run: Shell) -> None:
    """Words such as hours convert nothing: the amount is in the unit of the column's bounds, as everybody is told."""
    said = run(f"ledger open waits --epsilon 9 --relation metric --unit '{HOURLY}'")[2]
    assert "in the unit of the bounds of the released column" in said
    told = run("release waits.csv --score wait.json --account waits --epsilon 1 --output w.json")
    assert MEANT in told[2]
    again = run.json("release waits.csv --score wait.json --account waits --epsilon 1 --output w2.json")
    assert again["unit"] == [MEANT]
    assert MEANT in run("explain w.json")[1]
    assert run.json("explain w.json")["promise"]["meant"] == [MEANT]
    under = f"--relation metric --unit '{HOURLY}'"
    assert MEANT in run(f"plan --score wait.json --epsilon 1 --records 50 --repeats 1 {under}")[1]
    assert MEANT in run(f"audit sampled --option score=wait.json --records 1 {under}")[1]
    run("export w.json --output w.bif")
    assert MEANT in Path("w.bif").read_text()


def test_an_account_of_records_takes_no_amount_for_its_unit(run: Shell) -> None:
    said = run.fails("ledger open waits --epsilon 9 --relation replace --unit '1 minute in one wait'")
    assert "protects whole records" in said
    assert run("ledger open visits --epsilon 9 --relation replace --unit '2-week episode'")[0] == 0
