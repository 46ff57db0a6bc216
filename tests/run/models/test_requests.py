"""One request a round, on a real socket: its messages, the result of a failure, the charge, and the
close of the connection.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from perdure import (
    BadReply,
    Command,
    ControllerExecutorFlow,
    FatalError,
    RetryableError,
    RoundContext,
    RoundStopped,
    Turn,
    command,
)
from perdure.flows.commands.calls import call
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.cost import REPLY_TOKENS
from perdure.flows.controllers.model.endpoint import Target, target_of
from perdure.flows.controllers.model.errors import failed
from perdure.flows.core.history import History
from perdure.flows.core.live_text import LiveText
from perdure.flows.rounds.facts import PROGRESS_LENGTH
from perdure.flows.rounds.providers import Attempt, Endpoint, Providers
from tests.support.chat_server import (
    Asked,
    ChatServer,
    Cuts,
    Ends,
    Fails,
    Fault,
    Garbles,
    Hangs,
    Says,
    Sends,
    chat_server,
)
from tests.support.redis_servers import until

CANARY = "sk-canary-0123456789"
SAYS = Says("Let me see.", [("add_numbers", {"a": 1, "b": 2})])


class Adding(ControllerExecutorFlow):
    controller = ModelController()

    @command(idempotent=True)
    def add_numbers(self, a: int, b: int) -> int:
        """The sum."""
        return a + b


COMMANDS = Adding().schemas()


def decide(
    server: ChatServer,
    controller: ModelController | None = None,
    context: RoundContext | None = None,
    **given: Any,
) -> Any:
    full = context or RoundContext(
        "add", endpoint=Endpoint(None, server.url), commands=COMMANDS, **given
    )
    deciding = controller or ModelController(model="m")
    return call(deciding.decide, full, full)


def test_the_rounds_of_a_process_share_their_connections() -> None:
    with chat_server([SAYS]) as server:
        for _ in range(3):
            decide(server)
        assert len(server.play.asked) == 3 and server.connections == 1


def test_a_connection_that_its_server_has_closed_is_made_anew() -> None:
    with chat_server([SAYS], {0: [None, Cuts(2)]}) as server:
        decide(server)
        with pytest.raises(RetryableError):
            decide(server)
        decide(server)
        assert len(server.play.asked) == 3 and server.connections == 2


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server([SAYS]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        context = RoundContext(
            "add", endpoint=Endpoint(None, "http://model.invalid/v1"), commands=COMMANDS
        )
        decide(proxy, context=context)
        assert [asked.path for asked in proxy.play.asked] == [
            "http://model.invalid/v1/chat/completions"
        ]


def failing(
    fault: Fault, controller: ModelController | None = None, says: Says = SAYS, **given: Any
) -> tuple[Any, RoundContext, ChatServer]:
    with chat_server([says], {0: [fault]}) as server:
        context = RoundContext(
            "add",
            endpoint=Endpoint(None, server.url, given.pop("key", None)),
            commands=COMMANDS,
            **given,
        )
        with pytest.raises((RetryableError, FatalError)) as caught:
            decide(server, controller, context)
        assert sum(server.play.fired.values()) == 1 and len(server.play.asked) == 1, (
            "nothing below the engine tries again"
        )
        return caught.value, context, server


def test_a_request_says_the_conversation_and_the_tools_and_its_usage_is_charged() -> None:
    with chat_server([SAYS]) as server:
        context = RoundContext("add", endpoint=Endpoint(None, server.url), commands=COMMANDS)
        controller = ModelController(temperature=0.5, max_tokens=77)
        assert decide(server, controller, context) == Command(
            "add_numbers", {"a": 1, "b": 2}, {"thought": "Let me see."}, "call_0_0", 0
        )
        decide(server, controller, context)
    assert context.spent == {"tokens": 220, "input_tokens": 200, "output_tokens": 20, "requests": 2}
    assert context.told.pop("prompt")["turns"] == 0
    assert context.told == {"model": "scripted"} and context.remembered == {
        "_model": [100, 10, None, 0]
    }
    [asked, _] = server.play.asked
    assert [each["role"] for each in asked.body["messages"]] == ["system", "user"] and asked.body[
        "messages"
    ][1]["content"] == "add"
    assert [each["function"]["name"] for each in asked.body["tools"]] == ["add_numbers", "finish"]
    assert (asked.body["model"], asked.body["temperature"], asked.body["stream"]) == (
        "scripted",
        0.5,
        True,
    )
    assert 77 in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))
    assert server.named == 1, "a server is asked for its models once a process"


def test_a_server_that_no_longer_has_its_first_model_is_asked_again() -> None:
    with chat_server([SAYS], {0: [Fails(404)]}) as server:
        with pytest.raises(FatalError, match="'scripted' answers 404"):
            decide(server, ModelController())
        server.models = ("another",)
        decide(server, ModelController())
    assert [asked.body["model"] for asked in server.play.asked] == ["scripted", "another"]


def test_a_server_without_a_model_ends_the_run() -> None:
    with (
        chat_server([SAYS], models=()) as server,
        pytest.raises(FatalError, match="the server of model_url lists no model"),
    ):
        decide(server, ModelController())


def test_what_comes_in_is_told_to_those_who_watch() -> None:
    with chat_server([Says("Let me see. " * 100, SAYS.calls)], {0: [Hangs(2)]}) as server:
        context = RoundContext("add", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        with pytest.raises(RetryableError):
            decide(server, ModelController(timeout_seconds=0.5), context)
    told = str((context.signals.progress or {})["text"])
    assert told.startswith("…") and len(told) == PROGRESS_LENGTH


class Heard(LiveText):
    """Live text that a test reads: the text of each kind and part."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}

    def write(self, text: str, kind: str, part: str) -> None:
        self.texts[kind, part] = self.texts.get((kind, part), "") + text


def test_a_reply_is_shown_as_it_comes_in_with_the_arguments_of_its_calls() -> None:
    heard = Heard()
    with chat_server([Says("Let me see. " * 20, SAYS.calls)]) as server:
        context = RoundContext(
            "add", endpoint=Endpoint("m", server.url), commands=COMMANDS, live_text=heard
        )
        command = decide(server, ModelController(), context)
    assert isinstance(command, Command)
    assert heard.texts == {
        ("text", ""): "Let me see. " * 20,
        ("arguments", "add_numbers"): json.dumps(dict(command.args)),
    }


def test_without_tools_the_seeds_format_is_asked_for_and_read() -> None:
    with chat_server(
        [Says('Sure! {"thought": "t", "command": "add_numbers", "command_args": {"a": 1, "b": 2}}')]
    ) as server:
        assert decide(server, ModelController(model="m", reply="json")) == Command(
            "add_numbers", {"a": 1, "b": 2}, {"thought": "t"}
        )
    assert (
        "tools" not in server.play.asked[0].body
        and "command_args" in server.play.asked[0].body["messages"][0]["content"]
    )


def test_two_calls_are_two_commands_and_one_that_does_not_read_is_answered_alone() -> None:
    with chat_server(
        [Says(calls=[("add_numbers", {"a": 1}), ("add_numbers", '{"a": ')])]
    ) as server:
        first, second = decide(server)
    assert first == Command("add_numbers", {"a": 1}, {}, "call_0_0", 0)
    assert isinstance(second, BadReply) and second.command == Command(
        "add_numbers", {}, {}, "call_0_1", 1
    )


@pytest.mark.parametrize(
    ("fault", "kind", "told", "wait"),
    [
        (
            Fails(429, headers={"retry-after": "7"}),
            RetryableError,
            "model 'm' answers 429: scripted 429",
            7,
        ),
        (
            # The time is read when tests are collected, which may be hours before.
            Fails(503, headers={"retry-after": formatdate(time.time() + 80_000, usegmt=True)}),
            RetryableError,
            "model 'm' answers 503",
            80_000,
        ),
        (Fails(500), RetryableError, "model 'm' answers 500: scripted 500", None),
        (Fails(408), RetryableError, "model 'm' answers 408", None),
        (Fails(409), RetryableError, "model 'm' answers 409", None),
        (
            Fails(429, {"error": {"message": "pay", "code": "insufficient_quota"}}),
            FatalError,
            "model 'm' answers 429: pay",
            None,
        ),
        (
            Fails(401, {"error": {"message": "bad key"}}),
            FatalError,
            r"model 'm' answers 401: bad key \(check the key: setting model_key",
            None,
        ),
        (Fails(403), FatalError, "model 'm' answers 403", None),
        (
            Fails(404, {"detail": "no such model"}),
            FatalError,
            "model 'm' answers 404: no such model",
            None,
        ),
        (Fails(422), FatalError, "model 'm' answers 422", None),
        (
            Fails(400, {"error": "m does not support tools"}),
            FatalError,
            r"m does not support tools \(for a model without tools, set `reply",
            None,
        ),
        (
            Fails(400, {"error": {"message": "tools.0.name: should match pattern"}}),
            FatalError,
            "should match pattern$",
            None,
        ),
        (
            Fails(404, {"error": {"message": "No endpoints found that support tool use"}}),
            FatalError,
            "tool use .for a model without",
            None,
        ),
        (
            Fails(400, {"Error": {"Code": "400", "Message": "bad"}, "ResponseMetadata": {}}),
            FatalError,
            "answers 400: bad$",
            None,
        ),
        (
            Fails(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
            FatalError,
            r"too long \(show it less of",
            None,
        ),
        (
            Fails(400, {"error": {"message": "x" * 5000}}),
            FatalError,
            "answers 400: x{500,999}…",
            None,
        ),
    ],
)
def test_a_refusal_is_a_retry_or_an_end_with_the_providers_words_and_costs_nothing(
    fault: Fails, kind: Any, told: str, wait: float | None
) -> None:
    error, context, _ = failing(fault)
    assert type(error) is kind
    with pytest.raises(kind, match=told):
        raise error
    waits = getattr(error, "retry_after", None)
    assert waits is None if wait is None else 0.8 * wait <= waits <= wait
    assert context.spent == {}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Cuts(2), "the connection broke"),
        (Cuts(0), "the connection broke"),
        (Hangs(2), r"took too long: no complete reply within 0.5 s \(timeout_seconds\)"),
        (Hangs(None), "took too long"),
        (Garbles(), "gave an incomplete reply"),
    ],
)
def test_what_may_be_billed_without_being_told_is_charged_by_the_estimate(
    fault: Fault, told: str
) -> None:
    error, context, server = failing(
        fault, ModelController(model="m", timeout_seconds=0.5 if isinstance(fault, Hangs) else 60)
    )
    with pytest.raises(RetryableError, match=told):
        raise error
    assert context.spent == dict(ModelController(model="m").estimate(context))
    if isinstance(fault, Hangs):
        until(lambda: server.play.closed == 1, "the server to see that it was left")


KEYS = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
FAILED_CALL = '<function=add_numbers>{"a": "one"}</function>'


def test_a_call_that_the_provider_refuses_is_a_bad_reply_with_the_call() -> None:
    body = {
        "error": {
            "message": "tool call validation failed",
            "code": "tool_use_failed",
            "failed_generation": FAILED_CALL,
        }
    }
    with chat_server([SAYS], {0: [Fails(400, body)]}) as server:
        context = RoundContext("add", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        with pytest.raises(BadReply, match="tool call validation failed") as bad:
            decide(server, context=context)
    assert FAILED_CALL in str(bad.value) and "reply: json" not in str(bad.value)
    assert context.spent["requests"] == 1, "the model has written it"


@pytest.mark.parametrize(
    ("lead", "generation"), [("event: error\n", FAILED_CALL), ("", FAILED_CALL), ("", "")]
)
def test_a_call_that_the_provider_refuses_in_the_stream_is_a_bad_reply_too(
    lead: str, generation: str
) -> None:
    error = {
        "message": "tool call validation failed",
        "code": "tool_use_failed",
        "failed_generation": generation,
        "status_code": 400,
    }
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta = {"role": "assistant", "content": 'about "tool_use_failed"'}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"error": error},
    ]
    said, refused = (json.dumps(each) for each in events)
    with chat_server(
        [SAYS], {0: [Sends(f"data: {said}\n\n{lead}data: {refused}\n\n".encode())]}
    ) as server:
        context = RoundContext("add", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        with pytest.raises(BadReply, match="tool call validation failed") as bad:
            decide(server, context=context)
    assert generation in str(bad.value)
    assert context.spent["requests"] == 1, "the model has written it"


@pytest.mark.parametrize(
    ("answer", "told", "requests"),
    [
        (
            Sends(b'{"error": {"message": "upstream failed"}}', "application/json"),
            "upstream failed",
            0,
        ),
        (Sends(b"<html>log in first</html>", "text/html"), "log in first", 0),
        (Sends(b"<html>log in first</html>"), "log in first", 0),
        (Sends(b'{"error": {"message": "upstream failed"}}'), "upstream failed", 0),
        (Sends(b""), "gave an incomplete reply", 1),
        (
            Sends(b'{"choices": [{"message": {"content": "words"}}]}', "application/json"),
            "gave an incomplete reply",
            1,
        ),
        (Sends(b"data: {}\n\n"), "gave an incomplete reply", 1),
        (Sends(b"data: {}\n\n", "text/plain"), "gave an incomplete reply", 1),
    ],
)
def test_an_answer_200_that_is_no_reply_keeps_its_words_and_costs_nothing(
    answer: Sends, told: str, requests: int
) -> None:
    with chat_server([SAYS], {0: [answer]}) as server:
        context = RoundContext("add", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        with pytest.raises(RetryableError, match=told):
            decide(server, context=context)
    assert context.spent.get("requests", 0) == requests


class NoCredentialsError(Exception):
    """As botocore's."""


NoCredentialsError.__module__ = "botocore.exceptions"


@pytest.mark.parametrize(
    ("error", "has_answered", "kind", "billed"),
    [
        (NoCredentialsError("Unable to locate credentials"), False, FatalError, False),
        (ValueError("Cannot select auto-router"), False, FatalError, False),
        (TypeError("unexpected keyword"), False, FatalError, False),
        (ValueError("a fault of the library"), True, RetryableError, True),
        (json.JSONDecodeError("no JSON", "", 0), False, RetryableError, True),
    ],
)
def test_what_cannot_be_sent_ends_the_run_and_costs_nothing(
    error: Exception, has_answered: bool, kind: Any, billed: bool
) -> None:
    wrapped = RuntimeError("the library's")
    wrapped.__cause__ = error
    outer = wrapped if isinstance(error, NoCredentialsError) else error
    come_to = failed(outer, "'m'", [], has_answered=has_answered)
    assert type(come_to.error) is kind and come_to.billed is billed


def test_a_bedrock_client_makes_one_request_and_waits_as_long_as_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from perdure.flows.controllers.model.provider_clients import client_of

    with chat_server([SAYS], {0: [Fails(500), Fails(500)]}) as server:
        client = client_of({**KEYS, "base_url": server.url, "region_name": "us-east-1"}, 7.0)
        assert client.meta.config.read_timeout == 7.0
        with pytest.raises(Exception, match="500"):
            client.converse_stream(
                modelId="m", messages=[{"role": "user", "content": [{"text": "hi"}]}]
            )
        assert len(server.play.asked) == 1


def test_a_stream_that_ends_without_saying_why_was_cut() -> None:
    with (
        chat_server([SAYS], {0: [Ends(5)]}) as server,
        pytest.raises(RetryableError, match=r"gave an incomplete reply: .*finish_reason"),
    ):
        decide(server)


def test_a_server_that_is_not_there_is_tried_again_and_costs_nothing() -> None:
    with chat_server([SAYS]) as server:
        url = server.url
    for model in ("m", None):
        context = RoundContext("g", endpoint=Endpoint(model, url), commands=COMMANDS)
        with pytest.raises(RetryableError, match="cannot be reached"):
            decide(server, ModelController(), context)
        assert context.spent == {}


def test_a_usage_that_is_not_told_is_estimated() -> None:
    with chat_server([replace(SAYS, tokens=None)]) as server:
        context = RoundContext("add", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        decide(server, ModelController(), context)
    assert context.spent == dict(ModelController().estimate(context)) and context.remembered == {}


def test_a_model_whose_price_is_known_costs_money() -> None:
    with chat_server([SAYS]) as server:
        context = RoundContext("add", endpoint=Endpoint("gpt-4o", server.url), commands=COMMANDS)
        decide(server, ModelController(), context)
    assert (
        0.0001 < context.spent["money"] < 0.01
        and context.remembered["_model"][2] == context.spent["money"]
    )


def test_a_round_that_nobody_wants_any_more_closes_its_connection_and_is_charged() -> None:
    with chat_server([SAYS], {0: [Hangs(2)]}) as server:
        context = RoundContext("add", endpoint=Endpoint("m", server.url), commands=COMMANDS)
        reached = threading.Event()

        def before(asked: Asked) -> None:
            reached.set()

        server.play.before = before
        threading.Thread(target=lambda: (reached.wait(20), context.signals.cancelled.set())).start()
        with pytest.raises(RoundStopped):
            decide(server, ModelController(), context)
        until(lambda: server.play.closed == 1, "the server to see that it was left")
    assert context.spent["requests"] == 1


def test_no_error_shows_the_key_even_where_the_provider_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HF_TEST_KEY", CANARY)
    for status in (401, 500):
        fault = Fails(status, {"error": {"message": f"wrong key {CANARY}", "given": [CANARY]}})
        error, _, server = failing(fault, ModelController(model="m"), key="env:HF_TEST_KEY")
        assert server.play.asked[0].headers["authorization"] == f"Bearer {CANARY}", (
            "it was really sent"
        )
        with caplog.at_level(logging.DEBUG):
            logging.getLogger("test").warning("failed", exc_info=error)
        assert "[secret]" in str(error) and CANARY not in str(error)
    assert "[secret]" in caplog.text and CANARY not in caplog.text


def turns(number: int, size: int) -> Sequence[Turn]:
    return [Turn(Command("add_numbers", {}, {}, f"c{i}", 0), "x" * size) for i in range(number)]


def test_a_first_estimate_has_a_price_where_the_list_has_the_model() -> None:
    def money(model: str | None, url: str | None = None) -> float:
        return dict(
            ModelController().estimate(
                RoundContext("g", endpoint=Endpoint(model, url), commands=COMMANDS)
            )
        ).get("money", 0)

    assert 0.01 < money("openai:gpt-4o") < 0.1 and money("openai:gpt-4o") == money(
        "gpt-4o", "http://proxy/v1"
    )
    assert money("x", "http://here/v1") == money(None, "http://here/v1") == 0
    assert ModelController().estimate(RoundContext("g", commands=COMMANDS)) == {}, (
        "nobody names a model"
    )


def test_an_estimate_starts_from_the_last_requests_figures() -> None:
    first = RoundContext("g" * 3_000, commands=COMMANDS, endpoint=Endpoint("m", "http://here/v1"))
    assert ModelController().estimate(first)["input_tokens"] >= 1_000
    assert ModelController().estimate(first)["output_tokens"] == REPLY_TOKENS
    assert ModelController(max_tokens=50).estimate(first)["output_tokens"] == 50
    later = replace(
        first,
        history=History(3, turns(3, 900), lambda start, stop: []),
        committed={"_model": [5_000, 400, 0.54, 2]},
    )
    estimate = ModelController().estimate(later)
    assert 5_300 <= estimate["input_tokens"] <= 5_400 and estimate["output_tokens"] == 800
    assert (
        estimate["tokens"] == estimate["input_tokens"] + estimate["output_tokens"]
        and estimate["requests"] == 1
    )
    assert estimate["money"] > 0.54
    assert ModelController(user="{{ inputs.nowhere }}").estimate(first) == {}, (
        "no request will be made"
    )


def test_an_estimate_is_no_less_than_what_a_request_really_holds() -> None:
    with chat_server([SAYS]) as server:
        history = History(40, turns(40, 300), lambda start, stop: [])
        context = RoundContext(
            "add", endpoint=Endpoint("m", server.url), commands=COMMANDS, history=history
        )
        decide(server, ModelController(), context)
    words = sum(
        len(str(message))
        for message in (*server.play.asked[0].body["messages"], *server.play.asked[0].body["tools"])
    )
    assert ModelController().estimate(context)["input_tokens"] >= words / 5, (
        "five bytes of text are about a token at the least"
    )


def test_a_provider_that_is_unknown_or_lacks_its_key_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for model, told in (
        ("nobody:x", "cannot be used: Unknown model"),
        ("openai:gpt-5", "cannot be used: .*OPENAI_API_KEY"),
        ("x", "Unknown model"),
    ):
        context = RoundContext("g", endpoint=Endpoint(model), commands=COMMANDS)
        with pytest.raises(FatalError, match=told):
            call(ModelController().decide, context, context)
    monkeypatch.setenv("HF_TEST_KEY", CANARY)
    context = RoundContext(
        "g", endpoint=Endpoint("nobody:x", None, "env:HF_TEST_KEY"), commands=COMMANDS
    )
    with pytest.raises(FatalError, match="cannot be used: Unknown provider"):
        call(ModelController().decide, context, context)


def test_a_providers_own_client_is_asked_once_too_and_gets_the_key_that_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TEST_KEY", CANARY)
    with chat_server([SAYS], {0: [Fails(500)]}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        context = RoundContext(
            "g", endpoint=Endpoint("openai-chat:m", None, "env:HF_TEST_KEY"), commands=COMMANDS
        )
        with pytest.raises(RetryableError, match="model 'm' answers 500"):
            decide(server, ModelController(), context)
        assert (
            len(server.play.asked) == 1
            and decide(server, ModelController(), context).name == "add_numbers"
        )
    assert {asked.headers["authorization"] for asked in server.play.asked} == {f"Bearer {CANARY}"}


WORKER = Endpoint("their-model", "http://here/v1", "env:THEIRS")


@pytest.mark.parametrize(
    ("own", "endpoint", "target"),
    [
        ((None, None, None), WORKER, Target("their-model", "http://here/v1", "env:THEIRS")),
        (
            (None, None, None),
            Endpoint(None, "http://here/v1"),
            Target(None, "http://here/v1", None, by_default=True),
        ),
        (("mine", None, None), WORKER, Target("mine", "http://here/v1", "env:THEIRS")),
        (("llama3:8b", None, None), WORKER, Target("llama3:8b", "http://here/v1", "env:THEIRS")),
        (("openai:gpt-5", None, None), WORKER, Target("openai:gpt-5")),
        (("mine", "http://there/v1", None), WORKER, Target("mine", "http://there/v1")),
        (
            (None, "http://there/v1", "env:MINE"),
            WORKER,
            Target(None, "http://there/v1", "env:MINE"),
        ),
        (("openai:gpt-5", None, "env:MINE"), Endpoint(), Target("openai:gpt-5", None, "env:MINE")),
        (
            (None, None, None),
            Endpoint("openai:gpt-5", None, "env:THEIRS"),
            Target("openai:gpt-5", None, "env:THEIRS"),
        ),
        (
            ("anthropic:x", None, None),
            Endpoint("openai:gpt-5", None, "env:THEIRS"),
            Target("anthropic:x"),
        ),
    ],
)
def test_a_flows_own_settings_win_and_a_workers_key_goes_to_the_workers_endpoint_alone(
    own: Any, endpoint: Endpoint, target: Target
) -> None:
    assert target_of(*own, endpoint) == target


def test_libraries_log_no_addresses() -> None:
    import perdure.flows.controllers.model.provider  # noqa: F401

    for name in ("httpx2", "httpcore2", "openai", "openai._base_client"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO), name


class Recorded(Providers):
    """Records a controller's reports of its requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def enter(self, provider: str, attempt: Attempt) -> None:
        self.seen.append("enter")

    def failed(self, provider: str, attempt: Attempt, error: Exception) -> Exception:
        self.seen.append("failed")
        return error

    def answered(self, provider: str, attempt: Attempt) -> None:
        self.seen.append("answered")


@pytest.mark.parametrize(
    ("fault", "counts", "seen"),
    [(Fails(429), False, "failed"), (Fails(503), False, "failed"), (None, True, "answered")],
)
def test_a_busy_provider_counts_no_attempt_and_each_request_is_told_to_those_who_wait(
    fault: Fault | None, counts: bool, seen: str
) -> None:
    recorded = Recorded()
    with chat_server([SAYS], {0: [fault]} if fault else {}) as server:
        context = RoundContext(
            "g", endpoint=Endpoint("m", server.url), commands=COMMANDS, providers=recorded
        )
        if fault is None:
            decide(server, ModelController(), context)
        else:
            with pytest.raises(RetryableError) as raised:
                decide(server, ModelController(), context)
            assert raised.value.counts is False and context.spent == {}
    assert recorded.seen == ["enter", seen]


def events(*several: dict[str, Any]) -> Sends:
    return Sends("".join(f"data: {json.dumps(each)}\n\n" for each in several).encode())


def content(text: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**chunk, "choices": [{**choice, **more}]}


BUSY = {"code": 429, "message": "slow down"}
TOO_LONG = {"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}


@pytest.mark.parametrize(
    ("answer", "kind", "told", "counts"),
    [
        (events({"error": BUSY}), RetryableError, "answers 429: slow down", False),
        (events({"error": {**BUSY, "code": 503}}), RetryableError, "answers 503", False),
        (events(content(""), {"error": BUSY}), RetryableError, "answers 429", False),
        (
            events({**content("", finish_reason="error"), "error": BUSY}),
            RetryableError,
            "answers 429",
            False,
        ),
        (events({"error": "the GPU is on fire"}), RetryableError, "the GPU is on fire", True),
        (events(TOO_LONG), FatalError, "answers 400: too long", None),
        (events({**TOO_LONG, "code": "400"}), FatalError, "answers 400: too long", None),
        (
            events({**TOO_LONG, "code": 40303}),
            RetryableError,
            "gave an incomplete reply: too long",
            True,
        ),
    ],
)
def test_an_error_as_an_event_of_a_stream_without_content_is_the_same_as_a_status(
    answer: Sends, kind: Any, told: str, counts: bool | None
) -> None:
    done = Sends(answer.raw + b"data: [DONE]\n\n")
    for sent in (answer, done):
        error, context, _ = failing(sent)
        assert type(error) is kind and told in str(error)
        assert context.spent == {} and getattr(error, "counts", None) is counts


def test_an_error_as_an_event_after_content_may_have_been_paid_for() -> None:
    for event in ({"error": BUSY}, TOO_LONG):
        error, context, _ = failing(events(content("Hel"), event))
        assert getattr(error, "counts", True) and context.spent["requests"] == 1


def test_a_request_that_may_have_been_paid_for_counts_as_an_attempt() -> None:
    for fault, counts in ((Cuts(2), True), (Fails(529), False)):
        error, _, _ = failing(fault)
        assert isinstance(error, RetryableError) and error.counts is counts
