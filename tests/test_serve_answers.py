"""Every answer of a server is what its OpenAPI document says, and clients that are made of the document alone work."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from folding import every
from served_kinds import KINDS, save
from serving import Local, Reply, served

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (the dev extra)")

NETWORK = "plain"
CLOSED = ("structure", "logistic-without-law")
"""Kinds that no question is answered for: a network alone, and gradients without a law of features."""


@dataclass(frozen=True)
class Caller:
    """A client that knows of a server what its document says."""

    server: Local
    document: Mapping[str, Any]

    def call(self, operation: str, release: str = NETWORK, **said: Any) -> tuple[Reply, Any]:
        """Call an operation by its id; what comes back is what the document says of its status and media type."""
        ((path, _, told),) = (
            (path, method, told)
            for path, item in self.document["paths"].items()
            for method, told in item.items()
            if method != "parameters" and told["operationId"] == operation
        )
        assert {one["name"] for one in told.get("parameters", [])} >= said.keys() or "requestBody" in told
        address = path.replace("{release}", release)
        if "requestBody" in told:
            self.check(told["requestBody"]["content"]["application/json"]["schema"], said)
            reply = self.server.ask(address, said)
        else:
            reply = self.server.ask(f"{address}?{urlencode(said, doseq=True)}")
        content = told["responses"][str(reply.status)]["content"]
        media = reply.headers["content-type"].partition(";")[0]
        schema = content[media]["schema"]
        if not media.endswith("json"):
            assert ("format" in schema) == (not media.startswith("text/"))
            return reply, reply.body
        self.check(schema, reply.json())
        return reply, reply.json()

    def check(self, schema: Mapping[str, Any], value: Any) -> None:
        """Hold a value against a schema of the document."""
        jsonschema.Draft202012Validator({**schema, "components": self.document["components"]}).validate(value)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    folder = tmp_path_factory.mktemp("answers")
    with Local([save(name, folder) for name in KINDS]) as server:
        document = server.ask("/openapi.json").json()
        for schema in document["components"]["schemas"].values():  # nothing is answered that is not told
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)
        yield Caller(server, document)


CALLS: dict[str, list[dict[str, Any]]] = {
    "releases": [{}], "healthz": [{}], "metrics": [{}], "document": [{}], "fit": [{}], "explain": [{}, {"q": ["P(c)"]}],
    "marginals": [{}, {"e": ["a=yes"], "draws": True, "predictive": True},
                  {"e": ["a=yes", "b=no"], "predictive": True}, {"format": "csv"}],
    "post_marginals": [{}, {"e": ["a=yes"], "level": 0.5}, {"format": "csv"}],
    "query": [{}, {"q": ["P(c | a=yes)", "MAP(b)", "MPE(| a=no)", "P(b, c)"]}, {"q": ["P(a, c)"], "assume": "nothing"},
              {"q": ["P(c)"], "format": "csv"}],
    "post_query": [{}, {"q": ["P(c=yes | a=yes) / P(c=yes | a=no)", "P(b)"], "draws": True},
                   {"q": ["P(b, c)"], "assume": "robust"}, {"q": ["P(c)"], "format": "csv"}],
    "predict": [{"records": [{"a": "yes"}, {}], "target": "c"}, {"records": {"a": ["no", None]}, "target": "b"}],
    "decide": [{"query": "P(c)", "payoffs": {"go": {"no": 0, "yes": 1}}, "bounds": [0, 2]},
               *({"quantity": "P(c=yes)", "loss": loss} for loss in ("squared", "absolute", "interval:0.9")),
               {"quantities": ["P(c, b)", "P(a=yes | c=no)"]}],
    "regress": [{"target": "c", "on": ["a", "b"], "kind": kind, "draws": True} for kind in ("linear", "logistic")]
    + [{"target": "c", "on": ["a"], "format": "csv"}],
    "synthetic": [{"n": 3, "format": form} for form in ("csv", "parquet", "arrow")],
    "report": [{"format": form} for form in ("html", "markdown")],
}  # fmt: skip
"""Questions of each operation that a release of a network answers."""


@pytest.mark.costly("An answer that the document does not describe is found by calling each operation.")
def test_every_operation_answers_what_the_document_says(caller: Caller) -> None:
    operations = {one["operationId"] for item in caller.document["paths"].values() for one in item.values()
                  if isinstance(one, dict)}  # fmt: skip
    assert operations == CALLS.keys()
    for operation, questions in CALLS.items():
        for said in questions:
            reply, _ = caller.call(operation, **said)
            assert reply.status == 200, (operation, said, reply.text)


@pytest.mark.costly("Each operation is asked of each kind of release and held against its schema.")
@every("kind", [*KINDS])
def test_so_does_every_kind_of_release(caller: Caller, kind: str) -> None:
    answered = [caller.call(operation, kind)[0].status
                for operation in ("document", "fit", "explain", "marginals", "query", "post_query")]  # fmt: skip
    assert answered[0] == 200 and set(answered) <= {200, 400}
    assert answered[4] == (400 if kind in CLOSED else 200), caller.call("query", kind)[0].text


def test_so_do_regressions_and_numbers(caller: Caller) -> None:
    for kind in ("linear", "logistic", "classes", "counts"):
        reply, found = caller.call("predict", kind, records=[{"age": 0.1, "dose": 0.2}])
        assert reply.status == 200 and len(found["records"]) == 1
    for query in ("E(wait)", "P(wait > 5)", "Q(0.5, wait)"):
        caller.call("query", "family", q=query)
    assert caller.call("query", "family", q="E(wait)")[1]["answers"][0]["unit"] == "number of wait"
    assert caller.call("query", "gappy", missing="at-random")[1]["missing"] == "at-random"


def test_so_does_what_is_refused(caller: Caller) -> None:
    for operation, release, said, status in (
        ("query", NETWORK, {"q": "P(z)"}, 400), ("fit", "nobody", {}, 404), ("explain", "census", {}, 400),
        ("synthetic", NETWORK, {"n": 10**9}, 422),
    ):  # fmt: skip
        assert caller.call(operation, release, **said)[0].status == status


def test_every_answer_has_a_schema_that_says_something(caller: Caller) -> None:
    for item in caller.document["paths"].values():
        for told in (one for one in item.values() if isinstance(one, dict)):
            assert told["summary"]
            for media, content in told["responses"]["200"]["content"].items():
                assert "$ref" in json.dumps(content) if media == "application/json" else content["schema"]["type"]
    text = json.dumps(caller.document["components"])
    for word in ("measured", "log-linear", "mpe", "at-random", "add-remove", "discrete_laplace", "logistic", "weights"):
        assert f'"{word}"' in text, word  # values that there are few of are told one by one


# ------------------------------------------------------------------------------------------------ generated clients

ASK = """
import importlib, inspect, json, sys, typing
sys.path.insert(0, sys.argv[1])
from generated import Client
client = Client(base_url=sys.argv[2])
for name, questions in json.load(sys.stdin).items():
    ask = importlib.import_module(f"generated.api.default.{name}").sync_detailed
    wanted = inspect.signature(ask).parameters
    for said in questions:
        own = {one if one in wanted else f"{one}_": value for one, value in said.items()}
        given = {"body": typing.get_type_hints(ask)["body"].from_dict(said)} if "body" in wanted else own
        reply = ask(*(["plain"] if "release" in wanted else []), client=client, **given)
        assert reply.status_code == 200, (name, said, reply)
        print(name, type(reply.parsed).__name__)
"""
CONFIG = """
literal_enums: true
content_type_overrides:
  application/vnd.apache.parquet: application/octet-stream
  application/vnd.apache.arrow.file: application/octet-stream
"""
TYPES = {
    "releases": "ReleasesReply", "healthz": "HealthReply", "metrics": "str", "document": "ReleaseDocument",
    "fit": "FitReply", "explain": "Explanation", "marginals": "AnswersReply", "post_marginals": "AnswersReply",
    "query": "AnswersReply", "post_query": "AnswersReply", "predict": "PredictReply", "regress": "RegressReply",
    "synthetic": "File", "report": "str", "decide": "ResponseReply NumberReply VectorReply",
}  # fmt: skip
"""What a generated client makes of the answer of each operation."""


def test_a_generated_client_of_python_calls_every_operation(tmp_path: Path) -> None:
    program = shutil.which("openapi-python-client")
    if program is None:
        pytest.skip(
            "openapi-python-client is not installed: it wants another typer, so it has an environment of its own"
        )
    (tmp_path / "config.yml").write_text(CONFIG)
    # Of a parameter that chooses between media types such a client knows the first one alone.
    questions = {name: [one for one in each if one.get("format") != "csv" or name == "synthetic"]
                 for name, each in CALLS.items()}  # fmt: skip
    with served([save("plain", tmp_path)]) as server:
        (tmp_path / "openapi.json").write_bytes(server.ask("/openapi.json").body)
        made = subprocess.run(
            [program, "generate", "--meta", "none", "--config", str(tmp_path / "config.yml"), "--fail-on-warning",
             "--path", str(tmp_path / "openapi.json"), "--output-path", str(tmp_path / "generated")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout
        python = Path(program).resolve().parent / "python"
        done = subprocess.run([python, "-c", ASK, str(tmp_path), server.url], input=json.dumps(questions),
                              capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        name, kind = line.split()
        assert kind in TYPES[name].split(), line
    assert {line.split()[0] for line in done.stdout.splitlines()} == CALLS.keys()


PROGRAM = """
import type { paths } from "./api";
type Ok<P extends keyof paths, M extends keyof paths[P]> =
  paths[P][M] extends { responses: { 200: { content: { "application/json": infer T } } } } ? T : never;
const url = process.argv[2] as string;
async function ask<P extends keyof paths>(path: P, release: string, query = ""): Promise<Ok<P, "get">> {
  const reply = await fetch(url + String(path).slice(1).replace("{release}", release) + query);
  if (!reply.ok) throw new Error(await reply.text());
  return await reply.json() as Ok<P, "get">;
}
async function main(): Promise<void> {
  const listed = await ask("/releases", "");
  const kinds: ("network" | "family" | "states" | "weights" | "structure")[] = listed.releases.map((one) => one.kind);
  const found = await ask("/releases/{release}/marginals", "plain", "?e=a%3Dyes");
  const lines: string[] = found.answers.flatMap((one) =>
    one.values.map((row) => `${one.basis} ${Object.values(row.state)[0]} ${(row.upper - row.lower).toFixed(2)}`));
  const fit: number = (await ask("/releases/{release}/fit", "plain")).pairs;
  console.log(JSON.stringify([kinds, lines.length, fit]));
}
void main();
"""


def test_a_generated_client_of_typescript_knows_the_types(tmp_path: Path) -> None:
    generate, compile_ = (shutil.which(name) for name in ("openapi-typescript", "tsc"))
    node = shutil.which("node")
    if generate is None or compile_ is None or node is None:
        pytest.skip("node, openapi-typescript or tsc is not installed")
    (tmp_path / "main.ts").write_text("declare const process: { argv: string[] };\n" + PROGRAM)
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "--skipLibCheck"]
    with served([save("plain", tmp_path)]) as server:
        (tmp_path / "openapi.json").write_bytes(server.ask("/openapi.json").body)
        for command in (
            [generate, "openapi.json", "-o", "api.d.ts"],
            [compile_, *options, "main.ts"],
            [node, "main.js", server.url],
        ):
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == [["network"], 4, 3]
