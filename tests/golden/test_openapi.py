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
#: Keys of the document that hold prose. Below ``NAMED`` the same words are names.
PROSE = ("description", "summary", "title", "examples", "example")
#: Keys whose values are maps by name.
NAMED = ("properties", "patternProperties", "$defs")


def test_the_http_interface_is_that_of_the_golden_file() -> None:
    app = create_app(Settings(redis_url="redis://localhost:1"))
    document = app.openapi()
    operations = {
        f"{method.upper()} {path}": operation(described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if method in METHODS
    }
    components = document["components"]
    everything = {
        "operations": operations,
        "schemas": {name: schema(each) for name, each in components["schemas"].items()},
        "security": plain(components.get("securitySchemes", {})),
        "routes beside the document": routes(app) - set(operations),
    }
    compare("openapi", everything, depth=4)


def operation(described: dict[str, Any]) -> dict[str, Any]:
    """Return an operation without prose, its parameters by place and name."""
    parameters = {
        f"{each['in']} {each['name']}": {
            key: item for key, item in plain(each).items() if key not in ("in", "name")
        }
        for each in described.get("parameters", ())
    }
    return {**plain(described), "parameters": parameters}


def schema(described: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without prose; the names of its properties say which are required."""
    result = plain(described)
    required = result.pop("required", set())
    properties = result.pop("properties", {})
    assert required <= set(properties)
    result["properties"] = {
        f"{name} (required)" if name in required else name: each
        for name, each in properties.items()
    }
    return result


def plain(value: Any) -> Any:
    """Return a part of the document without prose; a reference is the name of the schema."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():
        if key in NAMED:
            result[key] = {name: plain(each) for name, each in item.items()}
        elif key in ("required", "enum") and isinstance(item, list):
            result[key] = set(item)
        elif key == "$ref":
            result[key] = item.rpartition("/")[2]
        elif key not in PROSE:
            result[key] = plain(item)
    return result


def routes(app: FastAPI) -> set[str]:
    """Return method and path of every route: dashboard, metrics and mounted files too."""
    return {
        f"{method} {CONVERTER.sub('}', context.path)}"
        for context in iter_route_contexts(app.routes)
        for method in (context.methods or ("MOUNT",))
    }
