"""A client of a server: what it returns is what the same draws return here, to the last digit; else one sentence."""

from __future__ import annotations

import dataclasses
import http.server
import inspect
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.releases.policy import RecordsPolicy
from discreet.server import http_client
from discreet.server.tokens import add_token
from folding import every
from published import DATA
from serving import Served, served

PROMISE = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
SMOKE, LUNG = dc.Variable("smoke", ("yes", "no")), dc.Variable("lung & <air>", ("no", "yes=1"))
AGE, AREA = dc.Variable.binned("age", (0, 100), 4), dc.Variable("area", ("north", "süd", "west"))
PLAIN = dc.Network((SMOKE, LUNG, AGE, AREA), {"smoke": ("area",), LUNG.name: ("smoke",), "age": (), "area": ()})
WAIT = dc.Variable.binned("wait", (0, 20), 10)
GAPPY = dc.Network((SMOKE, AREA), {"smoke": (), "area": ("smoke",)}).with_missing(["smoke"])
QUERIES = [f'P("{LUNG.name}" | smoke=yes)', "P(smoke, area)", "MAP(smoke, area)", "E(age | smoke=no)", "P(age > 40)"]


def release_of(network: dc.Network, seed: int, missing: str = "error") -> dc.Release:
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, network.schema[name].size, 400).tolist() for name in network.nodes}
    counts = dc.tools.count_codes(network, codes)
    made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), PROMISE, rng=seed)
    return dataclasses.replace(made, policy=RecordsPolicy(missing, "error"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases with stored draws, and the token of one who may ask."""
    place = tmp_path_factory.mktemp("served")
    for name, made in {"visits": release_of(PLAIN, 1), "gappy": release_of(GAPPY, 2, "keep")}.items():
        made.save(place / f"{name}.json")
        dc.noise_aware(made, draws=100, rng=0).save(place / f"{name}.draws")
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    draws = [part for name in ("visits", "gappy") for part in ("--draws", str(folder / f"{name}.draws"))]
    with served([folder / "visits.json", folder / "gappy.json"], *draws, "--no-prepare") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[dc.server.Client]:
    made = dc.server.Client(server.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def here(folder: Path) -> dc.results.PosteriorDraws:
    return dc.results.PosteriorDraws.load(folder / "visits.draws")


@pytest.fixture(scope="module")
def there(client: dc.server.Client) -> dc.server.RemotePosterior:
    return client.posterior("visits")


GAINS = {"treat": {"no": -1.5, "yes=1": 3}, "wait": {"no": 0.1, "yes=1": -2}}
RECORDS = {"smoke": ["yes", "no", None, "yes"], "age": [3.5, None, 99, 40], "area": ["süd", "west", None, "süd"]}
UTILITY = dc.decisions.payoff(PLAIN, f'P("{LUNG.name}" | area=west)', GAINS)
SAME: dict[str, Callable[[Any], Any]] = {
    "answer": lambda posterior: dc.answer(posterior, QUERIES[0], level=0.9),
    "answer-method": lambda posterior: posterior.answer(QUERIES[1], predictive=True),
    "answer-parsed": lambda posterior: dc.answer(posterior, dc.tools.parse_query(QUERIES[2], PLAIN.schema)),
    "answer-robust": lambda posterior: dc.answer(posterior, "P(age | area=west)", assume="robust"),
    "answer-nothing": lambda posterior: dc.answer(posterior, "P(smoke=yes | area=west)", assume="nothing"),
    "answer-uniform": lambda posterior: dc.answer(posterior, QUERIES[3], inside="uniform"),
    "answer-many": lambda posterior: dc.answer_many(posterior, [*QUERIES, QUERIES[0]], level=np.float64(0.8)),
    "answer-none": lambda posterior: dc.answer_many(posterior, []),
    "marginals": lambda posterior: dc.marginals(posterior),
    "marginals-given": lambda posterior: dc.marginals(posterior, {LUNG.name: "yes=1", "area": "süd"}, predictive=True),
    "marginals-otherwise": lambda posterior: dc.marginals(posterior, {"area": "süd", LUNG.name: "yes=1"}, level=0.5),
    "marginals-again": lambda posterior: dc.marginals(posterior, {LUNG.name: "yes=1", "area": "süd"}, level=0.5),
    "decide": lambda posterior: dc.decide(
        posterior, UTILITY, ["wait", "treat"], bounds=(-5, 5), queries=3, failure=0.01, fresh=False
    ),
    "decide-one": lambda posterior: dc.decide(posterior, UTILITY, ["wait"], bounds=(-2, 3), fresh=False),
    "number": lambda posterior: dc.decisions.decide_number(posterior, "P(smoke=yes)", "absolute", fresh=False),
    "number-loss": lambda posterior: dc.decisions.decide_number(
        posterior, "P(smoke=yes | area=west)", dc.decisions.Quantile(0.123456789), bounds=(-1, 2), fresh=False
    ),
    "number-interval": lambda posterior: dc.decisions.decide_number(
        posterior, "P(smoke=yes)", "interval:0.8", queries=2, level=0.5, fresh=False
    ),
    "vector": lambda posterior: dc.decisions.decide_vector(
        posterior, ["P(area, smoke=yes)", "P(smoke=yes | area=west)", "E(age)"], level=0.8, queries=3, fresh=False
    ),
    "vector-of-one": lambda posterior: dc.decisions.decide_vector(posterior, "P(area)", failure=0.01, fresh=False),
    "vector-shown": lambda posterior: dc.decisions.decide_vector(posterior, "P(area)", fresh=False).summary(),
    "responder": lambda posterior: dc.decisions.Responder(
        dataclasses.replace(posterior, source=None) if hasattr(posterior, "source") else posterior,
        quantities=["P(smoke=yes)"],
    ).number("P(smoke=yes)", "squared"),
    "frame": lambda posterior: dc.marginals(posterior).to_frame("arrow"),
    "shown": lambda posterior: dc.marginals(posterior)._repr_html_(),
    "tidy": lambda posterior: posterior.tidy(),
}


@pytest.mark.parametrize("question", SAME)
def test_a_server_answers_as_the_draws_do_here(question: str, here: Any, there: Any) -> None:
    assert SAME[question](there) == SAME[question](here)
    assert type(SAME[question](there)) is type(SAME[question](here))


@pytest.mark.parametrize(
    "records",
    [RECORDS, pa.table(RECORDS), {LUNG.name: [None] * 3}, {"smoke": []}, {"smoke": ["no", "yes"] * 1500}],
    ids=["columns", "arrow", "target-alone", "none", "many"],
)
def test_predictions_are_the_same(records: Any, here: Any, there: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, local = (dc.predict(one, records, LUNG.name, level=0.8) for one in (there, here))
    assert found.table() == local.table()
    for name in ("mean", "lower", "upper", "left_out"):
        assert np.array_equal(getattr(found, name), getattr(local, name))
    assert (found.target, found.states, found.level, found.basis) == (
        local.target,
        local.states,
        local.level,
        local.basis,
    )


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_regressions_are_the_same_at_every_level(kind: Any, here: Any, there: Any) -> None:
    found, local = (dc.regress(one, LUNG.name, ["smoke", "age"], kind=kind) for one in (there, here))
    assert np.array_equal(found.coefficients, local.coefficients)
    assert found.rows(level=0.7) == local.rows(level=0.7) and found.summary() == local.summary()
    assert dc.regress(there, LUNG.name, "smoke").on == ("smoke",)


@pytest.mark.parametrize("sets", [None, 3])
def test_synthetic_records_are_the_same(sets: int | None, here: Any, there: Any) -> None:
    found, local = (dc.sample(one, 70_000, rng=5, sets=sets) for one in (there, here))
    assert len(found) == len(local)
    for mine, theirs in zip(reversed(found), reversed(local), strict=True):
        assert mine.schema == theirs.schema
        assert list(mine) == list(theirs)
    assert dc.sample(there, 0)[0].read_all().num_rows == 0
    found, local = (dc.sample(one, 300, given="smoke=yes", rng=5, sets=sets) for one in (there, here))
    assert [stream.read_all() for stream in found] == [stream.read_all() for stream in local]


def test_a_posterior_with_gaps_is_asked_either_way(client: dc.server.Client, folder: Path) -> None:
    seen = dc.results.PosteriorDraws.load(folder / "gappy.draws")
    complete = dc.tools.assume_at_random(seen)
    for missing, local in {None: seen, "at-random": complete, "state": seen}.items():
        remote = client.posterior("gappy", missing=missing)  # type: ignore[arg-type]
        assert remote.network == local.network
        assert dc.marginals(remote) == dc.marginals(local)
        assert dc.answer(remote, "P(area | smoke=yes)") == dc.answer(local, "P(area | smoke=yes)")
        for mine, theirs in zip(dc.sample(remote, 50, rng=1), dc.sample(local, 50, rng=1), strict=True):
            assert mine.read_all() == theirs.read_all()
        assert dc.predict(remote, {"area": ["west"]}, "smoke").table() == (
            dc.predict(local, {"area": ["west"]}, "smoke").table()
        )
    with pytest.raises(dc.InputError, match="missing is for releases of variables with a state"):
        client.posterior("visits", missing="at-random")


def test_the_document_is_the_release_itself(client: dc.server.Client, folder: Path, here: Any) -> None:
    made = client.release("visits")
    assert made.dumps() == (folder / "visits.json").read_text()
    assert isinstance(made, dc.Release) and client.release(made.id).dumps() == made.dumps()
    assert dc.check_fit(made).pairs == dc.check_fit(dc.load(folder / "visits.json")).pairs
    assert client.posterior(made.id).network == here.network == made.network
    rows = client.releases()
    assert [row["name"] for row in rows] == ["visits", "gappy"] and "visits" in str(rows)
    assert rows.to_frame("arrow").column("guarantees").to_pylist() == [str(made.guarantee)] * 2


def test_signatures_and_texts_stay() -> None:
    for function in (dc.answer, dc.answer_many, dc.marginals, dc.predict, dc.regress, dc.decide, dc.sample):
        assert next(iter(inspect.signature(function).parameters)) == "posterior"
        assert "Args:" in (function.__doc__ or "") and inspect.isfunction(function)
        assert inspect.getsource(function).count("def ") >= 1


def test_a_posterior_is_found_by_keyword_too(there: Any, here: Any) -> None:
    assert dc.answer(query="P(smoke)", posterior=there) == dc.answer(query="P(smoke)", posterior=here)
    with pytest.raises(TypeError):
        dc.answer(there)  # type: ignore[call-arg]


# ------------------------------------------------------------------------------------------------ what is refused

WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "level": (lambda one: dc.answer(one, "P(smoke)", level=float("nan")), "level"),
    "syntax": (lambda one: dc.answer(one, "P(smoke"), "P(smoke"),
    "name": (lambda one: dc.answer(one, "P(smoking)"), "smoking"),
    "second": (lambda one: dc.answer_many(one, ["P(smoke)", "P(smoking)"]), "query 2"),
    "text": (lambda one: dc.answer_many(one, "P(smoke)"), "answer takes one"),
    "evidence": (lambda one: dc.marginals(one, {"smoke": "maybe"}), "maybe"),
    "evidence-text": (lambda one: dc.marginals(one, "smoke=yes"), "a mapping of states"),
    "bounds-of-a-mean": (lambda one: dc.answer(one, "E(age)", assume="nothing"), "ask for P"),
    "explained-bounds": (lambda one: dc.answer(one, "MAP(smoke)", assume="nothing"), "ask for P"),
    "target": (lambda one: dc.predict(one, RECORDS, "lungs"), "lungs"),
    "column": (lambda one: dc.predict(one, {"smoking": ["yes"]}, "smoke"), "no variables of the network"),
    "state": (lambda one: dc.predict(one, {"smoke": ["yes", "maybe"]}, "area"), "position 1"),
    "covariate": (lambda one: dc.regress(one, "smoke", ["lungs"]), "lungs"),
    "covariates": (lambda one: dc.regress(one, "smoke", []), "at least one covariate"),
    "kind": (lambda one: dc.regress(one, "area", ["smoke"]), "two states"),
    "bounds": (lambda one: dc.decide(one, UTILITY, ["wait"], bounds=(1, 0)), "two different bounds"),
    "utility": (lambda one: dc.decide(one, UTILITY, ["wait", "treat"], fresh=False), "outside its bounds"),
    "response": (lambda one: dc.decide(one, UTILITY, ["pray"], bounds=(-5, 5)), "no payoffs are given"),
    "quantity": (lambda one: dc.decisions.decide_number(one, "P(smoke)", "squared"), "one probability"),
    "loss": (lambda one: dc.decisions.decide_number(one, "P(smoke=yes)", "cubed"), "a loss is squared"),
    "vector": (lambda one: dc.decisions.decide_vector(one, []), "at least one query"),
    "vector-of-states": (lambda one: dc.decisions.decide_vector(one, ["P(area)", "MAP(smoke)"]), "one probability"),
    "vector-level": (lambda one: dc.decisions.decide_vector(one, "P(area)", level=2), "between 0 and 1"),
    "sets": (lambda one: dc.sample(one, 10, sets=101), "a draw of its own"),
    "seed": (lambda one: dc.sample(one, 10, rng=-1), "rng is a seed"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_what_is_refused_here_is_refused_there(mistake: str, here: Any, there: Any) -> None:
    wrong, words = WRONG[mistake]
    for posterior in (here, there):
        with pytest.raises(dc.InputError) as refused:
            wrong(posterior)
        assert words in str(refused.value)


ELSEWHERE: dict[str, tuple[Callable[[Any], object], str]] = {
    "utility": (lambda one: dc.decide(one, lambda cells, response: cells, ["a"]), "cannot be sent to a server"),
    "quantity": (lambda one: dc.decisions.decide_number(one, lambda cells: cells, "squared"), "cannot be sent"),
    "vector": (lambda one: dc.decisions.decide_vector(one, ["P(smoke)", len]), "cannot be sent"),
    "vector-function": (lambda one: dc.decisions.decide_vector(one, lambda cells: cells), "cannot be sent"),
    "generator": (lambda one: dc.sample(one, 10, rng=np.random.default_rng(1)), "give a seed"),
    "block": (lambda one: dc.sample(one, 10, block=5), "leave out block"),
    "probabilities": (lambda one: one.probabilities, r"draws of 'visits' are at http"),
    "mean": (lambda one: one.mean(), "client.release"),
    "draw": (lambda one: one.draw(5, rng=1), "client.release"),
    "infinite": (lambda one: dc.decide(one, UTILITY, ["wait"], bounds=(-np.inf, 5)), "finite numbers only"),
}


@pytest.mark.parametrize("mistake", ELSEWHERE)
def test_what_cannot_go_to_a_server_says_so(mistake: str, there: Any) -> None:
    wrong, words = ELSEWHERE[mistake]
    with pytest.raises(dc.InputError, match=words):
        wrong(there)


def test_a_release_is_named_where_there_are_several(client: dc.server.Client) -> None:
    with pytest.raises(dc.InputError, match="has 2 releases: name one of visits, gappy"):
        client.posterior()
    with pytest.raises(dc.InputError, match=r"no release 'other'; there are: visits, gappy"):
        client.release("other")
    with pytest.raises(dc.InputError, match="missing is at-random or state"):
        client.posterior("gappy", missing="zero")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://a:b@host",
        "http://host/?a=b",
        "http://host:99999",
        "http://ho st",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(dc.InputError, match="no address of a server"):
        dc.server.Client(url)


def test_a_token_goes_nowhere_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(dc.InputError, match="plain http shows the token") as refused:
        dc.server.Client("http://elsewhere.example", token="secret")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(dc.server.Client("http://elsewhere.example", token="secret", insecure=True))
    dc.server.Client("https://elsewhere.example", token="secret")
    dc.server.Client("http://elsewhere.example")
    for loopback in ("localhost", "127.8.0.1", "[::1]"):
        dc.server.Client(f"http://{loopback}:8000", token="secret")
    with pytest.raises(dc.InputError, match="a line without blanks") as refused:
        dc.server.Client("http://127.0.0.1", token="other secret")
    assert "secret" not in str(refused.value)
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(dc.InputError, match="number of seconds"):
            dc.server.Client("http://127.0.0.1", token="t", timeout=timeout)


HOME, AWAY = "https://answers.example/discreet", "http://127.0.0.1:8000"


@every(
    "variable, url, sent",
    [
        ("secret", "https://elsewhere.example", False),
        ("secret", "http://elsewhere.example", False),
        ("secret", "http://localhost:8000", True),
        ("secret", "https://[::1]:8000/x", True),
        ("https://answers.example secret", HOME, True),
        (" https://Answers.example:443/discreet/\tsecret ", HOME, True),
        ("https://answers.example secret", "https://elsewhere.example", False),
        ("https://answers.example secret", "https://answers.example.elsewhere.example", False),
        ("https://answers.example secret", "https://answers.example:8443", False),
        ("https://answers.example secret", "http://answers.example", False),
        ("https://answers.example secret", AWAY, False),
        ("http://127.0.0.1:8000 secret", AWAY, True),
        ("http://127.0.0.1:8001 secret", AWAY, False),
        ("", HOME, False),
        (" ", AWAY, False),
    ],
)
def test_the_token_of_the_environment_goes_to_its_server_alone(variable: str, url: str, sent: bool) -> None:
    heads = []

    def refuse(own: object, request: http_client.httpcore.Request) -> None:
        heads.append(dict(request.headers))
        raise ConnectionRefusedError

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DISCREET_TOKEN", variable)
        patched.setattr(http_client.httpcore.ConnectionPool, "handle_request", refuse)
        with pytest.raises(dc.DiscreetError, match="nothing listens"):
            dc.server.Client(url).releases()
    assert [head.get(b"Authorization") for head in heads] == [b"Bearer secret" if sent else None]


@every("variable", ["secret https://host", "https://host other secret", "host secret", "\x07secret"])
def test_what_the_environment_should_not_have_is_shown_to_nobody(variable: str) -> None:
    with pytest.MonkeyPatch.context() as patched, pytest.raises(dc.InputError, match="token") as refused:
        patched.setenv("DISCREET_TOKEN", variable)
        dc.server.Client("http://127.0.0.1")
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


# ------------------------------------------------------------------------------------------------ servers of ours


def test_a_token_opens_and_its_want_says_so(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = add_token(tmp_path / "tokens.json", "ann", 1)
    with served([folder / "visits.draws"], "--tokens", str(tmp_path / "tokens.json"), "--no-prepare") as running:
        stranger = dc.server.Client(running.url)
        with pytest.raises(dc.InputError, match=r"token.*DISCREET_TOKEN"):
            stranger.releases()
        one = dc.server.Client(running.url, token=token)
        monkeypatch.setenv("DISCREET_TOKEN", token)
        two = dc.server.Client(running.url)
        assert one.releases() == two.releases()
        assert one.posterior().answer("P(smoke)") == two.posterior().answer("P(smoke)")
        for each in (stranger, one, two):
            each.close()


@pytest.mark.costly("Servers that answer differently are found by running two.")
def test_two_servers_agree_and_each_says_what_is_too_much(folder: Path, client: dc.server.Client, there: Any) -> None:
    with served([folder / "visits.draws"], "--most-work", "10", "--most-records", "5", "--no-prepare") as running:
        other = dc.server.Client(running.url)
        assert other.release().dumps() == client.release("visits").dumps()
        with pytest.raises(dc.InputError, match="this question needs"):
            other.posterior().answer("P(smoke)")
        with pytest.raises(dc.InputError, match="more than the 5 that this server makes"):
            dc.sample(other.posterior(), 10)
        other.close()
    with served([folder / "visits.draws"], "--no-prepare") as running:
        other = dc.server.Client(running.url)
        assert dc.answer_many(other.posterior(), QUERIES) == dc.answer_many(there, QUERIES)
        other.close()


@pytest.mark.costly("A connection that outlives its server is found by stopping and starting one.")
def test_a_server_that_was_started_again_is_asked_on_and_one_that_is_gone_is_not(folder: Path) -> None:
    with served([folder / "visits.draws"], "--no-prepare") as running:
        client = dc.server.Client(running.url)
        posterior = client.posterior()
        before = posterior.answer("P(smoke)")
        port = str(running.address[1])
    # The last word holds: after the one that asks for a free port.
    code = f"import sys; from discreet.cli.start import main; sys.argv += ['--port', '{port}']; sys.exit(main())"
    with served([folder / "visits.draws"], "--no-prepare", code=code):
        assert posterior.answer("P(smoke)") == before
    with pytest.raises(dc.DiscreetError, match="does not answer: nothing listens"):
        posterior.answer("P(smoke)")


@pytest.mark.costly("Answers of another release are found by replacing it while a server runs.")
def test_a_posterior_stays_that_of_its_release_when_another_takes_its_place(folder: Path, tmp_path: Path) -> None:
    """Its draws are gone from the disk, and were never in memory: they are drawn again, and not those of the other."""
    place, other = tmp_path / "visits.draws", tmp_path / "other"
    place.write_bytes((folder / "visits.draws").read_bytes())
    dc.noise_aware(release_of(PLAIN, 3), draws=50, rng=0).save(other)
    with served([place], "--no-prepare") as running:
        client = dc.server.Client(running.url)
        before = client.posterior()
        other.replace(place)
        until = time.monotonic() + 30
        while client.releases()[0]["id"] == before.id and time.monotonic() < until:
            time.sleep(0.1)
        (row,) = client.releases()
        assert [one["version"] for one in row["versions"]] == [2, 1] and row["versions"][1]["id"] == before.id
        drawn = dc.load(folder / "visits.json").posterior(rng=0)
        assert before.answer("P(smoke)") == drawn.answer("P(smoke)")
        now = dc.results.PosteriorDraws.load(place)
        assert client.posterior().answer("P(smoke)") == now.answer("P(smoke)")
        client.close()


@pytest.mark.costly("Each kind of release is asked of a real server and read here, with equal results.")
def test_releases_of_every_kind_are_asked_or_say_who_reads_them(tmp_path: Path) -> None:
    first, second = release_of(PLAIN, 4), release_of(PLAIN, 5)
    dc.combine(first, second, data="different").save(tmp_path / "both.json")
    files = [tmp_path / "both.json"]
    for name in ("factored-categorical", "noisy-moments"):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_bytes((DATA / f"release-v1-{name}.json").read_bytes())
    family = dc.research.Family("exponential", (WAIT,), {"low": 0.1, "high": 2}, 12, lipschitz=0.25)
    asked = dc.Guarantee(epsilon=1, delta=0, relation="metric", unit="1 minute in one wait")
    counts = dc.tools.count_codes(family.network, {"wait": [0, 1, 1, 2, 5] * 8})
    prior = dc.Dirichlet.uniform(family.network)
    dc.simulate(dc.research.sampled(family), counts, prior, asked, rng=7).save(tmp_path / "family.json")
    with served([*files, tmp_path / "family.json"], "--no-prepare") as running:
        client = dc.server.Client(running.url)
        for name in ("both", "factored-categorical", "family"):
            here, there = dc.noise_aware(dc.load(tmp_path / f"{name}.json"), draws=1000, rng=0), client.posterior(name)
            assert there.network == here.network, name
            assert dc.marginals(there) == dc.marginals(here)
            node = here.network.nodes[0]
            assert dc.answer(there, f"P({node})") == dc.answer(here, f"P({node})")
            assert dc.predict(there, {}, node).table() == dc.predict(here, {}, node).table()
            assert dc.sample(there, 9, rng=1)[0].read_all() == dc.sample(here, 9, rng=1)[0].read_all()
            assert client.release(name).dumps() == dc.load(tmp_path / f"{name}.json").dumps()
        with pytest.raises(dc.InputError, match=r"read client.release\(...\).posterior\(\)"):
            client.posterior("noisy-moments")
        found, local = (
            dc.read(made, draws=50, rng=1)
            for made in (client.release("noisy-moments"), dc.load(tmp_path / "noisy-moments.json"))
            if isinstance(made, dc.Release)
        )
        assert found.rows() == local.rows()
        client.close()


SCRIPT = """
import discreet as dc

posterior = {line}
print(dc.answer(posterior, "P(smoke | area=west)").rows)
print(dc.marginals(posterior).to_frame("arrow").to_pydict())
print(dc.predict(posterior, {{"age": [10, 80]}}, "smoke").mean.tolist())
print(dc.regress(posterior, "smoke", ["age"]).rows())
print(dc.sample(posterior, 9, rng=3)[0].read_all().to_pydict())
"""


@pytest.mark.costly("A whole script must print the same of a server as of a file.")
def test_a_notebook_goes_over_by_one_line(folder: Path, server: Served) -> None:
    lines = (
        f"dc.results.PosteriorDraws.load({str(folder / 'visits.draws')!r})",
        f"dc.server.Client({server.url!r}).posterior('visits')",
    )
    found = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT.format(line=line)], capture_output=True, text=True, check=True
        )
        for line in lines
    ]
    assert found[0].stdout == found[1].stdout != ""
    assert found[1].stderr == ""


def test_many_threads_ask_at_once(there: Any) -> None:
    found: list[Any] = []
    queries = [f"P(smoke | area={state})" for state in AREA.states] * 3
    threads = [threading.Thread(target=lambda text=text: found.append(there.answer(text))) for text in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(queries) and len({one.query for one in found}) == len(AREA.states)


# ------------------------------------------------------------------------------------------------ other servers


Reply = tuple[int, dict[str, str], bytes]
JSON = {"Content-Type": "application/json"}
HELLO: Reply = (200, JSON, b'{"status": "ok", "version": "0.1.99"}')
BUSY: Reply = (503, {"Retry-After": "0"}, b'{"type": "urn:discreet:problem:busy", "detail": "so many are waiting"}')
NOTHING: Reply = (200, JSON, b'{"releases": []}')


@contextmanager
def pretended(replies: Sequence[Reply]) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Something that answers one reply after the other, the last one for ever, and what it was asked."""
    asked: list[tuple[str, Any]] = []
    left = list(replies)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append((self.path, {"port": self.client_address[1], **self.headers}))
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/below", asked
        finally:
            listening.shutdown()
            thread.join()


def refused_by(replies: Sequence[Reply], timeout: float = 20) -> tuple[dc.DiscreetError, list[tuple[str, Any]]]:
    """What a client says of something that answers so."""
    with pretended(replies) as (url, asked):
        client = dc.server.Client(url, timeout=timeout)
        with pytest.raises(dc.DiscreetError) as refused:
            client.releases()
        client.close()
    assert "\n" not in str(refused.value) and len(str(refused.value)) <= 500
    return refused.value, asked


def test_whoever_is_busy_is_asked_again() -> None:
    with pretended([HELLO, BUSY, (429, *BUSY[1:]), NOTHING]) as (url, asked):
        client = dc.server.Client(url, token="t")
        assert client.releases() == ()
        client.close()
    assert [path for path, _ in asked] == ["/below/healthz", *["/below/releases"] * 3]
    assert all(headers["Authorization"] == "Bearer t" for _, headers in asked)


def test_questions_share_a_connection_and_processes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended([HELLO, NOTHING]) as (url, asked):
        client = dc.server.Client(url)
        for _ in range(5):
            client.releases()
        assert len({headers["port"] for _, headers in asked}) == 1
        with monkeypatch.context() as forked:
            forked.setattr("os.getpid", lambda: -1)
            client.releases()
            client.close()
        client.close()
    assert len({headers["port"] for _, headers in asked}) == 2


def test_but_not_for_ever() -> None:
    error, asked = refused_by([HELLO, BUSY])
    assert str(error) == "so many are waiting" and not isinstance(error, dc.InputError)
    assert len(asked) == 1 + http_client.MOST_TRIES
    error, asked = refused_by([HELLO, (503, {"Retry-After": "60"}, BUSY[2])])
    assert str(error) == "so many are waiting" and len(asked) == 2
    error, asked = refused_by([HELLO, (503, {}, BUSY[2])])
    assert len(asked) == 2


STRANGE: dict[str, tuple[Sequence[Reply], str]] = {
    "html": ([(200, {}, b"<html>")], "is not `discreet serve`"),
    "json": ([(200, {}, b"[1]")], "is not `discreet serve`"),
    "deep": ([(200, {}, b"[" * 100_000)], "is not `discreet serve`"),
    "nan": ([(200, {}, b'{"version": NaN}')], "is not `discreet serve`"),
    "version": ([(200, {}, b'{"version": "7.0.0"}')], r"runs discreet '7.0.0' and this is .*same version"),
    "hostile-version": ([(200, {}, json.dumps({"version": "\x1b[2J\n" * 9000}).encode())], "same version"),
    "redirect": ([(302, {"Location": "http://other.example/"}, b"")], "'http://other.example/', which is not followed"),
    "proxy": ([(502, {}, b"<html>")], "answered 502 Bad Gateway"),
    "no-problem": ([HELLO, (404, {}, b'{"detail": "x", "type": "about:blank"}')], "answered 404"),
    "no-list": ([HELLO, (200, {}, b'{"releases": [{"name": "x"}]}')], "another form"),
    "numbers": ([HELLO, (200, {}, b'{"releases": [{"name": 1, "id": 2}]}')], "another form"),
    "promises": ([HELLO, (200, {}, b'{"releases": [{"name": "x", "id": "y", "guarantees": [1]}]}')], "another form"),
    "versions": ([HELLO, (200, {}, b'{"releases": [{"name": "x", "id": "y", "versions": [1]}]}')], "another form"),
    "again": ([HELLO, (503, {"Retry-After": "\xb2"}, BUSY[2])], "so many are waiting"),
    "much-later": ([HELLO, (503, {"Retry-After": "9" * 5000}, BUSY[2])], "so many are waiting"),
    "short": ([HELLO, (200, {"Content-Length": "10"}, b"{}")], "did not answer within|breaks off"),
    "problem": ([HELLO, (400, {}, BUSY[2])], "so many are waiting"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_server_of_ours_is_told_so(what: str) -> None:
    replies, words = STRANGE[what]
    error, _ = refused_by(replies, timeout=1 if what == "short" else 20)
    assert re.search(words, str(error)), str(error)


def test_an_answer_is_not_longer_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "RESPONSE_BYTES", 1000)
    error, _ = refused_by([HELLO, (200, {}, b"[" + b"1," * 10_000 + b"1]")])
    assert "more than 1,000 bytes" in str(error)


def test_a_slow_server_is_not_waited_for_longer_than_was_said() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, pytest.raises(dc.DiscreetError, match=r"did not answer within 0\.2 seconds"):
        dc.server.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.2).releases()


@pytest.mark.parametrize("said", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X: y\r\n", b"y"])
def test_nor_is_one_that_says_a_little_now_and_then(said: bytes) -> None:
    """Each part comes in time; the head as a whole does not."""
    sent: list[float] = []

    def trickle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"" if said.startswith(b"HTTP") else b"HTTP/1.1 200 OK\r\n")
            for _ in range(90):
                time.sleep(0.1)
                connection.sendall(said)
                sent.append(time.monotonic())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        client = dc.server.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.5)
        with pytest.raises(dc.DiscreetError, match=r"did not answer within 0\.5 seconds"):
            client.releases()
        thread.join()
    assert len(sent) < 90  # the other side closed before all was said


def test_an_answer_to_another_question_is_none(here: Any, there: Any, server: Served) -> None:
    """What a server answers to one question, said in the place of another."""

    def said(function: str, **body: Any) -> bytes:
        return server.ask(f"/releases/{there.id}/{function}", body).body

    def far(url: str) -> Any:
        return dataclasses.replace(there, http=dc.server.Client(url)._http)

    query, given = said("query", q=["P(area)"]), said("marginals", e=["smoke=yes"])
    number = said("decide", quantity="P(smoke=yes)", loss="squared")
    predicted = said("predict", records=[{"smoke": "yes"}], target="area")
    regressed = server.ask(f"/releases/{there.id}/regress?target=smoke&on=age&draws=true").body
    vector = said("decide", quantities=["P(smoke)"])
    decide, decide_vector = dc.decisions.decide_number, dc.decisions.decide_vector
    for body, ask in (
        (query, lambda one: one.answer("P(smoke)")),
        (query, lambda one: one.answer("P(area)", level=0.9)),
        (given, lambda one: dc.marginals(one, {"smoke": "no"})),
        (given, lambda one: dc.marginals(one, {"smoke": "yes"}, level=0.9)),
        (predicted, lambda one: dc.predict(one, {"smoke": ["yes"]}, "area", level=0.9)),
        (regressed, lambda one: dc.regress(one, "smoke", ["area"])),
        (number, lambda one: decide(one, "P(smoke=no)", "squared", fresh=False)),
        (number, lambda one: decide(one, "P(smoke=yes)", "absolute", fresh=False)),
        (vector, lambda one: decide_vector(one, ["P(area)"], fresh=False)),
    ):
        with pretended([HELLO, (200, JSON, body)]) as (url, _):
            one = far(url)
            with pytest.raises(dc.DiscreetError, match="answers another question than was asked"):
                ask(one)  # type: ignore[no-untyped-call]
            one.http.close()
    with pretended([HELLO, (200, JSON, query)]) as (url, _):
        one = far(url)
        assert one.answer(" P( area ) ") == dc.answer(here, "P(area)")
        one.http.close()


@pytest.mark.parametrize(
    "answers",
    [
        {"answers": []},
        {"answers": [{"query": "P(smoke)"}]},
        {"answers": 5},
        [],
    ],
)
def test_answers_of_another_form_are_told_so(answers: Any, there: Any) -> None:
    reply = (200, JSON, json.dumps(answers).encode())
    with pretended([HELLO, reply]) as (url, _):
        far = dataclasses.replace(there, http=dc.server.Client(url)._http)
        for ask in (
            lambda: far.answer("P(smoke)"),
            lambda: dc.marginals(far),
            lambda: dc.regress(far, "smoke", "area"),
        ):
            with pytest.raises(dc.DiscreetError, match=r"another form|0 of 1|of all variables"):
                ask()
        far.http.close()


def test_records_that_are_none_are_refused(there: Any, here: Any) -> None:
    made = pa.BufferOutputStream()
    other = pa.table({"x": [1]})
    with pa.ipc.new_file(made, other.schema) as writer:
        writer.write_table(other)
    for body, words in ((b"nothing", "no valid records"), (made.getvalue().to_pybytes(), "other columns")):
        with pretended([HELLO, (200, {}, body)]) as (url, _):
            far = dataclasses.replace(there, http=dc.server.Client(url)._http)
            with pytest.raises(dc.DiscreetError, match=words):
                dc.sample(far, 5)[0].read_all()
            far.http.close()
    right = pa.BufferOutputStream()
    (records,) = dc.sample(here, 500, rng=1)
    with pa.ipc.new_file(right, records.schema) as writer:
        writer.write_table(records.read_all())
    whole = right.getvalue().to_pybytes()
    for body, words in ((whole, "sent 500 of 700"), (whole[: len(whole) // 2], "no valid records|breaks off|sent")):
        with pretended([HELLO, (200, {}, body)]) as (url, _):
            far = dataclasses.replace(there, http=dc.server.Client(url)._http)
            with pytest.raises(dc.DiscreetError, match=words):
                dc.sample(far, 700)[0].read_all()
            far.http.close()


@pytest.mark.costly("What an import loads is seen in a fresh process only.")
def test_asking_loads_http_only_when_it_is_wanted() -> None:
    code = "import discreet, sys; assert not {'httpcore2', 'ssl', 'numpy'} & set(sys.modules)"
    code += "; from discreet.queries import query; assert 'httpcore2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.costly("A missing extra is seen in a fresh process only.")
def test_a_client_says_what_to_install() -> None:
    code = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "httpcore2" else find(name, *rest)
sys.modules["httpcore2"] = None
import discreet as dc
from discreet import *
assert "Client" not in dir(dc.server) and "RemotePosterior" not in dir(dc.server)
try:
    dc.server.Client
except dc.InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "asking a server needs httpcore2: pip install '.[client]' in a clone of discreet\n"
