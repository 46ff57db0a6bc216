"""Rules for stories, and advice on mending a flow that breaks a rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from perdure.worker.domain.event import TRIMMED
from perdure.worker.testing.story import Story, short

Check = Callable[[Story], Any]


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule.

    Attributes:
        text: The violation as a sentence.
        ours: Whether only a bug in Perdure, and no flow, can cause the violation.
    """

    text: str
    ours: bool = False


def faults_of(
    story: Story, undisturbed: Story, same_answer: bool, heeds_stop: bool
) -> Iterator[Violation]:
    """Yield a violation for each general rule that a story breaks.

    For example, each step must be committed once, and the run must end as in ``undisturbed``.

    Args:
        undisturbed: The story without a fault.
        same_answer, heeds_stop: As for ``Lab``.
    """
    if "quarantined" in story.run.details:
        yield Violation(f"what Perdure stored of the run is damaged: {story.run.error}", ours=True)
    if story.status is not undisturbed.status:
        error = f": {story.run.error}" if story.run.error else ""
        yield Violation(
            f"the run ended {story.status.value}, but undisturbed it ends "
            f"{undisturbed.status.value}{error}"
        )
    elif same_answer and story.answer != undisturbed.answer:
        yield Violation(
            f"the run's answer is {short(story.answer)}, but undisturbed it is "
            f"{short(undisturbed.answer)}"
        )
    steps = [event.step for event in story.events if event.type == "committed"]
    is_trimmed = story.events[:1] and story.events[0].type == TRIMMED
    first = steps[0] if is_trimmed and steps else 0
    if steps != list(range(first, story.run.state.step)):
        yield Violation(
            f"the steps committed are {steps}, expected each of {first} to "
            f"{story.run.state.step - 1} once, in order",
            ours=True,
        )
    # A signal may come in any phase.
    events = [event for event in story.events if event.type != "signalled"]
    for before, after in pairwise(events):
        if before.type == "stopped" and after.type != "resumed":
            yield Violation(
                f"the event {after.type} followed although the run was stopped", ours=True
            )
    usual = attempts_of(undisturbed)
    # After a lost worker, an attempt may only ask a person whether the effect happened.
    asked = Counter(event.step for event in story.events if event.type == "interrupted")
    asked.subtract(event.step for event in undisturbed.events if event.type == "interrupted")
    for step, attempts in attempts_of(story).items():
        if attempts > usual.get(step, 1) + 1 + max(0, asked[step]):
            yield Violation(
                f"step {step} took {attempts} attempts; undisturbed it takes "
                f"{usual.get(step, 1)}, and one fault may cost one more",
                ours=True,
            )
    for (step, attempt, name, worker), count in Counter(
        (c.step, c.attempt, c.name, c.worker) for c in story.calls
    ).items():
        if count > max(
            1, sum(c.step == step and c.attempt == 1 and c.name == name for c in undisturbed.calls)
        ):
            yield Violation(
                f"{name} was called {count} times in attempt {attempt} of step {step} by "
                f"worker {worker}",
                ours=True,
            )
    keys = defaultdict(set)
    for call in story.calls:
        keys[(call.step, str(call))].add(call.key)
    for (step, call_text), different_keys in keys.items():
        if len(different_keys) > 1:
            yield Violation(
                f"step {step}: {call_text} got different idempotency keys: "
                f"{', '.join(sorted(different_keys))}",
                ours=True,
            )
    if heeds_stop and story.went_on:
        yield Violation(
            "a command continued after the run was stopped (mode now): "
            f"it passed {', '.join(map(repr, story.went_on))}"
        )


def attempts_of(story: Story) -> dict[int, int]:
    """Return the number of attempts of each step of a story, by step."""
    attempts: dict[int, int] = {}
    for step, attempt in [
        *((c.step, c.attempt) for c in story.calls),
        *((e.step, e.attempt) for e in story.events),
    ]:
        attempts[step] = max(attempts.get(step, 0), attempt)
    return attempts


def fault_of_check(story: Story, check: Check | None) -> Violation | None:
    """Return the violation found by the test's own check.

    The check fails if it raises an exception, or returns False or a non-empty text.

    Returns:
        The violation, or None if the check does not fail or the test has no check.
    """
    if check is None:
        return None
    try:
        verdict = check(story)
    except AssertionError as error:
        return Violation(
            f"the check failed: {str(error) or f'an assertion without a text{_place(check)}'}"
        )
    except Exception as error:
        return Violation(f"the check raised {type(error).__name__}: {error}{_place(check)}")
    if isinstance(verdict, str):
        return Violation(f"the check failed: {verdict}") if verdict else None
    return (
        None
        if verdict is None or verdict
        else Violation(f"the check returned {verdict!r}{_place(check)}")
    )


def _place(check: Check) -> str:
    code = getattr(check, "__code__", None)
    return (
        f" ({Path(code.co_filename).name}, line {code.co_firstlineno})" if code is not None else ""
    )


def advice(story: Story, wrong: Violation) -> str:
    """Return advice on mending a flow.

    If only Perdure can cause the violation, the advice is to report a bug in Perdure.

    Args:
        story: The story that broke a rule.
        wrong: The violation of the rule.
    """
    if wrong.ours:
        return (
            "This is a bug in Perdure, not in the flow. Please report it, "
            "with this text and the flow."
        )
    lost = next((line.text for line in story.trace.lines if "it does not have" in line.text), None)
    if lost is not None:
        what = lost.partition("it does not have ")[2].partition(" = ")[0]
        return (
            f"{what} exists only in the process, so another worker does not have it. "
            "Return it from the node, or call "
            "context.remember(name, value): a run's data belongs in its context."
        )
    if story.went_on:
        return (
            "Check context.stop_requested, or call context.raise_if_stopped(), "
            "before each further effect."
        )
    repeated = [
        call
        for call in story.calls
        if sum(c.name == call.name and c.step == call.step for c in story.calls) > 1
    ]
    if repeated:
        name = repeated[0].name
        if repeated[-1].worker < repeated[0].worker:
            return (
                f"A worker whose lease had expired executed {name} after other workers had "
                "continued the run. Its commit is refused, "
                "but its effect is not: only the receiver can detect the repetition. "
                "Pass context.idempotency_key to it."
            )
        if not any(call.key_read for call in repeated):
            return (
                f"{name} was called more than once for one step, "
                "and never read context.idempotency_key. A worker can always die "
                "between an effect and its commit. Pass that key to the receiver (every "
                "attempt has the same key), or first ask "
                "the receiver whether the effect has happened."
            )
        return (
            f"{name} was called more than once for one step. It did read "
            "context.idempotency_key. Check that this key, and nothing "
            "created per attempt, reaches the receiver, and that the receiver (or its fake) "
            "does nothing the second time."
        )
    if any(event.type == "parked" for event in story.events):
        return (
            "The run waits, and a node runs from its beginning again after each wait. Put each "
            "effect before a wait into context.once, and let no path depend on what context.take "
            "finds."
        )
    return (
        "No command was called twice. Check whether the flow depends on anything outside its "
        "context (a clock, randomness, a global, "
        "a file), or whether the round has effects outside of a command."
    )
