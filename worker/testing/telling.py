"""How a trace tells of what rounds and sweeps came to."""

from __future__ import annotations

from collections.abc import Sequence

from flows.outcomes import End, Interrupt, Outcome
from worker.testing.story import Call, called, short

#: What the sweep's words mean; the others are routine.
swept = {
    "freed": "the lease lapsed; the sweep queued the round again",
    "delayed": "the lease lapsed again; the sweep will queue the round after a wait",
    "stopped": "the lease lapsed; the sweep stopped the run, as was asked for",
    "resent": "the message was lost; the sweep sent it again",
    "woken": "its time came; the sweep queued the round",
    "answered": "the deadline passed; the sweep answered with the default",
    "errored": "the sweep ended the run as errored",
    "damaged": "the run is damaged; the sweep looks at it no more",
}


def told_outcome(outcome: Outcome, calls: Sequence[Call]) -> str:
    """What a round came to."""
    if isinstance(outcome, Interrupt):
        return f"asks a person: {outcome.reason}"
    gave = f"{calls[-1].name} gave {short(outcome.turns[-1].observation)}" if calls and outcome.turns else ""
    if isinstance(outcome, End):
        return f"{gave}{', and ' if gave else ''}ends the run with {short(outcome.answer)}"
    if gave:
        return gave
    if "command" in outcome.values and not calls:
        return f"decides {called(outcome.values['command'], outcome.values.get('command_args', {}))}"
    shown = {name: value for name, value in outcome.values.items() if not name.startswith("_")}
    return f"is done, and hands back {short(shown)}" if shown else "is done"


def label_of(node: str, outcome: Outcome, calls: Sequence[Call]) -> str:
    """What was played, to name the boundary behind it: ``after {label}``."""
    if calls:
        return calls[-1].name
    if isinstance(outcome, Interrupt):
        return f"{node} asked"
    if isinstance(outcome, End):
        return f"{node} ended the run"
    return f"deciding {outcome.values['command']}" if "command" in outcome.values else node
