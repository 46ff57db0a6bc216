"""The official JavaScript clients of MCP, of Vercel's AI SDK (two versions) and of AG-UI drive
runs.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import RunStatus
from tests.support.exposed_server import MODULE, ExposedServer, exposed_server
from tests.support.redis_servers import CrashableServer

MODULES = (MODULE, "tests.support.example_flows.chat_flow")
SCRIPTS = Path(__file__).with_name("javascript")
#: The Node.js of the extra ``dev-javascript``, and the clients that ``make .venv/.javascript``
#: installs.
NODE = Path(sys.executable).with_name("node")
INSTALLED = NODE.exists() and SCRIPTS.joinpath("node_modules").is_dir()
PICTURE = b"\x89PNG\r\n\x1a\n of a cup"
PICTURE_URL = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"

pytestmark = pytest.mark.skipif(
    not INSTALLED and "CI" not in os.environ, reason="`make .venv/.javascript` installs them"
)


@pytest.fixture(scope="module")
def exposed(server: CrashableServer) -> Iterator[ExposedServer]:
    with exposed_server(server, modules=MODULES) as made:
        yield made


def node(script: str, **given: Any) -> Any:
    """Run a script with its arguments; return its result."""
    done = subprocess.run(
        [NODE, SCRIPTS / script, json.dumps(given)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def called(exposed: ExposedServer, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return the result of each call of a tool. The argument RUN is the run of the call before."""
    return list(
        node("mcp.mjs", url=exposed.url, token=exposed.token("ann"), calls=calls)["results"]
    )


TIDY = ("tidy", {"goal": "tidy up", "inputs": {"target": {"path": "build"}}})


def answer_with(answer: Any) -> tuple[str, dict[str, Any]]:
    return ("answer", {"run": "RUN", "question": "0:1", "answer": answer})


def test_mcp_lists_each_tool_once_with_its_schema(exposed: ExposedServer) -> None:
    tools = node("mcp.mjs", url=exposed.url, token=exposed.token("ann"), calls=[])["tools"]
    names = [tool["name"] for tool in tools]
    assert len(names) == len(set(names)) and {"tidy", "weighs", "status", "answer"} <= set(names)
    [weighs] = [tool for tool in tools if tool["name"] == "weighs"]
    assert weighs["outputSchema"]["properties"]["answer"]["required"] == ["amount", "unit"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("approve", "removed build"),
        ({"edit": {"path": "dist"}}, "removed dist"),
        ({"refuse": "not today"}, "not today"),
    ],
)
def test_mcp_answers_an_approval(exposed: ExposedServer, answer: Any, text: str) -> None:
    asked, answered = called(exposed, TIDY, answer_with(answer))
    question = asked["structuredContent"]["question"]
    assert (question["command"], question["args"]) == ("remove", {"path": "build"})
    assert text in answered["content"][0]["text"] and not answered["isError"]
    run = exposed.client.get(answered["structuredContent"]["run"])
    assert run.details["resumed_by"] == "ann"


def test_mcp_has_what_does_not_fit_the_schema_of_an_answer(exposed: ExposedServer) -> None:
    """The client throws where a result does not match the schema of the tool."""
    weighed, asked, failed, wrong, unknown = called(
        exposed,
        ("weighs", {"goal": "7"}),
        ("weighs", {"goal": "much"}),
        ("breaks", {"goal": "x"}),
        ("tidy", {"goal": "x"}),
        ("status", {"run": "none"}),
    )
    assert weighed["structuredContent"]["answer"] == {"amount": 7, "unit": {"name": "g"}}
    assert asked["structuredContent"]["question"]["text"] == "how much?"
    assert asked["content"][0]["text"].count("how much?") == 1
    assert failed["isError"] and "it is broken" in failed["structuredContent"]["error"]
    assert wrong["isError"] and wrong["structuredContent"]["code"] == "invalid-input"
    assert unknown["isError"] and unknown["content"]


def chatted(exposed: ExposedServer, version: str, flow: str, *turns: dict[str, Any]) -> list[Any]:
    """Return the message of each turn of a chat with the AI SDK, all of them valid."""
    seen: list[Any] = node(
        "ai_sdk.mjs", package=version, url=exposed.url, token=exposed.token("ann"),
        flow=flow, chat=f"{version} {turns}", turns=turns,
    )  # fmt: skip
    assert [each["invalid"] for each in seen] == [None] * len(turns)
    return seen


def tool_part(seen: Any, name: str) -> Any:
    [part] = [part for part in seen["message"]["parts"] if part["type"] == f"tool-{name}"]
    return part


both_versions = pytest.mark.parametrize("version", ["ai", "ai-6"])


@both_versions
def test_the_ai_sdk_sends_a_picture_and_approves_a_call(
    exposed: ExposedServer, version: str
) -> None:
    file = {"mediaType": "image/png", "filename": "cup.png", "url": PICTURE_URL}
    asked, done = chatted(
        exposed, version, "chatting", {"say": "tea", "files": [file]}, {"approve": True}
    )
    assert asked["errors"] == done["errors"] == []
    assert tool_part(asked, "pay")["state"] == "approval-requested" and done["complete"]
    paid = tool_part(done, "pay")
    assert (paid["state"], paid["output"]) == ("output-available", "paid 3")
    run_id = done["message"]["id"]
    assert exposed.client.file(run_id, "cup.png").content == PICTURE
    assert exposed.client.get(run_id).status is RunStatus.COMPLETED


@both_versions
def test_the_ai_sdk_refuses_a_call_and_keeps_a_valid_message(
    exposed: ExposedServer, version: str
) -> None:
    refusal = {"approve": False, "reason": "too much"}
    _, done = chatted(exposed, version, "chatting", {"say": "tea"}, refusal)
    assert done["errors"] == [] and tool_part(done, "pay")["state"] == "output-denied"
    observation = exposed.client.transcript(done["message"]["id"])["history"][-1]["observation"]
    assert observation["refused"] == "too much"


@both_versions
def test_the_ai_sdk_hears_that_a_run_failed(exposed: ExposedServer, version: str) -> None:
    [seen] = chatted(exposed, version, "breaks", {"say": "go"})
    assert len(seen["errors"]) == 1 and "it is broken" in seen["errors"][0]


def agent(exposed: ExposedServer, flow: str, *turns: dict[str, Any]) -> list[Any]:
    """Return the result of each turn with AG-UI's agent."""
    token = exposed.token("ann")
    thread = f"{flow} {turns}"
    return list(
        node("ag_ui.mjs", url=exposed.url, token=token, flow=flow, thread=thread, turns=turns)
    )


def test_ag_ui_sends_a_picture_and_approves_a_call(exposed: ExposedServer) -> None:
    source = {"type": "data", "value": PICTURE_URL.partition(",")[2], "mimeType": "image/png"}
    content = [{"type": "text", "text": "tea"}, {"type": "image", "source": source}]
    asked, done = agent(exposed, "chatting", {"content": content}, {"payload": {"approved": True}})
    assert asked["errors"] == done["errors"] == []
    [interrupt] = asked["interrupts"]
    assert interrupt["toolCallId"] == asked["messages"][-1]["toolCalls"][0]["id"]
    assert done["interrupts"] == [] and done["end"]["outcome"] == {"type": "success"}
    [paid] = [
        each for each in done["messages"] if each.get("toolCallId") == interrupt["toolCallId"]
    ]
    assert paid["content"] == "paid 3"
    run_id = done["end"]["metadata"]["run"]
    [file] = exposed.client.files(run_id)
    assert exposed.client.file(run_id, file.name).content == PICTURE


def test_ag_ui_refuses_a_call(exposed: ExposedServer) -> None:
    refusal = {"payload": {"approved": False, "reason": "too much"}}
    _, done = agent(exposed, "chatting", {"content": "tea"}, refusal)
    assert done["errors"] == [] and done["end"]["outcome"] == {"type": "success"}
    history = exposed.client.transcript(done["end"]["metadata"]["run"])["history"]
    assert history[-1]["observation"]["refused"] == "too much"


def test_ag_ui_hears_that_a_run_failed(exposed: ExposedServer) -> None:
    [seen] = agent(exposed, "breaks", {"content": "go"})
    assert seen["end"]["type"] == "RUN_ERROR" and "it is broken" in seen["end"]["message"]


def test_programs_on_node_need_no_token_where_the_server_has_none(server: CrashableServer) -> None:
    """Their requests do not count as a foreign page's."""
    with exposed_server(server, modules=MODULES) as bare:
        given = {"url": bare.url, "token": None}
        [called] = node("mcp.mjs", **given, calls=[("talk", {"goal": "hello"})])["results"]
        assert called["structuredContent"]["answer"] == "you said hello"
        turns = [{"say": "hello"}]
        [chat] = node("ai_sdk.mjs", **given, package="ai", flow="talk", chat="c", turns=turns)
        assert chat["errors"] == [] and chat["message"]["parts"][-1]["text"] == "you said hello"
        turns = [{"content": "good day"}]
        [talk] = node("ag_ui.mjs", **given, flow="talk", thread="t", turns=turns)
        assert talk["errors"] == [] and talk["messages"][-1]["content"] == "you said good day"
