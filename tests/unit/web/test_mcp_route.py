"""The route of the MCP server where the package is missing."""

from __future__ import annotations

import sys

import pytest

from perdure import Client, Settings


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi import FastAPI
    from starlette.testclient import TestClient

    from perdure.worker.web.api import bound
    from perdure.worker.web.auth import Caller
    from perdure.worker.web.event_hub import EventHub
    from perdure.worker.web.mcp_server import mcp_router

    client = Client(settings=Settings(redis_url="redis://localhost:1"))
    app = FastAPI()
    router = mcp_router(client, EventHub(client))
    app.include_router(bound(client, lambda request: Caller("ann", frozenset()), router))
    monkeypatch.delitem(sys.modules, "perdure.worker.web.mcp_server.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)  # type: ignore[arg-type]
    response = TestClient(app).post("/mcp", json={})
    client.close()
    assert response.status_code == 501
    assert "pip install 'perdure[server,mcp]'" in response.json()["detail"]
