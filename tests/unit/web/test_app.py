"""The app of the HTTP server is ready when it is made."""

from __future__ import annotations

import ast

import pytest

from perdure import Settings

NOWHERE = "redis://127.0.0.1:1/0"  # never asked


def test_no_request_builds_the_schemas_of_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.worker.web import create_app

    app = create_app(Settings(redis_url=NOWHERE))
    parsed: list[object] = []
    parse = ast.parse

    def counted(source: object, *arguments: object, **named: object) -> ast.AST:
        parsed.append(source)
        return parse(source, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(ast, "parse", counted)
    scope = {"type": "http", "method": "GET", "path": "/none", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(dict(scope))
    assert parsed == []
