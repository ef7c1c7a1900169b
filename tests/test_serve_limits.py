"""What a request may cost a server: work known before it is begun, queues with an end, rates, bodies, what is kept."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import pytest
from starlette.responses import Response

import discreet as dc
from discreet.model.query_grammar import parse_query
from discreet.queries import synthetic
from discreet.server import replies, work_queue
from discreet.server.application import Settings
from discreet.server.catalog import ReleaseCatalog
from discreet.server.metrics import Meter
from discreet.server.middleware import BODY_SECONDS, MOST_BODIES, MOST_UNTAKEN_BYTES, PIECE_BYTES, RequestGuard
from discreet.server.parameters import PredictRequest
from discreet.server.problems import Problem
from discreet.server.readings import ServedPosterior
from discreet.server.server_limits import ServerLimits
from discreet.server.work import (
    CHECK_CELLS,
    EXPLANATION_CELLS,
    explanation_work,
    prediction_work,
    regression_work,
)
from discreet.server.work_queue import MOST_STREAMS, AnswerCache, ResponseBody, WorkQueue
from folding import every
from served_kinds import plain, save
from serving import Local, Reply, exchange

WIDE = dc.Network(tuple(dc.Variable(f"v{at}", ("a", "b", "c", "d")) for at in range(13)),
                  {f"v{at}": (f"v{at - 1}",) if at else () for at in range(13)})  # fmt: skip
HERE = [(b"host", b"localhost")]
EVERY = [f"v{at}" for at in range(13)]


def limited(**bounds: Any) -> Settings:
    return Settings(prepare=False, limits=ServerLimits(**bounds))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("limits")
    release = plain(1)
    release.save(place / "r.json")
    release.posterior(draws=100, rng=1).save(place / "r.draws")
    counts = dc.tools.count_codes(WIDE, {name: [at % 4 for at in range(100)] for name in WIDE.nodes})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    wide = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(WIDE), promise, rng=1)
    wide.posterior(draws=1000, rng=1).save(place / "wide.draws")
    return place


@every("query", [
    f"P({', '.join(EVERY[:9])})", f"MAP({', '.join(EVERY[:12])} | v12=a)", f"P({', '.join(EVERY[1:10])} | v0=a)",
])  # fmt: skip
def test_too_much_work_is_refused_before_it_is_begun(folder: Path, query: str) -> None:
    with Local([folder / "wide.draws"], settings=limited(most_work=1e6)) as server:
        got = server.ask(f"/releases/wide/query?q={quote(query)}")
        if query.startswith("MAP"):
            assert "cells x draws" in got.problem(422, "too-costly")
        else:
            assert "rows, more than" in got.problem(400, "bad-request")  # more rows than any answer has


def test_many_cheap_questions_are_too_much_together(folder: Path) -> None:
    with Local([folder / "r.draws"], settings=limited(most_work=1e6)) as server:
        few = server.ask("/releases/r/query", {"q": ["P(c)"] * 3})
        assert few.status == 200
        many = server.ask("/releases/r/query", {"q": ["P(c)"] * 1000})
        assert "cells x draws" in many.problem(422, "too-costly")
        records = [{"a": "yes"}] * 1000
        assert server.ask("/releases/r/predict", {"records": records[:2], "target": "c"}).status == 200
        server.ask("/releases/r/predict", {"records": records, "target": "c"}).problem(422, "too-costly")
        pays = {str(at): {"no": at, "yes": -at} for at in range(1000)}
        server.ask("/releases/r/decide", {"query": "P(c)", "payoffs": pays}).problem(422, "too-costly")
        assert server.ask("/releases/r/decide", {"quantities": ["P(c)"] * 3}).status == 200
        server.ask("/releases/r/decide", {"quantities": ["P(c)"] * 1000}).problem(422, "too-costly")
        server.ask("/releases/r/synthetic?n=1000001").problem(422, "too-costly")


def test_every_operation_that_computes_is_bounded(folder: Path) -> None:
    with Local([folder / "r.draws"], settings=limited(most_work=1, most_records=1)) as server:
        for path in ("query?q=P(c)", "query?q=P(b,c)&assume=nothing", "marginals", "query", "regress?target=c&on=a",
                     "explain?q=P(c)", "query?format=csv", "synthetic?n=2", "synthetic?n=1", "report"):  # fmt: skip
            server.ask(f"/releases/r/{path}").problem(422, "too-costly")
        for operation, body in {"predict": {"records": [{"a": "no"}], "target": "c"}, "query": {"q": ["P(c)"]},
                                "decide": {"quantity": "P(c=no)"}}.items():  # fmt: skip
            server.ask(f"/releases/r/{operation}", body).problem(422, "too-costly")
        server.ask("/releases/r/decide", {"quantities": ["P(c)"]}).problem(422, "too-costly")
        for path in ("", "/fit", "/explain"):
            assert server.ask(f"/releases/r{path}").status == 200


def test_work_is_that_of_all_parts_of_a_question(folder: Path) -> None:
    posterior = dc.results.PosteriorDraws.load(folder / "wide.draws")
    reading = ServedPosterior(ReleaseCatalog([folder / "wide.draws"]).newest()[0], posterior)
    shown = [EVERY[1:2]] * 10, [[name] for name in EVERY[1:11]], [EVERY[1:11]] * 10
    asked = [PredictRequest(target="v0", records=[dict.fromkeys(names, "a") for names in records]) for records in shown]
    one_way, ten_ways, all_at_once = (cast(Any, replies.ask_prediction(reading, each).work)() for each in asked)
    assert 4 * one_way < ten_ways < 20 * one_way  # each way in which records have gaps is a question of its own
    assert all_at_once < ten_ways
    two, one = (explanation_work(posterior.network, [parse_query(text, posterior.network.schema) for text in asked], 1)
                for asked in (["P(v3)", "P(v9)"], ["P(v9)"]))  # fmt: skip
    assert two > 1.2 * one
    # Beside the rows of one node all others are checked, before the query and for it.
    (query,) = [parse_query("P(v0)", posterior.network.schema)]
    assert explanation_work(posterior.network, [query], 1) - EXPLANATION_CELLS == 2 * CHECK_CELLS * 13
    alone, both = (prediction_work(posterior, "v0", dict.fromkeys(ways, 1))
                   for ways in ([("v1", "v2")], [("v1", "v2"), ("v3", "v4")]))  # fmt: skip
    assert alone < both <= 2.5 * alone  # a pattern more is a pass more
    linear, logistic = (regression_work(posterior, "v0", EVERY[1:9], logistic=kind) for kind in (False, True))
    assert logistic > 1e9 > linear  # 8,192 points, 25 columns and a thousand draws


def test_a_question_without_an_answer_is_not_computed_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go = [], threading.Event()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        assert go.wait(60)
        raise dc.InputError("it has no answer")

    monkeypatch.setattr(replies, "marginals", refuse)
    with Local([folder / "r.draws"], settings=limited(seconds=0.1)) as server:
        server.ask("/releases/r/marginals").problem(503, "not-ready")
        go.set()
        got = [server.ask("/releases/r/marginals") for _ in range(5)]
        assert {one.status for one in got} <= {400, 503}
        assert got[-1].problem(400, "bad-request") == "it has no answer"
    assert len(asked) == 1


def test_memory_of_large_answers_is_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(work_queue, "return_memory", lambda: given.append(1))
    with Local([folder / "r.draws"], settings=limited()) as server:
        server.ask("/releases/r/marginals")
        assert not given
        monkeypatch.setattr(work_queue, "LARGE_WORK", 1)
        server.ask("/releases/r/marginals?level=0.8")
        assert given


def test_streams_have_a_number_and_leave_room_for_questions(folder: Path) -> None:
    own = WorkQueue(ServerLimits(workers=2), Meter())
    with ExitStack() as opened:
        for _ in range(MOST_STREAMS):
            opened.enter_context(own.stream())
        with pytest.raises(Problem, match="streams of records are open"):
            opened.enter_context(own.stream())
    with own.stream():  # all were closed

        async def both() -> None:
            go = threading.Event()
            pieces = [asyncio.ensure_future(own.run(lambda: go.wait(60))) for _ in range(10)]
            await asyncio.sleep(0.05)
            assert (await own.answer("key", lambda: ResponseBody(b"answer"))).body == b"answer"
            go.set()
            assert all(await asyncio.gather(*pieces))

        asyncio.run(both())
    own.close()
    with Local([folder / "r.draws"]) as server:
        for _ in range(MOST_STREAMS + 1):
            assert server.ask("/releases/r/synthetic?n=10").status == 200


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Marginals that begin, and end when they are told to."""
    begun, go, compute = threading.Event(), threading.Event(), replies.marginals

    def wait(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        assert go.wait(60)
        return compute(*args, **kwargs)

    monkeypatch.setattr(replies, "marginals", wait)
    try:
        yield begun, go
    finally:
        go.set()


def test_a_full_queue_is_said_and_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [f"/releases/r/marginals?level=0.{at}" for at in range(50, 60)]
    with (
        Local([folder / "r.draws"], settings=limited(workers=1, queue=2)) as server,
        held(monkeypatch) as (begun, go),
    ):
        assert server.ask("/releases/r/fit").status == 200

        async def ask() -> list[Reply]:
            asked = [asyncio.ensure_future(server.asking(path)) for path in levels]
            while not begun.is_set() or sum(one.done() for one in asked) < 7:
                await asyncio.sleep(0.01)
            kept = await server.asking("/releases/r/fit")  # what is known needs no place in the queue
            assert kept.status == 200
            go.set()
            return await asyncio.gather(*asked)

        (got,) = server.run(ask())
        refused = [one for one in got if one.status != 200]
        assert len(refused) == 7
        for one in refused:
            assert "3 questions are waiting" in one.problem(503, "busy") and int(one.headers["retry-after"]) > 0
        again = [server.ask(path) for path in levels]
        assert {one.status for one in again} == {200}


def test_an_answer_that_takes_too_long_is_kept_for_who_asks_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Local([folder / "r.draws"], settings=limited(seconds=0.2)) as server, held(monkeypatch) as (_, go):
        got = server.ask("/releases/r/marginals")
        assert "ask again" in got.problem(503, "not-ready") and int(got.headers["retry-after"]) > 0
        go.set()
        for _ in range(500):
            if "discreet_answers_seconds_count 1\n" in server.ask("/metrics").text:
                break
            server.run(asyncio.sleep(0.01))
        monkeypatch.undo()
        monkeypatch.setattr("discreet.server.replies.marginals", None)  # nobody computes it again
        assert server.ask("/releases/r/marginals").status == 200


def test_who_asks_the_same_at_once_waits_for_one_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, compute = [], replies.marginals

    def count(*args: Any, **kwargs: Any) -> Any:
        made.append(1)
        return compute(*args, **kwargs)

    monkeypatch.setattr(replies, "marginals", count)
    with Local([folder / "r.draws"]) as server:
        got = server.run(*(server.asking("/releases/r/marginals?e=a=no") for _ in range(20)))
        assert {one.status for one in got} == {200} and len({one.body for one in got}) == 1
        assert made == [1]


SAME = "q=P(c%7Ca=yes,b=no)"


@pytest.mark.costly("A cache that takes one question for another is found by asking both of each pair.")
@every("first, second", [
    (f"query?{SAME}", f"query?{SAME}&level=0.9"), (f"query?{SAME}", f"query?{SAME}&assume=network"),
    (f"query?{SAME}", f"query?{SAME}&predictive=true"), (f"query?{SAME}", f"query?{SAME}&format=csv"),
    ("marginals?e=a=yes", "marginals?e=a=no"), ("marginals?e=a=yes", "marginals?e=a=yes&predictive=true"),
    ("marginals?e=a=yes", "marginals?e=a=yes&level=0.5"), ("marginals", "marginals?format=csv"),
    ("query?q=P(c)&q=P(b)", "query?q=P(b)&q=P(c)"), ("query?q=P(c)", "query?q=MAP(c)"),
    ("regress?target=c&on=a", "regress?target=c&on=a&kind=logistic"),
    ("regress?target=c&on=a", "regress?target=c&on=b"),
    ("regress?target=c&on=a", "regress?target=c&on=a&level=0.5"), ("report", "report?level=0.5"),
    ("report", "report?format=markdown"), ("explain?q=P(c)", "explain?q=P(c)&level=0.5"),
    ("explain?q=P(c)", "explain?q=P(c)&rows=1"), ("explain", "explain?q=P(c)"), ("fit", "explain"),
])  # fmt: skip
def test_other_questions_have_other_answers(folder: Path, first: str, second: str) -> None:
    with Local([folder / "r.draws"]) as server:
        one, other = (server.ask(f"/releases/r/{path}") for path in (first, second))
        assert one.status == other.status == 200
        assert one.body != other.body
        assert server.ask(f"/releases/r/{first}").body == one.body
        with Local([folder / "r.draws"]) as fresh:  # which has nothing kept
            assert fresh.ask(f"/releases/r/{second}").body == other.body


@every("first, second", [
    ("query?q=P(c%7Ca=yes,b=no)", "query?q=P(c%20%7C%20a=yes,%20b=no)"), ("query?q=P(c)", "query?q=P(c)&level=0.95"),
    ("marginals?e=a=yes&e=b=no", "marginals?e=b=no&e=a=yes"), ("marginals", "query"),
    ("query?q=P(c)&predictive=false", "query?q=P(c)&format=json"), ("query?q=P(c)", "query?q=P(c)&inside=log-linear"),
])  # fmt: skip
def test_the_same_question_in_other_words_is_kept(folder: Path, first: str, second: str) -> None:
    with Local([folder / "r.draws"]) as server:
        one = server.ask(f"/releases/r/{first}")
        before = server.ask("/metrics").text
        other = server.ask(f"/releases/r/{second}")
        assert one.body == other.body
        count = 'discreet_cache_total{found="hit"} '
        assert f"{count}1\n" in server.ask("/metrics").text and count not in before


def test_numbers_inside_bins_and_missing_values_are_part_of_the_question(tmp_path: Path) -> None:
    gappy, family = save("gappy", tmp_path), save("family", tmp_path)
    with Local([gappy, family]) as server:
        bodies = {server.ask(f"/releases/gappy/query?q=P(c)&missing={how}").body for how in ("state", "at-random")}
        assert len(bodies) == 2
        asked = [f"/releases/family/query?q=E(wait)&inside={how}" for how in ("uniform", "log-linear")]
        assert len({server.ask(path).body for path in asked}) == 2
        drawn = [f"/releases/gappy/synthetic?n=200&missing={how}" for how in ("state", "at-random")]
        assert len({server.ask(path).body for path in drawn}) == 2


def test_what_was_not_asked_for_longest_is_forgotten() -> None:
    cache = AnswerCache(5000)
    for name in range(8):
        cache.put(name, ResponseBody(b"x" * 500))
        cache.get(0)
    assert cache.bytes <= 5000 and len(cache) == 5
    assert cache.get(0) is not None and cache.get(7) is not None and cache.get(1) is None
    cache.put(7, ResponseBody(b"y"))
    assert cache.bytes == 4 * 1000 + 501
    cache.put("large", ResponseBody(b"x" * 10_000))
    assert cache.get("large") is None and cache.bytes <= 5000


def test_what_is_asked_can_be_larger_than_its_answer_and_is_not_kept() -> None:
    async def ask() -> None:
        own, made = WorkQueue(ServerLimits(), Meter()), ResponseBody(b"ok")

        def fail() -> ResponseBody:
            raise dc.InputError("none")

        for at in range(3):
            key = ("digest", "predict", f"{at}" + "x" * 1_000_000)
            assert await own.answer(key, lambda: made) is made is await own.answer(key, fail)
            assert own.cache.get(key) is made
            for _ in range(2):
                with pytest.raises(dc.InputError, match="none"):
                    await own.answer((*key, "other"), fail)
        assert len(own.cache) == len(own._failed) == 3
        assert all(len(repr(key)) <= 300 for key in (*own.cache._answers, *own._failed))
        own.close()

    asyncio.run(ask())


def test_a_body_that_was_refused_is_not_kept(folder: Path) -> None:
    with Local([folder / "r.draws"]) as server:
        server.ask("/releases/r/predict", {"target": "c", "records": [{"a": "yes"}]})
        gc.collect()
        gc.freeze()  # what is there is not looked through
        gc.disable()
        try:
            for at in range(20):
                body = {"target": f"nobody{at}", "records": {"a": ["yes"] * 10}}
                server.ask("/releases/r/predict", body).problem(400, "bad-request")
            assert not any(type(one) is PredictRequest for one in gc.get_objects())
        finally:
            gc.enable()
            gc.unfreeze()


def test_one_of_many_sets_is_made_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], synthetic._RecordMaker
    monkeypatch.setattr(synthetic, "_RecordMaker", lambda *what: made.append(1) or make(*what))  # type: ignore[func-returns-value]
    with Local([folder / "r.draws"]) as server:
        assert server.ask("/releases/r/synthetic?n=5&sets=100&set=70").status == 200
    assert len(made) == 1


def test_an_open_stream_goes_on_while_the_queue_is_full() -> None:
    async def ask() -> None:
        own, go = WorkQueue(ServerLimits(workers=1, queue=0), Meter()), threading.Event()
        with own.stream():
            waiting = asyncio.ensure_future(own.answer("key", lambda: ResponseBody(b"ok" if go.wait(60) else b"")))
            await asyncio.sleep(0.01)
            piece = asyncio.ensure_future(own.run(lambda: "piece"))
            with pytest.raises(Problem, match="questions are waiting"), own.stream():
                pass
            go.set()
            assert await piece == "piece" and (await waiting).body == b"ok"
        own.close()

    asyncio.run(ask())


def test_long_answers_that_are_not_taken_have_an_end_together() -> None:
    size, count = 2**20, MOST_UNTAKEN_BYTES // 2**20

    async def ask() -> tuple[list[Reply], int]:
        go = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def slow(message: dict[str, Any]) -> None:
                await send(message)
                await go.wait()

            await Response(b"x" * size)(scope, receive, slow)

        gate = RequestGuard(app, ServerLimits(), Meter(), None)
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": HERE, "client": None}
        asked = [asyncio.ensure_future(exchange(gate, {**scope}, [b""])) for _ in range(count)]
        await asyncio.sleep(0.05)
        refused = await asyncio.wait_for(exchange(gate, {**scope}, [b""]), 10)
        assert "long answers" in refused.problem(503, "busy") and refused.headers["retry-after"]
        go.set()
        return await asyncio.gather(*asked), (await exchange(gate, {**scope}, [b""])).status

    taken, after = asyncio.run(ask())
    assert [(got.status, len(got.body)) for got in taken] == [(200, size)] * count and after == 200


def test_rates_by_address(folder: Path) -> None:
    with Local([folder / "r.draws"], settings=limited(rate=0.001, burst=3)) as server:
        for _ in range(3):
            assert server.ask("/healthz").status == 200
        got = server.ask("/healthz")
        assert "0.001 requests a second" in got.problem(429, "too-many-requests")
        assert int(got.headers["retry-after"]) == 1000


def test_what_a_proxy_calls_a_client_is_an_address_or_nobody(folder: Path) -> None:
    """Names that are none share one rate, and are not kept however long they are."""
    with Local([folder / "r.draws"], settings=limited(rate=0.001, burst=2)) as server:

        def ask(client: str) -> int:
            scope = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b"",
                     "headers": HERE, "client": (client, 0), "http_version": "1.1", "scheme": "http"}  # fmt: skip
            return server.run(exchange(server.app, scope, [b""]))[0].status

        assert [ask(name) for name in ("x" * 60_000, "token ann", "", "unknown")] == [200, 200, 429, 429]
        assert [ask(name) for name in ("::1", "0:0::1", "::1", "10.0.0.1", f"fe80::1%{'y' * 60_000}")] == [
            200, 200, 429, 200, 200,
        ]  # fmt: skip
        assert max(map(len, server.app._allowed)) <= 64


def test_bodies_have_an_end(folder: Path) -> None:
    with Local([folder / "r.draws"]) as server:
        large = b'{"q": ["' + b"x" * 10_000_000 + b'"]}'
        assert "1,048,576 bytes" in server.ask("/releases/r/query", large).problem(413, "too-large")
        for length in ("-1", "1e3", "", "٣"):
            got = server.ask("/releases/r/query", b"{}", {"content-length": length.encode().decode("latin-1")})
            got.problem(413, "too-large")
        scope = {"type": "http", "method": "POST", "path": "/releases/r/query", "query_string": b"",
                 "headers": HERE, "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http"}  # fmt: skip
        (got,) = server.run(exchange(server.app, {**scope}, [b"x" * 65_536] * 160))  # chunked: no length is said
        got.problem(413, "too-large")
        (got,) = server.run(exchange(server.app, {**scope}, [b'{"q": ["P', b"", b'(c)"]}']))
        assert got.status == 200


async def answer_late(gate: RequestGuard, *, more: bool) -> Reply:
    """Ask with a body of ten bytes; its end, or nothing, comes after all others have asked."""
    parts, heard = [(b"x" * 10, more)], dict[str, Any]()

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.sleep(0.05)
            return {"type": "http.request", "body": b"", "more_body": False}
        body, more_body = parts.pop()
        return {"type": "http.request", "body": body, "more_body": more_body}

    async def send(message: dict[str, Any]) -> None:
        heard[message["type"]] = message

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": HERE, "client": None}
    await gate(scope, receive, send)
    start = heard["http.response.start"]
    headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], headers, heard["http.response.body"]["body"])


@every("more", [False, True], ids=["answered", "read"])
def test_bodies_have_an_end_together(more: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await asyncio.sleep(0.05)
        await Response("ok")(scope, receive, send)

    async def ask() -> tuple[list[Reply], Reply]:
        gate = RequestGuard(app, ServerLimits(body_bytes=10), Meter(), None)
        got = await asyncio.gather(*(answer_late(gate, more=more) for _ in range(MOST_BODIES + 1)))
        return got, await answer_late(gate, more=more)

    got, after = asyncio.run(ask())
    assert [reply.status for reply in got] == [200] * MOST_BODIES + [503]
    assert "large requests" in got[-1].problem(503, "busy") and got[-1].headers["retry-after"]
    assert after.status == 200


@every("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 3 * PIECE_BYTES + 1])
def test_a_long_answer_is_written_as_it_is_taken(size: int) -> None:
    body = (b"0123456789abcde" * (size // 15 + 1))[:size]
    sent: list[tuple[int, bool]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def note(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                sent.append((len(message["body"]), message.get("more_body", False)))
            await send(message)

        await RequestGuard(Response(body), ServerLimits(), Meter(), None)(scope, receive, note)

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": HERE, "client": None}
    got = asyncio.run(exchange(app, scope, [b""]))
    assert got.body == body and got.headers["content-length"] == str(size)
    assert all(part <= PIECE_BYTES for part, _ in sent) and len(sent) == max(1, -(-size // PIECE_BYTES))
    assert [more for _, more in sent] == [True] * (len(sent) - 1) + [False]


def test_who_leaves_before_the_body_ends_is_no_error_of_the_server(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status") != 500

    scope = {"type": "http", "method": "POST", "path": "/releases/r/query", "query_string": b"",
             "headers": HERE, "client": None, "http_version": "1.1", "scheme": "http"}  # fmt: skip
    with Local([folder / "r.draws"]) as server:
        server.run(server.app(scope, receive, send))
        assert 'kind="internal"' not in server.ask("/metrics").text
    assert caplog.text == ""


def test_a_body_that_does_not_come_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BODY_SECONDS <= 30
    monkeypatch.setattr("discreet.server.middleware.BODY_SECONDS", 0.1)
    with Local([folder / "r.draws"]) as server:

        async def ask() -> Reply:
            found: dict[str, Any] = {}

            async def receive() -> dict[str, Any]:
                if not found:
                    found["first"] = True
                    return {"type": "http.request", "body": b"{", "more_body": True}
                await asyncio.sleep(60)
                raise AssertionError

            async def send(message: dict[str, Any]) -> None:
                found[message["type"]] = message

            scope = {"type": "http", "method": "POST", "path": "/releases/r/query", "query_string": b"",
                     "headers": HERE, "client": None, "http_version": "1.1", "scheme": "http"}  # fmt: skip
            await server.app(scope, receive, send)
            start = found["http.response.start"]
            headers = {name.decode(): value.decode() for name, value in start["headers"]}
            return Reply(start["status"], headers, found["http.response.body"]["body"])

        assert "did not come" in server.run(ask())[0].problem(400, "bad-request")


def test_a_question_that_names_thirty_variables_is_planned_at_once(tmp_path: Path) -> None:
    names = [f"n{at}" for at in range(30)]
    network = dc.Network(tuple(dc.Variable(name, ("a", "b")) for name in names),
                         {name: (names[at - 1],) if at else () for at, name in enumerate(names)})  # fmt: skip
    counts = dc.tools.count_codes(network, {name: [0, 1, 1, 0] for name in names})
    promise = dc.Guarantee(epsilon=10, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    release.posterior(draws=50, rng=1).save(tmp_path / "long.draws")
    last = "P(n0|" + ",".join(f"{name}=a" for name in names[1:]) + ")"
    with Local([tmp_path / "long.draws"], settings=limited(most_work=10)) as server:
        for query in (f"P({','.join(names)})", f"MAP({','.join(names)})", last):
            got = server.ask("/releases/long/query?" + urlencode({"q": query}))
            assert got.status in (400, 422), got.text
