"""What is served when files change: new versions, damage, files that are gone, draws of other releases, names."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

import discreet as dc
from discreet.server import catalog, readings
from discreet.server.application import Settings
from discreet.server.catalog import MOST_VERSIONS, ReleaseCatalog
from discreet.server.server_limits import ServerLimits
from folding import every
from served_kinds import plain
from serving import Local, Reply


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at for each request, and not once a second."""
    monkeypatch.setattr(catalog, "LOOK_SECONDS", 0.0)


def put(release: dc.Release, path: Path) -> dc.Release:
    release.save(path, replace=True)
    return release


def draw(release: dc.Release, path: Path, seed: int = 1) -> None:
    release.posterior(draws=100, rng=seed).save(path, replace=True)


def query(server: Local, name: str) -> Reply:
    return server.ask(f"/releases/{name}/query?q=P(c)")


def listed(server: Local) -> dict[str, dict[str, object]]:
    return {each["name"]: each for each in server.ask("/releases").json()["releases"]}


def test_a_replaced_file_is_a_new_version_and_the_old_one_stays_under_its_id(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    first = put(plain(1), path)
    with Local([path]) as server:
        before = query(server, "r")
        second = put(plain(2), path)
        after = query(server, "r")
        assert before.status == after.status == 200 and before.body != after.body
        assert query(server, first.id).body == before.body
        assert query(server, second.id).body == after.body
        told = listed(server)["r"]
        assert (told["id"], told["version"], told["fault"]) == (second.id, 2, None)
        assert told["versions"] == [{"id": second.id, "version": 2}, {"id": first.id, "version": 1}]
        put(first, path)
        assert query(server, "r").body == before.body
        assert listed(server)["r"]["id"] == first.id
        assert query(server, second.id).body == after.body


def test_other_content_under_the_same_id_has_other_answers(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    first = put(plain(1), path)
    with Local([path]) as server:
        before = query(server, "r")
        put(replace(plain(2), id=first.id), path)
        after = query(server, "r")
        assert before.body != after.body
        assert query(server, first.id).body == after.body
        assert len(listed(server)["r"]["versions"]) == 1  # type: ignore[arg-type]


@every("damage", ["", "{", "not JSON", "[]", "null", "\x00" * 100, '{"format": "discreet-release", "version": 99}'])
def test_a_damaged_replacement_keeps_what_was_there_and_says_so(
    tmp_path_factory: pytest.TempPathFactory, damage: str
) -> None:
    path = tmp_path_factory.mktemp("damage") / "r.json"
    put(plain(1), path)
    with Local([path]) as server:
        before = query(server, "r")
        path.write_text(damage)
        assert query(server, "r").body == before.body
        assert "has changed and cannot be read: " in str(listed(server)["r"]["fault"])
        assert str(path.parent) not in str(listed(server))
        path.unlink()
        assert query(server, "r").body == before.body
        assert listed(server)["r"]["fault"]
        put(plain(2), path)
        assert query(server, "r").body != before.body
        assert listed(server)["r"]["fault"] is None


def test_what_replaces_a_file_may_be_served_already(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    put(plain(1), one)
    second = put(plain(2), other)
    with Local([one, other]) as server:
        before = query(server, "one")
        put(second, one)
        assert query(server, "one").body == before.body
        assert "are the same release" in str(listed(server)["one"]["fault"])
        assert str(tmp_path) not in str(listed(server))
    for files in ([one, other], [one, one]):
        with pytest.raises(dc.InputError, match="are the same release"):
            ReleaseCatalog(files)


def test_so_many_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    first = put(plain(0), path)
    with Local([path]) as server:
        for seed in range(1, MOST_VERSIONS + 2):
            last = put(plain(seed), path)
            assert listed(server)["r"]["version"] == seed + 1
        assert len(listed(server)["r"]["versions"]) == MOST_VERSIONS  # type: ignore[arg-type]
        query(server, first.id).problem(404, "not-found")
        assert query(server, last.id).status == 200


def test_draws_are_taken_from_their_file_and_again_when_it_changes(tmp_path: Path) -> None:
    path, draws = tmp_path / "r.json", tmp_path / "r.draws"
    release = put(plain(1), path)
    draw(release, draws, 1)
    with Local([path], [draws]) as server:
        assert listed(server)["r"]["draws"] == "stored"
        before = query(server, "r")
        stored = dc.results.PosteriorDraws.load(draws)
        assert before.json()["answers"][0]["values"][0]["mean"] == dc.answer(stored, "P(c)").rows[0]["mean"]
        assert listed(server)["r"]["draws"] == "ready"
        draw(release, draws, 2)
        assert query(server, "r").body != before.body
        assert len(listed(server)["r"]["versions"]) == 1  # type: ignore[arg-type]


def test_damaged_draws_are_said_and_work_again_when_they_are_mended(tmp_path: Path) -> None:
    path, draws = tmp_path / "r.json", tmp_path / "r.draws"
    release = put(plain(1), path)
    draw(release, draws)
    whole = draws.read_bytes()
    with Local([path], [draws]) as server:
        before = query(server, "r")
        for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[: len(whole) // 2], whole + b"x"):
            draws.write_bytes(damaged)
            said = query(server, "r").problem(503, "unreadable")
            assert "damaged: its checksum" in said and str(tmp_path) not in said
            assert server.ask("/releases/r").status == 200
        for damaged in (b"", b"nonsense"):  # then nobody knows of what they are: what was read stays
            draws.write_bytes(damaged)
            assert query(server, "r").status in (200, 503)
        draws.write_bytes(whole)
        assert query(server, "r").body == before.body


def test_draws_of_another_release_are_refused(tmp_path: Path) -> None:
    put(plain(1), tmp_path / "r.json")
    draw(plain(2), tmp_path / "other.draws")
    with pytest.raises(dc.InputError, match="of none of the releases"):
        ReleaseCatalog([tmp_path / "r.json"], [tmp_path / "other.draws"])
    same_id = replace(plain(2), id=plain(1).id)
    draw(same_id, tmp_path / "same.draws")
    with pytest.raises(dc.InputError, match="of none of the releases"):
        ReleaseCatalog([tmp_path / "r.json"], [tmp_path / "same.draws"])
    (tmp_path / "none.draws").write_bytes(b"nonsense")
    with pytest.raises(dc.InputError, match="no file of posterior draws"):
        ReleaseCatalog([tmp_path / "r.json"], [tmp_path / "none.draws"])


def test_draws_that_become_those_of_another_release_are_not_taken(tmp_path: Path) -> None:
    path, draws = tmp_path / "r.json", tmp_path / "r.draws"
    release = put(plain(1), path)
    draw(release, draws)
    with Local([path], [draws]) as server:
        query(server, "r")
        draw(plain(2), draws)
        got = query(server, "r")
        assert got.status == 200
        drawn = dc.noise_aware(release, draws=1000, rng=0)
        assert got.json()["answers"][0]["values"][0]["mean"] == dc.answer(drawn, "P(c)").rows[0]["mean"]


def test_what_is_said_of_a_file_of_draws_that_is_none_any_more(tmp_path: Path) -> None:
    path = tmp_path / "r.draws"
    draw(plain(1), path)
    with Local([path]) as server:
        before = query(server, "r")
        path.write_bytes(b"nonsense")
        assert query(server, "r").body == before.body
        fault = str(listed(server)["r"]["fault"])
        assert "no file of posterior draws" in fault and str(tmp_path) not in fault
    draw(plain(1), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(dc.InputError, match="damaged: its checksum"):
        ReleaseCatalog([path])


def test_a_version_whose_draws_were_replaced_has_none(tmp_path: Path) -> None:
    first, second, path = plain(1), plain(2), tmp_path / "r.draws"
    draw(first, path)
    served = ReleaseCatalog([path])
    assert served.find("r").draws == path
    draw(second, path)
    assert served.find("r").id == second.id and served.find("r").draws == path
    assert served.find(first.id).draws is None and [one.id for one in served.versions("r")] == [second.id, first.id]
    draw(first, path)
    assert served.find("r").id == first.id and served.find("r").draws == path
    assert served.find(second.id).draws is None and [one.number for one in served.versions("r")] == [1, 2]


def test_names_are_what_an_address_can_hold(tmp_path: Path) -> None:
    stranger = plain(1).id
    names = ["a b.json", "a  b.json", "Krankenhäuser.json", "...json", "%2e%2e.json", "<b>x<b>.json", "x.json", "x.txt",
             "x-2.json", f"{stranger}.json", "y" * 200 + ".json", "-.json", "?q=1.json"]  # fmt: skip
    for seed, name in enumerate(names, 2):
        put(plain(seed), tmp_path / name)
    sub = tmp_path / "sub"
    sub.mkdir()
    put(plain(99), sub / "x.json")
    with Local([*(tmp_path / name for name in names), sub / "x.json"]) as server:
        found = [each["name"] for each in server.ask("/releases").json()["releases"]]
        assert len(set(found)) == len(names) + 1
        for name in found:
            assert (
                set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-")
                and len(name) < 110
            )
            assert not name.startswith(".") and query(server, name).status == 200
        query(server, "../x").problem(404, "not-found")


def test_a_name_that_is_an_id_does_not_hide_the_release_of_that_id(tmp_path: Path) -> None:
    first = put(plain(1), tmp_path / "first.json")
    second = put(plain(2), tmp_path / f"{first.id}.json")
    with Local([tmp_path / "first.json", tmp_path / f"{first.id}.json"]) as server:
        assert server.ask(f"/releases/{first.id}").text == first.dumps()
        assert server.ask(f"/releases/{second.id}").text == second.dumps()
        (other,) = [name for name in listed(server) if name != "first"]
        assert server.ask(f"/releases/{other}").text == second.dumps()


def test_what_is_held_has_a_limit_and_is_read_again(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        draw(plain(seed), tmp_path / f"r{seed}.draws")
    files = [tmp_path / f"r{seed}.draws" for seed in (1, 2, 3)]
    with Local(files, settings=Settings(prepare=False, limits=ServerLimits(draws_bytes=1, cache_bytes=0))) as server:
        assert [each["draws"] for each in listed(server).values()] == ["stored"] * 3
        bodies = [query(server, f"r{seed}").body for seed in (1, 2, 3)]
        assert [each["draws"] for each in listed(server).values()] == ["stored", "stored", "ready"]
        assert [query(server, f"r{seed}").body for seed in (1, 2, 3)] == bodies
        (file,) = {tmp_path / "r3.draws"}
        file.unlink()
        assert query(server, "r3").body == bodies[2]  # it is in memory
        query(server, "r1")
        assert query(server, "r3").status in (200, 503)


def test_what_cannot_be_served_at_all_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(dc.InputError, match="at least one release"):
        ReleaseCatalog([])
    with pytest.raises(dc.InputError, match="cannot read"):
        ReleaseCatalog([tmp_path / "none.json"])
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(dc.InputError, match="not JSON"):
        ReleaseCatalog([tmp_path / "bad.json"])


def test_stored_draws_do_not_wait_for_others_to_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, waits = threading.Event(), readings.read

    def read(version: catalog.Version) -> readings.ServedPosterior:
        if version.draws is None:
            assert drawn.wait(60)
        return waits(version)

    monkeypatch.setattr(readings, "read", read)
    put(plain(), tmp_path / "slow.json")
    draw(plain(seed=2), tmp_path / "quick.draws")
    settings = Settings(prepare=False, limits=ServerLimits(seconds=0.2))
    with Local([tmp_path / "slow.json", tmp_path / "quick.draws"], settings=settings) as server:
        assert query(server, "slow").status == 503
        assert 200 in (query(server, "quick").status for _ in range(100))  # what takes longer is kept for the next
        assert listed(server)["slow"]["draws"] == "under way"
        drawn.set()
