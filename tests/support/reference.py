"""Reference: what the contract says becomes of one run, call by call, in plain Python.

It is written from the protocol, not from the Lua: one run in memory, two lists, a clock that the test moves. Each method is one
transition and returns what the store should answer; ``visible`` is what a look at the run should show. Times in ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.runs import GRACE, LEASE
from tests.support.runs import named as message

LIVE, ENDED = ("queued", "leased", "waiting"), ("completed", "errored")
MAX_FAILURES, RETRY_DELAY = 3, 1_000
LOSS_DELAY, LOSS_DELAY_MAX = 1_000, 30_000
#: When a run is looked at again whose message is to be made.
UNMADE = 1_000
#: The sweep's jitter for the first run it looks at, where chance gave 0.
SPREAD = 0.5 + 0.618
REFUSED_DELAY, REFUSED_DELAY_MAX = 1_000, 30_000
ROLE = {"Controller": "controller", "Executor": "executor"}


@dataclass
class Lease:
    """The right to commit one round; ``limit`` is where extending ends, ``spared`` the end that was granted for a silence."""

    claim: str
    until: int
    limit: int | None
    spared: int | None = None


@dataclass
class Question:
    """An open interrupt; ``wait`` is how long it may stay unanswered, ``until`` when that is over."""

    id: str
    wait: int | None = None
    default: str | None = None
    until: int | None = None
    answer: str | None = None


@dataclass
class Stop:
    """A stop request, as its receipts tell it."""

    mode: str
    asked: int
    seen: int = 0
    stopped: int = 0


@dataclass
class Line:
    """One of the broker's lists, the message to be consumed next first."""

    messages: list[str] = field(default_factory=list)
    pushed: int = 0
    cursor: int = 0
    seen: int | None = None  # the number under which the sweep saw the run in line here


@dataclass
class Reference:
    """One run, and the two lists."""

    now: int
    phase: str = ""
    node: str = "Controller"
    epoch: int = 0
    step: int = 0
    token: int = 0
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    refused: int = 0
    status: str = "running"
    stopping: str = "none"
    doubt: str = ""
    due: int | None = None
    message: str = ""
    number: int = 0
    looked: bool = False
    queued_at: int = 0
    waits_for: str = ""
    waits_until: int = 0
    not_before: int = 0
    deadline: int | None = None
    timeout: int | None = None
    lease: Lease | None = None
    question: Question | None = None
    stop: Stop | None = None
    held: tuple[int, int] | None = None
    last: tuple[int, str] | None = None
    erred: bool = False  # what an attempt of this step failed of is kept, to be told
    intent: tuple[str, int] | None = None  # the key, and the token of the attempt that first wrote it down
    results: dict[str, str] = field(default_factory=dict)
    swept_at: int = 0
    silence: tuple[int, int] | None = None
    turns: int = 0
    events: list[str] = field(default_factory=list)
    replies: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=lambda: {role: Line() for role in ROLE.values()})

    # What people ask for.

    def submit(self, phase: str, delay: int | None, deadline: int | None, timeout: int | None) -> tuple[str, str]:
        self.deadline, self.timeout = deadline and self.now + deadline, timeout
        self.not_before = self.now + (delay or 0) if delay else 0
        self.events.append("submitted")
        self.message = message("r", int(phase == "interrupted"), 0)
        if phase == "queued":
            self._push()
        elif phase == "waiting":
            self._wait("start", delay or 0)
        else:
            self.question = Question("0:0")
            self._pause()
        return "ok", "r"

    def request_stop(self, op: str, mode: str) -> list[str]:
        if op in self.replies:
            return self.replies[op]
        word, phase = self._stop(mode)
        asked = self.stop or Stop("", 0)
        times = [str(asked.asked), str(asked.seen), str(self.now if word == "stopped" else asked.stopped)]
        self.replies[op] = [word, phase, *times, str(self.step), self.doubt or "-"]
        return self.replies[op]

    def _stop(self, mode: str) -> tuple[str, str]:
        if self.phase in ENDED or self.phase == "stopped":
            return "finished", self.phase
        first = self.stopping != "stop_requested"
        if first:
            self.stop = Stop(mode, self.now)
        elif mode == "now":
            assert self.stop is not None
            self.stop.mode = mode
        self.stopping = "stop_requested"
        if self.phase == "leased" and mode == "graceful":
            self.events += ["stop_requested"] if first else []
            return "asked", "leased"
        doubt = ""
        if self.lease is not None:
            self.held, doubt = (self.token, self.lease.until), self._in_doubt()
        self._stopped(doubt)
        return "stopped", "stopped"

    def resume(self, op: str, epoch: int, interrupt: str | None, answer: str | None) -> list[str]:
        if op in self.replies:
            return self.replies[op]
        if epoch != self.epoch:
            return ["stale"]
        self.replies[op] = self._resume(interrupt, answer)
        return self.replies[op]

    def _resume(self, interrupt: str | None, answer: str | None) -> list[str]:
        if self.phase in ENDED:
            return ["finished", self.phase]
        if self.phase in LIVE:
            return ["running"]
        if self._asks() and (self.phase == "interrupted" or answer is not None):
            assert self.question is not None
            if interrupt != self.question.id:
                return ["stale"]
            self.question.answer = answer or "null"
        self.events.append("resumed")
        self._start_again()
        return [self.phase]

    def retry(self, op: str, epoch: int) -> list[str]:
        if op in self.replies:
            return self.replies[op]
        if epoch != self.epoch:
            return ["stale"]
        if self.phase != "errored":
            self.replies[op] = ["running", self.phase]
            return self.replies[op]
        self.events.append("retried")
        if self.deadline is not None and self.deadline <= self.now:
            self.deadline = None
        self._start_again()
        self.replies[op] = [self.phase]
        return self.replies[op]

    # What workers do.

    def take(self, role: str) -> str | None:
        line = self.lines[role].messages
        return line.pop(0) if line else None

    def claim(self, epoch: int, step: int, claim: str, known: bool = True) -> tuple[Any, ...]:
        if (epoch, step) != (self.epoch, self.step):
            return ("stale", "")
        if self.lease is not None:
            return self._granted() if self.lease.claim == claim else ("leased", "")
        if self.phase in ENDED or self.phase == "stopped":
            return "finished", self.phase
        if self.phase != "queued":
            return "early", self.phase
        if not known:
            self.refused += 1
            self._wait("flow", min(REFUSED_DELAY * 2 ** (self.refused - 1), REFUSED_DELAY_MAX))
            return "unknown", "ring"
        return self._grant(claim)

    def _grant(self, claim: str) -> tuple[Any, ...]:
        self.refused, self.phase, self.looked = 0, "leased", False
        self._line.cursor = max(self._line.cursor, self.number)
        return self._leased(claim)

    def _leased(self, claim: str) -> tuple[Any, ...]:
        self.token, self.attempt = self.token + 1, self.attempt + 1
        ends = [end for end in (self.timeout and self.now + self.timeout, self.deadline) if end is not None]
        self.lease = Lease(claim, self.now + LEASE, min(ends) + LEASE if ends else None)
        self.due = self.lease.until
        return self._granted()

    def _granted(self) -> tuple[Any, ...]:
        assert self.lease is not None
        return "ok", str(self.token), self.attempt, self.lease.until

    def commit(
        self,
        token: int,
        epoch: int,
        step: int,
        kind: str,
        node: str,
        wait: int | None = None,
        default: str | None = None,
        retracts: bool = False,
    ) -> tuple[str, str]:
        if self.last is not None and self.last[0] == token:
            return "ok", self.last[1]
        if self.held is not None and self.held[0] == token:
            self.held = None
            if self.phase == "waiting" and self.waits_for == "hold":
                self._due_at(self.now)
            return "fenced", ""
        if (self.phase, self.token, self.epoch, self.step) != ("leased", token, epoch, step):
            return "fenced", ""
        doubt, stopping = self._in_doubt(), self.stopping == "stop_requested" and kind != "end"
        self.lease = None
        if kind in ("next", "end", "pause_next"):
            self._done()
            doubt = ""
        if retracts and self.intent is not None and self.intent[1] == token:
            self.intent = None
        if kind in ("next", "pause_next"):
            self.node = node
        if kind in ("pause_next", "pause_here"):
            self.question = Question(f"{self.epoch}:{self.step}", wait, default)
        if kind in ("next", "pause_next", "pause_here"):
            self._store_message(self.epoch + (kind != "next"))
        elif kind == "give_back" and not self.message:
            self.message = message("r", self.epoch, self.step)
        answer = self._stopped(doubt) if stopping else self._came_to(kind)
        self.last = token, answer
        return "ok", answer

    def _done(self) -> None:
        self.events.append("committed")
        self.turns, self.step, self.attempt = self.turns + 1, self.step + 1, 0
        self.failures, self.losses, self.erred = 0, 0, False
        self.question = self.intent = None
        self.results = {}

    def stay(self, token: int, epoch: int, step: int, node: str, claim: str) -> tuple[Any, ...] | None:
        """A commit by which the run stays: the grant of its next round under this claim; None: it is to be committed like any other."""
        if self.lease is None:
            return None
        if self.last is not None and self.last[0] == token:
            return self._granted()[1:] if self.lease.claim == claim else None
        if (self.token, self.epoch, self.step) != (token, epoch, step):
            return None
        number = self.lines[ROLE[node]].cursor
        told = self.stopping == "stop_requested" or self.question is not None or self.failures or self.losses or self.erred
        if told or not number:
            return None
        self._done()
        self.node = node
        self.message, self.number, self.last = "", number, (token, "continued")
        return self._leased(claim)[1:]

    def commit_and_fetch(
        self, token: int, epoch: int, step: int, kind: str, node: str, *, roles: Sequence[str], claim: str, known: bool = True, **asks: Any
    ) -> tuple[str, str, tuple[Any, ...] | None]:
        """A commit that fetches from these lists, in this order; the message, and the grant where there is one."""
        repeated = self.last is not None and self.last[0] == token
        word, detail = self.commit(token, epoch, step, kind, node, **asks)
        if word != "ok" or (kind == "give_back" and not repeated):
            return word, detail, None
        if repeated:
            stands = self.lease is not None and self.lease.claim == claim
            return word, detail, (self.message, *self._granted()[1:]) if stands else None
        text = next((text for text in map(self.take, roles) if text is not None), None)
        if text is None:
            return word, detail, None
        claimed = text == self.message and self.phase == "queued" and known
        return word, detail, (text, *self._grant(claim)[1:]) if claimed else (text,)

    def _came_to(self, kind: str) -> str:
        match kind:
            case "next":
                self._push()
                return "continued"
            case "end":
                self.events.append("completed")
                self._ended("completed", "completed")
                return "completed"
            case "pause_next" | "pause_here":
                self._pause()
                return "interrupted"
            case "give_back":
                self.events.append("given_back")
                self._push()
                return "queued"
            case "damaged":
                return self._errored()
        self.failures, self.erred = self.failures + 1, True
        if kind == "fatal" or self.failures >= MAX_FAILURES:
            return self._errored()
        self.events.append("failed")
        self._wait("retry", RETRY_DELAY)
        return "waiting"

    def intend(self, token: int, epoch: int, step: int, key: str) -> str:
        if (self.phase, self.token, self.epoch, self.step) != ("leased", token, epoch, step):
            return "fenced"
        if self.intent is None or self.intent[0] != key:
            self.intent = key, token
        return "ok"

    def record_once(self, step: int, name: str, value: str) -> tuple[str, str]:
        if step != self.step:
            return "stale", ""
        return "ok", self.results.setdefault(name, value)

    def extend(self, tokens: list[str]) -> list[str]:
        return [self._extend(token) for token in tokens]

    def _extend(self, token: str) -> str:
        if self.lease is None or token != str(self.token):
            return "lost"
        self.lease.until = min(self.now + LEASE, self.lease.limit or self.now + LEASE)
        self.due = self.lease.until
        if self.stopping != "stop_requested":
            return "ok"
        assert self.stop is not None
        self.stop.seen = self.stop.seen or self.now
        return "stop"

    def forfeit(self, epoch: int, step: int, process: str) -> list[str]:
        if self.lease is None or (epoch, step) != (self.epoch, self.step) or self.lease.claim.rpartition(".")[0] != process:
            return ["not_held"]
        self.due = self.lease.until = self.lease.spared = min(self.now, self.lease.until)
        return ["ok"]

    # What time does.

    def sweep(self, max_losses: int, made: tuple[int, int] | None = None) -> list[tuple[str, str]]:
        """What becomes of the run, if it is looked at; ``made``: epoch and step of the message that the sweeper has made for it."""
        gap = self.now - self.swept_at
        if gap > LEASE / 2 or gap < 0:
            self.silence = min(self.now, self.swept_at), self.now
        self.swept_at = self.now
        for role, line in self.lines.items():
            if line.seen is not None and (not line.messages or line.seen <= line.cursor):
                if self.phase == "queued" and ROLE[self.node] == role and line.seen == self.number and self.due is not None:
                    self.due = min(self.due, self.now)
                line.seen = None
        if made is not None and self.due is not None:
            self.due = min(self.due, self.now)
        if self.due is None or self.due > self.now:
            return []
        if self.phase != "leased" and self._too_late():
            return [("r", self._errored())]
        looks = {"leased": lambda: self._sweep_leased(max_losses, made), "queued": self._sweep_queued}
        looks |= {"waiting": lambda: self._sweep_waiting(made), "interrupted": self._sweep_interrupted}
        return [("r", looks[self.phase]())]

    def _is_unmade(self, made: tuple[int, int] | None) -> bool:
        if not self.message and made == (self.epoch, self.step):
            self.message = message("r", *made)
        if not self.message:
            self.due = self.now + UNMADE
            if self.phase != "leased":
                self._due_at(self.due)
        return not self.message

    def _sweep_leased(self, max_losses: int, made: tuple[int, int] | None) -> str:
        lease, doubt = self.lease, self._in_doubt()
        assert lease is not None
        if lease.until > self.now:
            self.due = lease.until
            return "in_line"
        overran = lease.limit is not None and lease.limit <= self.now
        silent = self.silence is not None and self.silence[0] <= lease.until <= self.silence[1] + LEASE / 2
        if silent and lease.spared != lease.until and not overran:
            self.due = lease.until = lease.spared = self.now + LEASE
            return "spared"
        if self.stopping != "stop_requested" and self._is_unmade(made):
            return "unmade"
        self.lease = None
        if self.stopping == "stop_requested":
            return self._stopped(doubt)
        if overran:
            self.failures, self.erred = self.failures + 1, True
            if self._too_late() or self.failures >= MAX_FAILURES:
                return self._errored()
            self.events.append("failed")
            self._wait("retry", LOSS_DELAY)
            return "overran"
        self.losses += 1
        self.events.append("lost")
        if self.losses > max_losses or self._too_late():
            return self._errored()
        if self.losses == 1:
            self._push()
            return "freed"
        self._wait("loss", int(min(LOSS_DELAY * 2 ** (self.losses - 2), LOSS_DELAY_MAX) * SPREAD))
        return "delayed"

    def _sweep_queued(self) -> str:
        line = self._line
        if line.messages and self.number > line.cursor:
            self.looked, line.seen = False, self.number
            self._due_at(self.now + max(GRACE, self.now - self.queued_at))
            return "in_line"
        if self.message in line.messages:
            self.looked = False
            self._due_at(self.now + GRACE)
            return "in_line"
        if not self.looked:
            self.looked = True
            self._due_at(self.now + GRACE)
            return "marked"
        self.events.append("resent")
        self._push()
        return "resent"

    def _sweep_waiting(self, made: tuple[int, int] | None) -> str:
        if self.waits_until > self.now and not (self.waits_for == "hold" and self.held is None):
            self._due_at(self.waits_until)
            return "in_line"
        if self._is_unmade(made):
            return "unmade"
        self.held = None
        self._push()
        return "woken"

    def _sweep_interrupted(self) -> str:
        question = self.question
        assert question is not None
        if question.until is None or question.until > self.now:
            self._due_at(question.until)
            return "in_line"
        question.answer = question.default or "null"
        self.events.append("resumed")
        self._next_epoch()
        self._push()
        return "answered"

    # What several of them do.

    @property
    def _line(self) -> Line:
        return self.lines[ROLE[self.node]]

    def _in_doubt(self) -> str:
        return f"{self.step}/{self.node}/{self.attempt}"

    def _asks(self) -> bool:
        return self.question is not None and self.question.answer is None

    def _too_late(self) -> bool:
        return self.deadline is not None and self.deadline <= self.now

    def _due_at(self, time: int | None) -> None:
        times = [at for at in (time, self.deadline) if at is not None]
        self.due = min(times) if times else None

    def _push(self) -> None:
        """The first time to the end of the line, under its next number; again to the front, under the same."""
        if self.number:
            self._line.messages.insert(0, self.message)
        else:
            self._line.messages.append(self.message)
            self._line.pushed += 1
            self.number = self._line.pushed
        self.phase, self.queued_at, self.looked = "queued", self.now, False
        self._due_at(self.now + GRACE)

    def _wait(self, reason: str, delay: int) -> None:
        self.phase, self.waits_for, self.waits_until = "waiting", reason, self.now + delay
        self._due_at(self.waits_until)

    def _store_message(self, epoch: int) -> None:
        self.message, self.number = message("r", epoch, self.step), 0

    def _pause(self) -> None:
        assert self.question is not None
        self.phase, self.status = "interrupted", "interrupted_before"
        self.question.until = None if self.question.wait is None else self.now + self.question.wait
        self.events.append("interrupted")
        self._due_at(self.question.until)

    def _stopped(self, doubt: str) -> str:
        self.events.append("stopped")
        self.phase, self.status, self.stopping, self.doubt = "stopped", "interrupted_after", "stopped", doubt
        self.lease = self.due = None
        assert self.stop is not None
        self.stop.stopped = self.now
        return "stopped"

    def _ended(self, phase: str, status: str) -> None:
        self.phase, self.status, self.stopping, self.lease, self.due = phase, status, "none", None, None

    def _errored(self) -> str:
        self.events.append("errored")
        self._ended("errored", "error")
        return "errored"

    def _next_epoch(self) -> None:
        self.epoch, self.failures, self.losses = self.epoch + 1, 0, 0
        self.status, self.stopping, self.stop, self.doubt = "running", "none", None, ""
        self._store_message(self.epoch)

    def _start_again(self) -> None:
        """Ask the open question again, or wait for the stopped round's token or for the start time, or be queued."""
        self._next_epoch()
        if self._asks():
            self._store_message(self.epoch + 1)
            self._pause()
        elif self.held is not None and self.held[1] > self.now:
            self._wait("hold", self.held[1] - self.now)
        elif self.not_before > self.now:
            self._wait("start", self.not_before - self.now)
        else:
            self._push()

    def visible(self) -> dict[str, Any]:
        """What a look at the run, its history, its promise and the lists should show."""
        goes_on = self.phase in LIVE
        answers_itself = self.phase == "interrupted" and self.question is not None and self.question.wait is not None
        return {
            "phase": self.phase, "node": self.node, "epoch": self.epoch, "step": self.step, "token": self.token, "attempt": self.attempt,
            "failures": self.failures, "losses": self.losses, "status": self.status, "stopping": self.stopping, "doubt": self.doubt,
            "waits_for": self.waits_for if self.phase == "waiting" else "", "due": self.due,
            "message": self.message if goes_on or answers_itself else None, "number": self.number if goes_on else None,
            "lease_until": self.lease and self.lease.until,
            "question": self.question and (self.question.id, self.question.answer),
            "intent": self.intent and self.intent[0], "results": self.results,
            "turns": self.turns, "events": self.events, "lists": {role: line.messages for role, line in self.lines.items()},
        }  # fmt: skip
