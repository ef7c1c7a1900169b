"""The OpenAPI document of the server, made of the operations themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.server.parameters import Asked
from discreet.server.problems import PROBLEMS

if TYPE_CHECKING:
    from discreet.server.api import Operation

MEDIA_OF = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}
"""Media types of files of records."""
RELEASE = {
    "name": "release",
    "in": "path",
    "required": True,
    "description": "Name of a release, for its newest version, or the id of any version.",
    "schema": {"type": "string"},
}
Document = dict[str, Any]


def openapi_document(operations: Sequence[Operation], version: str) -> Document:
    """The document.

    Args:
        operations: on a release.
        version: of the package.
    """
    schemas: dict[str, Any] = {
        "Problem": {
            "type": "object",
            "description": "What goes wrong (RFC 9457).",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"enum": [f"urn:discreet:problem:{kind}" for kind in PROBLEMS]},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string", "description": "One sentence."},
            },
        }
    }
    paths: dict[str, Any] = {
        "/releases": {"get": _describe_plain("releases", "All releases that are served.", "application/json")},
        "/healthz": {"get": _describe_plain("health", "Whether the server is there.", "application/json")},
        "/metrics": {"get": _describe_plain("metrics", "What the server counts of itself.", "text/plain")},
    }
    for operation in operations:
        found = paths.setdefault(operation.path, {"parameters": [RELEASE]})
        found[operation.method.lower()] = _describe(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "discreet",
            "version": version,
            "description": "Answers from differentially private releases, with intervals that count sampling error and "
            "privacy noise.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _describe(operation: Operation, schemas: dict[str, Any]) -> Document:
    """One operation."""
    name = operation.name or "document"
    described: Document = {
        "operationId": f"post_{name}" if operation.body is not None and name in ("marginals", "query") else name,
        "summary": operation.told,
        "responses": _responses(operation.media),
    }
    if operation.model is not None:
        described["parameters"] = _parameters(operation.model)
    if operation.body is not None:
        schema = _take_definitions(
            operation.body.model_json_schema(ref_template="#/components/schemas/{model}"), schemas
        )
        schemas[operation.body.__name__] = schema
        reference = {"$ref": f"#/components/schemas/{operation.body.__name__}"}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return described


def _describe_plain(name: str, told: str, media: str) -> Document:
    """An operation that takes nothing."""
    return {"operationId": name, "summary": told, "responses": _responses((media,))}


def _responses(media: Sequence[str]) -> Document:
    """What may come back."""
    content = {
        kind.partition(";")[0]: {"schema": {"type": "object"} if kind == "application/json" else {"type": "string"}}
        for kind in media
    }
    titles: dict[int, list[str]] = {}
    for status, title in PROBLEMS.values():
        titles.setdefault(status, []).append(title)
    problems = {
        str(status): {
            "description": "; ".join(said),
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, said in titles.items()
    }
    return {"200": {"description": "The answer.", "content": content}, **problems}


def _parameters(model: type[Asked]) -> list[Document]:
    """What can be said in the address."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    found = []
    for name, part in schema.get("properties", {}).items():
        own = {key: value for key, value in part.items() if key not in ("title", "description", "examples")}
        if "anyOf" in own:  # an address cannot say null: it leaves the name out
            own |= own.pop("anyOf")[0]
            own.pop("default", None)
        parameter = {"name": name, "in": "query", "required": name in required, "schema": own}
        if "description" in part:
            parameter["description"] = part["description"]
        if own.get("type") == "array":
            parameter |= {"style": "form", "explode": True}
        found.append(parameter)
    return found


def _take_definitions(schema: Document, schemas: dict[str, Any]) -> Document:
    """A schema without its definitions, which become schemas of the document."""
    schemas |= schema.pop("$defs", {})
    return schema
