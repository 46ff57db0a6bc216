"""ControllerExecutorFlow: decide, carry out, observe; and the course of every failure."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from perdure import (
    Advance,
    BadReply,
    Command,
    Controller,
    ControllerExecutorFlow,
    End,
    FatalError,
    Finish,
    Interrupt,
    InvalidFlow,
    Node,
    RetryableError,
    RoundContext,
    RoundStopped,
    ScriptedController,
    Turn,
    UnstorableValue,
    command,
    human_feedback,
    make,
)
from perdure.flows.rings.controller_executor import UNFINISHED_ANSWER
from tests.support.flow_player import play_through


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def fail(how: str) -> None:
    raise {
        "value": ValueError,
        "fatal": FatalError,
        "retry": RetryableError,
        "stop": RoundStopped,
        "bad": BadReply,
    }[how]("oh no")


def scripted(*replies: Any, **settings: Any) -> ControllerExecutorFlow:
    return ControllerExecutorFlow(
        controller=ScriptedController(replies, reads_errors=True), commands=[add, fail], **settings
    )


def test_a_run_decides_carries_out_and_finishes() -> None:
    played = play_through(scripted(Command("add", {"a": 1, "b": 2}), Finish("three")))
    assert played.nodes == ["Controller", "Executor", "Controller"]
    assert played.turns == [Turn(Command("add", {"a": 1, "b": 2}), 3)]
    assert played.end is not None
    assert (played.end.answer, played.end.output) == (
        "three",
        {"answer": "three", "status": "finished"},
    )


def test_a_subclass_with_decide_and_commands() -> None:
    class Greeter(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Command | Finish:
            return (
                Finish(context.observation)
                if len(context.history)
                else Command("greet", {"name": context.goal})
            )

        @command(idempotent=True)
        def greet(self, context: RoundContext, name: str) -> str:
            return f"Hello, {name}! ({context.idempotency_key})"

    played = play_through(Greeter, goal="Ada")
    key = RoundContext("Ada", step=1, command=Command("greet", {"name": "Ada"})).idempotency_key
    assert played.end is not None and played.end.answer == f"Hello, Ada! ({key})"


def test_coroutine_functions_decide_and_carry_out() -> None:
    class Slow(ControllerExecutorFlow):
        async def decide(self, context: RoundContext) -> Command | Finish:
            await asyncio.sleep(0)
            return Finish(context.observation) if len(context.history) else Command("look")

        @command
        async def look(self) -> str:
            await asyncio.sleep(0)
            return "seen"

    played = play_through(Slow)
    assert played.end is not None and played.end.answer == "seen"


BAD_REPLIES = [
    ("it is late", "not JSON", None),
    ("[1]", "the reply is a list", None),
    ("", "not JSON", None),
    ("[" * 100_000, "not JSON", None),
    ('{"command": "add", "command_args": {"a": NaN}}', "NaN|nan", None),
    ('{"command": "add", "command_args": {"a": "\\ud800"}}', "surrogate", None),
    ({"command_args": {}}, "no key 'command'", None),
    ({"command": "add"}, "no key 'command_args'", None),
    ({"command": 7, "command_args": {}}, "command's name is 7", None),
    pytest.param(
        {"command": 10**5000, "command_args": {}}, "command's name is a int", None, id="huge"
    ),
    ({"command": "add", "command_args": [1]}, "expected an object", None),
    (None, "the reply is a NoneType", None),
    (Command("ad", {"a": 1}), "did you mean 'add'", Command("ad", {"a": 1})),
    (Command("fnish", {}), "did you mean 'finish'", Command("fnish", {})),
    (Command("add", {}), "a: Field required.*It takes: a, b \\(optional\\)", Command("add", {})),
    (Command("add", {"a": 1, "z": 2}), "z: Extra inputs", Command("add", {"a": 1, "z": 2})),
    (Command("add", {"a": "x"}), "a: Input should be a valid integer", Command("add", {"a": "x"})),
    (Command("finish", {}), "missing: answer", Command("finish", {})),
    (
        Command("finish", {"answer": 1, "status": 2}),
        "unknown: status",
        Command("finish", {"answer": 1, "status": 2}),
    ),
    (Command("add", {"a": b"1"}), "is a bytes", None),
]


@pytest.mark.parametrize(("reply", "words", "decided"), BAD_REPLIES)
def test_a_bad_reply_becomes_a_turn_in_history(
    reply: Any, words: str, decided: Command | None
) -> None:
    played = play_through(scripted(reply, Finish("mended")))
    assert played.nodes == ["Controller", "Controller"]
    assert len(played.turns) == 1
    assert played.turns[0].command == decided
    assert set(played.turns[0].observation) == {"error"}
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(played.turns[0].observation["error"])
    assert played.turns[0].observation["error"].startswith("BadReply: ")
    assert played.end is not None and played.end.answer == "mended"


def test_a_bad_reply_ends_a_cycle() -> None:
    played = play_through(scripted("?", "?", max_rounds=2))
    assert played.end == End(
        UNFINISHED_ANSWER, {"answer": UNFINISHED_ANSWER, "status": "unfinished"}
    )


class Decides(ControllerExecutorFlow):
    """Its own code decides."""

    def decide(self, context: RoundContext) -> Any:
        return Finish("done")


class DecidesWithin(Decides):
    """The same within a limit of its own."""

    max_rounds = 30


def test_only_a_flow_with_a_controller_has_a_limit_of_cycles_unless_it_says_one() -> None:
    assert [
        Decides().max_rounds,
        DecidesWithin().max_rounds,
        type("Sub", (Decides,), {})().max_rounds,
    ] == [None, 30, None]
    assert [
        scripted().max_rounds,
        scripted(max_rounds=None).max_rounds,
        Decides(max_rounds=4).max_rounds,
    ] == [30, None, 4]
    assert Decides(flow_config={"max_rounds": 5}).max_rounds == 5
    assert make("countdown").max_rounds is None


def test_the_answer_of_an_unfinished_run_speaks_of_a_model_only_where_a_controller_decides() -> (
    None
):
    assert (
        "model" in scripted().exhausted({}).answer and "model" not in Decides().exhausted({}).answer
    )
    assert Decides().exhausted({}).output["status"] == "unfinished"


def test_three_bad_replies_in_a_row_end_the_run_errored_with_the_text() -> None:
    with pytest.raises(
        FatalError,
        match=r"3 bad replies of the controller in a row; the last one: no command is named 'c'",
    ):
        play_through(scripted(Command("a"), Command("b"), Command("c"), Finish()))


@pytest.mark.parametrize("lost", ["command", "command_args"])
def test_an_output_interface_that_takes_the_command_away_ends_the_run_with_a_sentence(
    lost: str,
) -> None:
    controller, executor = ControllerExecutorFlow.topology
    ring = (replace(controller, output_interface={"rename": {lost: "order"}}), executor)
    with pytest.raises(
        FatalError,
        match=f"output interface of node Controller leaves no {lost}, .* it leaves: .*order",
    ):
        play_through(scripted(Command("add", {"a": 1}), topology=ring))


def test_a_good_reply_forgets_the_bad_ones() -> None:
    good = Command("add", {"a": 1})
    played = play_through(scripted("?", "?", good, "?", "?", good, Finish("end")))
    assert played.end is not None and played.end.answer == "end"
    assert len(played.turns) == 6


def test_max_bad_replies_can_be_chosen() -> None:
    with pytest.raises(FatalError, match="1 bad replies"):
        play_through(scripted("?", Finish(), max_bad_replies=1))
    with pytest.raises(InvalidFlow, match="max_bad_replies is 0"):
        scripted(max_bad_replies=0)


def test_a_controller_may_say_itself_that_a_reply_was_bad() -> None:
    class Model(Controller):
        reads_errors = True

        def decide(self, context: RoundContext) -> Any:
            if not len(context.history):
                raise BadReply("the model said nothing")
            return Finish(context.observation)

    played = play_through(ControllerExecutorFlow(controller=Model()))
    assert played.end is not None and played.end.answer == {
        "error": "BadReply: the model said nothing"
    }


@pytest.mark.parametrize("how", ["value", "bad"])
def test_an_exception_of_a_command_is_told_to_the_controller(how: str) -> None:
    played = play_through(scripted(Command("fail", {"how": how}), Finish()))
    assert played.nodes == ["Controller", "Executor", "Controller"]
    name = {"value": "ValueError", "bad": "BadReply"}[how]
    assert played.observations == [{"error": f"{name}: oh no"}]


@pytest.mark.parametrize(
    ("how", "error"), [("fatal", FatalError), ("retry", RetryableError), ("stop", RoundStopped)]
)
def test_errors_that_speak_to_the_engine_are_not_told(how: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="oh no"):
        play_through(scripted(Command("fail", {"how": how}), Finish()))


def test_an_exception_of_a_controller_is_the_engines() -> None:
    class Broken(Controller):
        def decide(self, context: RoundContext) -> Any:
            raise ZeroDivisionError("broken")

    with pytest.raises(ZeroDivisionError):
        play_through(ControllerExecutorFlow(controller=Broken()))


def test_a_result_that_is_not_json_is_a_clear_error_naming_the_command() -> None:
    def odd() -> object:
        return {"found": b"12"}

    flow = ControllerExecutorFlow(controller=ScriptedController([Command("odd")]), commands=[odd])
    with pytest.raises(UnstorableValue, match="the result of command 'odd' at found is a bytes"):
        play_through(flow)


def test_an_answer_that_is_not_json_is_a_clear_error() -> None:
    with pytest.raises(UnstorableValue, match="the answer"):
        play_through(scripted(Finish(b"1")))


def test_an_interrupt_of_a_command_and_of_a_controller_is_handed_on() -> None:
    class Asking(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Any:
            if len(context.history):
                return Finish([context.observation])
            return Command("ask") if context.answered else Interrupt("go?")

        @command
        def ask(self, context: RoundContext) -> Any:
            return {"said": context.answer} if context.answered else Interrupt("what?", data=[1])

    played = play_through(Asking, answers=["go", None])
    assert played.nodes == ["Controller", "Controller", "Executor", "Executor", "Controller"]
    assert played.rounds[2][1] == Interrupt("what?", data=[1])
    assert played.end is not None and played.end.answer == [{"said": None}]


def test_a_command_may_finish_the_run() -> None:
    def enough() -> Finish:
        return Finish("enough")

    played = play_through(
        ControllerExecutorFlow(
            controller=ScriptedController([Command("enough")]), commands=[enough]
        )
    )
    assert played.end is not None
    assert played.end.output == {"answer": "enough", "status": "finished"}
    assert played.turns == [Turn(Command("enough"), None)]


def test_what_a_command_remembers_is_committed_with_the_round() -> None:
    def keep(context: RoundContext, word: str) -> None:
        context.remember("word", word)

    class Keeper(ControllerExecutorFlow):
        commands = (keep,)

        def decide(self, context: RoundContext) -> Any:
            return (
                Finish(context.values["word"])
                if len(context.history)
                else Command("keep", {"word": "w"})
            )

    played = play_through(Keeper)
    assert played.end is not None and played.end.answer == "w"


@pytest.mark.parametrize(
    "name",
    [
        "command",
        "command_args",
        "observation",
        "answer",
        "status",
        "found_by",
        "OVER",
        "_bad_replies",
    ],
)
@pytest.mark.parametrize("where", ["controller", "executor"])
def test_a_name_that_the_flow_itself_writes_cannot_be_remembered(name: str, where: str) -> None:
    def keep(context: RoundContext) -> None:
        context.remember(name, "mine")

    class Keeper(ControllerExecutorFlow):
        commands = (keep,)
        early_exit_key = "OVER"
        flow_config = {  # noqa: RUF012
            "subflows_config": {"Controller": {"finish": {"input_args": ["answer", "found_by"]}}}
        }

        def decide(self, context: RoundContext) -> Any:
            if where == "controller":
                context.remember(name, "mine")
            return Command("keep")

    with pytest.raises(FatalError, match=f"'{name}' cannot be remembered"):
        play_through(Keeper)


def test_the_executor_checks_again_what_was_decided_elsewhere() -> None:
    outcome = scripted().play(
        "Executor",
        RoundContext("g", committed={"command": "gone", "command_args": {"a": 1}, "_said": {}}),
    )
    assert isinstance(outcome, Advance)
    assert (outcome.node, outcome.ends_cycle) == ("Controller", True)
    assert outcome.turns[0].command == Command("gone", {"a": 1})
    assert "no command is named 'gone'" in outcome.turns[0].observation["error"]


def test_the_observation_is_stored_once_and_nodes_after_the_executor_see_it() -> None:
    class Watched(ControllerExecutorFlow):
        topology = (*ControllerExecutorFlow.topology, Node("HumanFeedback", human_feedback))

    flow = Watched(
        controller=ScriptedController([Command("add", {"a": 20, "b": 3}), Finish("end")]),
        commands=[add],
    )
    played = play_through(flow, answers=["go on"])
    assert played.nodes == [
        "Controller",
        "Executor",
        "HumanFeedback",
        "HumanFeedback",
        "Controller",
    ]
    assert played.rounds[2][1].data == {"observation": 23}  # type: ignore[union-attr]
    assert "observation" not in played.values
    assert played.values["human_feedback"] == "go on"


def test_summaries_are_short() -> None:
    flow = scripted(
        {"command": "add", "command_args": {"a": 10**3000}, "thought": "t" * 5000},
        Finish("a" * 5000),
    )
    played = play_through(flow)
    for _, outcome in played.rounds:
        assert outcome.summary["command"] in ("add", "finish")  # type: ignore[union-attr]
        assert all(len(text) <= 200 for text in outcome.summary.values())  # type: ignore[union-attr]


def test_the_time_limit_of_a_round_is_the_commands_own() -> None:
    class Limited(ControllerExecutorFlow):
        round_timeout_seconds = 60.0

        def decide(self, context: RoundContext) -> Any: ...

        @command(timeout=5)
        def quick(self) -> None: ...

        @command
        def plain(self) -> None: ...

    flow = Limited()
    assert flow.time_limit("Executor", {"command": "quick"}) == 5
    assert flow.time_limit("Executor", {"command": "plain"}) == 60
    assert flow.time_limit("Controller", {"command": "quick"}) == 60


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"controller": None}, "expected a method decide"),
        ({"controller": print}, "expected a method decide"),
        ({"commands": [add, add]}, "two commands are named 'add'"),
        ({"commands": [5]}, "5 is not a command"),
        ({"commands": [lambda: 1]}, "'<lambda>' cannot name a command"),
        ({"flow_config": {"max_rouns": 3}}, "did you mean 'max_rounds'"),
        ({"flow_config": {"max_rounds": 0}}, "max_rounds: .*not 0"),
        ({"flow_config": {"topology": "star"}}, "topology"),
        ({"flow_config": {"subflows_config": {"Controler": {}}}}, "did you mean 'Controller'"),
        (
            {"flow_config": {"subflows_config": {"Controller": {"finish": {"input_args": ["x"]}}}}},
            "'answer' among them",
        ),
        (
            {"flow_config": {"subflows_config": {"Controller": {"finsh": {}}}}},
            "Controller.finsh; did you mean 'finish'",
        ),
        (
            {"flow_config": {"subflows_config": {"Controller": {"model": "any", "system": "x"}}}},
            "Controller.model; .*Controller.system",
        ),
        (
            {"flow_config": {"subflows_config": {"Executor": {"subflows_config": {"ad": {}}}}}},
            "did you mean 'add'",
        ),
        (
            {
                "flow_config": {
                    "subflows_config": {"Executor": {"subflows_config": {"add": {"describe": ""}}}}
                }
            },
            "describe",
        ),
        ({"interrupt_before": ["Executer"]}, "did you mean 'Executor'"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidFlow, match=words):
        ControllerExecutorFlow(
            **{"controller": ScriptedController([]), "commands": [add], **settings}
        )


def test_a_command_named_finish_is_refused() -> None:
    def finish() -> None: ...

    with pytest.raises(InvalidFlow, match="'finish' is the command that ends the run"):
        ControllerExecutorFlow(controller=ScriptedController([]), commands=[finish])


def test_the_configuration_chooses_and_describes_commands() -> None:
    config = {
        "max_rounds": 7,
        "subflows_config": {"Executor": {"subflows_config": {"add": {"description": "Plus."}}}},
    }
    flow = scripted(flow_config=config)
    assert flow.max_rounds == 7
    assert next((schema["name"], schema["description"]) for schema in flow.schemas()) == (
        "add",
        "Plus.",
    )
    assert list(flow.offered()) == ["add"]
    assert scripted(flow_config=config, max_rounds=8).max_rounds == 8


def test_finish_may_take_more_than_the_answer() -> None:
    config = {"subflows_config": {"Controller": {"finish": {"input_args": ["answer", "sure"]}}}}
    played = play_through(
        scripted(
            Command("finish", {"answer": 1}),
            Command("finish", {"answer": 1, "sure": 0.5}),
            flow_config=config,
        )
    )
    assert played.end is not None
    assert played.end.output == {"answer": 1, "status": "finished", "sure": 0.5}


def test_the_shipped_countdown_counts_down() -> None:
    played = play_through(lambda: make("countdown"), inputs={"rounds": 40})
    assert played.observations == list(range(39, -1, -1))
    assert played.end is not None and played.end.answer == "counted down from 40"


def test_the_shipped_countdown_leaves_its_pause_when_the_round_is_cancelled() -> None:
    context = RoundContext(
        "g",
        {"rounds": 2, "seconds": 3600.0},
        committed={"command": "tick", "command_args": {"left": 2}},
    )
    soon = threading.Timer(0.05, context.cancelled.set)
    soon.start()
    with pytest.raises(RoundStopped):
        make("countdown").play("Executor", context)
    soon.join()


def test_the_shipped_question_ends_with_the_answer_of_a_person() -> None:
    played = play_through(lambda: make("question"), goal="Ship it?", answers=[{"ship": True}])
    assert played.rounds[1][1] == Interrupt("Ship it?")
    assert played.end is not None and played.end.answer == {"ship": True}


def test_a_script_may_ask_before_a_reply_and_ends_with_a_clear_error() -> None:
    played = play_through(
        scripted(Interrupt("sure?"), Command("add", {"a": 1}), Finish("end")), answers=["yes"]
    )
    assert played.nodes == ["Controller", "Controller", "Executor", "Controller"]
    with pytest.raises(FatalError, match="the script has 1 replies, but reply 2 is needed"):
        play_through(scripted(Command("add", {"a": 1})))
    with pytest.raises(InvalidFlow, match="two interrupts in a row"):
        ScriptedController([Interrupt("a"), Interrupt("b")])
