"""The MCP server's route without the package."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest
from starlette.testclient import TestClient

from perdure import Client, Settings
from perdure.worker.web import Caller, create_app
from perdure.worker.web.mcp_server import route


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    route._server.cache_clear()
    monkeypatch.delitem(sys.modules, "perdure.worker.web.mcp_server.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)  # type: ignore[arg-type]
    with closing(Client(settings=Settings(redis_url="redis://localhost:1"))) as client:
        app = create_app(client=client, caller=lambda request: Caller("ann", frozenset()))
        response = TestClient(app).post("/mcp", json={})
    assert response.status_code == 501
    assert "pip install 'perdure[server,mcp]'" in response.json()["detail"]
