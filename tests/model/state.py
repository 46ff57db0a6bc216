"""The state of the model: the data of server, broker, workers and clients, as nested tuples that
can be hashed.

Times are whole ticks, relative to now: 2 is in two ticks, 0 and less has passed. A world is thawed,
moved, and frozen again; freezing gives equal states equal tuples: unreadable values are dropped,
tokens and message numbers are renamed to their ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ENDED = ("completed", "errored")
LIVE = ("queued", "leased", "waiting", "parked")
#: An attempt is counted to here: nothing but people reads it, and the laws only ask whether it
#: fell.
MOST_ATTEMPTS = 2
#: A token of which only this is known still: it is none of a process that lives.
GONE = -1
#: A message that no hash will ever want again; which one it was does not matter.
STALE = (-1, -1)
#: The hash of a run that has stayed has no message: it is made when a process is to push it.
UNMADE = (-2, -2)
#: An attempt's mark for a wait that it passed because its time was over; signals are numbered from
#: 1.
OVER = 0
#: Of a commit: its fetch claimed nothing, or nothing that still stands.
NOTHING = (-1, 0)

#: The fields of a run's hash, and behind them the ghosts, which only the laws read.
RUN = (
    "phase", "epoch", "step", "token", "attempt", "failures", "losses", "stop", "due", "lease_until", "spared", "round_until",
    "number", "first_number", "grace", "looked", "age", "message", "queue", "waiting_for", "waiting_until", "held_token", "held_until",
    "last_token", "last_answer", "last_fetched", "i_id", "i_wait", "i_until", "i_answer", "deadline", "not_before", "unknown",
    "expires", "nonce", "intent", "result", "log", "since_stop", "was_spared", "forfeited", "begun", "returned",
    "erred", "ending", "unfinished", "patience", "fitting", "handed_on",
    "wait", "need", "wait_until", "over", "arrived", "taken", "passed", "heard", "generation", "spent",
)  # fmt: skip
TIMES = (
    "due",
    "lease_until",
    "spared",
    "round_until",
    "waiting_until",
    "held_until",
    "i_until",
    "deadline",
    "not_before",
    "patience",
    "fitting",
    "wait_until",
)


class Run:
    """One run, as its hash has it; ``None`` where a field is absent."""

    phase: str
    epoch: int
    step: int
    token: int
    attempt: int
    failures: int
    losses: int
    stop: str  # none, requested, stopped
    due: int | None
    lease_until: int | None
    spared: int | None
    round_until: int | None
    number: int
    first_number: int
    grace: int
    looked: bool
    age: int  # ticks since it was queued
    message: tuple[int, int]  # epoch and step that the stored message names, or UNMADE
    queue: int
    waiting_for: str
    waiting_until: int | None
    held_token: int
    held_until: int | None
    last_token: int
    last_answer: str
    last_fetched: int  # the run that the newest fetch of its commits claimed; -1 for none
    i_id: tuple[int, int] | None
    i_wait: int | None
    i_until: int | None
    i_answer: Any  # the interrupt that the answer was meant for
    deadline: int | None
    not_before: int | None
    unknown: int
    expires: bool
    nonce: int
    intent: int  # token of the first attempt that recorded the intent of its command; 0: none
    result: int  # the token of the attempt whose result was recorded
    log: int  # how many rounds have been committed
    since_stop: int | None  # rounds committed since an acknowledged stop, without a resume
    was_spared: bool  # this lease was spared, and has not been extended since
    forfeited: bool  # its owner is known to be dead
    begun: tuple[int, ...]  # the tokens of attempts of this step that may have begun its command
    returned: int  # the answer to the attempt that first recorded a result in this step
    erred: bool  # the failure of an attempt of this step is kept, for the next one
    ending: (
        bool  # the round that ends it is committed, and a person looks before its answer goes out
    )
    unfinished: bool  # it has used up its cycles, and may be given more
    patience: (
        int | None
    )  # until when the failures of this step and epoch are tried again; None: none failed, or for ever
    fitting: (
        int | None
    )  # until when this step and epoch waits for code that fits; None: none was found not to fit
    handed_on: (
        tuple[int, int] | None
    )  # epoch and step of the message that was forwarded to workers that play the flow
    wait: int  # the step's newest wait, by its place in the node; -1 for none
    need: int  # this number of unread signals ends it; 0: none does
    wait_until: int | None
    over: tuple[int, ...]  # the waits of this step of which it is recorded that their time passed
    arrived: int  # the number of the newest signal
    taken: int  # the number of the newest signal that a committed round has taken
    heard: int  # signals known to the claim of a committed round that read all
    passed: tuple[int, ...]  # the marks with which attempts of this step got past each wait
    generation: int  # how often it was renewed
    spent: int  # the spending of its committed rounds, one each

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.__dict__ = dict(zip(RUN, values))  # noqa: B905 (strict is slow; most of a search)

    def frozen(self) -> tuple[Any, ...]:
        return tuple(self.__dict__.values())

    @property
    def is_unmade(self) -> bool:
        """Whether it has no message, since it stayed."""
        return self.message == UNMADE


def new_run(**fields: Any) -> Run:
    """Return a run that has just been made; every field not given is absent."""
    empty: dict[str, Any] = dict.fromkeys(RUN)
    empty |= {
        "epoch": 0,
        "step": 0,
        "token": 0,
        "attempt": 0,
        "failures": 0,
        "losses": 0,
        "stop": "none",
        "number": 0,
        "first_number": 0,
    }
    empty |= {
        "looked": False,
        "age": 0,
        "queue": 0,
        "waiting_for": "",
        "held_token": 0,
        "last_token": 0,
        "last_answer": "",
        "last_fetched": -1,
    }
    empty |= {
        "expires": False,
        "nonce": 0,
        "log": 0,
        "was_spared": False,
        "forfeited": False,
        "message": (0, 0),
        "grace": 1,
    }
    empty |= {"intent": 0, "result": 0, "begun": (), "returned": 0, "unknown": 0, "erred": False}
    empty |= {"ending": False, "unfinished": False}
    empty |= {"wait": -1, "need": 0, "over": (), "arrived": 0, "taken": 0, "passed": (), "heard": 0}
    empty |= {"generation": 0, "spent": 0}
    return Run(tuple((empty | fields).values()))


class Slot(NamedTuple):
    """One worker process in the middle of a round; a killed one is no longer there.

    ``state``: plays · asks (its claim was sent, the reply was lost) · sent:KIND:ANSWER (its commit
    was answered, the reply was lost) · sent:stay:ok (the same, and its run stayed) · fetched (a
    commit claimed it, and it has not begun) · holds (a commit popped this message, and it is not
    claimed yet). ``until`` is the end of its lease as it knows it; ``own`` is false if its run was
    deleted meanwhile. ``fetched``: the run and the token that the commit whose reply was lost was
    granted under the claim that it brought. ``seen``: for each wait that its node has passed so
    far, the number of a signal, or OVER. ``parks``: the next one is not over, and it is about to
    commit that its run waits. ``knows``: how many signals its run had got, as its claim says.
    ``told``: how many it had got in truth; only the laws read it. ``late``: its end was refused,
    since something is unread.
    """

    run: int
    token: int
    epoch: int
    step: int
    state: str
    until: int
    own: bool
    fetched: tuple[int, int] = NOTHING
    seen: tuple[int, ...] = ()
    parks: bool = False
    knows: int = 0
    told: int = 0
    late: bool = False


class Client(NamedTuple):
    """A client that has looked at a run and not yet sent (``reply`` is None), or that has sent and
    not received the reply.

    ``remembered``: the reply that the server would repeat to this operation; "" where it knows
    nothing of it.
    """

    run: int
    kind: str  # stop:graceful, stop:now, resume, resume:answer, retry, submit
    epoch: int
    step: int
    i_id: Any
    reply: str | None
    remembered: str


class Family(NamedTuple):
    """The child group of run 0, the parent.

    ``ends`` is its hash's record of each place, ``children`` is the true state of each.
    """

    group: str = ""  # open, dropped
    started: int = 0
    ends: tuple[str, ...] = ()
    follow_up: bool = False
    walk: bool = False  # its follow-up has to look at each child, not only to start more
    children: tuple[str, ...] = ()
    callers: tuple[tuple[str, int, bool], ...] = ()  # (looks or starts, place, fresh)
    taken_up: bool = False  # a person took a child up, which the limit does not count
    spared: bool = False  # its parent is stopped alone
    alone: bool = False  # every stop that was asked for in this epoch was of the parent alone


class World:
    """A thawed state, with the fixed facts of its exploration: its configuration and its rules."""

    def __init__(self, frozen: tuple[Any, ...], config: Any, rules: Any) -> None:
        (
            runs,
            slots,
            clients,
            lists,
            handed,
            cursor,
            lines,
            self.paused,
            self.swept_at,
            self.silence,
            made,
            apart,
            self.able,
            wakers,
            self.family,
            self.topic,
        ) = frozen
        self.config, self.rules, self.origin = config, rules, frozen
        self.runs: list[Run | None] = [None if run is None else Run(run) for run in runs]
        self.slots: list[Slot] = list(slots)
        self.clients: list[Client] = list(clients)
        self.lists: list[tuple[Any, ...]] = list(
            lists
        )  # of each queue, the consuming end first: (run, (epoch, step))
        self.handed: list[Any] = list(
            handed
        )  # outbox: (queue, run, message) that a caller has not yet published
        #: The list that only workers consume which play the flow; ``able``: whether such a worker
        #: lives.
        self.apart: tuple[Any, ...] = apart
        self.cursor: list[int] = list(cursor)
        self.lines: list[frozenset[tuple[int, int]]] = list(lines)
        #: The messages that the last sweeping worker has made by its reply: (run, epoch, step).
        self.made: list[tuple[int, int, int]] = list(made)
        #: Senders of signals that know of the end of a run's wait, and have not yet brought its
        #: message: (run, epoch, step).
        self.wakers: list[tuple[int, int, int]] = list(wakers)
        #: The parent's group of children, in the configurations of families (family.py).
        self.family: Any
        #: The topic, in the configurations of topics (topics.py).
        self.topic: Any
        #: Whether something was cut that a real server would go on counting; a replay of the trace
        #: ends here.
        self.cut = False

    def make_follow_up(self, walk: bool) -> None:
        """Record that the family needs work.

        Without ``walk``, there are only more children to start.

        For a walk, each child has to be looked at, and callers in a walk begin again.
        """
        family = self.family._replace(follow_up=True)
        if walk:
            callers = [
                (does, place, fresh and (does == "starts" or place == 0))
                for does, place, fresh in family.callers
            ]
            family = family._replace(walk=True, callers=tuple(sorted(callers)))
        self.family = family

    def before(self, place: int) -> Run | None:
        """Return a run as it was before the move."""
        run = self.origin[0][place]
        return None if run is None else Run(run)

    def frozen(self) -> tuple[Any, ...]:
        """Return the state as a tuple that compares equal."""
        for run in self.runs:
            if run is not None:
                self._forget(run)
        if self.config.fetches or self.config.stays:
            self._forget_fetches()
        self._rename_numbers()
        self._rename_tokens()
        return (
            tuple([None if run is None else run.frozen() for run in self.runs]),
            tuple(sorted(self.slots)),
            tuple(sorted(self.clients, key=repr)) if len(self.clients) > 1 else tuple(self.clients),
            tuple([tuple([self._hint(*message) for message in line]) for line in self.lists]),
            tuple(self.handed),
            tuple(self.cursor),
            tuple(self.lines),
            self.paused,
            self.swept_at,
            self.silence,
            tuple(self.made),
            tuple([self._hint(*message) for message in self.apart]),
            self.able,
            tuple(self.wakers),
            self.family,
            self.topic,
        )

    def _forget(self, run: Run) -> None:
        """Drop values that are overwritten before their next read."""
        phase = run.phase
        if phase != "waiting":
            run.waiting_for, run.waiting_until = "", None
        if phase != "interrupted":
            run.i_until = None
        if phase != "queued":
            run.age, run.looked = 0, False
        if phase == "completed":
            run.since_stop = None
        if (
            run.handed_on not in (None, (run.epoch, run.step))
            and self.rules.hand_on_is_of_its_round
        ):
            run.handed_on = None
        if phase not in LIVE:
            run.number = run.first_number = 0
            run.grace = self.config.grace
        if run.held_until is not None and run.held_until <= 0:
            run.held_token, run.held_until = 0, None
        run.attempt = min(run.attempt, MOST_ATTEMPTS)
        run.erred = (
            run.erred and self.config.stays
        )  # of the scripts, only that of a run that stays asks for it
        if run.not_before is not None and run.not_before <= 0:
            run.not_before = None
        if phase != "parked":
            run.need = 0
        if run.wait in run.over:
            run.wait_until = None
        if run.begun or run.result:
            self._forget_the_dead(run)
        if run.last_token and all(slot.token != run.last_token for slot in self.slots):
            run.last_token, run.last_answer, run.last_fetched = 0, "", -1

    def _forget_the_dead(self, run: Run) -> None:
        """Replace the writers of intents and results that have died: only living writers matter."""
        alive = {slot.token for slot in self.slots}
        kept = {token if token in alive else GONE for token in run.begun}
        run.begun = tuple(sorted(kept))
        run.intent = run.intent if run.intent in alive or not run.intent else GONE
        if run.result == run.returned and run.result not in alive:
            run.result = run.returned = GONE if run.result else 0

    def _forget_fetches(self) -> None:
        """Forget prefetches with a lost reply that no longer stand, and messages that a worker
        holds and can no longer claim.
        """
        slots = [
            slot
            if slot.fetched == NOTHING or self.stands(slot.fetched)
            else slot._replace(fetched=NOTHING)
            for slot in self.slots
        ]
        for place, slot in enumerate(slots):
            if slot.state == "holds":
                epoch, step = self._hint(slot.run, (slot.epoch, slot.step))[1]
                slots[place] = slot._replace(epoch=epoch, step=step, own=True)
        self.slots = slots
        if self.rules.repeat_checks_the_fetch_claim:
            known = {
                (slot.run, slot.token, slot.fetched[0]) for slot in slots if slot.fetched != NOTHING
            }
            for place, run in enumerate(self.runs):
                if run is not None and (place, run.last_token, run.last_fetched) not in known:
                    run.last_fetched = -1

    def stands(self, fetched: tuple[int, int]) -> bool:
        """Return whether a prefetched run is still leased under its claim: a token is granted to
        one claim only.
        """
        run = self.runs[fetched[0]] if fetched[0] >= 0 else None
        return run is not None and run.phase == "leased" and run.token == fetched[1]

    def _hint(self, run: int, message: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        """Return a message, or STALE if its epoch or step has passed.

        If runs are deleted, an old message may fit a new run.
        """
        there = self.runs[run]
        if (
            there is None
            or self.config.deletes
            or (message[0] >= there.epoch and message[1] >= there.step)
        ):
            return run, message
        return run, STALE

    def _rename_numbers(self) -> None:
        for queue in range(len(self.lists)):
            mine = [
                run for run in self.runs if run is not None and run.queue == queue and run.number
            ]
            cursor, stays = self.cursor[queue], self.config.stays
            # A run that stays has the number that the list is at: there an entry of its line may
            # have that very number.
            if self.lines[queue] and not stays:
                live = {
                    (run.number, place)
                    for place, run in enumerate(self.runs)
                    if run is not None and run in mine
                }
                self.lines[queue] &= frozenset(live)
            if not mine and not stays:
                self.cursor[queue] = 0
                continue
            used = {run.number for run in mine} | {run.first_number for run in mine} | {cursor}
            used |= {number for number, _ in self.lines[queue]}
            if cursor < min(used - {0}, default=0) and not stays:
                used.discard(cursor)
            rank = {number: place for place, number in enumerate(sorted(used - {0}), 1)}
            rank[0] = 0
            if self.lines[queue]:
                self.lines[queue] = frozenset(
                    {(rank[number], place) for number, place in self.lines[queue]}
                )
            self.cursor[queue] = rank.get(cursor, 0)
            for run in mine:
                run.number, run.first_number = rank[run.number], rank[run.first_number]

    def _rename_tokens(self) -> None:
        tokens = {slot.token for slot in self.slots} | {slot.fetched[1] for slot in self.slots}
        for run in self.runs:
            if run is not None:
                tokens |= {run.token, run.last_token, run.held_token}
                tokens |= {run.intent, run.result, run.returned, *run.begun}
        tokens -= {0, GONE}
        ranked = sorted(tokens)
        if ranked == list(range(1, len(ranked) + 1)):
            return
        rank = {token: place for place, token in enumerate(ranked, 1)}
        rank[0], rank[GONE] = 0, GONE
        self.slots = [
            slot._replace(token=rank[slot.token], fetched=(slot.fetched[0], rank[slot.fetched[1]]))
            for slot in self.slots
        ]
        for run in self.runs:
            if run is not None:
                run.token, run.last_token, run.held_token = (
                    rank[run.token],
                    rank[run.last_token],
                    rank[run.held_token],
                )
                run.intent, run.result, run.returned = (
                    rank[run.intent],
                    rank[run.result],
                    rank[run.returned],
                )
                run.begun = tuple(sorted([rank[token] for token in run.begun]))


def server_of(w: World) -> tuple[Any, ...]:
    """Return the data of the server and the broker, without that of workers and clients."""
    runs = tuple([None if run is None else run.frozen() for run in w.runs])
    return (
        runs,
        tuple(w.lists),
        w.apart,
        w.able,
        tuple(w.handed),
        tuple(w.cursor),
        tuple(w.lines),
        w.paused,
        w.swept_at,
        w.silence,
        w.family,
        w.topic,
    )
