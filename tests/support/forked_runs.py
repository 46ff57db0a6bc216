"""Flows for forks, and their effects in this process."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from perdure import (
    CircularFlow,
    Client,
    Command,
    ControllerExecutorFlow,
    File,
    Finish,
    Node,
    Renew,
    RoundContext,
    Steps,
    command,
    register,
    workflow,
)
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver

#: The effects of commands and steps, in this process.
DONE: Counter[str] = Counter()
ROUNDS = 4


class Adder(ControllerExecutorFlow):
    """Adds 1, 2, 3, ... and the input, and reports its observations."""

    max_result = 100

    def decide(self, context: RoundContext) -> Any:
        done = len(context.history)
        if done == ROUNDS:
            seen = [turn.observation for turn in context.history]
            return Finish([context.goal, *[each if type(each) is int else "long" for each in seen]])
        context.spend(tokens=10)
        return Command("add", {"number": done})

    @command
    def add(self, context: RoundContext, number: int) -> Any:
        DONE[f"add {number}"] += 1
        by = context.inputs.get("by", 1)
        return "x" * 300 if by == "long" and number == 0 else number + (1 if by == "long" else by)


class Remembers(Adder):
    """The same, and remembers a value."""

    def decide(self, context: RoundContext) -> Any:
        context.remember("seen", len(context.history))
        return super().decide(context)


class Unrecorded(Remembers):
    """The same, and does not record the value in its log."""

    record_values = False


class Forgets(Adder):
    """The same, and keeps one turn."""

    keep_turns = 1


class Renews(ControllerExecutorFlow):
    """Is renewed once."""

    topology = (*ControllerExecutorFlow.topology, Node("After", "after"))

    def decide(self, context: RoundContext) -> Any:
        return Finish("done") if context.values.get("again") else Command("look")

    @command
    def look(self, context: RoundContext) -> str:
        return "seen"

    def after(self, state: dict[str, Any], context: RoundContext) -> Any:
        return Renew(values={"again": True})


class Listens(Adder):
    """The same, and reports the messages that it read."""

    def decide(self, context: RoundContext) -> Any:
        decision = super().decide(context)
        return Finish([decision.answer, context.said]) if type(decision) is Finish else decision


class Deaf(Listens):
    """The same, and keeps three turns."""

    keep_turns = 3

    def decide(self, context: RoundContext) -> Any:
        if len(context.history) == ROUNDS:
            kept = [turn.observation for turn in context.history[1:]]
            return Finish([kept, context.said])
        return Command("add", {"number": len(context.history)})


class AtOnce(ControllerExecutorFlow):
    """Lets child runs make a long text and files, and reports their content."""

    parallel_calls = 3
    max_result = 200

    def decide(self, context: RoundContext) -> Any:
        if not context.history:
            return [Command(name, {}) for name in ("write", "draw", "report")]
        text, file, report = (turn.observation for turn in context.history[:3])
        if len(context.history) == 3:
            return Command("read", {"text": text["artifact"], "file": file["file"]})
        drawn = context.file(file)
        named = json.loads(context.artifact(report["artifact"]))["file"]
        return Finish(
            [
                context.artifact(text["artifact"]),
                drawn.text,
                drawn.media_type,
                context.observation,
                context.file(named).text,
            ]
        )

    @command
    def write(self, context: RoundContext) -> str:
        DONE["write"] += 1
        return "a" * 300

    @command
    def draw(self, context: RoundContext) -> Any:
        DONE["draw"] += 1
        return File("drawn.md", b"b" * 200)

    @command
    def report(self, context: RoundContext) -> Any:
        DONE["report"] += 1
        return {"text": "c" * 300, "file": File("named.txt", b"d" * 50)}

    @command
    def read(self, context: RoundContext, text: str, file: str) -> int:
        return len(context.artifact(text)) + len(context.file(file).content)


class Ring(CircularFlow):
    """Has no history."""

    topology = (Node("Only", "end"),)

    def end(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {self.early_exit_key: True, "answer": "played"}


class UnrecordedRing(Ring):
    """The same, and does not record its state in its log."""

    record_values = False


class GrowingRing(CircularFlow):
    """Its answer depends on the work of each of its nodes in each cycle."""

    topology = (Node("Add", "add"), Node("Double", "double"), Node("Check", "check"))

    def add(self, state: Any, context: RoundContext) -> dict[str, Any]:
        context.remember("added", context.step)
        return {"total": state.get("total", 0) + 1}

    def double(self, state: Any, context: RoundContext) -> dict[str, Any]:
        return {"total": 2 * state["total"], "seen": [*state.get("seen", []), state["total"]]}

    def check(self, state: Any, context: RoundContext) -> dict[str, Any]:
        return {"EARLY_EXIT": state["total"] > 500, "answer": [state["total"], state["seen"]]}


def does(name: str) -> str:
    DONE[name] += 1
    return name


def journey(steps: Steps, city: str = "Oslo") -> list[str]:
    """Play five steps, with chance between them."""
    first = steps.random()
    seen = [steps.step(does, f"book {first}", name="book")]
    second = str(steps.uuid())
    seen.append(steps.step(does, f"pay {second}", name="pay"))
    seen.append(steps.step(does, f"go to {city}", name="go"))
    third = str(steps.uuid())
    return [*seen, third]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = {
        "adder": Adder,
        "remembers": Remembers,
        "unrecorded": Unrecorded,
        "forgets": Forgets,
        "listens": Listens,
        "deaf": Deaf,
        "at_once": AtOnce,
        "renews": Renews,
        "ring": Ring,
        "unrecorded_ring": UnrecordedRing,
        "growing_ring": GrowingRing,
    }
    own_registry(monkeypatch, *flows, "journey")
    DONE.clear()
    for name, flow in flows.items():
        register(name)(flow)
    workflow("journey")(journey)


def played(client: Client, driver: Driver, flow: str, goal: str = "g", **inputs: Any) -> str:
    run = client.submit(flow, goal, inputs)
    driver.play()
    assert client.get(run.id).status.value == "completed", client.get(run.id).error
    DONE.clear()
    return run.id


def history(client: Client, run_id: str) -> list[Any]:
    return list(client.transcript(run_id)["history"])
