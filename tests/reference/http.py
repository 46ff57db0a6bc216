"""The page of the HTTP API: each operation and schema of the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from perdure import Settings
from perdure.worker.web import create_app
from tests.reference.docstrings import descriptions, markdown_of
from tests.reference.markdown import anchor, items, page, paragraph, table, text

METHODS = ("get", "post", "put", "patch", "delete")
Schema = dict[str, Any]
#: The meaning of OpenAPI's words for bounds.
_BOUNDS = {
    "minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
}  # fmt: skip
_LENGTHS = {
    "minLength": ("at least", "characters"), "maxLength": ("at most", "characters"),
    "minItems": ("at least", "items"), "maxItems": ("at most", "items"),
}  # fmt: skip


def document() -> Schema:
    """Return the OpenAPI document. No server is contacted for it."""
    described: Schema = create_app(Settings(redis_url="redis://localhost:1")).openapi()
    return described


def pages() -> dict[str, str]:
    """Return the page by its path in ``docs/reference/``."""
    described = document()
    found = list(operations(described))
    introduction = paragraph(
        "The document `/api/v1/openapi.json` of a running `perdure server` describes the same API"
        " for programs. If the server asks for tokens, requests have the header"
        " `Authorization: Bearer TOKEN`. Errors are problem details (RFC 9457); "
        "[Errors](errors.md) lists them."
    )
    rows = [
        (f"[`{name}`](#{anchor(name)})", text(_first_sentence(operation)))
        for name, operation in found
    ]
    schemas = described["components"]["schemas"]
    return {
        "http.md": page(
            "HTTP API",
            introduction,
            table(("Request", "What it does"), rows),
            "## Requests",
            *(_operation(name, operation) for name, operation in found),
            "## Schemas",
            *(_schema(name, schema) for name, schema in sorted(schemas.items())),
        )
    }


def operations(described: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield ``METHOD /path`` with each operation of the document."""
    for path, methods in described["paths"].items():
        for method in METHODS:
            if method in methods:
                yield f"{method.upper()} {path}", methods[method]


def gaps() -> list[str]:
    """Return the operations and parameters without a description."""
    return [
        gap
        for name, operation in operations(document())
        for gap in (
            *([] if operation.get("description") else [name]),
            *(
                f"{name} {each['name']}"
                for each in operation.get("parameters", [])
                if not _description(each)
            ),
        )
    ]


def undescribed_fields() -> list[str]:
    """Return the fields of schemas without a description, for a report only."""
    return [
        f"{name}.{field}"
        for name, schema in document()["components"]["schemas"].items()
        for field, inner in schema.get("properties", {}).items()
        if not inner.get("description")
        and "$ref" not in inner
        and field not in descriptions(schema.get("description", ""))
    ]


def type_of(schema: Schema) -> str:
    """Return a schema's type in words, as Markdown."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{anchor(f'`{name}`')})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            options = [each for each in schema[key] if each.get("type") != "null"]
            null = " or null" if len(options) < len(schema[key]) else ""
            if len(options) == 1:
                bounds = _bounds(options[0])
                return type_of(options[0]).removesuffix(bounds) + null + bounds
            return " or ".join(dict.fromkeys(map(type_of, options))) + null
    kind = schema.get("type", "any JSON value")
    if kind == "array":
        inner = type_of(schema.get("items", {}))
        return f"array of {inner}" + _bounds(schema)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object with values: {type_of(schema['additionalProperties'])}"
    return f"{schema.get('format', kind)}" + _bounds(schema)


def _operation(name: str, operation: Schema) -> str:
    blocks = [f"### `{name}`", markdown_of(operation.get("description", ""))]
    parameters = operation.get("parameters", [])
    if parameters:
        blocks += ["**Parameters**", items(map(_parameter, parameters))]
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        required = "" if operation["requestBody"].get("required") else ", optional"
        blocks.append(f"**Body** (`{media}`{required}): {type_of(body['schema'])}")
    answers = [
        _answer(status, answer)
        for status, answer in operation["responses"].items()
        if status.isdigit() and int(status) < 300
    ]
    problems = [
        f"{status}: {text(answer['description'])}"
        for status, answer in operation["responses"].items()
        if status.isdigit() and int(status) >= 400
    ]
    blocks += ["**Answers**", items(answers)]
    if problems:
        blocks += ["**Problems**", items(problems)]
    return "\n\n".join(filter(None, blocks))


def _answer(status: str, answer: Schema) -> str:
    shown = [
        f"{type_of(body['schema'])} (`{media}`)" if body.get("schema") else f"`{media}`"
        for media, body in answer.get("content", {}).items()
    ]
    described = answer["description"]
    about = "" if described == "Successful Response" else f" {text(described)}"
    headers = "".join(
        f" Header `{name}`: {text(header.get('description', ''))}"
        for name, header in answer.get("headers", {}).items()
    )
    return f"{status}: {' or '.join(shown) or 'no body'}.{about}{headers}"


def _parameter(parameter: Schema) -> str:
    facts = [parameter["in"], type_of(parameter["schema"])]
    if parameter.get("required"):
        facts.append("required")
    if parameter["schema"].get("default") is not None:
        facts.append(f"default `{json.dumps(parameter['schema']['default'])}`")
    about = _description(parameter)
    return f"`{parameter['name']}` ({', '.join(facts)})" + (f": {text(about)}" if about else "")


def _schema(name: str, schema: Schema) -> str:
    described = schema.get("description", "")
    about_fields = descriptions(described)
    blocks = [f"### `{name}`", markdown_of(described, omitted="Attributes")]
    if "enum" in schema:
        blocks.append(items(f"`{each}`" for each in schema["enum"]))
    required = schema.get("required", [])
    rows = []
    for field, inner in schema.get("properties", {}).items():
        facts = [type_of(inner)]
        if field in required:
            facts.append("required")
        elif inner.get("default") not in (None, "", [], {}):
            facts.append(f"default `{json.dumps(inner['default'])}`")
        about = inner.get("description") or about_fields.get(field, "")
        rows.append(f"`{field}` ({', '.join(facts)})" + (f": {text(about)}" if about else ""))
    blocks.append(items(rows))
    return "\n\n".join(filter(None, blocks))


def _bounds(schema: Schema) -> str:
    words = [f"{word} {schema[key]:g}" for key, word in _BOUNDS.items() if key in schema]
    words += [
        f"{word} {schema[key]} {what}" for key, (word, what) in _LENGTHS.items() if key in schema
    ]
    if "pattern" in schema:
        words.append(f"matches `{schema['pattern']}`")
    return "".join(f", {word}" for word in words)


def _description(parameter: Schema) -> str:
    described: str = parameter.get("description") or parameter["schema"].get("description") or ""
    return described


def _first_sentence(operation: Schema) -> str:
    first = " ".join(operation.get("description", "").partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".").replace("|", "or") + "."
