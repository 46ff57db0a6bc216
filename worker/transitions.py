"""From what a round came to, to what its commit shall write. Pure: frozen data in, frozen data out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, cast

from flows.base import Flow
from flows.durations import as_seconds
from flows.errors import FatalError, RetryableError, UnstorableValue
from flows.outcomes import Advance, End, Interrupt, Outcome, Turn
from flows.retries import Retry
from flows.values import canonical, storable
from worker.durations import duration
from worker.errors import type_of
from worker.execution_state import ExecutionStatus
from worker.gate import Pause, pause_behind, pause_between, rounds_exhausted
from worker.record import ENDING, SINCE, UNFINISHED, VALUE, Record, content_of, digest_of_content, pack_turn, version_of
from worker.retries import backoff
from worker.settings import Settings

#: Waits for a provider that is busy or away, and says nothing of when: the first one, and the longest (s).
BUSY_WAITS = (1.0, 60.0)

Kind = Literal["next", "end", "pause_next", "pause_here", "failed", "give_back", "damaged"]

#: No wait is longer than ten years (in seconds): times must stay whole numbers that Lua counts exactly.
LONGEST = 10 * 365.25 * 86_400

#: Characters of an error text that are kept; it goes into the hash, the events and every look at the run.
ERROR_LENGTH = 4000

#: Of a character in UTF-8.
MOST_BYTES = 4


@dataclass(frozen=True, slots=True)
class NextMessage:
    """Which round's message the commit stores: node, epoch and step."""

    node: str
    epoch: int
    step: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """What commit_round.lua is asked to write; ``options`` are its further arguments.

    ``cause``: the type of what the round failed with, for those who trace it; empty where it did not fail.
    """

    kind: Kind
    fields: Mapping[str, str] = field(default_factory=dict)
    additions: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = field(default_factory=dict)
    message: NextMessage | None = None
    options: Mapping[str, str | int] = field(default_factory=dict)
    cause: str = field(default="", compare=False)

    @property
    def is_done(self) -> bool:
        """Whether the step is over with it."""
        return self.kind in ("next", "end", "pause_next")


def settle(
    record: Record,
    flow: Flow,
    outcome: Outcome,
    remembered: Mapping[str, Any],
    settings: Settings,
    told: Mapping[str, Any] | None = None,
) -> Settlement:
    """The settlement of a round that came to ``outcome``.

    Args:
        record: the run as the round's claim read it.
        remembered: the values that the node remembered; the outcome's own win.
        told: what else the round's event says, beside the outcome's summary.

    Raises:
        UnstorableValue: something handed back does not read back equal, or is over a limit.
        FatalError: the next node is none of the flow's.
    """
    node = record.node
    settlement = _settled(record, flow, node, outcome, remembered, told or {})
    _check_sizes(record, settlement, settings)
    return settlement


def failure(
    record: Record, error: BaseException, settings: Settings, jitter: float, retry: Retry | None = None, bounds: Retry | None = None
) -> Settlement:
    """The settlement of a round that raised: tried again after a wait, or the end of the run.

    Args:
        retry: the flow's policy for this round; what it leaves out the settings say.
        bounds: what the submission says, which can only tighten it.
    """
    text = str(error) if isinstance(error, FatalError | RetryableError) else f"{type(error).__name__}: {error}"
    where = f"run {record.id}, step {record.step}"
    told = text if text.startswith(where) else f"{where}, node {record.node}: {text}"
    busy = isinstance(error, RetryableError) and not error.counts
    policy = _policy(retry, settings, busy).tightened(bounds)
    options: dict[str, str | int] = {"error": _sound(told), "max_failures": policy.max_attempts or settings.max_attempts}
    if isinstance(error, FatalError) or not policy.retries(error):
        return Settlement("failed", options={**options, "fatal": 1, "delay": 0}, cause=type_of(error))
    number = (_waits(record) if busy else int(record.fields.get("failures", "0"))) + 1
    initial, maximum = cast(float, policy.initial), cast(float, policy.maximum)
    wait = backoff(number, initial, maximum, jitter, policy.multiplier or 2.0, 0.5 if policy.jitter is None else policy.jitter)
    if isinstance(error, RetryableError) and error.retry_after is not None and math.isfinite(error.retry_after):
        wait = min(max(error.retry_after, 0.0), LONGEST)
    if policy.patience is not None:
        options |= {"within": _ms(policy.patience), "spent": _sound(f"{told}. It was tried for {duration(policy.patience)} (within)")}
    if busy:
        options["uncounted"] = 1
    return Settlement("failed", options={**options, "delay": _ms(wait)}, cause=type_of(error))


def _policy(retry: Retry | None, settings: Settings, busy: bool) -> Retry:
    """The policy of a round, completed by the settings; a busy provider is waited for, whatever the waits after failures are."""
    if busy:
        least = Retry(settings.max_attempts, *BUSY_WAITS, within=settings.patience_seconds)
    else:
        least = Retry(settings.max_attempts, settings.retry_delay_seconds, settings.retry_delay_max_seconds)
    return least if retry is None else retry.over(least)


def _waits(record: Record) -> int:
    """How often in a row this step has waited for its provider."""
    epoch, step, _, waits = (record.fields.get("failing", "").split(" ") + [""] * 4)[:4]
    return int(waits) if (epoch, step) == (str(record.epoch), str(record.step)) and waits.isdecimal() else 0


def quarantine(error: Exception) -> Settlement:
    """The settlement of a run whose content is not what was stored."""
    return Settlement("damaged", options={"error": _sound(str(error))}, cause=type_of(error))


GIVE_BACK = Settlement("give_back")


def hold_up(record: Record, interrupt: Interrupt) -> Settlement:
    """The settlement of a round that is not played: a limit is reached, and a person decides."""
    settlement = _pause_here(record, record.node, interrupt)
    return replace(settlement, fields={**settlement.fields, "i_kind": "budget"})


def with_accounts(record: Record, settlement: Settlement, accounts: Mapping[str, str]) -> Settlement:
    """The settlement that also writes ``accounts`` (fields of the run's content, and its intents)."""
    if not accounts or settlement.kind == "damaged":
        return settlement
    fields = {**settlement.fields, **accounts}
    return replace(settlement, fields={**fields, **_sealed(record, content_of(fields))})


def pause_fields(pause: Pause) -> dict[str, str]:
    """The hash fields of an interrupt at a boundary between nodes."""
    kind = "before" if pause.status is ExecutionStatus.INTERRUPTED_BEFORE else "after"
    return {"i_kind": kind, "i_status": pause.status.value, "i_node": pause.node, "i_reason": pause.reason}


def _settled(record: Record, flow: Flow, node: str, outcome: Outcome, remembered: Mapping[str, Any], told: Mapping[str, Any]) -> Settlement:
    if isinstance(outcome, Interrupt):
        return _pause_here(record, node, outcome)
    values = {name: storable(value, f"the value {name!r}") for name, value in {**remembered, **outcome.values}.items()}
    turns = tuple(
        pack_turn(Turn(turn.command, storable(turn.observation, f"the observation of node {node}")), record.id) for turn in outcome.turns
    )
    options = {"data": canonical(storable({**outcome.summary, **told}, "the summary"))}
    artifacts = {name: str(storable(text, f"the artifact {name!r}")) for name, text in outcome.artifacts.items()}
    changed = {VALUE + name: canonical(value) for name, value in values.items()}
    changed["turns"] = str(record.turns + len(turns))
    if isinstance(outcome, Advance):
        cycles = record.cycles + outcome.ends_cycle
        changed["cycles"] = str(cycles)
        if not (outcome.ends_cycle and rounds_exhausted(cycles, record.max_rounds)):
            return _advance(record, flow, node, outcome.node, changed, turns, artifacts, options)
        _check_next(flow, node, outcome.node)
        # What would come next is kept: the run may be given more cycles, and goes on there in a new epoch.
        changed["current_node"] = outcome.node
        message = NextMessage(outcome.node, record.epoch + 1, record.step + 1)
        end = _end(record, node, flow.exhausted({**record.values, **values}), changed, {UNFINISHED: str(cycles)})
        return replace(end, additions=turns, artifacts=artifacts, message=message, options=options)
    return replace(_end(record, node, outcome, changed), additions=turns, artifacts=artifacts, options=options)


def _end(record: Record, node: str, end: End, changed: dict[str, str], beside: Mapping[str, str] = MappingProxyType({})) -> Settlement:
    """The settlement of the last round; where a person wants to look behind its node, they do so before the answer goes out.

    Args:
        changed: the content that changes beside answer and output. beside: further fields, which are no content.
    """
    changed["answer"] = canonical(storable(end.answer, "the answer"))
    changed["output"] = canonical(storable(end.output, "the output"))
    fields = {**_sealed(record, changed), **beside}
    pause = pause_behind(node, record.json("interrupt_after", []))
    if pause is None:
        return Settlement("end", fields)
    # An older worker would play the last node again. By its version the run waits for one that knows what it has come to.
    return Settlement("pause_next", {**fields, **pause_fields(pause), ENDING: "1", "schema": version_of([*record.fields, ENDING])})


def end_of(record: Record) -> Settlement:
    """The settlement of a round that is not to be played: the run's end is committed, and a client of an earlier release resumed it."""
    return Settlement("end", {name: record.fields[name] for name in (UNFINISHED,) if name in record.fields}, options={"data": "{}"})


def _advance(
    record: Record,
    flow: Flow,
    node: str,
    coming: str,
    changed: dict[str, str],
    turns: tuple[str, ...],
    artifacts: Mapping[str, str],
    options: Mapping[str, str | int],
) -> Settlement:
    """The settlement of a finished round that ``coming`` follows, at once or after a person has looked."""
    _check_next(flow, node, coming)
    fields = _sealed(record, {**changed, "current_node": coming})
    pause = pause_between(node, coming, record.json("interrupt_before", []), record.json("interrupt_after", []))
    kind: Kind = "next"
    epoch = record.epoch
    if pause is not None:  # the message is of the next epoch: the one that an answer begins
        kind, epoch, fields = "pause_next", epoch + 1, {**fields, **pause_fields(pause)}
    return Settlement(kind, fields, turns, artifacts, NextMessage(coming, epoch, record.step + 1), options)


def _check_next(flow: Flow, node: str, coming: str) -> None:
    if coming not in flow.nodes:
        raise FatalError(f"node {node} asked for the next node {coming!r}; flow {flow.name!r} has: {', '.join(flow.nodes)}")


def _pause_here(record: Record, node: str, interrupt: Interrupt) -> Settlement:
    fields = {
        "i_kind": "node",
        "i_status": ExecutionStatus.INTERRUPTED_BEFORE.value,
        "i_node": node,
        "i_reason": str(storable(interrupt.reason, "the interrupt's reason")),
        "i_default": canonical(storable(interrupt.default, "the interrupt's default")),
    }
    if interrupt.data is not None:
        data = storable(interrupt.data, "the interrupt's data")
        fields["i_data"] = canonical(data if isinstance(data, dict) else {"data": data})
    if interrupt.deadline is not None:
        try:
            seconds = as_seconds(interrupt.deadline)
        except ValueError as error:
            raise UnstorableValue(f"the interrupt's deadline: {error}") from error
        if not math.isfinite(seconds) or seconds > LONGEST:
            raise UnstorableValue(f"the interrupt's deadline is {seconds!r} seconds; leave it out where nobody needs to answer in time")
        fields["i_wait"] = str(_ms(max(seconds, 0.0)))
    return Settlement("pause_here", fields, message=NextMessage(node, record.epoch + 1, record.step))


def _sealed(record: Record, changed: Mapping[str, str]) -> dict[str, str]:
    """The changed fields of the content with the digest over the content as it will be."""
    content = {**record.content, **changed}
    version = {} if SINCE.keys().isdisjoint(changed) else {"schema": version_of([*record.fields, *changed])}
    return {**changed, **version, "digest": digest_of_content(content)}


def _check_sizes(record: Record, settlement: Settlement, settings: Settings) -> None:
    """Refuse what one round may not add, and what a run may not hold beside its history."""
    if _surely_fits(record, settlement, settings):
        return
    new = [text for name, text in settlement.fields.items() if record.fields.get(name) != text]
    added = _size([*new, *settlement.additions, str(settlement.options.get("data", ""))])
    if added > settings.max_addition_bytes:
        raise UnstorableValue(
            f"step {record.step} would add {added} bytes to the run; at most {settings.max_addition_bytes} are taken "
            "from one round (max_addition_bytes). Hand back less, or a reference to it"
        )
    changed = {name: text for name, text in settlement.fields.items() if name.startswith(VALUE)}
    held = _size([*{**record.value_texts, **changed}.values()])
    if held > settings.max_state_bytes:
        raise UnstorableValue(
            f"the named values would take {held} bytes; at most {settings.max_state_bytes} are kept beside the history "
            "(max_state_bytes). Store large things elsewhere and remember where"
        )


def _surely_fits(record: Record, settlement: Settlement, settings: Settings) -> bool:
    """Whether no closer look is needed, for which all is copied: there are few characters."""
    data = settlement.options.get("data", "")
    written = sum(map(len, settlement.fields.values())) + sum(map(len, settlement.additions)) + len(str(data))
    held = written + sum(map(len, record.value_texts.values()))
    return MOST_BYTES * written <= settings.max_addition_bytes and MOST_BYTES * held <= settings.max_state_bytes


def _size(texts: list[str]) -> int:
    return len("".join(texts).encode("utf-8", "surrogateescape"))


def _sound(text: str) -> str:
    """An error text as storable Unicode of bounded length: an exception's message may hold anything."""
    sound = text.encode("utf-8", "replace").decode("utf-8")
    return sound if len(sound) <= ERROR_LENGTH else f"{sound[:ERROR_LENGTH]} ... ({len(sound)} characters)"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
