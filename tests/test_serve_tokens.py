"""Who may ask a server: tokens of a file that has their digests alone, for a time, and all others nothing."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

import discreet as dc
from discreet.cli.start import main
from discreet.server import tokens as module
from discreet.server.application import Settings
from discreet.server.server_limits import ServerLimits
from discreet.server.tokens import MOST_DAYS, TokenFile, add_token, revoke_token
from folding import every
from served_kinds import plain
from serving import Local, served

ASKED = "/releases/r/query?q=P(c)"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def token(tokens: Path) -> str:
    return add_token(tokens, "ward 3", 30)


@pytest.fixture
def local(tmp_path: Path, tokens: Path, token: str) -> Iterator[Local]:
    plain(1).save(tmp_path / "r.json")
    with Local([tmp_path / "r.json"], settings=Settings(prepare=False, tokens=tokens)) as server:
        yield server


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_who_has_a_token_may_ask_and_nobody_else(local: Local, token: str) -> None:
    assert local.ask(ASKED, headers=bearer(token)).status == 200
    assert local.ask(ASKED, headers={"authorization": f"bearer  {token} "}).status == 200
    assert local.ask(ASKED, headers={"cookie": f"a=b; discreet_token={token}"}).status == 200
    for path in (ASKED, "/releases", "/releases/r", "/metrics", "/openapi.json", "/", "/x", "/releases/r/report",
                 "/releases/z", "/healthzx/../releases", "/static/../releases"):  # fmt: skip
        got = local.ask(path)
        if got.status != 404:  # what everybody may ask for may be nothing
            assert got.headers["www-authenticate"] == "Bearer"
            assert "needs a token" in got.problem(401, "no-token")
    assert local.ask("/healthz").status == 200
    local.ask("/releases/r/predict", {"records": [{}], "target": "c"}).problem(401, "no-token")


@every("cookie", ['foo={"a":1}', "a[b]=1", "x=é", "noequals", "a b c", "", ";;", "discreet_tokens=1", 'q="a\\"b'])
def test_cookies_of_others_hide_no_token(local: Local, token: str, cookie: str) -> None:
    for told in (f"{cookie}; discreet_token={token}", f"discreet_token={token};{cookie}"):
        assert local.ask(ASKED, headers={"cookie": told}).status == 200
    local.ask(ASKED, headers={"cookie": cookie}).problem(401, "no-token")


def test_what_is_no_token(local: Local, token: str) -> None:
    for wrong in ("", token[:-1], token + "x", token.swapcase(), "Bearer", "ward 3", "é" * 20, "x" * 50_000, "\x00"):
        local.ask(ASKED, headers=bearer(wrong)).problem(401, "no-token")
        local.ask(ASKED, headers={"cookie": f"discreet_token={wrong}"}).problem(401, "no-token")
    for header in (token, f"Basic {token}", f"Token {token}", f"Bearer {token}, {token}", f"Bearer{token}"):
        local.ask(ASKED, headers={"authorization": header}).problem(401, "no-token")
    local.ask(f"{ASKED}&token={token}").problem(401, "no-token")


def test_a_browser_is_sent_to_where_a_token_is_entered(local: Local) -> None:
    got = local.ask(ASKED, headers={"accept": "text/html,*/*"})
    assert got.status == 303
    assert got.headers["location"] == "/enter?next=/releases/r/query%3Fq%3DP%28c%29"
    local.ask(ASKED, b"", {"accept": "text/html"}).problem(401, "no-token")


def test_an_expired_token_is_none(tokens: Path, token: str) -> None:
    last = date.today() + timedelta(days=30)
    assert TokenFile(tokens, today=lambda: last).find(token) == "ward 3"
    assert TokenFile(tokens, today=lambda: last + timedelta(days=1)).find(token) is None
    assert TokenFile(tokens, today=lambda: date.max).find(token) is None


def test_a_token_is_revoked_and_another_given_while_the_server_runs(local: Local, tokens: Path, token: str) -> None:
    other = add_token(tokens, "ward 4", 1)
    assert local.ask(ASKED, headers=bearer(other)).status == local.ask(ASKED, headers=bearer(token)).status == 200
    revoke_token(tokens, "ward 3")
    local.ask(ASKED, headers=bearer(token)).problem(401, "no-token")
    assert local.ask(ASKED, headers=bearer(other)).status == 200


def test_a_revoked_token_passes_in_no_disguise(local: Local, tokens: Path, token: str) -> None:
    """A file that has the time of the one before, or its size, too, is another one."""
    before, text = tokens.stat(), tokens.read_text()
    revoke_token(tokens, "ward 3")
    os.utime(tokens, ns=(before.st_atime_ns, before.st_mtime_ns))
    local.ask(ASKED, headers=bearer(token)).problem(401, "no-token")
    tokens.write_text(text)
    assert local.ask(ASKED, headers=bearer(token)).status == 200
    before = tokens.stat()
    digest = json.loads(text)["tokens"][0]["sha256"]
    tokens.write_text(text.replace(digest, digest[::-1]))
    os.utime(tokens, ns=(before.st_atime_ns, before.st_mtime_ns))
    local.ask(ASKED, headers=bearer(token)).problem(401, "no-token")


def test_changes_at_once_are_all_kept(tokens: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = module._read

    def read_slowly(path: Path) -> module._TokenFile:
        found = read(path)
        time.sleep(0.01)
        return found

    monkeypatch.setattr(module, "_read", read_slowly)
    added = [threading.Thread(target=add_token, args=(tokens, f"at once {at}", 1)) for at in range(6)]
    revoked = threading.Thread(target=revoke_token, args=(tokens, "ward 3"))
    for thread in (*added[:3], revoked, *added[3:]):
        thread.start()
    for thread in (*added, revoked):
        thread.join()
    assert sorted(one.name for one in read(tokens).tokens) == [f"at once {at}" for at in range(6)]
    with pytest.raises(dc.InputError, match="cannot write file of tokens"):
        add_token(tokens.parent / "nowhere" / "t.json", "a", 1)


@every("damage", ["", "{", "[]", '{"format": "other"}', '{"tokens": [{"name": "x"}]}', None])
def test_a_damaged_file_lets_nobody_in_until_it_is_mended(
    tmp_path_factory: pytest.TempPathFactory, damage: str | None
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "tokens.json"
    token = add_token(path, "a", 1)
    whole = path.read_text()
    plain(1).save(folder / "r.json")
    with Local([folder / "r.json"], settings=Settings(prepare=False, tokens=path)) as server:
        assert server.ask(ASKED, headers=bearer(token)).status == 200
        if damage is None:
            path.unlink()
        else:
            path.write_text(damage)
        server.ask(ASKED, headers=bearer(token)).problem(401, "no-token")
        if damage is not None:
            with pytest.raises(dc.InputError):
                TokenFile(path)
        path.write_text(whole)
        assert server.ask(ASKED, headers=bearer(token)).status == 200


def test_the_file_has_no_token_and_only_its_owner_reads_it(tokens: Path, token: str) -> None:
    text = tokens.read_text()
    assert token not in text and token[:10] not in text
    assert tokens.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 43
    (kept,) = json.loads(text)["tokens"]
    assert set(kept) == {"name", "sha256", "expires"}
    assert add_token(tokens, "another", 1) != token


def test_what_cannot_be_given(tokens: Path, token: str) -> None:
    before = tokens.read_text()
    for name, days, words in [("ward 3", 1, "there is a token called"), ("", 1, "1 to 100"), ("x" * 101, 1, "1 to 100"),
                              ("y", 0, "1 to"), ("y", MOST_DAYS + 1, "1 to"), ("y", -1, "1 to")]:  # fmt: skip
        with pytest.raises(dc.InputError, match=words):
            add_token(tokens, name, days)
    with pytest.raises(dc.InputError, match="no token called"):
        revoke_token(tokens, "y")
    assert tokens.read_text() == before


def test_no_token_is_logged_or_said(local: Local, token: str, caplog: pytest.LogCaptureFixture) -> None:
    wrong = "canary" + token[6:]
    with caplog.at_level(logging.DEBUG):
        answers = [local.ask(path, headers=bearer(one)).text
                   for path in (ASKED, "/releases/z", "/releases/r/query?level=x", "/metrics", "/x")
                   for one in (token, wrong)]  # fmt: skip
        answers.append(local.ask(ASKED, headers={"cookie": f"discreet_token={wrong}", "accept": "text/html"}).text)
    for secret in (token, wrong, "ward 3"):
        assert secret not in caplog.text and not any(secret in answer for answer in answers)


def test_each_token_has_a_rate_of_its_own(tmp_path: Path, tokens: Path, token: str) -> None:
    plain(1).save(tmp_path / "r.json")
    other = add_token(tokens, "ward 4", 1)
    limits = ServerLimits(rate=0.001, burst=2)
    with Local([tmp_path / "r.json"], settings=Settings(prepare=False, tokens=tokens, limits=limits)) as server:
        for one in (token, other):
            for _ in range(2):
                assert server.ask(ASKED, headers=bearer(one)).status == 200
            server.ask(ASKED, headers=bearer(one)).problem(429, "too-many-requests")
        for _ in range(2):
            server.ask(ASKED).problem(401, "no-token")
        got = server.ask(ASKED)  # nor can tokens be tried without end
        assert got.problem(429, "too-many-requests") and got.headers["retry-after"] == "1000"


@every("host, loopback", [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False),
                          ("192.168.1.1", False), ("example.org", False), ("", False), ("::", False)])  # fmt: skip
def test_others_reach_a_server_only_if_somebody_said_who(host: str, loopback: bool) -> None:
    if loopback:
        Settings(host=host).check()
    else:
        with pytest.raises(dc.InputError, match="--tokens FILE"):
            Settings(host=host).check()
    Settings(host=host, public=True).check()
    Settings(host=host, tokens=Path("t")).check()
    with pytest.raises(dc.InputError, match="give one of the two"):
        Settings(host=host, public=True, tokens=Path("t")).check()
    with pytest.raises(dc.InputError, match="other machines can reach the proxy"):
        Settings(host=host, proxy=True).check()
    Settings(host=host, proxy=True, public=True).check()


@pytest.mark.costly("A client that may choose its address could try tokens without end.", always=True)
def test_what_a_request_says_of_its_way_is_believed_with_a_proxy_alone(
    tmp_path: Path, tokens: Path, token: str
) -> None:
    """Another address with each request would be another client, so that tokens could be tried without end."""
    plain(1).save(tmp_path / "r.json")
    options = ("--no-prepare", "--tokens", str(tokens), "--rate", "0.01")

    def told(number: int) -> dict[str, str]:
        return {"x-forwarded-for": f"10.0.0.{number}", "x-forwarded-proto": "https", "x-forwarded-host": "evil.example"}

    with served([tmp_path / "r.json"], *options, environment={"FORWARDED_ALLOW_IPS": "*"}) as alone:
        entered = alone.ask("/enter", f"token={token}".encode(), told(1))
        assert entered.status == 303 and "Secure" not in entered.headers["set-cookie"]
        for number in range(2, 5):
            alone.ask(ASKED, headers=bearer("x") | told(number)).problem(429, "too-many-requests")
    with served([tmp_path / "r.json"], *options, "--proxy") as behind:
        host = "{}:{}".format(*behind.address)
        for number, origin, status in ((1, f"https://{host}", 303), (2, f"http://{host}", 400)):
            entered = behind.ask("/enter", f"token={token}".encode(), {"origin": origin} | told(number))
            assert entered.status == status and ("Secure" in entered.headers.get("set-cookie", "")) == (status == 303)
        for number in range(3, 6):
            behind.ask(ASKED, headers=bearer("x") | told(number)).problem(401, "no-token")
        behind.ask(ASKED, headers=bearer("x") | told(5)).problem(429, "too-many-requests")


STRANGE = ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:80@x",
           "[::1", "[", "", "0.0.0.0", "10.0.0.1:8000", "x?e=c=yes#", "localhost:8000, evil.example")  # fmt: skip


def test_a_page_of_elsewhere_whose_name_leads_here_reads_nothing(tmp_path: Path, tokens: Path, token: str) -> None:
    """Its requests call the server by that name; with a token, or for everybody, a server has any name."""
    plain(1).save(tmp_path / "r.json")
    with Local([tmp_path / "r.json"]) as server:
        for own in ("localhost", "LocalHost:1", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000", "[::1]"):
            assert server.ask(ASKED, headers={"host": own}).status == 200, own
        for strange in STRANGE:
            for path in (ASKED, "/", "/healthz", "/pages/r", "/static/page.css", "/enter"):
                said = server.ask(path, headers={"host": strange}).problem(400, "bad-request")
                assert "--tokens FILE" in said and "--public" in said
        assert server.app._meter.text().count("evil") == 0
    for settings in (Settings(prepare=False, public=True), Settings(prepare=False, tokens=tokens)):
        with Local([tmp_path / "r.json"], settings=settings) as server:
            for strange in STRANGE:
                assert server.ask(ASKED, headers={"host": strange, **bearer(token)}).status == 200


def test_tokens_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t.json")
    assert main(["token", path, "--name", "a"]) == 0
    made = capsys.readouterr().out.strip()
    assert TokenFile(Path(path)).find(made) == "a"
    assert main(["token", path, "--name", "a"]) == 2
    assert "there is a token called" in capsys.readouterr().err
    assert main(["token", path, "--name", "a", "--revoke", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"revoked": "a"}
    assert TokenFile(Path(path)).find(made) is None
