"""Store: the transitions as method calls. Nothing else speaks to the state server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from worker.store.answers import NEWEST_TURNS, Fetch, Fetched, Granted, Refused, Stayed, Swept, known_flows
from worker.store.figures import Figures
from worker.store.pauses import Pauses
from worker.store.reads import Reads

#: Stands between texts that are told as one (claiming.lua).
BETWEEN = "\x1f"
#: Until a run of a paused flow is looked at again (ms), should whoever unpauses the flow die before it is told so.
PAUSED_LOOK = 30_000


class Store(Reads):
    """The state server under one prefix.

    Args:
        url: redis://, rediss://, unix:// or redis+sentinel://.
        prefix: in front of every key.
        outbox: whether the broker is elsewhere, so that what the scripts hand over is published by their caller.
        replication: which replicas a submit, stop, resume, retry or delete waits for; none by default.

    Raises:
        StoreUnavailable: from every method, when the server does not answer.
        NotReplicated: it was done, but the replicas did not have it in time.
    """

    @cached_property
    def pauses(self) -> Pauses:
        """The flows that are paused."""
        return Pauses(self)

    @cached_property
    def figures(self) -> Figures:
        """What metrics are made of."""
        return Figures(self)

    def submit(self, run_id: str, fields: Mapping[str, str], **given: Any) -> tuple[str, str]:
        """``submit_and_tell`` without what it tells; its word and id."""
        return self.submit_and_tell(run_id, fields, **given)[:2]

    def submit_and_tell(
        self,
        run_id: str,
        fields: Mapping[str, str],
        *,
        nonce: str,
        message: str,
        phase: str = "queued",
        delay: int | None = None,
        deadline: int | None = None,
        idempotency_key: str | None = None,
        content: str | None = None,
        submitted_by: str | None = None,
    ) -> tuple[str, str, dict[str, str] | None]:
        """Make a run, of ``submitted_by`` if somebody is named. Durations in ms.

        Returns:
            A word (see submit_run.lua), the id it concerns, and the run's hash where this call made it; None: it is to be read.
        """
        named = {"id": run_id, "nonce": nonce, "message": message, "phase": phase, "delay": delay, "deadline": deadline}
        named |= {"content": content, "idempotency_key": idempotency_key}
        named["submitted_by"] = submitted_by
        keys = self.keys.of_run(run_id, idempotency_key)
        keys += [self.keys.submitted(submitted_by)] if submitted_by is not None else []
        answer = self._call("submit_run", keys, named, fields, run_id=run_id)
        return answer[0], answer[1], _written(answer[2]) if len(answer) > 2 else None

    def claim(
        self,
        run_id: str,
        *,
        epoch: int,
        step: int,
        claim: str,
        owner: str,
        lease: int,
        known: Iterable[str],
        schema: str | None = None,
        back: int = 1000,
        back_max: int = 30_000,
    ) -> Granted | Refused:
        """Ask for the right to play a round; see claim_round.lua. Durations in ms."""
        named = {"epoch": epoch, "step": step, "claim": claim, "owner": owner, "lease": lease, "back": back, "back_max": back_max}
        named |= {"known": known_flows(known), "newest": NEWEST_TURNS, "schema": schema, "hold": PAUSED_LOOK}
        answer = self._run("claim_round", run_id, named)
        if answer[0] != "ok":
            return Refused(answer[0], answer[1] if len(answer) > 1 else "")
        return self._granted(answer[1], claim) or Refused("missing")

    def commit(self, run_id: str, **given: Any) -> tuple[str, str]:
        """``commit_and_fetch`` that fetches nothing; its word and detail."""
        return self.commit_and_fetch(run_id, **given)[:2]

    def commit_and_fetch(
        self,
        run_id: str,
        *,
        epoch: int,
        step: int,
        token: str,
        kind: str,
        fields: Mapping[str, str] | None = None,
        additions: Iterable[str] = (),
        artifacts: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        fetch: Fetch | None = None,
        **named: str | int | None,
    ) -> tuple[str, str, Fetched | None]:
        """Make a round real, or learn that it is fenced; see commit_round.lua. Returns a word, its detail, and what was fetched."""
        named = {"epoch": epoch, "step": step, "token": token, "kind": kind, **named}
        if fetch is not None:
            named |= fetch.named()
        given = dict(fields or {})
        # What still stands of the intents is no field that is written as it is.
        named |= {"intent": given.pop("intent", None), "artifacts": 2 * len(artifacts) if artifacts else None}
        rest = [*(text for pair in (artifacts or {}).items() for text in pair), *additions]
        keys = self.keys.of_run(run_id, idempotency_key)
        if fetch is not None and fetch.lists[0] not in self.keys.queue_names:  # lists of its own come first
            keys += [name for name in fetch.lists if name not in self.keys.queue_names]
        answer = self._call("commit_round", keys, named, given, rest, run_id)
        fetched = self._fetched(answer[2], fetch) if fetch is not None and len(answer) > 2 else None
        return answer[0], answer[1] if len(answer) > 1 else "", fetched

    def commit_and_stay(
        self,
        run_id: str,
        *,
        epoch: int,
        step: int,
        token: str,
        claim: str,
        next_claim: str,
        queue: str,
        message: str = "",
        fields: Mapping[str, str],
        additions: Sequence[str] = (),
        artifacts: Mapping[str, str] | None = None,
        took: int | None = None,
        data: str | int | None = None,
    ) -> Stayed | None:
        """Make a round real that is followed by another, and lease that one to the caller; see commit_and_stay.lua.

        Returns:
            What the next round is leased under; None: there is something else to it, nothing was written, and ``commit_and_fetch`` knows.
        """
        named = {"epoch": epoch, "step": step, "token": token, "claim": claim, "next_claim": next_claim, "list": queue, "message": message}
        named |= {"took": took, "data": data, "artifacts": 2 * len(artifacts) if artifacts else None}
        rest = [*(text for pair in artifacts.items() for text in pair), *additions] if artifacts else additions
        answer: Any = self._call("commit_and_stay", self.keys.of_stay(run_id), named, fields, rest, run_id)
        word, *told = answer.split(" ")
        if word != "ok":
            return None
        token, now, lease_until, number, *round_until = told
        return Stayed(token, int(now), lease_until, number, *round_until)

    def _fetched(self, told: str, fetch: Fetch) -> Fetched | None:
        """What came with a commit; None where its run is gone by now."""
        head, _, rest = told.partition(BETWEEN)
        word, _, name = head.partition(" ")
        if word == "message":
            return Fetched(name, rest, None)
        claim = self._granted(rest, fetch.claim)
        return None if claim is None else Fetched(name, claim.fields["message"], claim)

    def _granted(self, told: str, claim: str) -> Granted | None:
        """What claiming.lua tells of a claim; None where its run is gone by now."""
        head, *texts = told.split(BETWEEN)
        now, turns, count, run_id = head.split(" ", 3)
        behind = int(count)
        newest = texts[behind:]
        fields: dict[str, str] | None = dict(zip(texts[:behind:2], texts[1:behind:2], strict=False))
        if len(newest) != min(int(turns), NEWEST_TURNS):
            # One of them has the character itself: a goal that somebody pasted, or something damaged.
            fields, newest = self.fields(run_id), self.memory(run_id, -NEWEST_TURNS)
        if not fields:
            return None
        attempt, lease_until = int(fields["attempt"]), int(fields["lease_until"])
        return Granted(fields["token"], attempt, lease_until, int(now), int(turns), fields, newest, claim)

    def intend(self, run_id: str, *, epoch: int, step: int, token: str, claim: str | None, key: str) -> str:
        """Write down what is about to be carried out (a line each); the word of record_intent.lua, ``ok``: it may be."""
        return str(self._run("record_intent", run_id, {"epoch": epoch, "step": step, "token": token, "claim": claim, "key": key})[0])

    def record_once(self, run_id: str, *, nonce: str, step: int, name: str, value: str) -> tuple[str, str]:
        """Record a result of this step; a word of record_once.lua, and where it is ``ok`` the value that stands."""
        answer = self._run("record_once", run_id, {"nonce": nonce, "step": step, "name": name, "value": value})
        return answer[0], answer[1] if len(answer) > 1 else ""

    def keep_trace(self, run_id: str, *, nonce: str, trace: str) -> tuple[str, str]:
        """Give a run that has none its trace; a word of keep_trace.lua, and where it is ``ok`` the trace that stands."""
        answer = self._run("keep_trace", run_id, {"nonce": nonce, "trace": trace})
        return answer[0], answer[1] if len(answer) > 1 else ""

    def ask_provider(self, what: str, name: str, holder: str, **named: int | None) -> tuple[str, int]:
        """Whether a round may ask a provider, or what its request came to; a word of ask_provider.lua, and with ``wait`` how long (ms)."""
        answer = self._call("ask_provider", [self.keys.queues], {"what": what, "name": name, "holder": holder, **named})
        return answer[0], int(answer[1]) if answer[0] == "wait" else 0

    def extend(self, leases: Sequence[tuple[str, str, str]], limits: Sequence[int | None] = (), claims: Sequence[str] = ()) -> list[str]:
        """The heartbeat: ``(run_id, token, progress JSON or "")`` for each lease; one word back for each, in order.

        ``limits`` says, for each, in how many ms the round's own time is over (None: it has no limit of its own),
        ``claims`` the id of each one's claim.
        """
        if not leases:
            return []
        keys = [self.keys.due, *(self.keys.run(run_id) for run_id, _, _ in leases)]
        rest = [text for _, token, progress in leases for text in (token, progress)]
        named: dict[str, str | int] = {f"limit:{place}": limit for place, limit in enumerate(limits, 1) if limit is not None}
        named |= {f"claim:{place}": claim for place, claim in enumerate(claims, 1)}
        return list(self._call("extend_leases", keys, named, None, rest))

    def forfeit(self, run_id: str, *, epoch: int, step: int, process: str) -> list[str]:
        """The process that played this round is dead: its lease is over; the words of forfeit_lease.lua."""
        return self._run("forfeit_lease", run_id, {"epoch": epoch, "step": step, "process": process})

    def request_stop(self, run_id: str, *, op: str, mode: str, by: str | None = None, reason: str | None = None) -> list[str]:
        """Ask a run to stop; the words of request_stop.lua."""
        return self._run("request_stop", run_id, {"op": op, "mode": mode, "by": by, "reason": reason})

    def resume(
        self,
        run_id: str,
        *,
        op: str,
        epoch: int,
        step: int,
        message: str,
        after: str,
        interrupt: str | None = None,
        answer: str | None = None,
        fields: Mapping[str, str] | None = None,
        digest: str | None = None,
        data: str | None = None,
        more: bool = False,
        idempotency_key: str | None = None,
        by: str | None = None,
    ) -> list[str]:
        """Go on with an interrupted or stopped run, or (``more``: with more cycles) an unfinished one; the words of resume_run.lua.

        ``fields`` are written with it, made from content of the digest ``digest``; ``data`` is JSON for the event.
        """
        named = {"op": op, "epoch": epoch, "step": step, "message": message, "after": after, "interrupt": interrupt, "answer": answer}
        named |= {"digest": digest, "data": data, "more": 1 if more else None, "by": by}
        return self._run("resume_run", run_id, named, fields, idempotency_key=idempotency_key)

    def retry(
        self,
        run_id: str,
        *,
        op: str,
        epoch: int,
        step: int,
        message: str,
        after: str,
        idempotency_key: str | None = None,
        fields: Mapping[str, str] | None = None,
        digest: str | None = None,
    ) -> list[str]:
        """Take an errored run up again; the words of retry_run.lua. ``fields`` and ``digest`` as in ``resume``."""
        named = {"op": op, "epoch": epoch, "step": step, "message": message, "after": after, "digest": digest}
        return self._run("retry_run", run_id, named, fields, idempotency_key=idempotency_key)

    def hand_on(self, run_id: str, *, queue: str, to: str, by: str) -> tuple[str, list[tuple[str, str]]]:
        """Hand a run's message on to the workers that consume ``queue``; the word of hand_on.lua, and what is to be published."""
        word, *handed = self._call("hand_on", [*self.keys.of_run(run_id), queue], {"list": queue, "to": to, "by": by}, run_id=run_id)
        return word, [(handed[0], handed[1])] if word == "ok" and handed else []

    def quarantine(self, run_id: str, *, epoch: str, step: str, message: str, error: str, idempotency_key: str | None = None) -> list[str]:
        """End a queued run whose stored message is none of its round; the words of quarantine_run.lua."""
        named = {"epoch": epoch, "step": step, "message": message, "error": error}
        return self._run("quarantine_run", run_id, named, idempotency_key=idempotency_key)

    def delete(self, run_id: str, idempotency_key: str | None = None, schema: str | None = None) -> list[str]:
        """Remove an ended or damaged run; the words of delete_run.lua."""
        return self._run("delete_run", run_id, {"id": run_id, "schema": schema}, idempotency_key=idempotency_key)

    def examine(self, run_id: str) -> list[str]:
        """Whether the transitions can read a run; the words of examine_run.lua."""
        return self._run("examine_run", run_id, {})

    def sweep(
        self,
        *,
        lease: int,
        max_losses: int,
        max_failures: int = 3,
        jitter: float,
        batch: int = 25,
        loss_delay: int = 1000,
        loss_delay_max: int = 30_000,
        lengths: Mapping[str, int] | None = None,
        schema: str | None = None,
        every: int | None = None,
        alive: int = 10_000,
        made: Mapping[str, tuple[str, str, str]] | None = None,
        soon: Sequence[str] = (),
    ) -> Swept:
        """Look at what is due, re-enqueue what is overdue. Durations in ms.

        ``alive``: a worker that announced itself within so many ms is taken for alive.

        ``every``: nothing is done where anybody swept within so many ms. ``lengths``: messages on each of the broker's lists, where
        the scripts cannot see them; empty: the broker does not answer. ``made``: epoch, step and message of runs that a sweep before
        told to be ``unmade``, by id. ``soon``: runs that are looked at before they are due.
        """
        named: dict[str, str | int | None] = {
            "prefix": self.keys.prefix,
            "batch": batch,
            "lease": lease,
            "max_losses": max_losses,
            "max_failures": max_failures,
            "jitter": f"{jitter:.6f}",
        }
        named |= {
            "loss_delay": loss_delay,
            "loss_delay_max": loss_delay_max,
            "hold": PAUSED_LOOK,
            "schema": schema,
            "every": every,
            "alive": alive,
        }
        named |= {f"length:{queue}": length for queue, length in (lengths or {}).items()}
        named |= {f"made:{run_id}": " ".join(message) for run_id, message in (made or {}).items()}
        named |= {f"soon:{run_id}": "1" for run_id in soon}
        *flat, late = self._call("sweep_due", self.keys.of_sweep(), named)
        report, handed = (list(zip(each[::2], each[1::2], strict=True)) for each in flat)
        return Swept(report, handed, [(run_id, int(epoch)) for run_id, _, epoch in (promised.partition(" ") for promised in late)])


def _written(told: str) -> dict[str, str] | None:
    """The fields that submit_run.lua tells; None where one of them has the character that stands between them."""
    count, *texts = told.split(BETWEEN)
    return dict(zip(texts[::2], texts[1::2], strict=True)) if len(texts) == int(count) else None
