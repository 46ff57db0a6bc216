"""A walk through the model, made move by move on the real Lua too: replies and states must agree.

A cut of the model (a count that it stops counting) ends the walk; everything before that is
compared.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from perdure.worker.store import Claim, PrefetchRequest, Store
from tests.model.configurations import Config
from tests.model.moves import Move, act, possible
from tests.model.relatives import Relatives
from tests.model.rules import Rules
from tests.model.search import Found
from tests.model.state import OVER, STALE, World
from tests.model.sweeping import NO_ANSWER
from tests.model.topics import KEPT
from tests.support import runs

#: A worker that has not left is alive, however long ago it came (ms).
FOR_EVER = 10**12
#: With it the sweep's spread of waits is a factor of 1 for the first run it looks at, and less than
#: a tick away from it for the second.
JITTER = 0.882
#: Moves that end a story are made less often than moves that continue it.
LIKELY = {
    "op": 0.2,
    "hear": 8.0,
    "die": 0.1,
    "unpause": 0.2,
    "delete": 0.3,
    "take": 4.0,
    "commit": 4.0,
    "resend_commit": 4.0,
    "offer": 4.0,
    "intend": 4.0,
    "record": 4.0,
    "fetch": 60.0,
    "stay": 60.0,
    "resend_stay": 4.0,
    "begin": 8.0,
    "hand_on": 2.0,
    "see": 8.0,
    "wake": 4.0,
    "take_apart": 4.0,
    "deliver": 4.0,
    "call": 6.0,
    "reach": 6.0,
    "tell": 4.0,
    "child_stops": 4.0,
    "caller_dies": 0.3,
    "post": 3.0,
    "hold": 2.0,
    "listen": 4.0,
}
ROLES = ("controller", "executor")
#: Fields that others write into the hash while a round is played, and no round reads: the time of
#: the last heartbeat, the operations remembered.
UNREAD = ("beat_at", "ops")
FLOW = "ring"
TOPIC = "order:1"


@dataclass
class Process:
    """A worker process of the real side; it knows its claim, and its grant once the reply has
    arrived.
    """

    name: str
    again: Callable[[], Any]
    granted: Claim | None = None
    holds: str = ""  # a message that a commit fetched for it, unclaimed
    fetches: runs.Fetches | None = None  # of a commit whose reply was lost
    commit: Callable[[], str] | None = None  # of a run that stayed, if its worker does not know so


@dataclass(eq=False)
class Sent:
    """A client of the real side, and the operation that it sends at any later time."""

    call: Callable[[], str]


class Replay:
    """The real side of one walk: a store of its own prefix, its processes and clients in the order
    of the model's.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self.store, self.config = store, config
        self.processes: list[Process] = []
        self.clients: list[Sent] = []
        self.names = 0
        self.family = Relatives(store, config)
        self.deleted: Counter[int] = Counter()
        store.redis.hset(store.keys.queues, "swept_at", runs.clock(store))
        self.apart = store.keys.queue_of_set(ROLES[0], "a")
        if config.hands_on:
            self._come(None)

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def begin(self, start: str) -> None:
        """Submit every run that is there at first."""
        for place in range(self.config.kept if self.config.deletes else self.config.runs):
            assert self.submit(place, 1, start) == "ok"
            if self.config.grown:
                self.store.redis.hset(
                    self.store.keys.run(_id(place)),
                    "grace",
                    2 * self.config.grace * self.config.tick,
                )

    def submit(
        self, place: int, nonce: int, phase: str = "queued", topic: str | None = None
    ) -> str:
        config = self.config
        fields = {"resend": str(config.grace * config.tick)}
        if config.round_timeout is not None:
            fields["round_timeout"] = str(config.round_timeout * config.tick)
        options: dict[str, Any] = {
            "phase": phase,
            "fields": fields,
            "nonce": f"nonce-{place}-{self.deleted[place]}-{nonce}",
            "fetchable": True,
            "topic": topic,
            "step": config.begins,
        }
        options["deadline"] = None if config.deadline is None else config.deadline * config.tick
        options["delay"] = config.start * config.tick if phase == "waiting" else None
        return runs.submit(self.store, _id(place), **options)[0]

    def make(self, move: Move, w: World) -> Any:
        """Make the move on the real side; ``w`` is the model before it.

        Return the reply in the model's words.
        """
        method: Callable[..., Any] = getattr(self, f"_{move[0]}")
        return method(w, *move[1:])

    def align(self, w: World) -> None:
        """Sort processes and clients as the model has sorted its slots and clients."""
        self.processes = [
            self.processes[place]
            for place in sorted(range(len(w.slots)), key=lambda place: w.slots[place])
        ]
        if len(w.clients) > 1:
            self.clients = [
                self.clients[place]
                for place in sorted(range(len(w.clients)), key=lambda place: repr(w.clients[place]))
            ]
        if w.family is not None:
            self.family.align(w.family)

    def _tell(self, w: World) -> None:
        self.family.tell()

    def _call(self, w: World, number: int, again: bool) -> str:
        return self.family.call(number, again)

    def _reach(self, w: World, number: int, place: int) -> str:
        return self.family.reach(number, place)

    def _caller_dies(self, w: World, number: int) -> None:
        del self.family.callers[number]

    def _child_ends(self, w: World, place: int, word: str) -> None:
        self.family.end(place, word)

    def _child_stops(self, w: World, place: int) -> None:
        self.family.end(place, "stopped")

    def _stop_child(self, w: World, place: int) -> None:
        self.family.stop(place)

    def _take_up_child(self, w: World, place: int) -> None:
        self.family.take_up(place)

    def _take(self, w: World, queue: int, how: str) -> Any:
        place, pair = w.lists[queue][0]
        if not self.config.outbox:
            text = runs.take(self.store, ROLES[queue])
            assert text is not None and (pair == STALE or text == runs.named(_id(place), *pair)), (
                f"{text} was popped, not {pair}"
            )
            pair = runs.parts(text)[1:]
        return "lost" if how == "lost" else self._again(w, place, pair, how)

    def _take_apart(self, w: World, how: str) -> Any:
        place, pair = w.apart[0]
        text = str(self.store.redis.rpop(self.apart))
        assert pair == STALE or text == runs.named(_id(place), *pair), (
            f"{text} was popped, not {pair}"
        )
        return "lost" if how == "lost" else self._again(w, place, runs.parts(text)[1:], how)

    def _hand_on(self, w: World, place: int) -> str:
        return self.store.rounds.redirect(_id(place), queue=self.apart, to="able", by="ignorant")[0]

    def _leave(self, w: World) -> None:
        self.store.fleet.withdraw("able")

    def _come(self, w: World | None) -> None:
        self.store.fleet.announce("able", {"lists": [self.apart]}, runs.clock(self.store), 0)

    def _again(self, w: World, place: int, pair: tuple[int, int], how: str) -> str:
        process = self.name("p")

        def ask() -> Any:
            return self.store.rounds.claim(
                _id(place), epoch=pair[0], step=pair[1], claim=f"{process}.0", owner=process, lease=self.config.lease * self.config.tick,
                known=("other",) if how == "ignorant" else (FLOW,), back=self.config.delay * self.config.tick, back_max=2 * self.config.delay * self.config.tick,
            )  # fmt: skip

        reply = ask()
        if not isinstance(reply, Claim):
            return str(reply.word)
        self.processes.append(Process(process, ask, reply if how != "mute" else None))
        return "ok"

    def _resend_claim(self, w: World, place: int) -> str:
        process = self.processes.pop(place)
        reply = process.again()
        if not isinstance(reply, Claim):
            return str(reply.word)
        process.granted = reply
        self.processes.append(process)
        return "ok"

    def _commit(self, w: World, place: int, kind: str, heard: bool) -> str:
        process = self.processes.pop(place)
        call = self._settlement(process, kind, seen=w.slots[place].seen)
        answer = call()
        if answer == "unread":
            self.processes.insert(place, process)
        if not heard and answer not in ("fenced", "missing"):
            self.processes.append(Process(process.name, call))
        return answer

    def _fetch(self, w: World, place: int, kind: str, heard: bool, how: str, first: int) -> str:
        process, name, queues = self.processes.pop(place), self.name("p"), self.config.queues
        lists = [self.store.keys.queue(ROLES[(first + more) % queues]) for more in range(queues)]
        known = (FLOW,) if how == "heard" else ("other",)
        fetches = runs.Fetches(
            self.store,
            PrefetchRequest(lists, f"{name}.0", name, self.config.lease * self.config.tick, known),
        )
        commit = self._settlement(process, kind, fetches, w.slots[place].seen)

        def call() -> str:
            answer, fetched = commit(), fetches.fetched
            if fetched is None:
                return answer
            return f"{answer}, {'claimed' if fetched.claim else 'popped'} {runs.parts(fetched.text)[0][1:]}"

        reply = call()
        fetched = fetches.fetched
        if not heard and reply not in ("fenced", "missing"):
            self.processes.append(Process(name, call, fetches=fetches))
        elif heard and fetched is not None:
            self.processes.append(Process(name, call, fetched.claim, fetched.text))
        return reply

    def _stay(self, w: World, place: int, heard: bool) -> str:
        process, name = self.processes[place], self.name("p")
        granted, node = process.granted, self._node_after(process)
        assert granted is not None

        def ask() -> Claim | None:
            return runs.stay(self.store, granted, node, next_claim=f"{name}.0")

        stayed = ask()
        if stayed is None:
            return "other"
        held = runs.hash_of(self.store, granted.fields["id"])
        wrong = {
            field for field in held | stayed.fields if held.get(field) != stayed.fields.get(field)
        }
        wrong = {field for field in wrong if field not in UNREAD and not field.startswith("op:")}
        assert not wrong, (
            f"of a run that stays its worker keeps other fields than its hash has: {wrong}"
        )
        del self.processes[place]
        if heard:
            self.processes.append(Process(name, ask, stayed))
            return "ok"
        fetches = None
        if self.config.fetches:
            lists = [self.store.keys.queue(role) for role in ROLES[: self.config.queues]]
            fetches = runs.Fetches(
                self.store,
                PrefetchRequest(
                    lists, f"{name}.0", name, self.config.lease * self.config.tick, (FLOW,)
                ),
            )
        self.processes.append(
            Process(name, ask, fetches=fetches, commit=self._settlement(process, "next", fetches))
        )
        return "ok"

    def _resend_stay(self, w: World, place: int) -> str:
        process = self.processes[place]
        stayed = process.again()
        if stayed is not None:
            self.processes[place] = Process(process.name, process.again, stayed)
            return "ok"
        assert process.commit is not None
        self.processes[place] = Process(process.name, process.commit, fetches=process.fetches)
        return "other"

    def _begin(self, w: World, place: int) -> None:
        """Do nothing: no script is called."""

    def _deliver(self, w: World, place: int, how: str) -> str:
        return self._again(
            w, w.slots[place].run, runs.parts(self.processes.pop(place).holds)[1:], how
        )

    def _double(self, w: World, place: int, pair: tuple[int, int]) -> None:
        run = w.runs[place]
        assert run is not None
        self.store.redis.rpush(
            self.store.keys.queue(ROLES[run.queue]), runs.named(_id(place), *pair)
        )

    def _see(self, w: World, place: int) -> str:
        """Read the node's input as a context reads it."""
        slot, granted = w.slots[place], self.processes[place].granted
        assert granted is not None
        number = len(slot.seen)
        if f"o:~{number}" in granted.fields:
            return "passes"
        if self.config.children:
            return "passes" if self.family.is_joined(slot.step) else "parks"
        taken, last = self.store.signals.counts_of(_id(slot.run), ["paid"])["paid"]
        seen = sum(each != OVER for each in slot.seen)
        there = self.config.waits[number][0] == "signal" and taken + seen < last
        return "passes" if there else "parks"

    def _hear(self, w: World, place: int) -> str:
        """Read the round's input as a context reads it."""
        return f"hears {self.store.signals.counts_of(_id(w.slots[place].run), ['paid'])['paid'][1]}"

    def _say(self, w: World, place: int) -> str:
        return self._signal(w, place, wakes=False)

    def _signal(self, w: World, place: int, wakes: bool) -> str:
        word, *details = runs.signal(self.store, run_id=_id(place))
        return f"{word} {details[1] if word in ('ok', 'unmade') else details[0] if details else ''}".strip()

    def _post(self, w: World, key: int) -> str:
        kept = {"key": f"k{key}", "content": "c", "keep": KEPT * self.config.tick}
        word, *details = runs.signal_topic(self.store, TOPIC, **kept)
        return word if word == "waiting" else f"{word} {details[0]} {details[2]}"

    def _hold(self, w: World, place: int, nonce: int) -> str:
        return self.submit(place, nonce, topic=TOPIC)

    def _listen(self, w: World, place: int) -> str:
        granted = self.processes[place].granted
        assert granted is not None
        return self.store.signals.take_topic(
            _id(w.slots[place].run),
            topic=TOPIC,
            token=granted.token,
            claim=granted.id or None,
        )[0]

    def _wake(self, w: World, number: int) -> str:
        place, epoch, step = w.wakers[number]
        word, _ = self.store.signals.wake(
            _id(place), epoch=epoch, step=step, message=runs.named(_id(place), epoch, step)
        )
        if word != "moved":
            return word
        return f"moved {runs.phase(self.store, _id(place))}"

    def _settlement(
        self,
        process: Process,
        kind: str,
        fetches: runs.Fetches | None = None,
        seen: tuple[int, ...] = (),
    ) -> Callable[[], str]:
        granted, config, store, node = (
            process.granted,
            self.config,
            fetches or self.store,
            self._node_after(process),
        )
        assert granted is not None
        wait = {"i_wait": str(config.answer_within * config.tick), "i_default": '"default"'}
        bounds = {"max_failures": config.max_failures, "delay": config.delay * config.tick}
        if config.within is not None:
            bounds["within"] = config.within * config.tick
        numbers = [each for each in seen if each != OVER]
        took = {"take": f"paid {max(numbers)}" if numbers else ""} if seen else {}
        if took and config.outlives and int(granted.fields["step"]) > 0:
            took["joined"] = "0.0"
        renewal = {"generation": str(int(granted.fields.get("generation", 0)) + 1)}
        heard = {"heard": granted.fields["mailbox"]} if config.heeds and seen else {}
        heeds = {"heed": "paid"} if config.heeds else {}
        calls: dict[str, Callable[[], tuple[str, str]]] = {
            "next": lambda: runs.commit_next(store, granted, node, options=took, **heard),
            "renew": lambda: runs.commit_next(
                store, granted, node, options={**took, **renewal}, **renewal
            ),
            "end": lambda: runs.commit_end(
                store, granted, ("turn",), options={**took, **heeds}, **heard
            ),
            "end_unfinished": lambda: runs.commit_unfinished(store, granted, node),
            "pause_next": lambda: runs.pause_next(store, granted, node),
            "pause_end": lambda: runs.pause_end(store, granted),
            "pause_unfinished": lambda: runs.pause_end(store, granted, node),
            "pause_here": lambda: runs.pause_here(store, granted),
            "pause_here_deadline": lambda: runs.pause_here(store, granted, **wait),
            "failed": lambda: runs.fail_round(store, granted, **bounds),
            "try_again": lambda: runs.fail_round(store, granted, fields={"intent": ""}, **bounds),
            "busy": lambda: runs.fail_round(store, granted, uncounted=1, **bounds),
            "misfit": lambda: runs.fail_round(store, granted, uncounted=1, reason="code", **bounds),
            "fatal": lambda: runs.fail_round(store, granted, fatal=1, **bounds),
            "give_back": lambda: runs.commit(store, granted, "give_back"),
            "park": lambda: (
                self.family.park(granted)
                if config.children
                else runs.park(store, granted, *self._wait(granted, seen))
            ),
            "damaged": lambda: runs.commit(store, granted, "damaged", error="bad"),
        }

        def call() -> str:
            word, detail = calls[kind]()
            return detail if word == "ok" else word

        return call

    def _wait(
        self, granted: Claim, seen: tuple[int, ...]
    ) -> tuple[str, dict[str, int], int | None]:
        """Return the name, the signals and the time of the next wait of the node."""
        number = len(seen)
        kind, ticks = self.config.waits[number]
        count = 1 + sum(each != OVER for each in seen)
        return (
            str(number),
            {"paid": count} if kind == "signal" else {},
            None if ticks is None else ticks * self.config.tick,
        )

    def _node_after(self, process: Process) -> str:
        assert process.granted is not None
        return ("Controller", "Executor")[
            (int(process.granted.fields["step"]) + 1) % self.config.queues
        ]

    def _resend_commit(self, w: World, place: int) -> Any:
        process = self.processes.pop(place)
        reply = process.again()
        if process.fetches is not None and process.fetches.fetched is not None:
            self.processes.append(
                Process(process.name, process.again, process.fetches.fetched.claim)
            )
        return reply

    def _die(self, w: World, place: int) -> None:
        del self.processes[place]

    def _forfeit(self, w: World, place: int) -> str:
        slot = w.slots[place]
        return self.store.rounds.release_dead_lease(
            _id(slot.run), epoch=slot.epoch, step=slot.step, process=self.processes.pop(place).name
        )[0]

    def _forfeit_other(self, w: World, place: int) -> str:
        run = w.runs[place]
        assert run is not None
        return self.store.rounds.release_dead_lease(
            _id(place), epoch=run.epoch, step=run.step, process=self.name("other")
        )[0]

    def _beat(self, w: World, place: int) -> str:
        granted = self.processes[place].granted
        assert granted is not None
        return self.store.rounds.extend([(_id(w.slots[place].run), granted.token, "")])[0]

    def _intend(self, w: World, place: int) -> str:
        slot, granted = w.slots[place], self.processes[place].granted
        assert granted is not None
        key = f"{_id(slot.run)}:{slot.step}:command"
        return self.store.rounds.intend(
            _id(slot.run),
            epoch=slot.epoch,
            step=slot.step,
            token=granted.token,
            claim=granted.id or None,
            key=key,
        )

    def _record(self, w: World, place: int) -> str:
        slot, granted = w.slots[place], self.processes[place].granted
        assert granted is not None
        word, value = self.store.rounds.record_result(
            _id(slot.run),
            nonce=granted.fields["nonce"],
            step=slot.step,
            name="charge",
            value=granted.token,
        )
        return word if word != "ok" else "ok mine" if value == granted.token else "ok another's"

    def _op(self, w: World, place: int, kind: str, heard: bool) -> str:
        client = self._client(place, kind)
        if not heard:
            self.clients.append(client)
        return client.call()

    def _look(self, w: World, place: int, kind: str) -> None:
        self.clients.append(self._client(place, kind))

    def _send(self, w: World, place: int, heard: bool) -> str:
        client = self.clients.pop(place)
        if not heard:
            self.clients.append(client)
        return client.call()

    def _resend(self, w: World, place: int) -> str:
        return self.clients.pop(place).call()

    def _client(self, place: int, kind: str) -> Sent:
        run_id, op, store = _id(place), self.name("op"), self.store
        seen = runs.hash_of(store, run_id)
        epoch, step = int(seen["epoch"]), int(seen["step"])
        named: dict[str, Any] = {"op": op, "epoch": epoch, "step": step}
        named |= {
            "message": runs.named(run_id, epoch + 1, step),
            "after": runs.named(run_id, epoch + 2, step),
        }
        name, _, option = kind.partition(":")

        def call() -> str:
            if name == "stop":
                mode = "graceful" if option == "only" else option
                only = option == "only"
                return " ".join(store.runs.request_stop(run_id, op=op, mode=mode, only=only)[:2])
            if name == "retry":
                return _words(store.runs.retry(run_id, **named))
            answer = {"answer": '"yes"', "more": "null"}.get(option)
            return _words(
                store.runs.resume(
                    run_id,
                    interrupt=seen.get("i_id"),
                    answer=answer,
                    more=option == "more",
                    **named,
                )
            )

        return Sent(call)

    def _submit(self, w: World, place: int, nonce: int, heard: bool) -> str:
        if not heard:
            self.clients.append(Sent(lambda: self.submit(place, nonce)))
        return self.submit(place, nonce)

    def _delete(self, w: World, place: int) -> str:
        words = self.store.runs.delete(_id(place))
        if words == ["ok"]:
            self.deleted[place] += 1  # a submission after it is another one
            self.clients = [
                client
                for client, of in zip(self.clients, w.clients, strict=True)
                if of.run != place
            ]
        return " ".join(words)

    def _tick(self, w: World, ticks: int) -> None:
        if self.config.silence:
            runs.later(self.store, ticks * self.config.tick)
        else:
            runs.advance(self.store, ticks * self.config.tick)

    def _sweep(self, w: World, told: int | None, soon: int | None = None) -> Any:
        config, lengths = self.config, None
        if config.outbox:
            known = {
                self.store.keys.queue(ROLES[queue]): len(line) if told is None else 0
                for queue, line in enumerate(w.lists)
            }
            lengths = (
                {}
                if told == NO_ANSWER
                else {self.store.keys.queue(role): 0 for role in ROLES} | known
            )
        delays = {
            "loss_delay": config.delay * config.tick,
            "loss_delay_max": config.delay * config.tick,
        }
        bounds = {
            "max_losses": config.max_losses,
            "max_failures": config.max_failures,
            "batch": config.batch,
        }
        made = {
            _id(place): (str(epoch), str(step), runs.named(_id(place), epoch, step))
            for place, epoch, step in w.made
        }
        delays["lease"], hurried = config.lease * config.tick, [] if soon is None else [_id(soon)]
        swept = self.store.fleet.sweep(
            jitter=JITTER,
            lengths=lengths,
            made=made,
            soon=hurried,
            alive=FOR_EVER,
            **delays,
            **bounds,
        )
        mine = {_id(place): place for place in range(config.runs)}
        return [(mine[run_id], word) for run_id, word in swept.report if run_id in mine]

    def _forget(self, w: World) -> None:
        """Do nothing: a sweeper's knowledge is in the model."""

    def _publish(self, w: World, place: int, arrives: bool) -> None:
        """Do nothing: the broker is another server, and its lists are the model's."""

    def _pause(self, w: World) -> None:
        self.store.pauses.add(FLOW)

    def _unpause(self, w: World) -> None:
        self.store.redis.hdel(self.store.keys.paused, FLOW)

    def _offer(self, w: World, place: int) -> str:
        keys = [self.store.keys.due, self.store.keys.run(_id(place))]
        return str(self.store._call("requeue_paused", keys, {"flow": FLOW})[0])


def _words(reply: list[str]) -> str:
    """Return a reply without the runs whose children are to be looked after."""
    return " ".join(word for word in reply if word != _id(0))


def _id(place: int) -> str:
    return f"r{place}"


def walk(store: Store, config: Config, seed: int, length: int) -> list[Move]:
    """Walk ``length`` moves at most, the same ones for the same seed; return the moves made.

    Raises:
        AssertionError: the real Lua gave another answer than the model, or reached another state.
    """
    chance = random.Random(seed)
    start = chance.choice(config.starts)
    often: Counter[str] = Counter()

    def choose(w: World) -> Move:
        by_name: dict[str, list[Move]] = {}
        for move in possible(w):
            by_name.setdefault(move[0], []).append(move)
        # A frequent move becomes less likely, so that a rarely possible move is made when it can
        # be.
        names = sorted(by_name)
        weights = [LIKELY.get(name, 1.0) / (1 + often[name]) for name in names]
        name = chance.choices(names, weights)[0]
        often[name] += 1
        return chance.choice(by_name[name])

    return _made(store, config, start, (choose for _ in range(length)))


def follow(store: Store, config: Config, found: Found, rules: Rules) -> list[Move]:
    """Make the moves of a trace that broke a law under ``rules``, of which one is missing; with it
    they end otherwise, on both sides alike.

    Raises:
        AssertionError: as ``walk``.
    """
    start = "queued" if config.deletes else config.starts[config.initial(rules).index(found.start)]

    def chosen(move: Move) -> Callable[[World], Move | None]:
        return lambda w: move if move in possible(w) else None

    return _made(store, config, start, map(chosen, found.trace))


def _made(
    store: Store, config: Config, start: str, choices: Iterable[Callable[[World], Move | None]]
) -> list[Move]:
    """Make the chosen moves on both sides, until none is chosen or the model stops counting."""
    # Imported here: it needs the model's names only.
    from tests.model.comparison import difference

    rules = Rules()
    state = config.initial(rules)[0 if config.deletes else config.starts.index(start)]
    real, made, kept = Replay(store, config), list[Move](), store.paused_look
    store.paused_look = config.hold * config.tick
    try:
        real.begin(start)
        for choose in choices:
            w = World(state, config, rules)
            move = choose(w)
            reply = None if move is None else act(w, move)
            if move is None or w.cut:
                break
            made.append(move)
            answer = real.make(move, World(state, config, rules))
            told = ", ".join(map(str, made))
            expected = reply.rstrip("!") if isinstance(reply, str) else reply
            assert answer == expected, (
                f"the real Lua answered {answer}, the model {expected}\n{told}"
            )
            state = w.frozen()
            real.align(w)
            w = World(state, config, rules)
            difference_found = difference(store, w) or (
                "" if w.family is None else real.family.difference(w.family)
            )
            assert not difference_found, f"{difference_found}\n{told}"
    finally:
        store.paused_look = kept
    return made
