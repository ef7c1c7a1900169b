"""The random id of an account: in all its releases, of nothing private, and what readers refuse because of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.pooled.estimate import estimate
from discreet.research.mechanisms.factored import factored
from published import DATA
from shell import Shell

NETWORK = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("no", "yes"))), {"x": (), "y": ("x",)})
COUNTS = dc.tools.count_codes(NETWORK, {"x": [0, 0, 1, 1] * 50, "y": [0, 1, 1, 1] * 50})
PRIOR = dc.Dirichlet.uniform(NETWORK)
FEW = {"draws": 60, "rng": 1}


def promise(epsilon: object = 1) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


def opened(name: str = "ward", place: str = "sqlite://") -> dc.results.Account:
    return dc.Ledger(place).open(name, promise(100))


def made(account: dc.results.Account, prior: dc.Dirichlet = PRIOR) -> dc.Release:
    return dc.release(dc.laplace(), COUNTS, prior, promise(), account=account)


# ------------------------------------------------------------------------------------------------------------- the id


def test_all_releases_of_an_account_carry_its_id_and_no_other_does() -> None:
    account = opened()
    assert account.id is None
    first, second = made(account), made(account.ledger.account("ward", purpose="study"))
    assert first.account == second.account == account.id == first.id != second.id
    assert account.ledger.paid(second.account or "") is not None  # whoever keeps the ledger finds the account by it
    other = made(account.ledger.open("clinic", promise(100)))
    assert other.account not in (None, account.id)
    assert dc.simulate(dc.laplace(), COUNTS, PRIOR, promise(), rng=1).account is None


@pytest.mark.system_noise
def test_an_id_is_random_and_says_nothing_of_name_ledger_or_records(tmp_path: Path) -> None:
    """Accounts alike in all, at one place, of the same records, have ids of their own: equal ones in 2^-128."""
    found = set()
    for _ in range(3):
        account = opened(place=f"sqlite:///{tmp_path / 'budget.db'}")
        found.add(made(account).account)
        (tmp_path / "budget.db").unlink()
    assert len(found) == 3 and all(len(one or "") == 32 for one in found)


def test_what_was_charged_by_hand_gives_no_id() -> None:
    """Anybody may call their own output what they like: it may say something, so it is not published later."""
    account = opened()
    for name in ("smith-1950", "e" * 31, "E" * 32, "g" * 32, "é" * 32):
        account.charge(name, "own", promise())
    assert account.id is None
    released = made(account)
    assert released.account == released.id == account.id


def test_the_first_release_gives_the_id_where_two_are_first_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    account, theirs = opened(), "0" * 32
    pay = dc.results.Account.charge

    def behind_another(self: dc.results.Account, *args: Any, **more: Any) -> Any:
        pay(self, theirs, "laplace", promise())
        monkeypatch.undo()
        return pay(self, *args, **more)

    monkeypatch.setattr(dc.results.Account, "charge", behind_another)
    assert made(account).account == theirs == account.id


def test_documents_keep_the_id_and_older_ones_have_none(tmp_path: Path) -> None:
    released = made(opened())
    assert dc.Release.loads(released.dumps()).account == released.account
    raw = json.loads(released.dumps())
    for wrong in ("ward", "0" * 31, "F" * 32, 3, ["0" * 32]):
        with pytest.raises(dc.InputError, match="account"):
            dc.Release.loads(json.dumps({**raw, "account": wrong}))
    old = [dc.tools.loads(path.read_text()) for path in sorted(DATA.glob("release-v1-*.json"))]
    assert old and all(isinstance(release, dc.Release) and release.account is None for release in old)


def test_both_charges_of_a_fit_and_all_of_a_search_carry_the_account() -> None:
    account, rng = opened(), np.random.default_rng(3)
    made(account)
    X = rng.uniform(-1, 1, (2000, 1))
    fitted = dc.estimators.PrivateLinearRegression(
        bounds=(-20, 20), target_bounds=(-3, 3), find_bounds=0.2, guarantee=promise(10), account=account, draws=40
    )
    search = dc.estimators.PrivateGridSearch(fitted, {"draws": [40, 50]}).fit(X, X[:, 0])
    fitted.fit(X, X[:, 0])
    best = search.best_estimator_
    listed = [fitted.release_, fitted.bounds_release_, best.release_, best.bounds_release_, search.score_.release]
    assert {released.account for released in listed} == {account.id}
    assert len(account.charges()) == 4


# ------------------------------------------------------------------------------------------------- what is not combined


def test_releases_of_one_account_are_not_on_different_data() -> None:
    account = opened()
    first, second, other = made(account), made(account), made(opened())
    with pytest.raises(dc.InputError, match=f"{first.id[:8]} and {second.id[:8]} were paid for by one account.*'same'"):
        dc.combine(first, second, data="different")
    same = dc.combine(first, second, data="same")
    assert dc.combine(same, other, data="different").data_sets == ((first, second), (other,))
    both = dc.combine(first, other, data="different")
    for again in (
        lambda: dc.combine(both, second, data="different"),
        lambda: dc.combine(second, both, data="different"),
    ):
        with pytest.raises(dc.InputError, match="one account"):
            again()
    apart = replace(second, account=None)  # as of a file that somebody changed
    text = (
        dc.combine(first, apart, data="different")
        .dumps()
        .replace(f'"id": "{apart.id}"', f'"id": "{apart.id}", "account": "{account.id}"')
    )
    with pytest.raises(dc.InputError, match="one account"):
        dc.tools.loads(text)


def test_one_data_set_may_have_several_accounts_and_old_documents() -> None:
    first, other = made(opened()), made(opened())
    assert len(dc.combine(first, other, data="same").data_sets) == 1
    olds = [replace(part, account=None) for part in (first, other)]
    assert len(dc.combine(*olds, data="different").data_sets) == 2


def test_the_first_release_is_known_by_its_id_where_its_document_is_older() -> None:
    account = opened()
    first = replace(made(account), account=None)
    with pytest.raises(dc.InputError, match="one account"):
        dc.combine(first, made(account), data="different")


# ------------------------------------------------------------------------------------------------- what is no prior


READERS: dict[str, Callable[[dc.Release, dc.Dirichlet], object]] = {
    "noise-aware": lambda release, prior: dc.noise_aware(release, prior=prior, **FEW),
    "exact": lambda release, prior: dc.noise_aware(release, prior=prior, method="exact", **FEW),
    "combined": lambda release, prior: dc.noise_aware(dc.combine(release, data="same"), prior=prior, **FEW),
    "plug-in": lambda release, prior: dc.tools.plug_in(release, prior=prior, **FEW),
    "estimate": lambda release, prior: estimate(release, prior=prior),
}


EACH_READER = pytest.mark.costly("Each reader has to refuse by itself what would count records twice.")


@pytest.mark.parametrize(
    "reader", ["noise-aware", *(pytest.param(one, marks=EACH_READER) for one in list(READERS)[1:])]
)
def test_a_posterior_is_no_prior_of_its_accounts_other_releases(reader: str) -> None:
    account = opened()
    first, second, other = made(account), made(account), made(opened())
    direct = dc.noise_aware(first, **FEW)
    chained = dc.noise_aware(other, prior=direct.as_prior(), **FEW)
    for posterior in (direct, direct.fresh(), chained, dc.tools.plug_in(first, **FEW)):
        prior = posterior.as_prior()
        assert np.array_equal(prior.alpha["y"], dc.Dirichlet.matching(posterior.probabilities).alpha["y"])
        with pytest.raises(dc.InputError, match=r"same account: the same records would count twice.*data='same'"):
            READERS[reader](second, prior)
        with pytest.raises(dc.InputError, match="count twice"):
            READERS[reader](second, prior.updated(dc.Tables(NETWORK, {"x": [3, 1], "y": [[3, 0], [0, 1]]})))
    READERS[reader](made(opened()), direct.as_prior())  # of another account it is one


def test_stored_draws_remember_their_accounts_and_those_of_their_prior(tmp_path: Path) -> None:
    account = opened()
    first, second, other = made(account), made(account), made(opened())
    before = dc.noise_aware(first, **FEW)
    dc.noise_aware(other, prior=before.as_prior(), **FEW).save(tmp_path / "after.draws")
    prior = dc.results.PosteriorDraws.load(tmp_path / "after.draws").as_prior()
    assert prior.accounts == {account.id, other.account}
    with pytest.raises(dc.InputError, match="count twice"):
        dc.noise_aware(second, prior=prior, **FEW)


def test_a_choice_is_not_read_with_its_accounts_posterior() -> None:
    face = dc.designs.Design((dc.Variable("face", bounds=(0, 1), type="integer"),), None, None, False)
    factor = dc.research.CategoricalFactor([[0.3, 0.7], [0.7, 0.3]], floor=0.25)
    rows = dc.designs.read_rows(face, np.array([[0.0], [1.0], [1.0]]))
    account = opened()
    first, second = (
        dc.release(factored(factor), rows, dc.designs.Normal(face, 1.0), promise(), account=account) for _ in range(2)
    )
    prior = dc.noise_aware(first, **FEW).as_prior()
    with pytest.raises(dc.InputError, match="count twice"):
        dc.noise_aware(second, prior=prior, **FEW)


def test_a_release_is_not_made_with_its_own_accounts_posterior_and_nothing_is_charged() -> None:
    account = opened()
    prior = dc.noise_aware(made(account), **FEW).as_prior()
    with pytest.raises(dc.InputError, match="same account"):
        made(account, prior)
    assert len(account.charges()) == 1
    assert made(opened(), prior).private


# ------------------------------------------------------------------------------------------------- the shell


@pytest.mark.costly(
    "A charge that is counted in two accounts is found by the commands that would make it.", always=True
)
def test_commands_refuse_what_would_count_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run, account = Shell(capfd), opened()
    for name in ("a", "b"):
        made(account).save(f"{name}.json")
    made(opened()).save("c.json")
    few = "--draws 60 --seed 3"
    assert run(f"draw b.json --output b.draws {few}")[0] == 0
    assert run(f"draw c.json --prior b.json --output c.draws {few}")[0] == 0
    for command, words in [
        ("combine a.json b.json --output x.json", "--data same"),
        ("combine a.json b.json --data different --output x.json", "--data same"),
        (f'query a.json "P(y)" --prior b.json {few}', "count twice"),
        (f'query a.json "P(y)" --prior a.json {few}', "count twice"),
        (f'query a.json "P(y)" --prior b.draws {few}', "count twice"),
        (f'query a.json "P(y)" --prior c.draws {few}', "count twice"),
        (f"draw a.json --prior b.json --output x.draws {few}", "count twice"),
    ]:
        code, out, err = run(command)
        assert code == 2 and out == "" and words in err and "account" in err, command
        assert "different records" not in err
    assert not Path("x.json").exists() and not Path("x.draws").exists()
    assert run("combine a.json b.json --data same --output ab.json")[0] == 0
    assert run("combine ab.json c.json --output abc.json")[0] == 0
    assert run(f'query a.json "P(y)" --prior c.json {few}')[0] == 0
