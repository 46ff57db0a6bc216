"""Laws of a history, one function a law.

Each yields a violation with the fewest records that show it.

The numbers are the invariants of the design (I1 to I15, V1): the part that is visible from outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from tests.soak.history import Effect, Event, History

Item = TypeVar("Item")
ENDINGS = ("completed", "errored", "stopped")
GOES_ON = {"errored": "retried", "stopped": "resumed"}
SETTLED = ("completed", "errored", "stopped", "interrupted")


@dataclass(frozen=True)
class Violation:
    """A law that is broken: in which run, in a sentence, and the records that show it."""

    law: str
    run: str
    text: str
    witness: Sequence[Any]


Law = Callable[[History], Iterator[Violation]]
LAWS: dict[str, Law] = {}


def law(
    name: str,
) -> Callable[[Callable[[History], Iterator[tuple[str, str, Sequence[Any]]]]], Law]:
    """Make a law of a function that yields run, sentence and witness of each violation."""

    def named(finds: Callable[[History], Iterator[tuple[str, str, Sequence[Any]]]]) -> Law:
        def judged(history: History) -> Iterator[Violation]:
            for run, text, witness in finds(history):
                yield Violation(name, run, text, witness)

        LAWS[name] = judged
        return judged

    return named


Found = Iterator[tuple[str, str, Sequence[Any]]]


@law("an acknowledged submit is never lost (I11)")
def no_submit_is_lost(history: History) -> Found:
    ended = {end.run for end in history.ends}
    for call in history.calls:
        if call.name == "submit" and call.outcome == "acknowledged" and call.run not in ended:
            yield call.run, "it was submitted, and the server does not know it", [call]


@law("one idempotency key, one run (I11)")
def one_key_one_run(history: History) -> Found:
    submits = [
        call
        for call in history.calls
        if call.name == "submit" and call.outcome == "acknowledged" and call.key
    ]
    for key, calls in grouped(submits, lambda call: str(call.key)).items():
        other = next((call for call in calls if call.run != calls[0].run), None)
        if other is not None:
            yield other.run, f"key {key} made a second run", [calls[0], other]


@law("a run is submitted once (I13)")
def submitted_once(history: History) -> Found:
    for run, events in streams_of(history).items():
        first = [event for event in events if event.type == "submitted"]
        if len(first) != 1:
            yield run, f"its stream says submitted {len(first)} times", first


@law("the commit log is 0..n-1: no gap, no double, in order (I1)")
def log_is_gapless(history: History) -> Found:
    for run, events in streams_of(history).items():
        previous = None
        for event in events:
            if event.type != "committed":
                continue
            expected = 0 if previous is None else previous.step + 1
            if event.step != expected:
                yield (
                    run,
                    f"step {event.step} was committed where {expected} was to be",
                    [previous, event] if previous else [event],
                )
                break
            previous = event


@law("the state is the log (I2)")
def state_is_log(history: History) -> Found:
    streams = streams_of(history)
    for end in history.ends:
        committed = [event.step for event in streams.get(end.run, ()) if event.type == "committed"]
        if end.step != len(committed):
            yield end.run, f"its state counts {end.step} rounds, its log {len(committed)}", [end]
        elif end.answer is not None and list(end.answer) != committed:
            yield (
                end.run,
                f"its answer was made of the steps {list(end.answer)}, its log has {committed}",
                [end],
            )
        elif end.status == "completed" and end.step != history.rounds_of(end):
            yield (
                end.run,
                f"it completed after {end.step} rounds of {history.rounds_of(end)}",
                [end],
            )


@law("one end an epoch, and nothing after it (I7)")
def one_end_an_epoch(history: History) -> Found:
    for run, events in streams_of(history).items():
        over: Event | None = None
        for event in events:
            if (
                over is not None
                and event.type != GOES_ON.get(over.type)
                and event.type in (*ENDINGS, "committed", "failed", "interrupted")
            ):
                yield (
                    run,
                    f"after it was {over.type} came {event.type}, and nobody had taken it up again",
                    [over, event],
                )
                break
            if event.type in ENDINGS:
                over = event
            elif event.type in GOES_ON.values():
                over = None


@law("after a graceful stop at most one round is committed (I8)")
def at_most_one_after_a_stop(history: History) -> Found:
    for run, events in streams_of(history).items():
        asked: Event | None = None
        after: list[Event] = []
        for event in events:
            if event.type == "stop_requested":
                asked, after = event, []
            elif event.type in ("resumed", "retried"):
                asked = None
            elif event.type == "committed" and asked is not None:
                after.append(event)
                if len(after) > 1:
                    yield (
                        run,
                        "two rounds were committed after its stop was asked for",
                        [asked, *after],
                    )
                    break


@law("stop against finish agrees with the replies (I9)")
def stops_are_kept(history: History) -> Found:
    streams = streams_of(history)
    for call in history.calls:
        if (
            call.name not in ("stop", "stop_now")
            or call.outcome != "acknowledged"
            or call.reply.get("status") != "stopped"
        ):
            continue
        at = call.reply.get("step")
        if not any(
            event.type == "stopped" and event.step == at for event in streams.get(call.run, ())
        ):
            yield (
                call.run,
                f"its stop was acknowledged at step {at}, and its stream does not know of it",
                [call],
            )


@law("nothing is resumed or retried that nobody asked for, nor twice (I10, I13)")
def asked_for_once(history: History) -> Found:
    for name, word in (("resume", "resumed"), ("retry", "retried")):
        asked = grouped(
            [call for call in history.calls if call.name == name and call.outcome != "refused"],
            lambda call: call.run,
        )
        for child in history.children:  # continuing a parent continues its children
            asked[child.run] += [
                call
                for call in history.calls
                if call.run == child.parent
                and call.name in ("resume", "retry")
                and call.outcome != "refused"
            ]
        for run, events in streams_of(history).items():
            done = [
                event
                for event in events
                if event.type == word and event.data.get("by") != "deadline"
            ]
            if len(done) > len(asked.get(run, ())):
                yield (
                    run,
                    f"it was {word} {len(done)} times, asked for {len(asked.get(run, ()))} times",
                    [*asked.get(run, ()), *done],
                )


@law("no attempt is played twice (I4, I5)")
def no_attempt_twice(history: History) -> Found:
    tried = [effect for effect in history.effects if effect.what == "tried"]
    for (run, step, attempt), effects in grouped(
        tried, lambda effect: (effect.run, effect.step, effect.attempt)
    ).items():
        if len(effects) > 1:
            yield (
                run,
                f"attempt {attempt} of step {step} was played {len(effects)} times",
                effects[:2],
            )


@law("a step has one key, and its receiver applies it once (I12)")
def one_key_a_step(history: History) -> Found:
    for (run, step), effects in grouped(
        history.effects, lambda effect: (effect.run, effect.step)
    ).items():
        other = next((effect for effect in effects if effect.key != effects[0].key), None)
        if other is not None:
            yield run, f"step {step} had two keys", [effects[0], other]
    for key, effects in grouped(_applied(history), lambda effect: effect.key).items():
        if len(effects) > 1:
            yield (
                effects[0].run,
                f"the effect of {key} was applied {len(effects)} times",
                effects[:2],
            )


@law("every committed step has its effect, and none is ahead of the log (I12, I6)")
def effects_match_the_log(history: History) -> Found:
    applied = {(effect.run, effect.step) for effect in _applied(history)}
    ends = {end.run: end for end in history.ends}
    for event in history.events:
        if event.type == "committed" and (event.run, event.step) not in applied:
            yield event.run, f"step {event.step} was committed, and its effect is missing", [event]
    for effect in history.effects:
        end = ends.get(effect.run)
        if end is not None and effect.step > end.step:
            yield (
                effect.run,
                f"step {effect.step} was played, and the run has only come to step {end.step}",
                [effect, end],
            )


@law("a client never reads backwards while the server keeps its data (I15)")
def reads_go_forward(history: History) -> Found:
    for (_, run, _), reads in grouped(
        history.reads, lambda read: (read.client, read.run, read.server)
    ).items():
        for before, after in pairwise(sorted(reads, key=lambda read: read.at)):
            if (after.epoch, after.step) < (before.epoch, before.step):
                yield run, f"its step went from {before.step} back to {after.step}", [before, after]
                break


@law("after the quiet every run has settled (V1, V2)")
def all_settled(history: History) -> Found:
    stops = grouped(
        [
            call
            for call in history.calls
            if call.name in ("stop", "stop_now") and call.outcome != "refused"
        ],
        lambda call: call.run,
    )
    parents = {child.run: child.parent for child in history.children}
    for end in history.ends:
        if end.status not in SETTLED:
            yield end.run, f"it is still {end.status}, at step {end.step}", [end]
        elif end.status == "errored":
            yield end.run, f"it ended errored, and the workload does not: {end.error}", [end]
        elif end.status == "stopped" and not {end.run, parents.get(end.run)} & set(stops):
            yield end.run, "it is stopped, and nobody asked for that", [end]


@law("after the quiet nothing is left of runs at work (V1, V2)")
def nothing_is_left(history: History) -> Found:
    for name, count in history.left.items():
        if count:
            yield "", f"{count} are left in {name}", [dict(history.left)]


def _applied(history: History) -> list[Effect]:
    return [effect for effect in history.effects if effect.what == "applied"]


def streams_of(history: History) -> dict[str, list[Event]]:
    streams = grouped(history.events, lambda event: event.run)
    for end in history.ends:  # a run without any event is one to be judged, too
        streams.setdefault(end.run, [])
    return streams


def grouped(items: Iterable[Item], key: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    found: dict[Any, list[Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


__all__ = ["LAWS", "Found", "Law", "Violation", "grouped", "law", "streams_of"]
