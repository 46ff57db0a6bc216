"""Chats in the protocols of the AI SDK and of AG-UI, as a server in a thread of this process takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.chat_ui_clients import events_of
from tests.support.example_flows import chat_flow, live_text  # noqa: F401 -- registers flows
from tests.support.threaded_server import serving

AI_SDK, AG_UI = "/api/v1/flows/{}/ai-sdk", "/api/v1/flows/{}/ag-ui"
LATER = {"follow": "false"}


@pytest.fixture
def http(settings: Settings) -> Iterator[httpx2.Client]:
    with serving(settings) as url, httpx2.Client(base_url=url, timeout=60) as made:
        yield made


def says(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def chat(*messages: dict[str, Any], chat_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"id": chat_id, "trigger": "submit-message", "messages": list(messages), **more}


def thread(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "threadId": "t1",
        "runId": "r1",
        "state": {},
        "tools": [],
        "context": [],
        "messages": list(messages),
        "forwardedProps": {},
        **more,
    }


def run_of(http: httpx2.Client, flow: str, body: dict[str, Any]) -> str:
    """Send a message, and return the run that is to answer it."""
    path = AI_SDK if "id" in body else AG_UI
    answer = http.post(path.format(flow), json=body, params=LATER)
    assert answer.status_code == 200, answer.text
    first = next(events_of(answer.text.splitlines()))
    return (first.get("messageMetadata") or first["metadata"])["run"]


def stored(client: Client, run_id: str) -> list[Any]:
    return [turn["observation"] for turn in client.transcript(run_id)["history"]]
