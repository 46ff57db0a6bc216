"""The HTTP interface: the OpenAPI document without its prose, and the routes that it leaves out."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from perdure import Settings
from perdure.worker.web import create_app
from tests.golden.golden_files import compare

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
#: What Starlette adds to the name of a parameter to say how it matches.
CONVERTER = re.compile(r":\w+}")
#: Keys of the document that hold prose. Below ``properties`` the same words are names of fields.
PROSE = ("description", "summary", "title", "examples", "example")
#: Keys whose values are maps by name.
NAMED = ("properties", "patternProperties", "$defs")
#: Keys that say nothing about the place of a schema.
SILENT = (
    "responses", "content", "schema", "application/json", "application/problem+json", "requestBody",
    "anyOf", "oneOf", "allOf",
)  # fmt: skip


class Described:
    """An OpenAPI document in which each schema is known by the place of its first use.

    Schema names and operation ids come from names in the code; they are listed apart, so that a
    rename there shows in one line.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas = document["components"]["schemas"]
        self.names: dict[str, str] = {}
        self.schemas: dict[str, Any] = {}
        self.operation_ids: dict[str, str] = {}
        self.operations = {
            f"{method.upper()} {path}": self._operation(f"{method.upper()} {path}", operation)
            for path, methods in sorted(document["paths"].items())
            for method, operation in sorted(methods.items())
            if method in METHODS
        }
        self.unused = set(self._schemas) - set(self.names)
        self.security = self._plain(document["components"].get("securitySchemes", {}), "security")

    def _operation(self, where: str, operation: dict[str, Any]) -> Any:
        rest = dict(operation)
        self.operation_ids[where] = rest.pop("operationId")
        parameters = {
            f"{each['in']} {each['name']}": self._plain(each, f"{where} {each['name']}")
            for each in rest.pop("parameters", [])
        }
        return {**self._plain(rest, where), "parameters": parameters}

    def _plain(self, value: Any, where: str) -> Any:
        """Return a part of the document without prose, with references by place."""
        if isinstance(value, list):
            return [self._plain(item, where) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            beside = {key: item for key, item in value.items() if key not in PROSE}
            return {**beside, "$ref": self._place(value["$ref"].rpartition("/")[2], where)}
        plain = {}
        for key, item in value.items():
            if key in PROSE and not isinstance(item, dict):
                continue
            if key in NAMED:
                plain[key] = {
                    name: self._plain(each, f"{where}.{name}") for name, each in item.items()
                }
            elif key in ("required", "enum") and isinstance(item, list):
                plain[key] = set(item)
            elif key not in PROSE:
                plain[key] = self._plain(item, where if key in SILENT else f"{where} {key}")
        return plain

    def _place(self, name: str, where: str) -> str:
        if name not in self.names:
            self.names[name] = where
            self.schemas[where] = self._plain(self._schemas[name], where)
        return self.names[name]


def test_the_http_interface_is_that_of_the_golden_file() -> None:
    app = create_app(Settings(redis_url="redis://localhost:1"))
    described = Described(app.openapi())
    compare(
        "openapi",
        {
            "operations": described.operations,
            "operation ids": described.operation_ids,
            "schemas": described.schemas,
            "schema names": described.names,
            "unused schemas": described.unused,
            "security": described.security,
            "routes beside the document": routes(app) - set(described.operations),
        },
    )


def routes(app: FastAPI) -> set[str]:
    """Return method and path of every route: dashboard, metrics and mounted files too."""
    return {
        f"{method} {CONVERTER.sub('}', context.path)}"
        for context in iter_route_contexts(app.routes)
        for method in (context.methods or ("MOUNT",))
    }
