"""A trace as prose: the events, a move a line, and the state of the run at its end."""

from __future__ import annotations

from typing import Any

from tests.model.configurations import Config
from tests.model.laws import Violation
from tests.model.moves import Move, act
from tests.model.rules import Rules
from tests.model.state import Run, World

HOWS = {
    "heard": "a worker claims it",
    "mute": "a worker claims it, and the reply is lost",
    "ignorant": "a worker that does not know the flow claims it",
}
TOLD = {
    None: "a worker sweeps",
    0: "a worker sweeps, and is told that the broker is empty",
    -1: "a worker sweeps, and the broker does not answer",
}


def sentence(move: Move) -> str:
    """Return one move in words."""
    match move:
        case ("take", queue, "lost"):
            return f"the next message of list {queue} is lost with whoever popped it"
        case ("take", queue, how):
            return f"the next message of list {queue}: {HOWS[how]}"
        case ("again", run, pair, how):
            return f"a message of run {run} for epoch {pair[0]}, step {pair[1]} comes (again): {HOWS[how]}"
        case ("commit", worker, kind, heard):
            return f"worker {worker} commits {kind}{_unheard(heard)}"
        case ("fetch", worker, kind, heard, how, first):
            does = (
                "commits and fetches"
                if how == "heard"
                else "commits and fetches, of flows that it does not know,"
            )
            return f"worker {worker} {does} from list {first} on, {kind}{_unheard(heard)}"
        case ("stay", worker, heard):
            return f"worker {worker} commits next, and its run is to stay{_unheard(heard)}"
        case ("deliver", worker, how):
            return f"the message that worker {worker} fetched unclaimed: {HOWS[how]}"
        case ("double", run, pair):
            return f"a message of run {run} for epoch {pair[0]}, step {pair[1]} is in its list once more"
        case ("op", run, kind, heard):
            return f"somebody looks at run {run} and sends {_operation(kind)}{_unheard(heard)}"
        case ("look", run, kind):
            return f"somebody looks at run {run}, to send {_operation(kind)} later"
        case ("send", client, heard):
            return f"what client {client} wanted to send arrives now{_unheard(heard)}"
        case ("submit", run, nonce, heard):
            return f"submission {nonce} of run {run}{_unheard(heard)}"
        case ("tick", ticks):
            return f"{ticks} tick{'s' if ticks > 1 else ''} pass{'' if ticks > 1 else 'es'}"
        case ("sweep", told):
            return TOLD[told]
        case ("sweep", _, place):
            return f"a process has died, and a sweep looks at run {place} before its time"
        case ("signal", run, wakes):
            return f"a signal for run {run}{'' if wakes else ', whose sender dies'}"
        case ("publish", place, arrives):
            return (
                f"handed-over message {place} is published"
                if arrives
                else f"handed-over message {place} is never published"
            )
    return WORDS[move[0]].format(*move[1:])


WORDS = {
    "say": "somebody says something to run {}",
    "hear": "worker {} looks for what was said",
    "tell": "a process learns of the follow-up",
    "call": "caller {} sends its next request; sent once more: {}",
    "reach": "caller {} comes to child {}, which is in a round",
    "caller_dies": "caller {} is killed",
    "child_ends": "child {} ends: {}",
    "child_stops": "the round of child {} is over, which was asked to stop with its tree",
    "stop_child": "a person stops child {}",
    "take_up_child": "a person resumes or retries child {}",
    "resend_claim": "worker {} sends its claim again",
    "resend_commit": "worker {} sends its commit again",
    "resend_stay": "worker {} sends its commit again by which the run was to stay",
    "die": "worker {} is killed",
    "begin": "worker {} begins the round that it fetched",
    "forfeit": "worker {} dies, and its parent tells",
    "forfeit_other": "another process that had run {}'s message dies, and its parent tells",
    "beat": "worker {} beats",
    "intend": "worker {} is about to carry out the step's command, and asks whether it may",
    "record": "worker {} records what it did",
    "resend": "client {} sends again",
    "delete": "somebody deletes run {}",
    "pause": "the flow is paused",
    "unpause": "the flow is unpaused",
    "offer": "run {} is offered again",
    "see": "the node of worker {} comes to its next wait",
    "wake": "sender {} brings the message of the run whose wait is over",
    "post": "signal {} is sent to the topic",
    "hold": "run {} is submitted with the topic, submission {}",
    "listen": "worker {} takes the topic for its run",
    "forget": "whoever swept dies, and another sweeps next",
}


def story(config: Config, rules: Rules, start: tuple[Any, ...], trace: list[Move]) -> str:
    """Describe the trace from ``start``, with the runs after each move and the laws that the
    violating one broke.
    """
    lines, state = [f"at first: {_runs(World(start, config, rules))}"], start
    for number, move in enumerate(trace, 1):
        w = World(state, config, rules)
        try:
            act(w, move)
        except Violation as violation:
            lines.append(f"{number}. {sentence(move)}: {violation}")
            break
        state = w.frozen()
        lines.append(f"{number}. {sentence(move)}: {_runs(World(state, config, rules))}")
    return "\n".join(lines)


def _runs(w: World) -> str:
    told = [_run(place, run) for place, run in enumerate(w.runs)]
    if w.slots:
        told.append(f"{len(w.slots)} at work")
    if w.family is not None:
        told.append(f"children {', '.join(w.family.children)}, told of {w.family.ends}")
    if w.topic is not None:
        told.append(f"topic of {w.topic.holder}, {w.topic.waiting} wait, mail {w.topic.mail}")
    return "; ".join(told)


def _run(place: int, run: Run | None) -> str:
    if run is None:
        return f"no run {place}"
    due = "" if run.due is None else f", due in {run.due}"
    return f"run {place} {run.phase}, epoch {run.epoch}, step {run.step}{due}"


def _unheard(heard: bool) -> str:
    return "" if heard else "; the reply is lost"


def _operation(kind: str) -> str:
    return {
        "resume:answer": "a resume with an answer",
        "resume": "a resume",
        "retry": "a retry",
    }.get(kind, kind.replace(":", " "))
