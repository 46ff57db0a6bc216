"""Controller and history see an observation as the nodes behind the Executor changed it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    Advance,
    BadReply,
    Command,
    ControllerExecutorFlow,
    FatalError,
    Finish,
    Interrupt,
    Node,
    RoundContext,
    command,
)
from perdure.flows.commands.scripted import ScriptedController
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.history import History
from perdure.flows.core.outcomes import End, Turn
from perdure.flows.rings.human import human_feedback
from tests.support.flow_player import play_through

SECRET = "the password is hunter2"


@command(idempotent=True)
def look(where: str = "here", size: int = 0) -> str:
    """Look."""
    return f"{SECRET} {where}{'x' * size}"


@command(idempotent=True)
def fail() -> str:
    """Fail."""
    raise ValueError("no")


def redact(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
    text = (
        given["observation"]
        if isinstance(given["observation"], str)
        else given["observation"]["beginning"]
    )
    return {"observation": text.replace("hunter2", "[gone]")}


class Redacting(ControllerExecutorFlow):
    topology = (*ControllerExecutorFlow.topology, Node("Redact", redact))


class Feedback(ControllerExecutorFlow):
    topology = (*ControllerExecutorFlow.topology, Node("HumanFeedback", human_feedback))


def scripted(
    kind: type[ControllerExecutorFlow], *replies: Any, **settings: Any
) -> ControllerExecutorFlow:
    return kind(
        controller=ScriptedController(replies, reads_errors=True), commands=[look], **settings
    )


def test_what_a_node_behind_the_executor_returns_is_what_the_controller_sees() -> None:
    seen = []

    class Reading(Redacting):
        def decide(self, context: RoundContext) -> Any:
            seen.append(context.observation)
            return Finish("done") if context.observation else Command("look")

    played = play_through(Reading(commands=[look]))
    assert seen == [None, "the password is [gone] here"] and played.observations == [
        "the password is [gone] here"
    ]


def test_nothing_of_what_was_redacted_is_in_history_events_or_artifacts() -> None:
    played = play_through(
        scripted(Redacting, Command("look", {"size": 40}), Finish(1), max_result=30)
    )
    kept: dict[str, str] = {}
    for _, outcome in played.rounds:
        assert isinstance(outcome, Advance | End)
        assert "hunter2" not in str(outcome.turns) + str(outcome.summary)
        kept |= outcome.artifacts
    assert "hunter2" not in str(kept) and list(kept) == ["1-look"], (
        "the artifact of the whole is overwritten"
    )


def test_every_call_of_one_reply_passes_the_nodes_behind_the_executor() -> None:
    calls = [Command("look", {"where": place}, {}, place, part) for part, place in enumerate("abc")]
    played = play_through(scripted(Redacting, calls, None, None, Finish(1)))
    assert played.nodes == ["Controller", *["Executor", "Redact"] * 3, "Controller"]
    assert (
        sum(isinstance(outcome, Advance) and outcome.ends_cycle for _, outcome in played.rounds)
        == 1
    )
    assert played.observations == [f"the password is [gone] {place}" for place in "abc"]


def test_a_finish_among_the_calls_comes_after_the_nodes_behind_the_executor() -> None:
    calls = [Command("look", {}, {}, "a", 0), Command("finish", {"answer": 7}, {}, "b", 1)]
    played = play_through(scripted(Redacting, calls))
    assert played.end is not None and played.end.answer == 7
    assert played.observations == ["the password is [gone] here"]


def test_a_finish_behind_an_error_counts_by_what_the_nodes_made_of_the_error() -> None:
    class Mending(ControllerExecutorFlow):
        topology = (
            *ControllerExecutorFlow.topology,
            Node("Mend", lambda given, context: {"observation": "mended"}),
        )

    calls = [Command("fail", {}, {}, "a", 0), Command("finish", {"answer": 7}, {}, "b", 1)]
    made = Mending(controller=ScriptedController([calls], reads_errors=True), commands=[fail])
    played = play_through(made)
    assert played.end is not None and played.end.answer == 7
    assert played.observations == ["mended"]


def test_a_bad_call_behind_a_good_one_is_answered_in_its_place() -> None:
    calls = [
        Command("look", {}, {}, "a", 0),
        Command("gone", {}, {}, "b", 1),
        Command("look", {"where": "c"}, {}, "c", 2),
    ]
    played = play_through(scripted(Redacting, calls, None, None, Finish(1)))
    assert played.observations[0] == "the password is [gone] here" and "no command is named" in str(
        played.observations[1]
    )
    assert played.observations[2] == "the password is [gone] c"


def test_nodes_between_see_the_turn_in_the_history_as_the_one_before_them_left_it() -> None:
    seen: list[Any] = []

    def watch(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        seen.append(
            (
                given["observation"],
                context.observation,
                len(context.history),
                context.history[0].observation,
            )
        )
        return {}

    class Three(ControllerExecutorFlow):
        topology = (*Redacting.topology, Node("Watch", watch))

    play_through(scripted(Three, Command("look"), Command("look", {"where": "b"}), Finish(1)))
    first, second = "the password is [gone] here", "the password is [gone] b"
    assert seen == [(first, first, 1, first), (second, second, 2, first)]


def test_a_run_that_ends_in_a_node_behind_the_executor_keeps_the_turn() -> None:
    played = play_through(scripted(Feedback, Command("look")), answers=["q"])
    assert played.end is not None and [turn.observation for turn in played.end.turns] == [
        f"{SECRET} here"
    ]
    limited = play_through(scripted(Redacting, Command("look"), max_rounds=1))
    assert limited.observations == ["the password is [gone] here"]


def test_a_bad_reply_of_a_node_behind_the_executor_comes_after_the_turn() -> None:
    def refuse(given: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        raise BadReply("not like this")

    class Refusing(ControllerExecutorFlow):
        topology = (*ControllerExecutorFlow.topology, Node("Refuse", refuse))

    played = play_through(scripted(Refusing, Command("look"), Finish(1), Finish(1)))
    assert played.observations == [f"{SECRET} here", {"error": "BadReply: not like this"}]


def test_a_plain_ring_of_two_holds_nothing() -> None:
    outcome = scripted(ControllerExecutorFlow).play(
        "Executor", RoundContext("g", committed={"command": "look", "command_args": {}})
    )
    assert isinstance(outcome, Advance) and outcome.turns == (
        Turn(Command("look"), f"{SECRET} here"),
    )
    assert not outcome.values and "_held" not in str(outcome)


def test_an_observation_from_a_node_before_the_executor_is_refused() -> None:
    class Early(ControllerExecutorFlow):
        topology = (
            Node("Early", lambda given, context: {"observation": "mine"}),
            *ControllerExecutorFlow.topology,
        )

    with pytest.raises(FatalError, match="only nodes after the Executor"):
        scripted(Early).play("Early", RoundContext("g"))


def test_a_turn_that_an_earlier_release_wrote_stays_and_the_run_goes_on() -> None:
    turn = Turn(Command("look"), SECRET)
    context = RoundContext(
        "g",
        history=History(1, [turn], lambda start, stop: []),
        committed={"command": "look", "command_args": {}},
    )
    outcome = scripted(Redacting).play("Redact", context)
    assert (
        isinstance(outcome, Advance)
        and (outcome.node, outcome.turns) == ("Controller", ())
        and "observation" not in outcome.values
    )


def test_a_turn_that_an_earlier_release_did_not_bring_into_the_history_is_not_lost() -> None:
    flow = scripted(Redacting, Command("look"), Finish(1))
    held = flow.play(
        "Executor", RoundContext("g", committed={"command": "look", "command_args": {}})
    )
    assert isinstance(held, Advance) and held.turns == ()
    decided = flow.play("Controller", RoundContext("g", committed=held.values))
    assert isinstance(decided, End) and [turn.observation for turn in decided.turns] == [
        f"{SECRET} here"
    ]


def test_what_a_person_said_stays_with_its_turn_and_is_told_once() -> None:
    flow = scripted(Feedback, Command("look"), Command("look", {"where": "b"}), Finish(1))
    played = play_through(flow, answers=["never touch X", "fine"])
    turns = [
        turn
        for _, outcome in played.rounds
        if not isinstance(outcome, Interrupt)
        for turn in outcome.turns
    ]
    context = RoundContext(
        "g", history=History(2, turns, lambda start, stop: []), committed={"human_feedback": "fine"}
    )
    for tools in (True, False):
        texts = [
            message.text
            for message in ModelController(model="m").messages(context, ToolNames(["look"]), tools)
        ]
        told = "\n".join(texts)
        assert (
            told.count("A person says: never touch X") == 1
            and told.count("A person says: fine") == 1
        )
        assert told.index("never touch X") < told.index(f"{SECRET} b") < told.index("says: fine")
