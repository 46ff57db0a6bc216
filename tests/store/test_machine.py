"""One run, several workers, and every possible event in any order: the real server goes where the
model goes.

Messages are lost, doubled and late; workers die and wake up as zombies; replies are lost and
requests sent again; flows are paused; time passes with sweepers and without. hypothesis chooses
each move among those that the model (tests/model) allows, all kinds of them in one story, with
times to the millisecond. It is made on both sides: the model's laws hold, the replies agree, and so
do the states. Facts outside the model are checked on the server: its history, its counts, the step
in doubt, and that a move which changes nothing in the model writes nothing. At the end of each
story the run is driven to its end.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perdure.worker.store import Store
from tests.model.comparison import difference
from tests.model.configurations import Config
from tests.model.moves import Move, act, possible
from tests.model.replay import Replay, Sent
from tests.model.rules import Rules
from tests.model.state import World
from tests.model.transitions import DONE
from tests.support.redis_servers import CrashableServer
from tests.support.runs import LEASE, START, clock, events, everything, hash_of
from tests.support.transition_counters import counted, scanned

RUN = "r0"
RULES = Rules()
#: More than any story counts to, so the model does not stop counting: ms, steps and epochs.
FAR = 10**10
#: A tick is a millisecond. Everything that one run can meet is switched on.
EVERYTHING = Config(
    "all that can happen to one run",
    steps=FAR, epochs=FAR, slots=4, clients=2, longest=100,
    kinds=(
        "next", "end", "end_unfinished", "pause_next", "pause_end", "pause_unfinished", "pause_here", "pause_here_deadline",
        "failed", "try_again", "busy", "fatal", "give_back", "damaged",
    ),
    operations=("stop:graceful", "stop:now", "resume", "resume:answer", "resume:more", "retry"),
    late=("resume", "resume:answer", "resume:more", "retry"),
    mute=True, again=True, doubles=True, fetches=True, stays=True, unheard=True, beats=True, forfeits=True, hurries=True,
    intents=True, ignorant=True, pauses=True, silence=True, forgetful=True,
    tick=1, lease=LEASE, grace=2_000, delay=1_000, hold=Store.paused_look, start=3_000, answer_within=2_500, unmade=1_000,
    max_failures=3, max_losses=2, oldest=100 * FAR, overdue=100 * FAR,
)  # fmt: skip
#: The moves of each kind; they are chosen with the same chance, whatever else is possible.
MESSAGES = ("take", "again", "deliver", "resend_claim", "double")
ROUNDS = ("commit", "fetch", "stay", "begin", "resend_commit", "resend_stay")
BESIDES = ("beat", "intend", "record", "forfeit", "forfeit_other", "die")
PEOPLE = ("op", "look", "send", "resend", "pause", "unpause", "offer")
#: Moves that write data outside the model: the time of a sweep, the reply to a refused operation,
#: the time of a heartbeat.
UNSEEN = ("sweep", "forget", "tick", "op", "look", "send", "beat", "pause", "unpause")
ENDS = {"completed": ("resumed",), "errored": ("retried",), "stopped": ("resumed",)}
#: The counts of sweeps, by their word.
COUNTED_OF_SWEEPS = ("resent", "freed", "delayed", "overran", "answered")
#: The history events of a commit, a sweep and an operation, by the word of their answer.
BY_COMMIT = {
    "continued": [], "completed": ["completed"], "interrupted": ["interrupted"], "stopped": ["stopped"], "errored": ["errored"],
    "queued": ["given_back"], "waiting": ["failed"],
}  # fmt: skip
BY_SWEEP = {
    "resent": ["resent"], "freed": ["lost"], "delayed": ["lost"], "overran": ["failed"], "answered": ["resumed"],
    "stopped": ["stopped"], "errored": ["errored"],
}  # fmt: skip
#: Replies that a run remembers (KEPT_OPERATIONS in operations.lua). The model remembers them all.
KEPT_OPERATIONS = 16
BY_OPERATION = {
    "queued": ["resumed"], "waiting": ["resumed"], "interrupted": ["resumed", "interrupted"], "completed": ["resumed", "completed"],
    "stopped stopped": ["stopped"], "asked leased": ["stop_requested"],
}  # fmt: skip


class Machine(RuleBasedStateMachine):
    """See the module."""

    url: str
    prefix: str
    made = 0
    moves = 0

    def __init__(self) -> None:
        super().__init__()
        Machine.made += 1
        self.store = Store(self.url, f"{self.prefix}m{Machine.made}", now=START)
        self.swept: Counter[str] = Counter()  # the run's results in sweeps
        self.unfinished = 0  # how often it ended with its cycles used up
        self.ticked = False
        self.calls = 0  # operations that have reached the server
        self.unheard: dict[
            Sent, int
        ] = {}  # those whose reply was lost, and how many had come before

    @initialize(
        start=st.sampled_from(["queued", "queued", "waiting", "interrupted"]),
        deadline=st.sampled_from([None, None, 9_000]),
        timeout=st.sampled_from([None, 6_000]),
        patience=st.sampled_from([None, 4_000]),
        pauses=st.sampled_from([False, False, True]),
        queues=st.sampled_from([1, 2]),
    )
    def submitted(
        self,
        start: str,
        deadline: int | None,
        timeout: int | None,
        patience: int | None,
        pauses: bool,
        queues: int,
    ) -> None:
        config = replace(
            EVERYTHING,
            starts=(start,),
            deadline=deadline,
            round_timeout=timeout,
            within=patience,
            pauses=pauses,
            queues=queues,
        )
        self.config = config
        [self.state] = config.initial(RULES)
        self.real = Replay(self.store, config)
        self.real.begin(start)

    # The moves.

    def world(self) -> World:
        return World(self.state, self.config, RULES)

    def seen(self) -> dict[str, Any]:
        """Return all keys, without a hold that has lapsed: it may be removed or not."""
        found, now = everything(self.store), clock(self.store)
        fields, _ = found.get(self.store.keys.run(RUN), ({}, -1))
        if int(fields.get("held_until", now + 1)) <= now:
            del fields["held_token"], fields["held_until"]
        return found

    def is_forgotten(self, place: int) -> bool:
        """Return whether the run no longer remembers its reply to a client's operation."""
        return self.calls - self.unheard[self.real.clients[place]] >= KEPT_OPERATIONS

    def choose(self, data: st.DataObject, names: tuple[str, ...]) -> None:
        """Make one of the moves of these names, if there is one."""
        moves = [
            move
            for move in possible(self.world())
            if move[0] in names and not (move[0] == "resend" and self.is_forgotten(move[1]))
        ]
        there = sorted({move[0] for move in moves})
        if there:
            name = data.draw(st.sampled_from(there))
            named = [move for move in moves if move[0] == name]
            # Most stories need more rounds that another one follows.
            self.make(
                data.draw(st.sampled_from(named + 8 * [move for move in named if "next" in move]))
            )

    def make(self, move: Move) -> Any:
        """Make a move on both sides, and compare them."""
        world, before = self.world(), self.seen()
        run, logged = hash_of(self.store, RUN), len(events(self.store, RUN))
        reply = act(world, move)
        expected = reply.rstrip("!") if isinstance(reply, str) else reply
        answer = self.real.make(move, self.world())
        self.calls += move[0] in ("op", "send")
        for client in self.real.clients:
            self.unheard.setdefault(client, self.calls)
        assert answer == expected, f"{move}: the server answered {answer}, the model {expected}"
        was, self.state = self.state, world.frozen()
        self.real.align(world)
        if server(was) == server(self.state) and move[0] not in UNSEEN:
            assert self.seen() == before, f"{move}: answered {answer}, and wrote"
        differs = difference(self.store, self.world())
        assert not differs, f"{move}: {differs}"
        self.logged(move, answer, events(self.store, RUN)[logged:])
        self.stored(move, run)
        self.ticked = move[0] == "tick"
        Machine.moves += 1
        return answer

    @rule(data=st.data())
    def a_message_arrives(self, data: st.DataObject) -> None:
        self.choose(data, MESSAGES)

    @rule(data=st.data(), rounds=st.integers(1, 3))
    def a_worker_plays_rounds(self, data: st.DataObject, rounds: int) -> None:
        """Play rounds: the most frequent events, which are else seldom chosen."""
        for _ in range(rounds):
            if all(slot.state != "plays" for slot in self.world().slots):
                can = possible(self.world())
                takes = [("take", queue, "heard") for queue in range(self.config.queues)]
                for move in [move for move in takes if move in can][:1]:
                    self.make(move)
            self.choose(data, ROUNDS)

    @rule(data=st.data(), stays=st.integers(0, 3))
    def a_worker_takes_a_message_and_its_run_stays(self, data: st.DataObject, stays: int) -> None:
        self.choose(data, ("take",))
        for _ in range(stays):
            self.choose(data, ("stay",))
            self.choose(data, ("begin",))
        self.choose(data, ROUNDS)

    @rule(data=st.data())
    def something_happens_in_a_round(self, data: st.DataObject) -> None:
        self.choose(data, BESIDES)

    @rule(data=st.data())
    def a_person_acts(self, data: st.DataObject) -> None:
        self.choose(data, PEOPLE)

    @rule(data=st.data())
    def a_worker_sweeps(self, data: st.DataObject) -> None:
        self.choose(data, ("sweep", "forget"))

    @precondition(lambda self: not self.ticked)
    @rule(
        ms=st.sampled_from([1, 500, 1_000, 2_000, 2_500, 4_000, 9_000, 20_000]),
        silent=st.sampled_from([False, False, True]),
    )
    def time_passes(self, ms: int, silent: bool = False) -> None:
        """Let time pass; without ``silent``, sweepers are at work, so that it is no silence."""
        self.make(("tick", ms))
        if silent:
            return
        world = self.world()
        world.swept_at = 0
        self.state = world.frozen()
        self.store.redis.hset(self.store.keys.queues, "swept_at", clock(self.store))

    # A run in line is looked at after twice the time each time: no story goes to where the model
    # stops counting.
    @precondition(lambda self: (self.run.due or 0) < FAR)
    @rule()
    def its_time_comes(self) -> None:
        """Move to the run's due time: a lease lapses, a wait is over, a deadline or a grace has
        passed; sweepers were at work meanwhile.
        """
        if self.run.due is not None:
            if self.run.due > 0:
                self.time_passes(self.run.due)
            self.make(("sweep", None))

    @property
    def run(self) -> Any:
        return self.world().runs[0]

    # Facts outside the model.

    def logged(self, move: Move, answer: Any, new: list[dict[str, str]]) -> None:
        """Check a move's new events in the history."""
        kinds = [event["type"] for event in new]
        self.unfinished += any("unfinished" in event for event in new)
        match move:
            case ("commit" | "fetch", _, kind, *_):
                word = answer.partition(",")[0]
                expected = ["committed"] if kind in DONE and word != "fenced" else []
                expected += BY_COMMIT.get(word, [])
                if kind == "busy" and word == "waiting":  # not every wait is logged
                    expected = ["waits"] if kinds else []
            case ("stay", *_):
                expected = ["committed"] if answer == "ok" else []
            case ("sweep", *_):
                words = [word for _, word in answer]
                self.swept.update(words)
                expected = [kind for word in words for kind in BY_SWEEP.get(word, [])]
                if words == ["errored"] and kinds[0] == "lost":
                    expected.insert(0, "lost")
            case ("op" | "send", *_):
                expected = BY_OPERATION.get(answer, [])
                if "retried" in kinds:
                    expected = ["retried", *expected[1:]]
                elif answer == "asked leased" and not kinds:  # it was asked for before
                    expected = []
            case ("resend_commit" | "resend_stay" | "resend_claim", *_):  # it was done before
                expected = []
            case _:
                expected = ["stopped"] if answer == "stopped" else []
        assert kinds == expected, f"{move}: answered {answer}, and logged {kinds}"

    def stored(self, move: Move, before: dict[str, str]) -> None:
        """Check that a round that a stop met in flight is in doubt, unless it was done; and that
        nothing goes back.
        """
        after = hash_of(self.store, RUN)
        for name in ("epoch", "step", "token"):
            assert int(after[name]) >= int(before[name]), f"I3: {move}: {name} went back"
        if after["phase"] == "leased" and after["claim_id"] != before.get("claim_id"):
            assert int(after["token"]) > int(before["token"]), "I3: each claim has its own token"
        if before["phase"] == "leased" and after["phase"] == "stopped":
            kind = move[2] if move[0] in ("commit", "fetch") else ""
            flight = f"{before['step']}/{before['current_node']}/{before['attempt']}"
            assert after["in_doubt"] == ("" if kind in DONE else flight)

    @invariant()
    def all_of_it(self) -> None:
        fields, log = hash_of(self.store, RUN), events(self.store, RUN)
        assert len(self.store.reads.memory(RUN)) == int(fields["step"]), (
            "I2: each commit of this machine adds one turn"
        )
        self.the_state_tells_the_phase(fields)
        self.one_end_an_epoch_and_nothing_after_it(fields, log)
        self.the_counts_are_what_a_look_at_all_runs_counts()

    def the_counts_are_what_a_look_at_all_runs_counts(self) -> None:
        expected = {f"moves:{word}:ring": self.swept[word] for word in COUNTED_OF_SWEEPS}
        expected["moves:unfinished:ring"] = self.unfinished
        found = counted(self.store)
        found.pop("moves:provider_waits:ring", None)
        told = {name: count for name, count in expected.items() if count}
        assert found == {**scanned(self.store, RUN), **told}

    def the_state_tells_the_phase(self, fields: dict[str, str]) -> None:
        phase, stop, status = fields["phase"], fields["stop_current_execution"], fields["status"]
        assert (phase == "stopped") == (stop == "stopped") and (
            stop != "stop_requested" or phase == "leased"
        )
        expected = {
            "stopped": ("interrupted_after",),
            "completed": ("completed",),
            "errored": ("error",),
        }
        paused = ("interrupted_before", "interrupted_after")
        assert status in expected.get(phase, paused if phase == "interrupted" else ("running",))
        assert ("owner" in fields) == ("lease_until" in fields) == (phase == "leased")

    def one_end_an_epoch_and_nothing_after_it(
        self, fields: dict[str, str], log: list[dict[str, str]]
    ) -> None:
        ended, asked, since_asked = None, False, 0
        for event in log:
            kind = event["type"]
            if ended is not None:
                assert kind in ENDS[ended], f"I7: {kind} after {ended}"
            ended = kind if kind in ENDS else None
            asked = kind == "stop_requested" or (asked and kind not in ("resumed", "retried"))
            since_asked = since_asked + (kind == "committed") if asked else 0
            assert since_asked <= 1, "I8: at most one commit after graceful"
        assert (ended or "") == (fields["phase"] if fields["phase"] in ENDS else ""), (
            "I7: the log ends as the run did"
        )

    def teardown(self) -> None:
        """Check that every state can settle: people answer, workers work, and it ends completed."""
        try:
            if hasattr(self, "real"):
                self.settled()
        finally:
            found: Any = self.store.redis.keys(f"{self.store.keys.prefix}*")
            if found:
                self.store.redis.delete(*found)
            self.store.close()

    def settled(self) -> None:
        if self.world().paused:
            self.make(("unpause",))
        for _ in range(60):
            world = self.world()
            if self.run.phase == "completed":
                return
            mine = [
                place
                for place, slot in enumerate(world.slots)
                if slot.token == self.run.token and slot.state == "plays"
            ]
            wishes: list[Move] = {
                "stopped": [("op", 0, "resume:answer", True)],
                "interrupted": [("op", 0, "resume:answer", True)],
                "errored": [("op", 0, "retry", True)],
                "leased": [("commit", place, "end", True) for place in mine],
            }.get(self.run.phase, [("take", queue, "heard") for queue in range(self.config.queues)])
            can = possible(world)
            move = next((wish for wish in wishes if wish in can), None)
            if move is not None:
                self.make(move)
            elif world.slots and len(world.slots) == self.config.slots:
                self.make(("die", 0))
            else:
                self.its_time_comes()
        raise AssertionError(f"it does not settle: {hash_of(self.store, RUN)}")


def server(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the server's and the broker's data of a frozen state, without the knowledge of workers
    and clients.
    """
    runs, _, _, *rest = state
    return runs, *rest


def explore(server: CrashableServer, prefix: str, **chosen: Any) -> int:
    """Play stories on ``server``; how many moves were the same there and in the model."""
    Machine.made = Machine.moves = 0
    machine = type("OneRun", (Machine,), {"url": server.url, "prefix": prefix})
    run_state_machine_as_test(
        machine,
        settings=settings(
            deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, **chosen
        ),
    )
    print(
        f"\nstate machine: {Machine.made} stories, {Machine.moves} moves, each compared with the model"
    )
    assert Machine.made >= chosen["max_examples"]
    return Machine.moves


@pytest.mark.timeout(300)
def test_one_run_and_all_that_can_happen(server: CrashableServer, prefix: str) -> None:
    # Shrinking may take minutes: `make test-all` finds the short story.
    assert (
        explore(
            server,
            prefix,
            max_examples=30,
            stateful_step_count=30,
            derandomize=True,
            phases=[Phase.generate],
        )
        > 30 * 10
    )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_more_stories_of_one_run(server: CrashableServer, prefix: str) -> None:
    # CI plays the same stories each time, other machines play others; a failing story is shortened
    # and printed, to be repeated.
    assert (
        explore(
            server, prefix, max_examples=300, stateful_step_count=50, derandomize="CI" in os.environ
        )
        > 300 * 10
    )
