"""Rows for people who watch a run: each event as one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from perdure.worker.domain.tree_amounts import from_millionths
from perdure.worker.presentation.text import (
    duration,
    parked_text,
    plain,
    waits_for_code,
    waits_for_provider,
)
from perdure.worker.presentation.usage import amount, budget

if TYPE_CHECKING:
    from perdure.worker.domain.event import Event

#: Object ids of git, which are cut to this many digits for people.
GIT_ID = re.compile(r"\b([0-9a-f]{12})(?:[0-9a-f]{28}|[0-9a-f]{52})\b")
#: Fields of a committed event's data that a row shows in a form of their own, or leaves out.
FRAME = (
    "took", "command", "args", "calls", "observation", "answer", "thought", "reasoning", "plan",
    "criticism", "speak",
    "did", "digest", "model", "tokens", "input_tokens", "output_tokens", "cached_tokens",
    "money", "requests", "spent", "prompt", "fallback",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of a run's timeline, for people.

    Attributes:
        step, node, attempt: Of the round that the event is about.
        text: The event, on one line.
        thought: The controller's thought behind the decision.
        took: Duration of a committed round in seconds. None if unknown.
        tone: How the line is coloured: round, good, bad, wait or note.
        is_round: Whether the event is a committed round. False for anything in between.
    """

    step: int
    node: str
    attempt: int
    text: str
    took: float | None = None
    tone: str = "round"
    is_round: bool = False
    thought: str = ""

    @property
    def said(self) -> str:
        """The row's text, after the controller's thought if any."""
        return f"{self.thought} · {self.text}" if self.thought else self.text


def row_of(event: Event) -> Row:
    """Return the row that shows an event to people."""
    if event.type == "committed":
        took = event.data.get("took")
        seconds = int(took) / 1000 if took else None
        thought = "" if "observation" in event.data else plain(str(event.data.get("thought", "")))
        return Row(
            event.step,
            event.node,
            event.attempt,
            round_text(event.data) + _fallback_text(event.data),
            seconds,
            is_round=True,
            thought=thought,
        )
    text, tone = _between(event)
    return Row(event.step, event.node, event.attempt, plain(text), tone=tone)


def _fallback_text(data: Mapping[str, Any]) -> str:
    """Return as text which models failed before another one answered. '' if none failed."""
    failed = data.get("fallback")
    return f" · went on with another model: {plain(str(failed))}" if failed else ""


def round_text(data: Mapping[str, Any]) -> str:
    """Return a committed round's result on one line. ``data`` is that of its event.

    The result is the command that a controller decided on, or the observation of its execution. For
    a workflow it is the names of its steps, and for a single step also its arguments and its
    result.
    """
    if isinstance(steps := data.get("did"), list):
        one = len(steps) == 1 and "command" in data
        names = command_text(data) if one else ", ".join(map(str, steps))
        result = f": {value_short(data['observation'])}" if "observation" in data else ""
        replayed = f" · {data['replayed']} replayed" if "replayed" in data else ""
        return f"{_short(names + result)}{replayed}"
    if "observation" in data:
        return _short(value_short(data["observation"]))
    if data.get("command") == "finish":
        return _short(f"finish: {value_short(data['answer'])}" if "answer" in data else "finish")
    if isinstance(data.get("calls"), dict):
        return _short(calls_text(data["calls"]))
    more = [_named(name, value) for name, value in data.items() if name not in FRAME]
    parts = [command_text(data)] if "command" in data else []
    parts += [value_short(data["answer"])] if "answer" in data else []
    return _short(" · ".join(part for part in (*parts, *more) if part)) or "done"


def command_text(data: Mapping[str, Any]) -> str:
    """Return a command as text: ``add amount=3 to=sum``.

    If there is only one argument, its name is left out.
    """
    args = _read(data.get("args"))
    if not isinstance(args, dict):
        return f"{data['command']} {data.get('args', '')}".strip()
    shown = [
        _word(value) if len(args) == 1 else f"{name}={_word(value)}" for name, value in args.items()
    ]
    return " ".join([str(data["command"]), *shown])


def calls_text(counts: Mapping[str, Any]) -> str:
    """Return the commands that a model called at once, as text.

    ``counts`` has the number of calls by command.
    """
    parts = [f"{many} {name}" if many != 1 else name for name, many in counts.items()]
    return f"calls at once: {', '.join(parts)}"


def value_short(value: Any) -> str:
    """Return a value of an event's data as text for people.

    Objects are ``name value`` pairs. The event may hold only the beginning of the value.
    """
    parsed = _read(value)
    if isinstance(parsed, dict):
        # Bisect's verdicts get a sentence of their own.
        if "outcome" in parsed and "commit" in parsed:
            code = "" if parsed.get("exit") is None else f" (exit {parsed['exit']})"
            return f"{parsed['commit']} is {parsed['outcome']}{code}"
        if isinstance(parsed.get("text"), str):
            return str(parsed["text"])
        return ", ".join(f"{name} {_word(each)}" for name, each in parsed.items())
    return _word(parsed)


def _between(event: Event) -> tuple[str, str]:
    data = event.data
    match event.type:
        case "submitted":
            return "submitted", "wait"
        case "lost":
            return (
                f"worker {data.get('owner', '?')} was lost; the round goes to another worker",
                "bad",
            )
        case "failed":
            wait = int(float(data.get("retry_in", 0))) / 1000
            return f"failed, retrying in {duration(wait)}: {_cause(data)}", "bad"
        case "waits":
            return _describe_wait(data), "wait"
        case "parked":
            return f"waits {parked_text(waited_for(data))}", "wait"
        case "woken":
            return _describe_waking(str(data.get("by", "time"))), "good"
        case "started":
            first, last = int(data.get("from", 0)) + 1, int(data.get("to", 0))
            which = f"run {last}" if first == last else f"runs {first} to {last}"
            return f"started child {which} of {data.get('total', '?')}", "good"
        case "signalled":
            signal = f"signal {data.get('name', '?')} {data.get('number', '')}".rstrip()
            return f"{signal}{_by_whom(data.get('by'))}", "good"
        case "unread":
            return f"ended without having read: {data.get('signals', '?')}", "bad"
        case "interrupted":
            return _asked(data), "wait"
        case "resumed":
            return _describe_resumption(data), "good"
        case "held_up":
            return f"waits for {data.get('budget', '?')} of run {data.get('of', '?')}", "wait"
        case "limits_raised":
            return f"more: {_added(str(data.get('added', '')))}{_by_whom(data.get('by'))}", "good"
        case "stop_requested":
            return f"stop requested{_describe_stop(data)}", "wait"
        case "stopped":
            return f"stopped{_describe_stop(data)}", "wait"
        case "completed" if "unfinished" in data:
            used = data["unfinished"]
            return f"unfinished after {used} of {used} {'cycle' if used == 1 else 'cycles'}", "wait"
        case "completed":
            return "completed", "good"
        case "errored":
            return f"errored: {_cause(data)}", "bad"
        case "retried":
            return "retried", "good"
        case "resent":
            return "its message was lost or late and was sent again", "wait"
        case "handed_on":
            return (
                (
                    f"worker {data.get('by', '?')} does not run this flow; "
                    f"passed to {data.get('to', '?')}"
                ),
                "wait",
            )
        case "renewed":
            return f"begins anew: generation {data.get('generation', '?')}", "good"
        case "trimmed":
            return "older events are gone: the run keeps only its newest ones", "wait"
        case "given_back":
            return "released: its worker could not begin it", "wait"
        case other:
            return " ".join(
                [other, *(f"{name} {_word(value)}" for name, value in data.items())]
            ), "wait"


def _describe_wait(data: Mapping[str, Any]) -> str:
    """Return why a round waits: for a provider or for code, since and until when, and the cause."""
    since, until = (int(float(data.get(name, 0))) for name in ("since", "until"))
    waits = waits_for_code if data.get("for") == "code" else waits_for_provider
    return f"{waits(since, until)}: {_cause({'error': data.get('reason', '')})}"


def _describe_waking(by: str) -> str:
    """Return what woke a parked run: its time, a signal, or the end of child runs."""
    if by.startswith("children "):
        return "enough of its child runs have ended"
    return f"woken by {'its time' if by == 'time' else f'signal {by}'}"


def _describe_resumption(data: Mapping[str, Any]) -> str:
    """Return who resumed a run, with which answer and budgets."""
    parts = [] if data.get("answer") is None else [value_short(data["answer"])]
    parts += [
        f"{amount(name, more)} more {name}" for name, more in (data.get("added") or {}).items()
    ]
    answer = f" with {', '.join(parts)}" if parts else ""
    return f"resumed{answer}{_by_whom(data.get('by'))}"


def _describe_stop(data: Mapping[str, Any]) -> str:
    """Return the end of a sentence about a stop.

    It says who stopped the run, why, and which round is in doubt.
    """
    return "".join(
        f", {name} {data[key]}"
        for name, key in (("by", "by"), ("because", "reason"), ("in doubt", "in_doubt"))
        if data.get(key)
    )


def waited_for(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a parked run waits for, in the form that ``parked_text`` reads.

    ``data`` is that of the event ``parked``.
    """
    until = str(data.get("until", ""))
    names = [line.partition(" ")[0] for line in str(data.get("for", "")).splitlines()]
    at = datetime.fromtimestamp(int(until) / 1000, UTC).isoformat() if until.isdecimal() else None
    return {
        "signals": [name for name in names if not name.startswith(":")],
        "waits_for_children": [name for name in names if name.startswith(":")],
        "wait_until": at,
    }


def _by_whom(name: Any) -> str:
    """Return the end of a sentence: who answered or sent a signal.

    The text is '' if ``name`` is empty. If it is ``deadline``, no person answered in time.
    """
    return "" if not name else " (its deadline passed)" if name == "deadline" else f" by {name}"


def _asked(data: Mapping[str, Any]) -> str:
    """Return an interrupt's question, read from its event.

    If the question is about a command, the text names the command.
    """
    for label, name in (("asks for approval", "approval"), ("in doubt", "in_doubt")):
        about = data.get(name)
        if isinstance(about, dict) and "command" in about:
            return f"{label}: {command_text(about)}"
    limit, spent = data.get("limit"), data.get("spent")
    if (
        "budget" in data
        and isinstance(limit, int | float)
        and isinstance(spent, int | float)
        and limit > 0
    ):
        return f"budget exhausted: {budget(str(data['budget']), limit, spent)}"
    return f"interrupted: {data.get('reason', '')}"


def _added(lines: str) -> str:
    """Return an event's added budgets as text. Each of ``lines`` is NAME MILLIONTHS."""
    pairs = (line.partition(" ") for line in lines.splitlines())
    return ", ".join(f"{amount(name, from_millionths(number))} {name}" for name, _, number in pairs)


def _cause(data: Mapping[str, Any]) -> str:
    """Return an event's error without run, step and node. The row shows these already."""
    return re.sub(r"^run \S+, step \d+, node \S+: ", "", str(data.get("error", "")))


def _read(text: Any) -> Any:
    """Return the JSON value in a text of an event.

    If the JSON was cut off, return its intact part. Any other value is returned unchanged.
    """
    if not isinstance(text, str) or not text.startswith(("{", "[")):
        return text
    for attempt in (text, text.rpartition(',"')[0] + "}"):
        try:
            return json.loads(attempt)
        except (ValueError, RecursionError):
            continue
    return text


def _named(name: str, value: Any) -> str:
    return f"{_word(value)} left" if name == "left" else f"{name} {_word(value)}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return plain(GIT_ID.sub(r"\1", text))
