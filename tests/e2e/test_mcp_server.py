"""The official client of MCP, unchanged, drives runs: with forms for its user, with the tools
alone, and with tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import uuid4

import httpx2
import mcp_types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict, Field

from perdure import RunStatus
from perdure.worker.web.json_body import most_bytes
from tests.support.exposed_server import MODULE, ExposedServer, exposed_server
from tests.support.redis_servers import CrashableServer, until
from tests.support.server_processes import ServerProcess, server_processes
from tests.support.workers import workers

TIDY = {"goal": "tidy up", "inputs": {"target": {"path": "build"}}}


@pytest.fixture(scope="module")
def exposed(server: CrashableServer) -> Iterator[ExposedServer]:
    with exposed_server(server) as made:
        yield made


@asynccontextmanager
async def connected(url: str, token: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client,
    ):
        yield client


def drive(
    exposed: ExposedServer,
    play: Callable[[Client], Awaitable[Any]],
    token: str | None = None,
    **options: Any,
) -> Any:
    """Run ``play`` with a client; return its result."""

    async def connect_and_play() -> Any:
        async with connected(exposed.url, token or exposed.token("ann"), **options) as client:
            return await play(client)

    return asyncio.run(connect_and_play())


def text_of(result: Any) -> str:
    assert isinstance(result, mcp_types.CallToolResult)
    return "".join(part.text for part in result.content if part.type == "text")


class User:
    """Who fills in the forms that a client shows."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self.action, self.content, self.messages = action, content, list[str]()

    async def __call__(
        self, context: Any, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        self.messages.append(params.message)
        return mcp_types.ElicitResult.model_validate(
            {"action": self.action, "content": self.content or None}
        )


def test_each_exposed_flow_is_a_tool_with_the_schema_of_its_inputs(exposed: ExposedServer) -> None:
    listed = drive(exposed, lambda client: client.list_tools())
    tools = {tool.name: tool for tool in listed.tools}
    flows = {"asks", "breaks", "guarded", "pauses", "talk", "tidy"}
    # Other test modules of the process may expose flows too.
    assert set(tools) >= {*flows, "status", "answer", "cancel"} and "secluded" not in tools
    schema = tools["tidy"].input_schema
    assert schema["required"] == ["goal", "inputs"]
    assert schema["properties"]["inputs"]["properties"]["target"] == {"$ref": "#/$defs/Target"}
    assert schema["$defs"]["Target"]["required"] == ["path"]
    assert "Removes a directory" in str(tools["tidy"].description)


def test_a_tool_has_the_schema_of_its_answers(exposed: ExposedServer) -> None:
    async def play(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        schema = tools["weighs"].output_schema
        assert schema is not None and tools["talk"].output_schema is None
        assert schema["properties"]["answer"]["properties"]["unit"] == {"$ref": "#/$defs/Unit"}
        # The client checks each result against the schema.
        done = await client.call_tool("weighs", {"goal": "7"})
        assert done.structured_content["answer"] == {"amount": 7.0, "unit": {"name": "g"}}
        asked = await client.call_tool("weighs", {"goal": "much"})
        assert asked.structured_content["question"]["text"] == "how much?"

    drive(exposed, play)
    flows = exposed.client.flows()
    assert flows["weighs"]["answer"]["title"] == "Weight" and flows["talk"]["answer"] is None


def test_the_user_of_a_client_approves_a_command_in_a_form(exposed: ExposedServer) -> None:
    user = User(decision="approve")
    result = drive(
        exposed, lambda client: client.call_tool("tidy", TIDY), elicitation_callback=user
    )
    assert text_of(result) == "removed build" and not result.is_error
    assert len(user.messages) == 1 and 'remove {"path": "build"}' in user.messages[0]
    run = exposed.client.get(result.structured_content["run"])
    assert run.details["submitted_by"] == run.details["resumed_by"] == "ann"


@pytest.mark.parametrize(
    ("user", "answer"),
    [
        (User(decision="refuse", text="not today"), "not today"),
        (User("decline"), "refused"),
    ],
)
def test_the_user_of_a_client_refuses_a_command(
    exposed: ExposedServer, user: User, answer: str
) -> None:
    result = drive(
        exposed, lambda client: client.call_tool("tidy", TIDY), elicitation_callback=user
    )
    assert answer in text_of(result)


@pytest.mark.parametrize(
    ("flow", "goal", "filled", "answer"),
    [
        ("asks", "question", {"answer": "left"}, "left"),
        ("asks", "in_doubt", {"decision": "retry"}, "retry"),
        ("asks", "in_doubt", {"decision": "tell", "text": "wait"}, '{"tell": "wait"}'),
        ("asks", "budget", {"amount": 50}, "rich"),
        ("pauses", "go", {"continue": True}, "you said go"),
    ],
)
def test_each_kind_of_question_is_a_form(
    exposed: ExposedServer, flow: str, goal: str, filled: dict[str, Any], answer: str
) -> None:
    user = User(**filled)
    result = drive(
        exposed, lambda client: client.call_tool(flow, {"goal": goal}), elicitation_callback=user
    )
    assert text_of(result) == answer and len(user.messages) == 1


def test_a_user_is_asked_one_question_after_another(exposed: ExposedServer) -> None:
    user = User(answer="left")
    call = {"goal": "twice"}
    result = drive(
        exposed, lambda client: client.call_tool("asks", call), elicitation_callback=user
    )
    assert text_of(result) == "left" and len(user.messages) == 2


def test_the_state_of_a_call_opens_no_run_of_another_flow(exposed: ExposedServer) -> None:
    run = exposed.client.submit("asks", "question", submitted_by="ann")

    async def play(client: Client) -> Any:
        return await client.call_tool("talk", {"goal": "x"}, request_state=run.id)

    result = drive(exposed, play)
    assert result.is_error and "is of flow asks" in text_of(result)


def test_an_amount_that_is_too_small_is_refused_with_what_is_needed(exposed: ExposedServer) -> None:
    result = drive(
        exposed,
        lambda client: client.call_tool("asks", {"goal": "budget"}),
        elicitation_callback=User(amount=1),
    )
    assert result.is_error and "add more than" in text_of(result)


def test_a_user_who_does_not_decide_leaves_the_run_waiting(exposed: ExposedServer) -> None:
    result = drive(
        exposed, lambda client: client.call_tool("tidy", TIDY), elicitation_callback=User("cancel")
    )
    assert result.is_error and "has not decided" in text_of(result)
    run_id = result.structured_content["run"]
    assert exposed.client.get(run_id).status is RunStatus.INTERRUPTED


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_without_forms_answers_with_a_tool(exposed: ExposedServer, mode: str) -> None:
    async def play(client: Client) -> None:
        asked = await client.call_tool("tidy", TIDY)
        assert "waits for a person" in text_of(asked)
        run, question = (asked.structured_content[name] for name in ("run", "question"))
        assert question["command"] == "remove" and question["args"] == {"path": "build"}
        told = await client.call_tool("status", {"run": run})
        assert told.structured_content == asked.structured_content
        answer = {"run": run, "question": question["id"], "answer": "approve"}
        done = await client.call_tool("answer", answer)
        assert text_of(done) == "removed build"
        again = await client.call_tool("answer", answer)
        assert again.is_error and again.structured_content["code"] in (
            "stale",
            "invalid-transition",
        )

    drive(exposed, play, mode=mode)


def test_a_repeated_call_with_a_key_gets_the_same_run(exposed: ExposedServer) -> None:
    call = TIDY | {"key": uuid4().hex, "wait": 0}

    async def play(client: Client) -> set[str]:
        results = [await client.call_tool("tidy", call) for _ in range(3)]
        return {result.structured_content["run"] for result in results}

    assert len(drive(exposed, play)) == 1


def test_who_started_a_guarded_run_cannot_approve_its_command(exposed: ExposedServer) -> None:
    user = User(decision="approve")

    async def play(client: Client) -> Any:
        asked = await client.call_tool("guarded", TIDY)
        assert asked.is_error and "another person" in text_of(asked)
        run, question = (asked.structured_content[name] for name in ("run", "question"))
        return await client.call_tool(
            "answer", {"run": run, "question": question["id"], "answer": "approve"}
        )

    result = drive(exposed, play, elicitation_callback=user)
    assert result.is_error and result.structured_content["code"] == "forbidden"


def test_a_run_is_cancelled(exposed: ExposedServer) -> None:
    async def play(client: Client) -> Any:
        asked = await client.call_tool("tidy", TIDY)
        run = asked.structured_content["run"]
        return await client.call_tool("cancel", {"run": run, "reason": "enough"})

    result = drive(exposed, play)
    assert not result.is_error and "was stopped: enough" in text_of(result)


def test_a_run_that_fails_is_an_error_with_its_text(exposed: ExposedServer) -> None:
    result = drive(exposed, lambda client: client.call_tool("breaks", {"goal": "x"}))
    assert result.is_error and "it is broken" in text_of(result)


# tasks


class _Frame(mcp_types.Result):
    model_config = ConfigDict(populate_by_name=True)

    task_id: str = Field(alias="taskId")
    status: str
    ttl_ms: int | None = Field(alias="ttlMs")
    poll_ms: int = Field(alias="pollIntervalMs")


class _Task(_Frame):
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = Field(None, alias="inputRequests")


class _Created(_Frame):
    result_type: Literal["task"] = Field("task", alias="resultType")


class _TaskParams(mcp_types.RequestParams):
    task_id: str = Field(serialization_alias="taskId")
    input_responses: dict[str, Any] | None = Field(None, serialization_alias="inputResponses")


class _TaskRequest(mcp_types.Request[_TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """The extension for tasks, as clients must declare it."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=_Created, resolve=self._resolve),)

    async def _resolve(self, created: _Created, context: ClaimContext) -> Any:
        raise AssertionError("the test asks for the task itself")


async def task(client: Client, method: str, task_id: str, **more: Any) -> Any:
    request = _TaskRequest(method=f"tasks/{method}", params=_TaskParams(task_id=task_id, **more))
    return await client.session.send_request(
        request, _Task if method == "get" else mcp_types.Result
    )


async def task_that_is(client: Client, task_id: str, status: str) -> _Task:
    for _ in range(400):
        current: _Task = await task(client, "get", task_id)
        if current.status == status:
            return current
        await asyncio.sleep(0.05)
    raise AssertionError(f"it is {current.status}, not {status}")


async def created(client: Client, name: str, arguments: dict[str, Any]) -> str:
    made = await client.session.call_tool(name, arguments, allow_claimed=True)
    assert isinstance(made, _Created) and made.status == "working" and made.poll_ms > 0
    return made.task_id


def test_a_run_is_a_task_that_asks_and_is_answered(exposed: ExposedServer) -> None:
    async def play(client: Client) -> str:
        task_id = await created(client, "tidy", TIDY)
        asking = await task_that_is(client, task_id, "input_required")
        [(question, request)] = (asking.input_requests or {}).items()
        form = mcp_types.ElicitRequest.model_validate(request).params
        assert isinstance(form, mcp_types.ElicitRequestFormParams)
        assert form.requested_schema["required"] == ["decision"]
        answer = {"action": "accept", "content": {"decision": "approve"}}
        await task(client, "update", task_id, input_responses={"9:9": answer})
        assert (await task(client, "get", task_id)).status == "input_required"
        await task(client, "update", task_id, input_responses={question: answer})
        done = await task_that_is(client, task_id, "completed")
        result = mcp_types.CallToolResult.model_validate(done.result)
        assert text_of(result) == "removed build"
        await task(client, "update", task_id, input_responses={question: answer})
        return task_id

    task_id = drive(exposed, play, extensions=[Tasks()])
    assert exposed.client.get(task_id).finished, "the task's id is the run's"


def test_a_task_asks_what_a_run_below_it_asks(exposed: ExposedServer) -> None:
    async def play(client: Client) -> str:
        task_id = await created(client, "delegates", {"goal": "question"})
        asking = await task_that_is(client, task_id, "input_required")
        [(question, request)] = (asking.input_requests or {}).items()
        assert "left or right?" in request["params"]["message"]
        answer = {"action": "accept", "content": {"answer": "left"}}
        await task(client, "update", task_id, input_responses={question: answer})
        done = await task_that_is(client, task_id, "completed")
        assert text_of(mcp_types.CallToolResult.model_validate(done.result)) == "left"
        return question

    question = drive(exposed, play, extensions=[Tasks()])
    child = exposed.client.get(question.partition("/")[0])
    assert (child.flow, child.answer, child.details["resumed_by"]) == ("private", "left", "ann")


def test_the_tools_ask_what_a_run_below_asks(exposed: ExposedServer) -> None:
    user = User(answer="left")
    goal = {"goal": "question"}
    result = drive(
        exposed, lambda client: client.call_tool("delegates", goal), elicitation_callback=user
    )
    assert text_of(result) == "left" and "left or right?" in user.messages[0]

    async def play(client: Client) -> Any:
        asked = await client.call_tool("delegates", goal)
        told = asked.structured_content
        assert f"waits for run {told['question']['run']} (private)" in text_of(asked)
        status = await client.call_tool("status", {"run": told["run"]})
        assert status.structured_content == told
        hidden = await client.call_tool("status", {"run": told["question"]["run"]})
        assert hidden.is_error and "no run" in text_of(hidden), "only its question is known"
        question = {"run": told["question"]["run"], "question": told["question"]["id"]}
        return await client.call_tool("answer", {**question, "answer": "right"})

    assert text_of(drive(exposed, play)) == "right"


def test_a_task_is_cancelled_and_one_fails(exposed: ExposedServer) -> None:
    async def play(client: Client) -> None:
        task_id = await created(client, "tidy", TIDY)
        await task_that_is(client, task_id, "input_required")
        await task(client, "cancel", task_id)
        await task_that_is(client, task_id, "cancelled")
        broken = await created(client, "breaks", {"goal": "x"})
        assert "it is broken" in str((await task_that_is(client, broken, "failed")).error)
        with pytest.raises(MCPError, match="no run 'nothing'"):
            await task(client, "get", "nothing")

    drive(exposed, play, extensions=[Tasks()])


def test_the_methods_of_tasks_are_for_clients_that_declare_them(exposed: ExposedServer) -> None:
    async def play(client: Client) -> None:
        with pytest.raises(MCPError, match="does not declare"):
            await task(client, "get", "nothing")

    drive(exposed, play)


# refusals


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("secluded", {"goal": "x"}), "no flow 'secluded' is exposed to mcp"),
        (("nothing", {"goal": "x"}), "no flow 'nothing' is exposed to mcp"),
    ],
)
def test_a_flow_that_is_not_exposed_is_as_one_that_does_not_exist(
    exposed: ExposedServer, call: Any, words: str
) -> None:
    async def play(client: Client) -> None:
        with pytest.raises(MCPError, match=words):
            await client.call_tool(*call)

    drive(exposed, play)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("tidy", {"goal": "x"}, "invalid-input"),
        ("tidy", TIDY | {"gaol": 1}, "invalid-input"),
        ("tidy", TIDY | {"wait": 10**9}, "invalid-input"),
        ("status", {"run": "nothing"}, "run-not-found"),
        ("answer", {"run": "nothing", "question": "0:0"}, "run-not-found"),
        ("cancel", {"run": "nothing"}, "run-not-found"),
    ],
)
def test_a_call_that_cannot_be_made_is_an_error_that_a_model_reads(
    exposed: ExposedServer, tool: str, arguments: dict[str, Any], code: str
) -> None:
    result = drive(exposed, lambda client: client.call_tool(tool, arguments))
    assert result.is_error and result.structured_content["code"] == code


def test_runs_of_other_owners_and_of_flows_that_are_not_exposed_do_not_exist(
    exposed: ExposedServer,
) -> None:
    for flow, owner in (("tidy", "bob"), ("secluded", "ann")):
        inputs = TIDY["inputs"] if flow == "tidy" else {}
        run = exposed.client.submit(flow, "x", inputs, submitted_by=owner)
        for tool in ("status", "cancel"):
            call = lambda client, tool=tool, run=run: client.call_tool(tool, {"run": run.id})  # noqa: E731
            result = drive(exposed, call)
            assert result.structured_content["code"] == "run-not-found", (flow, tool)


@pytest.mark.parametrize(
    ("scopes", "tool", "arguments", "missing"),
    [
        (("submit",), "tidy", TIDY, "read"),
        (("read",), "tidy", TIDY, "submit"),
        (("read", "submit"), "answer", {"run": "r", "question": "0:0"}, "answer"),
        (("read", "submit"), "cancel", {"run": "r"}, "stop"),
    ],
)
def test_a_token_without_the_scope_is_refused_before_anything_is_stored(
    exposed: ExposedServer, scopes: tuple[str, ...], tool: str, arguments: Any, missing: str
) -> None:
    owner = f"o{uuid4().hex[:8]}"

    async def play(client: Client) -> None:
        with pytest.raises(MCPError, match=f"requires the scope '{missing}'"):
            await client.call_tool(tool, arguments)

    drive(exposed, play, exposed.token(owner, *scopes))
    assert not list(exposed.client.runs(submitted_by=owner))


def test_a_wrong_token_opens_nothing(exposed: ExposedServer) -> None:
    exposed.token("ann")
    with pytest.raises(ExceptionGroup) as caught:
        drive(exposed, lambda client: client.list_tools(), "hf_0000000000000000_x")
    assert caught.group_contains(MCPError, match="Server returned an error response")


def test_a_body_over_the_limit_is_refused(exposed: ExposedServer) -> None:
    most = most_bytes(exposed.client.settings)
    response = httpx2.post(
        f"{exposed.url}/mcp",
        content=b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * most + b'"}',
        headers={
            "Authorization": f"Bearer {exposed.token('ann')}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        },
        timeout=60,
    )
    assert response.status_code == 413


# the lost part


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_survives_the_death_of_the_server_and_of_its_worker(
    server: CrashableServer, tmp_path: Any
) -> None:
    """The worker is killed while it carries out the approved command, the server while a client
    waits.
    """
    gate = tmp_path / "gate"
    gate.touch()
    call = {
        "goal": "tidy up",
        "inputs": {"target": {"path": "build"}, "gate": str(gate)},
        "key": "once",
        "wait": 200,
    }
    with exposed_server(server, 0) as other:
        settings = other.client.settings
        token = other.token("ann")
        died: list[ServerProcess] = []

        async def approve(url: str) -> str:
            async with connected(url, token) as client:
                asked = await client.call_tool("tidy", call)
                run, question = (asked.structured_content[name] for name in ("run", "question"))
                answer = {"run": run, "question": question["id"], "answer": "approve", "wait": 0}
                await client.call_tool("answer", answer)
                return str(run)

        async def wait_on(url: str, dying: ServerProcess | None) -> Any:
            async with connected(url, token) as client:
                waiting = asyncio.ensure_future(client.call_tool("tidy", call))
                if dying is not None:
                    await asyncio.to_thread(until, is_watched, "the server waits for the run", 60)
                    dying.close()
                    died.append(dying)
                return await waiting

        def is_watched() -> bool:
            clients = other.client._store.redis.client_list()
            return any(each["cmd"] == "xread" for each in clients)

        with server_processes(1, settings) as [first]:
            with workers(1, settings, PERDURE_FLOW_MODULES=MODULE) as [worker]:
                run_id = asyncio.run(approve(first.url))
                until(lambda: other.client.get(run_id).phase == "leased", "the command", 60)
                worker.kill()
            with pytest.raises(Exception):  # noqa: B017
                asyncio.run(wait_on(first.url, first))
            assert died == [first], "the client failed because its server died, and not before"
        gate.unlink()
        with workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
            result = asyncio.run(wait_on(other.url, None))
        assert text_of(result) == "removed build"
        assert result.structured_content["run"] == run_id
