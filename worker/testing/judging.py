"""Judging: what must hold of every story, whatever the flow, and what is to be done where it does not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.testing.story import Story, short

Check = Callable[[Story], Any]


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a story, in a sentence; ``ours`` where no flow could be the reason, but Holdfast itself."""

    text: str
    ours: bool = False


def faults_of(story: Story, undisturbed: Story, same_answer: bool, heeds_stop: bool) -> Iterator[Wrong]:
    """What the lab itself finds wrong."""
    if "it is quarantined" in (story.run.error or ""):
        yield Wrong(f"what Holdfast stored of the run is damaged: {story.run.error}", ours=True)
    if story.status is not undisturbed.status:
        error = f": {story.run.error}" if story.run.error else ""
        yield Wrong(f"the run ended {story.status.value}, undisturbed it ends {undisturbed.status.value}{error}")
    elif same_answer and story.answer != undisturbed.answer:
        yield Wrong(f"the run's answer is {short(story.answer)}, undisturbed it is {short(undisturbed.answer)}")
    steps = [event.step for event in story.events if event.type == "committed"]
    if steps != list(range(story.run.state.step)):
        yield Wrong(f"the steps committed are {steps}, expected each of 0 to {story.run.state.step - 1} once, in order", ours=True)
    for before, after in zip(story.events, story.events[1:], strict=False):
        if before.type == "stopped" and after.type != "resumed":
            yield Wrong(f"the run was stopped, and {after.type} followed", ours=True)
    usual = attempts_of(undisturbed)
    for step, attempts in attempts_of(story).items():
        if attempts > usual.get(step, 1) + 1:
            yield Wrong(
                f"step {step} took {attempts} attempts; undisturbed it takes {usual.get(step, 1)}, and one fault may cost one more",
                ours=True,
            )
    for (step, attempt, name, worker), count in Counter((c.step, c.attempt, c.name, c.worker) for c in story.calls).items():
        if count > max(1, sum(c.step == step and c.attempt == 1 and c.name == name for c in undisturbed.calls)):
            yield Wrong(f"{name} was called {count} times in attempt {attempt} of step {step} by worker {worker}", ours=True)
    keys = defaultdict(set)
    for call in story.calls:
        keys[(call.step, str(call))].add(call.key)
    for (step, call_text), found in keys.items():
        if len(found) > 1:
            yield Wrong(f"step {step}: {call_text} got different idempotency keys: {', '.join(sorted(found))}", ours=True)
    if heeds_stop and story.went_on:
        yield Wrong(f"a command went on after the run had been stopped (mode now): it passed {', '.join(map(repr, story.went_on))}")


def attempts_of(story: Story) -> dict[int, int]:
    """The number of attempts that each step took, as its commands and its log know them."""
    attempts: dict[int, int] = {}
    for step, attempt in [*((c.step, c.attempt) for c in story.calls), *((e.step, e.attempt) for e in story.events)]:
        attempts[step] = max(attempts.get(step, 0), attempt)
    return attempts


def fault_of_check(story: Story, check: Check | None) -> Wrong | None:
    """What the user's own check says: it returns False or a text, or raises, where something is wrong."""
    if check is None:
        return None
    try:
        verdict = check(story)
    except AssertionError as error:
        return Wrong(f"the check failed: {str(error) or f'an assertion without a text{_place(check)}'}")
    except Exception as error:
        return Wrong(f"the check raised {type(error).__name__}: {error}{_place(check)}")
    if isinstance(verdict, str):
        return Wrong(f"the check failed: {verdict}") if verdict else None
    return None if verdict is None or verdict else Wrong(f"the check returned {verdict!r}{_place(check)}")


def _place(check: Check) -> str:
    code = getattr(check, "__code__", None)
    return f" ({Path(code.co_filename).name}, line {code.co_firstlineno})" if code is not None else ""


def advice(story: Story, wrong: Wrong) -> str:
    """What is probably to be done about a story that went wrong."""
    if wrong.ours:
        return "This is no fault of the flow: Holdfast broke a promise. Please report it, with this text and the flow."
    lost = next((line.text for line in story.trace.lines if "it does not have" in line.text), None)
    if lost is not None:
        what = lost.partition("it does not have ")[2].partition(" = ")[0]
        return (
            f"{what} is kept in the process, where another worker does not find it. Return it from the node, or "
            "context.remember(name, value): what a run knows is in its context."
        )
    if story.went_on:
        return "Look at context.stop_requested, or call context.raise_if_stopped(), before each further effect."
    repeated = [call for call in story.calls if sum(c.name == call.name and c.step == call.step for c in story.calls) > 1]
    if repeated:
        name = repeated[0].name
        if repeated[-1].worker < repeated[0].worker:
            return (
                f"A worker that had been given up carried {name} out when the others had long gone on. Its commit is refused, its effect "
                "is not: only the receiver can tell that it is too late. Pass context.idempotency_key, and nothing happens twice."
            )
        if not any(call.key_read for call in repeated):
            return (
                f"{name} was called more than once for one step, and never looked at context.idempotency_key. A worker can always die "
                "between an effect and its commit. Pass that key to the receiver (it is the same on every attempt), or ask there first "
                "whether it is done."
            )
        return (
            f"{name} was called more than once for one step. It did look at context.idempotency_key: is that key, and nothing made "
            "anew on each attempt, what reaches the receiver, and does the receiver (or what stands in for it) do nothing the second time?"
        )
    return (
        "No command was called twice. What does the flow know that is not in its context (a clock, chance, a global, a file), or what "
        "did the round do outside of a command?"
    )
