"""Streams as real servers of OpenAI's protocol send them, where they differ from OpenAI's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from perdure import (
    Advance,
    Client,
    Command,
    ControllerExecutorFlow,
    End,
    FatalError,
    RetryableError,
    RoundContext,
    Settings,
    command,
)
from perdure.flows.adapters.pydantic_ai import PerdureDurability, register_agent
from perdure.flows.commands.calls import call
from perdure.flows.controllers.model import ModelController
from perdure.flows.core.live_text import LiveText
from perdure.flows.rounds.providers import Endpoint
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.chat_server import Says, Sends, chat_server
from tests.support.round_driver import driving
from tests.support.workflow_effects import play

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@command(idempotent=True)
def add(a: int, b: int = 0) -> int:
    """The sum."""
    return a + b


@command(idempotent=True)
def ping() -> str:
    """Answer."""
    return "pong"


class Odd(ControllerExecutorFlow):
    controller = ModelController(model="m")
    commands = (add, ping)


def chunk(
    delta: dict[str, Any] | None = None,
    ended: str | None = None,
    usage: dict[str, Any] | None = None,
) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": ended}]
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }


def piece(index: int | None, id: str | None, name: str | None, args: Any) -> dict[str, Any]:  # noqa: A002
    function = {k: v for k, v in (("name", name), ("arguments", args)) if v is not None}
    fields = {"index": index, "id": id, "type": "function"}
    return {
        "tool_calls": [{**{k: v for k, v in fields.items() if v is not None}, "function": function}]
    }


def stream(*chunks: dict[str, Any]) -> Sends:
    lines = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)
    return Sends(f"{lines}data: [DONE]\n\n".encode())


def replied(answer: Sends) -> tuple[Any, RoundContext]:
    """Return the model controller's decision after this answer of the server, and its round."""
    with chat_server([Says("?")], {0: [answer]}) as server:
        endpoint = Endpoint("m", server.url)
        context = RoundContext("add", endpoint=endpoint, commands=Odd().schemas())
        return call(ModelController().decide, context, context), context


def of_text(*pieces: str, ended: str = "stop") -> Sends:
    deltas = [chunk({"content": each}) for each in pieces]
    return stream(chunk({"role": "assistant"}), *deltas, chunk({}, ended), chunk(usage=USAGE))


def told(output: int, **more: Any) -> dict[str, Any]:
    return {**USAGE, "completion_tokens": output, "total_tokens": 100 + output, **more}


#: The usage of each chunk, then the tokens that are charged.
USAGES: Cases = {
    "at the end": ([None, None, USAGE], (100, 20)),
    "so far": ([told(1), told(10), USAGE], (100, 20)),
    "so far, with nothing yet": ([told(0), told(0), USAGE], (100, 20)),
    "twice": ([None, USAGE, USAGE], (100, 20)),
    "the input first, the output last": (
        [
            {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100},
            None,
            {"prompt_tokens": 0, "completion_tokens": 20, "total_tokens": 20},
        ],
        (100, 20),
    ),
    "an estimate that is corrected": ([told(50), None, USAGE], (100, 20)),
}


def test_usage_that_a_server_reports_with_several_chunks_is_charged_once(each_case: Each) -> None:
    def check(usages: list[Any], tokens: tuple[int, int]) -> None:
        first, second, last = usages
        answer = stream(
            chunk({"role": "assistant", "content": "Hel"}, usage=first),
            chunk({"content": "lo!"}, usage=second),
            chunk({}, "stop"),
            chunk(usage=last),
        )
        _, context = replied(answer)
        spent = context.spent
        assert (spent["input_tokens"], spent["output_tokens"]) == tokens
        assert spent["tokens"] == sum(tokens)

    each_case(USAGES, check)


def test_usage_that_a_server_reports_in_a_choice_is_charged() -> None:
    last = chunk({}, "stop")
    last["choices"][0]["usage"] = USAGE
    _, context = replied(stream(chunk({"role": "assistant", "content": "Hello!"}), last))
    assert (context.spent["input_tokens"], context.spent["output_tokens"]) == (100, 20)


def test_a_byte_order_mark_hides_no_piece_of_the_reply() -> None:
    answer = of_text("lo!")
    first = f"data: {json.dumps(chunk({'role': 'assistant', 'content': 'Hel'}))}\n\n"
    outcome = ended(Sends(b"\xef\xbb\xbf" + first.encode() + answer.raw))
    assert isinstance(outcome, End) and outcome.output["answer"] == "Hello!"


ONE_TWO = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
#: Pieces of calls, then the calls.
CALLS: Cases = {
    "all with index 0": (
        [piece(0, "c1", "add", '{"a":1,"b":2}'), piece(0, "c2", "add", '{"a":3,"b":4}')],
        ONE_TWO,
    ),
    "all with index 0, in pieces": (
        [
            piece(0, "c1", "add", '{"a":1,'),
            piece(0, None, None, '"b":2}'),
            piece(0, "c2", "add", ""),
            piece(0, None, None, '{"a":3,"b":4}'),
        ],
        ONE_TWO,
    ),
    "all with index 0, in turns": (
        [
            piece(0, "c1", "add", '{"a":1,'),
            piece(0, "c2", "add", '{"a":3,'),
            piece(0, "c1", None, '"b":2}'),
            piece(0, "c2", None, '"b":4}'),
        ],
        ONE_TWO,
    ),
    "all with index 0, without ids": (
        [piece(0, None, "add", '{"a":1,"b":2}'), piece(0, None, "add", '{"a":3,"b":4}')],
        ONE_TWO,
    ),
    "all with index 0, without arguments": (
        [piece(0, "c1", "ping", ""), piece(0, "c2", "ping", "")],
        [("ping", {}), ("ping", {})],
    ),
    "without an index": (
        [piece(None, "c1", "add", '{"a":1,"b":2}'), piece(None, "c2", "add", '{"a":3,"b":4}')],
        ONE_TWO,
    ),
    "without an index, in pieces": (
        [
            piece(None, "c1", "add", '{"a":1,'),
            piece(None, "c1", None, '"b":2}'),
            piece(None, "c2", "add", '{"a":3,"b":4}'),
        ],
        ONE_TWO,
    ),
    "with one id": (
        [piece(0, "x", "add", '{"a":1,"b":2}'), piece(1, "x", "add", '{"a":3,"b":4}')],
        ONE_TWO,
    ),
    "with one id and one index": (
        [piece(0, "x", "add", '{"a":1,"b":2}'), piece(0, "x", "add", '{"a":3,"b":4}')],
        ONE_TWO,
    ),
    "in turns": (
        [
            piece(0, "c1", "add", '{"a":1,'),
            piece(1, "c2", "add", '{"a":3,'),
            piece(0, None, None, '"b":2}'),
            piece(1, None, None, '"b":4}'),
        ],
        ONE_TWO,
    ),
    "a name in each piece": (
        [piece(0, "c1", "add", '{"a":1,'), piece(0, "c1", "add", '"b":2}')],
        ONE_TWO[:1],
    ),
    "a name in each piece, without ids": (
        [piece(0, None, "add", '{"a":1,'), piece(0, None, "add", '"b":2}')],
        ONE_TWO[:1],
    ),
    "a name in pieces": (
        [piece(0, "c1", "a", ""), piece(0, None, "dd", '{"a":1,'), piece(0, None, "", '"b":2}')],
        ONE_TWO[:1],
    ),
    "a name that grows": (
        [piece(0, "c1", "a", ""), piece(0, "c1", "add", '{"a":1,"b":2}')],
        ONE_TWO[:1],
    ),
    "another id in each piece": (
        [
            piece(0, "c1", "add", ""),
            piece(0, "c2", None, '{"a":1,'),
            piece(0, "c3", None, '"b":2}'),
        ],
        ONE_TWO[:1],
    ),
    "the arguments again at the end": (
        [
            piece(0, "c1", "add", '{"a":1,'),
            piece(0, None, None, '"b":2}'),
            piece(0, "c1", "add", '{"a":1,"b":2}'),
        ],
        ONE_TWO[:1],
    ),
    "arguments as an object": ([piece(0, "c1", "add", {"a": 1, "b": 2})], ONE_TWO[:1]),
}


def test_each_call_of_a_stream_is_carried_out_with_its_own_arguments(each_case: Each) -> None:
    def check(pieces: list[dict[str, Any]], calls: list[tuple[str, Any]]) -> None:
        chunks = [chunk(each) for each in pieces]
        answer = stream(
            chunk({"role": "assistant"}), *chunks, chunk({}, "tool_calls"), chunk(usage=USAGE)
        )
        decided, _ = replied(answer)
        commands = decided if isinstance(decided, list) else [decided]
        assert [
            (each.name, each.args) if isinstance(each, Command) else each for each in commands
        ] == calls
        assert len({each.call for each in commands}) == len(calls)

    each_case(CALLS, check)


def ended(answer: Sends) -> Any:
    """Return how the run goes on after this answer of the server."""
    with chat_server([Says("?")], {0: [answer]}) as server:
        return Odd().play("Controller", RoundContext("add", endpoint=Endpoint("m", server.url)))


REASONS = ["stop", "eos", "end", "end_turn", "stop_sequence", "eos_token", "COMPLETE", "eosFound"]
NO_END = [
    "pause_turn",
    "incomplete",
    "length",
    "max_output_tokens",
    "abort",
    "error",
    "OTHER",
    "timeout",
]


def test_a_whole_text_is_the_answer_under_any_reason_that_ends(each_case: Each) -> None:
    def check(reason: str) -> None:
        outcome = ended(of_text("Hel", "lo!", ended=reason))
        assert isinstance(outcome, End) and outcome.output["answer"] == "Hello!"

    each_case({reason: (reason,) for reason in REASONS}, check)


def test_a_text_that_was_cut_is_no_answer_under_any_reason(each_case: Each) -> None:
    def check(reason: str) -> None:
        outcome = ended(of_text("Hel", ended=reason))
        assert isinstance(outcome, Advance)
        assert "BadReply" in outcome.turns[0].observation["error"]

    each_case({reason: (reason,) for reason in NO_END}, check)


THOUGHTS: Cases = {
    "in one piece": ("<think>secret</think>\n\nHello!",),
    "a tag a piece": ("<think>", "secret", "</think>", "\n\nHello!"),
    "tags in pieces": ("<th", "ink>secret rea", "soning</thi", "nk>\n\nHello!"),
    "after a line break": ("\n<think>\n", "secret\n</think>\n\nHello!"),
    "an end that starts the answer": ("<think>", "secret</think>Hello!"),
    "not opened": ("I should greet.\n", "</think>", "\n\nHello!"),
}


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("ended", [None, "stop"])
@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "message": "engine crashed", "code": 500},
        {"type": "error", "message": "engine crashed", "code": "server_error"},
        {"object": "error", "message": "engine crashed", "code": 500, "choices": []},
    ],
)
def test_an_error_as_an_event_makes_half_an_answer_none(
    event: dict[str, Any], ended: str | None, is_done: bool
) -> None:
    last = [chunk({}, ended)] if ended else []
    answer = stream(chunk({"content": "half an ans"}), event, *last)
    if not is_done:
        answer = Sends(answer.raw.removesuffix(b"data: [DONE]\n\n"))
    with pytest.raises(RetryableError, match="engine crashed"):
        replied(answer)


CRASHED = b'data: {"type": "error", "message": "engine crashed", "code": 500}'


@pytest.mark.parametrize("line_break", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("is_last", [True, False])
def test_an_error_as_an_event_is_seen_behind_any_line_break_and_without_one(
    line_break: bytes, is_last: bool
) -> None:
    half, end = (stream(chunk({"content": "half"}, ended)).raw for ended in (None, "stop"))
    raw = (half if is_last else half + CRASHED + b"\n\n") + end + (CRASHED if is_last else b"")
    with pytest.raises(RetryableError, match="engine crashed"):
        replied(Sends(raw.replace(b"data: [DONE]\n\n", b"").replace(b"\n", line_break)))


@pytest.mark.parametrize("end", ["", "\n\n"])
@pytest.mark.parametrize("name", ["type", "object"])
def test_an_error_as_an_event_is_kept_if_the_connection_drops(name: str, end: str) -> None:
    event = {name: "error", "message": "it is too long", "code": 400}
    raw = stream(chunk({"content": "half"}), event).raw.removesuffix(b"data: [DONE]\n\n")
    with pytest.raises(FatalError, match="it is too long"):
        replied(Sends(raw.rstrip(b"\n") + end.encode(), is_cut=True))


EVENTS: Cases = {
    "a filter": (
        {"type": "error", "message": "blocked", "code": "content_filter"},
        FatalError,
        "the model refuses: blocked",
    ),
    "a filter, inside": (
        {"object": "error", "error": {"message": "blocked", "code": "content_filter"}},
        FatalError,
        "the model refuses: blocked",
    ),
    "too long": (
        {"type": "error", "message": "no", "code": "context_length_exceeded"},
        FatalError,
        "answers 400: no .*set window",
    ),
    "busy": (
        {"type": "error", "message": "no", "code": "rate_limit_exceeded"},
        RetryableError,
        "answers 429: no",
    ),
}


def test_an_error_as_an_event_has_the_consequences_of_its_code(each_case: Each) -> None:
    def check(event: dict[str, Any], kind: type[Exception], words: str) -> None:
        with pytest.raises(kind, match=words):
            replied(stream(chunk({"content": "half"}), event, chunk({}, "stop")))

    each_case(EVENTS, check)


def test_reasoning_between_tags_is_no_part_of_the_answer(each_case: Each) -> None:
    def check(*pieces: str) -> None:
        outcome = ended(of_text(*pieces))
        assert isinstance(outcome, End) and outcome.output["answer"] == "Hello!"

    each_case(THOUGHTS, check)


class Heard(LiveText):
    """Live text that a test reads, by kind."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, text: str, kind: str, part: str) -> None:
        self.texts[kind] = self.texts.get(kind, "") + text


def test_reasoning_between_tags_is_shown_as_reasoning() -> None:
    heard = Heard()
    answer = of_text("<thi", "nk>sec", "ret</thi", "nk>Hello", " <")
    with chat_server([Says("?")], {0: [answer]}) as server:
        context = RoundContext(
            "add",
            endpoint=Endpoint("m", server.url),
            commands=Odd().schemas(),
            live_text=heard,
        )
        decided = call(ModelController().decide, context, context)
    assert decided.args == {"answer": "Hello <"}
    assert heard.texts == {"thinking": "secret", "text": "Hello <"}


def test_reasoning_beside_calls_is_not_sent_back_as_the_models_words() -> None:
    said = chunk({"role": "assistant", "content": "secret\n</think>\n\nAdding now."})
    called = chunk(piece(0, "c1", "add", '{"a":1}'))
    decided, _ = replied(stream(said, called, chunk({}, "tool_calls"), chunk(usage=USAGE)))
    assert decided.extras["thought"] == "Adding now."


def test_a_reply_that_is_only_reasoning_is_no_answer() -> None:
    outcome = ended(of_text("<think>I am still", " thinking"))
    assert isinstance(outcome, Advance) and "is empty" in outcome.turns[0].observation["error"]


def test_a_call_that_leaked_into_the_text_is_no_answer_and_the_model_hears_of_it() -> None:
    text = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    outcome = ended(of_text("I add. ", text[:7], text[7:]))
    assert isinstance(outcome, Advance)
    assert "has a call as text" in outcome.turns[0].observation["error"]


def test_an_agent_of_pydantic_ai_is_charged_the_last_usage_that_its_server_reports(
    settings: Settings, client: Client
) -> None:
    answer = stream(
        chunk({"role": "assistant", "content": "Hel"}, usage=told(1)),
        chunk({"content": "lo!"}, usage=told(10)),
        chunk({}, "stop", usage=USAGE),
        chunk(usage=USAGE),
    )
    with chat_server([Says("?")], {0: [answer]}) as server:
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=server.url, api_key="x"))
        register_agent("odd_usage", Agent(model, name="odd", capabilities=[PerdureDurability()]))
        run = client.submit("odd_usage", "greet")
        with driving(settings) as driver:
            ran = play(driver, run)
    assert ran.answer == "Hello!" and ran.details["spent"]["tokens"] == 120
