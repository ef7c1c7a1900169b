"""What docs/serve.md hands out: its tables are the server's, its files are read by the programs that they are for."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import discreet as dc
from discreet.server.api import OPERATIONS
from discreet.server.problems import PROBLEMS
from discreet.server.tokens import add_token
from installations import all_needed
from networks import asia
from releases import guarantee
from serving import served

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
LEFT_OUT = ("duckdb", "ibis-framework", "networkx", "opendp", "sqlalchemy", "tomlkit")
"""What reads tables and databases, and draws noise."""


def block(language: str, first: str) -> str:
    """The block of the page that begins with a line."""
    found: list[str] = re.findall(rf"^```{language}\n({re.escape(first)}.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(found) == 1, (language, first)
    return found[0]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of asia; the page's own is called so, too."""
    theta = asia()
    records = dc.read_records(dc.tools.simulate_records(theta, 1000, rng=1), theta.network.schema)
    prior = dc.Dirichlet.uniform(theta.network)
    made = dc.simulate(dc.laplace(), dc.count(records, theta.network), prior, guarantee(), rng=1)
    path = tmp_path_factory.mktemp("serve") / "release.json"
    made.save(path)
    return path


# ---------------------------------------------------------------------------------------------------------- tables


def test_the_table_of_operations_has_all() -> None:
    told = {
        (method, path)
        for methods, path in re.findall(r"^\| (`[^|]*?)(/[^`]*)` \|", PAGE, re.MULTILINE)
        for method in re.findall("GET|POST", methods)
    }
    served_here = {(one.method, one.path.replace("{release}", "NAME")) for one in OPERATIONS}
    assert told == served_here | {("GET", path) for path in ("/releases", "/openapi.json", "/healthz", "/metrics")}


def test_the_table_of_errors_has_all() -> None:
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert {kind: int(status) for kind, status in told.items()} == {kind: code for kind, (code, _) in PROBLEMS.items()}


@pytest.mark.costly("The page's lines are run as they stand, against a server and a file.")
def test_the_python_of_the_page_says_what_it_says_of_the_file(release: Path) -> None:
    code = block("python", "posterior = dc.server.Client(")
    first, was = re.search(r"^(posterior = .*?)  # was: (.*)$", code, re.MULTILINE).groups()  # type: ignore[union-attr]
    rest = code.partition("\n")[2]
    with served([release], "--no-prepare") as running:
        client = first.replace("http://127.0.0.1:8000", running.url)
        lines = {"there": client, "here": "posterior = " + was}
        printed = {}
        for place, line in lines.items():
            shown = re.sub(r"^dc\.(.*)$", r"print(dc.\1)", rest, flags=re.MULTILINE).replace("to_frame()", "tidy()")
            script = f"import discreet as dc\n{line}\n{shown}"
            done = subprocess.run(
                [sys.executable, "-c", script], cwd=release.parent, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            printed[place] = done.stdout
    assert printed["there"] == printed["here"] != ""


# ------------------------------------------------------------------------------------------------------- container


def packages() -> set[str]:
    """What the container installs beside the package, by name."""
    assert '/tmp/discreet-*.whl)[serve]"' in block("dockerfile", "FROM")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {re.split("[<>=]", one)[0] for one in project["dependencies"] + project["optional-dependencies"]["serve"]}


def test_the_container_has_no_engine_and_no_noise() -> None:
    assert not set(LEFT_OUT) & all_needed(packages())


CODE = """
import signal, sys, os
from importlib.metadata import packages_distributions
known = {{top: {{one.lower().replace('_', '-') for one in of}} for top, of in packages_distributions().items()}}
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        there = top == 'discreet' or top not in known or known[top] & {allowed!r}
        return self.finder.find_spec(name, path, target) if there else None
    def __getattr__(self, name):
        return getattr(self.finder, name)  # what is installed may be listed
sys.meta_path[:] = map(Without, sys.meta_path)
def end(*_):
    used = {{one for name in list(sys.modules) for one in known.get(name.partition('.')[0], ())}}
    open({told!r}, 'w').write(' '.join(used))
    os._exit(0)
signal.signal(signal.SIGTERM, end)
from discreet.cli.start import main
sys.exit(main())
"""
ASKED: list[tuple[str, Any]] = [
    ("/releases", None),
    ("/releases/release", None),
    ("/releases/release/marginals?e=smoke=yes", None),
    ("/releases/release/query?q=P(lung%7Csmoke=yes)&assume=nothing", None),
    ("/releases/release/query", {"q": ["MAP(lung, tub | dysp=yes)"], "format": "csv"}),
    ("/releases/release/predict", {"records": [{"smoke": "yes"}], "target": "lung"}),
    ("/releases/release/decide", {"query": "P(lung)", "payoffs": {"a": {"yes": 1, "no": 0}}}),
    ("/releases/release/regress?target=lung&on=smoke&kind=logistic", None),
    ("/releases/release/explain?q=P(lung)", None),
    ("/releases/release/fit", None),
    *((f"/releases/release/synthetic?n=10&sets=2&format={form}", None) for form in ("csv", "parquet", "arrow")),
    ("/releases/release/report?format=html", None),
    ("/openapi.json", None),
    ("/metrics", None),
]


@pytest.mark.costly("What a server needs shows in a process that has nothing else.")
def test_the_container_has_what_a_server_needs_and_nothing_else(release: Path, tmp_path: Path) -> None:
    told = tmp_path / "used"
    code = CODE.format(allowed=all_needed(packages()), told=str(told))
    with served([release], code=code) as running:
        for path, body in ASKED:
            reply = running.ask(path, body)
            assert reply.status == 200, (path, reply.text[:300])
        assert {path.partition("?")[0].rpartition("/")[2] for path, _ in ASKED} >= {one.name for one in OPERATIONS} - {
            ""
        }
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(60)
    assert packages() - set(told.read_text().split()) == {"rich"}, "which typer asks for, too"


# ------------------------------------------------------------------------------------------- programs of the system


def test_the_unit_is_one(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "discreet-serve.service"
    unit.write_text(block("ini", "[Unit]").replace("/opt/discreet/bin/discreet", sys.executable))
    done = subprocess.run([program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    if "Failed to initialize manager" in done.stderr or "Failed to connect" in done.stderr:
        pytest.skip("systemd-analyze finds no system to verify units of")
    assert (done.returncode, done.stderr) == (0, "")


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def program(name: str) -> str:
    """Where a program of the system is; without it a test is skipped."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def certify(folder: Path) -> tuple[Path, Path]:
    """A certificate of our own, and its key."""
    own, key = folder / "answers.pem", folder / "answers.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "1"]
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", str(key), "-out", str(own)]
    subprocess.run([program("openssl"), *made], check=True, capture_output=True)
    return own, key


def nginx(folder: Path, server: int, ports: dict[int, int]) -> list[str]:
    """The command that runs nginx by the page's configuration, with a certificate of our own and other ports."""
    command = [program("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    own, key = certify(folder)
    text = re.sub(r".*listen \[::\].*\n", "", block("nginx", "server {"))
    for before, after in ports.items():
        text = text.replace(f"listen {before}", f"listen 127.0.0.1:{after}")
    text = text.replace("/etc/ssl/certs/answers.pem", str(own)).replace("/etc/ssl/private/answers.key", str(key))
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server}")
    kept = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {kept}\n{text}\n}}"
    (folder / "nginx.conf").write_text(whole)
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and "warn" not in checked.stderr, checked.stderr
    return command


def caddy(folder: Path, server: int, ports: dict[int, int]) -> list[str]:
    """The command that runs Caddy by the page's configuration, likewise."""
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    own, key = certify(folder)
    first = "answers.example.org {\n"
    text = block("text", first).replace(first, f"https://localhost:{ports[443]} {{\n    tls {own} {key}\n")
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server}")
    settings = f"admin off\n    auto_https disable_redirects\n    storage file_system {folder}/kept"
    (folder / "Caddyfile").write_text(f"{{\n    {settings}\n}}\n{text}")
    return command


@contextmanager
def running(command: list[str], port: int, home: Path) -> Iterator[None]:
    """Run a proxy, and wait until it listens; what it keeps for itself, it keeps in a folder."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | {"HOME": str(home)})
    try:
        for _ in range(200):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_proxy_serves_it_with_tls(
    proxy: Callable[[Path, int, dict[int, int]], list[str]],
    release: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = add_token(tmp_path / "tokens.json", "ann", 1)
    options = ["--no-prepare", "--root-path", "/discreet", "--proxy", "--tokens", str(tmp_path / "tokens.json")]
    ports = {443: free_port(), 80: free_port()}
    base = f"https://localhost:{ports[443]}/discreet"
    with (
        served([release], *options) as server,
        running(proxy(tmp_path, server.address[1], ports), ports[443], tmp_path),
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "answers.pem"))
        client = dc.server.Client(base, token=token)
        posterior = client.posterior()
        assert posterior.answer("P(lung | smoke=yes)") == dc.load(release).posterior(rng=0).answer(
            "P(lung | smoke=yes)"
        )
        assert [made.read_all().num_rows for made in dc.sample(posterior, 100_000, rng=1, sets=2)] == [100_000] * 2
        with pytest.raises(dc.DiscreetError, match=r"answered 413|at most"):
            client._wire.ask("releases", "release", "query", body={"q": ["x" * 2**21]})
        client.close()
        stranger = dc.server.Client(base)
        with pytest.raises(dc.InputError, match="token"):
            stranger.releases()
        stranger.close()
        assert cookie_of(ports[443], token).startswith("discreet_token=")
        if proxy is nginx:  # the other one sends on from a port that is not ours to take
            plain = dc.server.Client(f"http://localhost:{ports[80]}/discreet")
            with pytest.raises(dc.DiscreetError, match=r"redirects to 'https://localhost/discreet/healthz'"):
                plain.releases()
            plain.close()
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(dc.DiscreetError, match="cannot be trusted"):
            dc.server.Client(base).releases()


def cookie_of(port: int, token: str) -> str:
    """What a browser is told to keep that enters a token: for this address alone, and over TLS alone."""
    connection = http.client.HTTPSConnection("localhost", port, context=ssl.create_default_context())
    headers = {"content-type": "application/x-www-form-urlencoded", "origin": f"https://localhost:{port}"}
    connection.request("POST", "/discreet/enter?next=/", urlencode({"token": token}), headers)
    got = connection.getresponse()
    cookie = got.getheader("set-cookie", "")
    onward = got.getheader("location", "")
    connection.close()
    assert got.status == 303 and onward == "/discreet/", (got.status, onward)
    assert {"Secure", "HttpOnly", "Path=/discreet", "SameSite=strict"} <= set(cookie.split("; "))
    return cookie
