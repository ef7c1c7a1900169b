"""The OpenAPI document: valid, complete, and true of what the server does, as `schemathesis` sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from served_kinds import plain, save
from serving import Served, served

FEW, MANY = 4, 60
"""Examples of each operation."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openapi")
    plain(1).posterior(draws=100, rng=1).save(folder / "r.draws")
    files = [Path(folder, "r.draws"), *(save(name, folder) for name in ("linear", "gappy"))]
    with served(files, "--rate", "100000", "--most-records", "1000") as running:
        yield running


def test_the_document_is_valid_and_names_every_operation(server: Served) -> None:
    validator = pytest.importorskip("jsonschema_rs", reason="schemathesis is not installed")
    document = server.ask("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    for path, item in document["paths"].items():
        assert {"{release}"} >= {part for part in path.split("/") if part.startswith("{")}
        for method in ("get", "post"):
            for parameter in item.get(method, {}).get("parameters", []):
                validator.validator_for(parameter["schema"])
    assert set(document["paths"]) == {
        "/releases", "/healthz", "/metrics", "/releases/{release}",
        *(f"/releases/{{release}}/{name}" for name in ("marginals", "query", "predict", "decide", "regress", "explain",
                                                       "fit", "synthetic", "report")),
    }  # fmt: skip
    operations = [
        item[method]["operationId"] for item in document["paths"].values() for method in item if method != "parameters"
    ]
    assert len(set(operations)) == len(operations)


def attack(server: Served, examples: int) -> None:
    """Send made-up requests to every operation; no answer may be an error of the server, or other than documented."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    hypothesis = pytest.importorskip("hypothesis")
    known = pytest.importorskip("schemathesis.specs.openapi.checks")
    # Which names and states a release has is in no schema: what is valid by it may be refused.
    wanted = [
        schemathesis.checks.not_a_server_error, known.status_code_conformance, known.content_type_conformance,
        known.response_schema_conformance, known.response_headers_conformance, known.negative_data_rejection,
    ]  # fmt: skip
    schema = schemathesis.openapi.from_dict(server.ask("/openapi.json").json())
    schema.config.base_url = server.url.rstrip("/")
    found: dict[str, int] = {}
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.given(case=operation.as_strategy())
        @hypothesis.settings(
            max_examples=examples, derandomize=True, deadline=None, database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        def test(case: Any) -> None:
            if "release" in case.path_parameters and len(found) % 4:
                case.path_parameters["release"] = ("r", "linear", "gappy")[len(found) % 3]
            response = case.call(timeout=60)
            found[f"{case.method} {case.path} {response.status_code} {len(found)}"] = 1
            case.validate_response(response, checks=wanted)

        test()
    assert len(found) > examples


@pytest.mark.costly("Requests that nobody thought of are made up from the server's own description.")
def test_no_made_up_request_is_an_error_of_the_server(server: Served) -> None:
    attack(server, FEW)


@pytest.mark.thorough
def test_no_made_up_request_of_many_is_an_error_of_the_server(server: Served) -> None:
    attack(server, MANY)
