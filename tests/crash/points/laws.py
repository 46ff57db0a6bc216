"""The laws of a story, seen from outside: the invariants of the engine, each by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perdure.flows.core.budgets import RUNS
from perdure.flows.core.outcomes import Command, Turn
from perdure.worker.domain.record import EARLIER_CYCLES, GENERATION, Record
from perdure.worker.domain.tree_amounts import TREE, millionths
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.errors import DamagedRun
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES
from tests.crash.points.faults import DIES_AFTER, DIES_BEFORE, PAUSES_AFTER, PAUSES_BEFORE
from tests.crash.points.plot import Plot, value_of
from tests.support.runs import assert_lawful

if TYPE_CHECKING:
    from perdure.worker.store import Store
    from tests.crash.points.story import Story

#: Where a fault can lose a message that was taken from its list: until its round is claimed, and
#: nowhere else.
TAKEN = ("RPOP", "LMOVE", "delivered", "claim_round")
#: Faults that may cost a worker its round; a lost answer does not.
GONE = (DIES_BEFORE, DIES_AFTER, PAUSES_BEFORE, PAUSES_AFTER)
#: When a run is looked at again whose message is to be made (sweep_due.lua), in ms.
UNMADE = 1_000
#: The possible ends of a round, and the reasons for refusing a claim, if only the faults of these
#: stories happen.
WORDS = {
    "continued",
    "completed",
    "interrupted",
    "stopped",
    "errored",
    "waiting",
    "parked",
    "queued",
    "given up",
}
WORDS |= {"fenced", "stale", "finished", "early", "leased"}


class Violation(AssertionError):
    """A law that does not hold, by its name."""

    def __init__(self, law: str, what: str) -> None:
        super().__init__(f"{law}: {what}")
        self.law = law


def at_a_death(story: Story) -> Iterator[Violation]:
    """Yield the laws that are broken in the instant in which a process has died, before its death
    is noticed.
    """
    store = story.inspector
    for index in INDEXES:
        for run_id in store.redis.zrange(store.keys.index(index), 0, -1):
            try:
                assert_lawful(store, run_id)
            except AssertionError as error:
                yield Violation("at a death", str(error))
            fields, due = (
                store.reads.fields(run_id) or {},
                store.redis.zscore(store.keys.due, run_id),
            )
            # Where the lease was over and a sweep asked for the run's message (decision 29), it is
            # due again soon.
            lease_until, asked = int(fields.get("lease_until", 0)), not fields["message"]
            soon = due is not None and lease_until <= story.now and due <= story.now + UNMADE
            if fields["phase"] == "leased" and due != lease_until and not (asked and soon):
                yield Violation(
                    "at a death", f"leased until {fields['lease_until']}, and due at {due}"
                )
    if wrong := unpaid(store):
        yield Violation("C10", wrong)


def unpaid(store: Store) -> str:
    """Describe a run that does not know the spending of the runs below it; return "" if all do."""
    runs = [
        store.reads.fields(run_id) or {}
        for index in (*INDEXES, *CHILD_INDEXES)
        for run_id in store.redis.zrange(store.keys.index(index), 0, -1)
    ]
    below: Counter[tuple[str, str]] = Counter()
    for record in map(Record, runs):
        for payer in record.payers:
            for name, amount in record.spent.items():
                below[payer.run_id, name] += millionths(amount)
    known = {
        (fields["id"], name.removeprefix(TREE)): int(text)
        for fields in runs
        for name, text in fields.items()
        if name.startswith(TREE) and name != f"{TREE}{RUNS}"
    }
    return "" if known == dict(below) else f"spent below are {dict(below)}, known are {known}"


def violations(story: Story) -> list[Violation]:
    """Return all laws that a story breaks, whether it ended or not."""
    laws = (
        _without_end(story)
        if any(violation.law == "V1" for violation in story.found)
        else _all(story)
    )
    return [*story.found, *(Violation(law, what) for law, what in laws)]


def _without_end(story: Story) -> Iterator[tuple[str, str]]:
    yield from _told(story)
    if story.person.run_id is not None:
        events = [entry for _, entry in story.inspector.events.read(story.person.run_id)]
        yield from _commits(story.inspector.reads.fields(story.person.run_id) or {}, events)


def _all(story: Story) -> Iterator[tuple[str, str]]:
    store, plot, run_id = story.inspector, story.plot, story.person.run_id
    listed = {
        name: [
            *store.redis.zrange(store.keys.index(name), 0, -1),
            *store.redis.zrange(store.keys.index(of_children), 0, -1),
        ]
        for name, of_children in zip(INDEXES, CHILD_INDEXES, strict=True)
    }
    completed, children = listed.pop("completed"), []
    if run_id is not None:
        nonce = (store.reads.fields(run_id) or {}).get("nonce", "")
        children = store.family.children(run_id, nonce)
        if len(children) != plot.children or len(set(children)) != plot.children:
            yield "C1", f"each child is started once; started were {children}"
    if any(listed.values()) or sorted(completed) != sorted([str(run_id), *children]):
        yield (
            "I11",
            f"one submission is one run, which is not lost; it is {run_id}, listed are {completed}, {listed}",
        )
        return
    fields = store.reads.fields(run_id) or {}
    events = [entry for _, entry in store.events.read(run_id)]
    yield from _log(story, fields, events)
    yield from _content(story, run_id, fields)
    yield from _effects(story, run_id)
    if wrong := unpaid(store):
        yield "C10", wrong
    if Record(fields).tree.get("tokens", 0) != 7 * plot.children:
        yield "C10", f"the children spent 7 tokens each, known are {Record(fields).tree}"
    yield from _told(story)
    yield from _leftovers(story, fields)
    operations = [line.split(" ")[0] for line in fields.get("ops", "").splitlines()]
    if len(set(operations)) != len(operations):
        yield "I13", f"an operation was done twice: {operations}"
    claims = sum(plot.attempts.values()) + plot.children
    if int(fields["token"]) > claims + _fired(story):
        yield (
            "I16",
            f"{fields['token']} claims, where the plot takes {claims} and {_fired(story)} faults happened",
        )


def _log(
    story: Story, fields: dict[str, str], events: list[dict[str, str]]
) -> Iterator[tuple[str, str]]:
    plot, kinds = story.plot, [event["type"] for event in events]
    yield from _commits(fields, events)
    committed = [event for event in events if event["type"] == "committed"]
    if len(committed) != plot.steps:
        yield "I1", f"the plot has {plot.steps} steps, {len(committed)} are committed"
    if fields["phase"] != "completed" or fields["status"] != "completed":
        yield "I2", f"the run is {fields['phase']}, and {fields['status']} to those who look"
    if kinds.count("completed") != 1 or kinds[-1] != "completed":
        yield "I7", f"one end, and nothing after it; it happened: {kinds}"
    asked, broke, stopped = plot.asks is not None, plot.breaks is not None, plot.is_stopped
    expected = {
        "submitted": 1,
        "interrupted": asked,
        "resumed": asked + stopped,
        "stopped": stopped,
        "errored": broke,
        "retried": broke,
        "signalled": plot.awaits is not None,
        "renewed": plot.renews is not None,
    }
    found = {kind: kinds.count(kind) for kind in expected}
    if found != {kind: int(times) for kind, times in expected.items()}:
        yield "I13", f"each operation is done once: expected {expected}, found {found}"
    answers = [
        event["answer"]
        for event in events
        if event["type"] == "resumed" and event["answer"] != "null"
    ]
    if len(answers) != asked:
        yield "I10", f"an answer is used once; given were {answers}"
    for event in committed:
        taken, expects = int(event["attempt"]), plot.attempts.get(int(event["step"]), 0)
        if not 1 <= taken <= expects + _fired(story):
            yield (
                "I16",
                f"step {event['step']} took {taken} attempts, where the plot takes {expects} and {_fired(story)} faults happened",
            )
    waiting = False  # whether the run stood still by request
    for event in events:
        waiting = event["type"] == "stopped" or (waiting and event["type"] != "resumed")
        if waiting and event["type"] == "committed":
            yield "I8", f"step {event['step']} was committed while the run was stopped"
    resent, lost = kinds.count("resent"), kinds.count("lost")
    struck = [story.wire.trace[fault.at].name for fault in story.faults if fault.fired]
    if not story.outbox and resent > sum(name in TAKEN for name in struck):
        yield (
            "I6",
            f"{resent} messages were not where the commit had put them; the faults struck at {struck}",
        )
    gone = sum(
        fault.kind in GONE and story.wire.trace[fault.at].actor.startswith("worker")
        for fault in story.faults
        if fault.fired
    )
    if lost > gone:
        yield "V5", f"{lost} rounds were given to others, where {gone} workers died or stood still"
    if resent + lost > _fired(story):
        yield (
            "V4",
            f"{resent} messages sent again and {lost} rounds given to others, for {_fired(story)} faults",
        )


def _commits(fields: dict[str, str], events: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    log = [int(event["step"]) for event in events if event["type"] == "committed"]
    if log != list(range(len(log))):
        yield "I1", f"a log has each step once and in order, this one is {log}"
    if int(fields.get("step", -1)) != len(log):
        yield "I2", f"{len(log)} rounds are in the log, the state says {fields.get('step')}"


def _content(story: Story, run_id: str, fields: dict[str, str]) -> Iterator[tuple[str, str]]:
    plot, record = story.plot, Record(fields)
    try:
        record.check()
        turns = unpack_turns(run_id, story.inspector.reads.memory(run_id))
    except DamagedRun as error:
        yield "I14", str(error)
        return
    if turns != [
        Turn(Command("effect", {"number": n}), observed)
        for n, observed in enumerate(plot.answer, plot.forgotten)
    ] or (record.turns, record.forgotten) != (plot.effects, plot.forgotten):
        yield "I14", f"the history reads back as {turns}"
    if plot.renews is not None:
        yield from _renewal(plot.renews, plot, record)
    assert story.person.end is not None
    if story.person.end.answer != plot.answer:
        yield "I2", f"the answer is {story.person.end.answer}, expected {plot.answer}"


def _renewal(effect: int, plot: Plot, record: Record) -> Iterator[tuple[str, str]]:
    """Check for one generation more, its cycles counted from 0, and no earlier value."""
    counts = tuple(map(record.count, (GENERATION, EARLIER_CYCLES)))
    own = {name: value for name, value in record.values.items() if name.startswith("of effect")}
    expected = {value_of(number): number for number in range(effect, plot.effects)}
    # The round that renews ends no cycle.
    if (*counts, record.cycles) != (1, effect, plot.effects - effect - 1) or own != expected:
        yield (
            "renewal",
            f"renewed once, by effect {effect}: {counts}, {record.cycles} cycles, {own}",
        )


def _effects(story: Story, run_id: str) -> Iterator[tuple[str, str]]:
    plot, receiver = story.plot, story.receiver
    own = {key: effect for key, effect in receiver.applied.items() if key.startswith(f"{run_id}:")}
    of_children = sorted(effect for key, effect in receiver.applied.items() if key not in own)
    if of_children != [f"child {n}" for n in range(plot.children)]:
        yield "C1", f"each child has one effect; applied were {receiver.applied}"
    by_step = {
        int(key.removeprefix(f"{run_id}:").split(":")[0]): effect for key, effect in own.items()
    }
    if by_step != {2 * n + 1: n for n in range(plot.effects)} or len(own) != plot.effects:
        yield "I12", f"each effect once, for each committed step; applied were {receiver.applied}"
    tries = Counter(receiver.tried)
    if any(
        count > (plot.attempts.get(int(key.split(":")[1]), 0) if key in own else 1) + _fired(story)
        for key, count in tries.items()
    ):
        yield "I16", f"an effect was tried too often: {tries}"


def _told(story: Story) -> Iterator[tuple[str, str]]:
    """Check the claims, commits and stops that the processes received, in order; late answers say
    nothing of the order.
    """
    tokens = [
        details["token"]
        for what, details in story.told
        if what == "granted" and not details["late"]
    ]
    if tokens != sorted(set(tokens)):
        yield "I3", f"tokens only grow; granted were {tokens}"
    stopping, left = False, 0
    for what, details in story.told:
        match what:
            case "commit":
                yield from _commit(story, details)
                # A stop reaches children when a client or a sweep has looked after them.
                of_child = details["run"] != story.person.run_id
                if stopping and details["word"] == "ok" and not details["late"] and not of_child:
                    left -= 1
                    if left < 0:
                        yield "I8", f"{details} was committed after the stop was acknowledged"
            case "stop acknowledged":
                stopping, left = True, 0 if details["stopped"] else 1
            case "resuming":
                stopping = False
            case "granted" if (
                stopping and not details["late"] and details["run"] == story.person.run_id
            ):
                yield "I8", f"{details} was claimed after the stop was acknowledged"
            case "played" if details["word"] not in WORDS:
                yield "a known word", f"a round came to {details['word']!r}"


def _commit(story: Story, details: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stops_now = story.plot.stops is not None and story.plot.stops[1] == "now"
    if details["word"] == "ok" and details["token"] != details["newest"] and not details["late"]:
        yield "I4", f"only the newest token commits: {details}"
    if details["word"] == "fenced" and not (stops_now or story.sleepers.slept):
        yield "V5", f"a worker that lived was robbed of its round: {details}"
    if details["word"] not in ("ok", "fenced"):
        yield "a known word", f"a commit came to {details}"


def _leftovers(story: Story, fields: dict[str, str]) -> Iterator[tuple[str, str]]:
    store = story.inspector
    leaked = {name: fields[name] for name in ("claim_id", "owner", "lease_until") if name in fields}
    held = [lease for worker in story.workers for lease in worker.heartbeat.leases]
    if leaked or held:
        yield "I5", f"a lease outlived its round: {leaked}, {held}"
    due = store.redis.zrange(store.keys.due, 0, -1, withscores=True)
    waiting = {
        queue: story.broker.llen(queue) + story.broker.llen(story.unacknowledged(queue))
        for queue in store.keys.queue_names
    }
    follow_ups = store.redis.zrange(store.keys.follow_ups, 0, -1)
    if due or any(waiting.values()) or follow_ups:
        yield (
            "nothing is left",
            f"after the end are due: {due}; messages: {waiting}; follow-ups: {follow_ups}",
        )


def _fired(story: Story) -> int:
    return sum(fault.fired for fault in story.faults)
