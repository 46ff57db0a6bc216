"""The transitions as methods. Nothing else talks to the state server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from perdure.worker.store.queries import Queries
from perdure.worker.store.replies import (
    NEWEST_TURNS,
    ChildrenStep,
    Claim,
    ClaimRefused,
    CommitReply,
    Continuation,
    Prefetched,
    PrefetchRequest,
    SweepReply,
    known_flows,
)

if TYPE_CHECKING:
    from perdure.worker.store.metrics import MetricRecords
    from perdure.worker.store.tables import Pauses

#: Separates the texts in a reply that is one long text (parts/grant.lua).
BETWEEN = "\x1f"
#: Milliseconds until the sweep examines a run of a paused flow. Usually `Pauses.remove` makes it
#: due earlier. This covers the death of the process that unpauses the flow.
PAUSED_LOOK = 30_000


class Store(Queries):
    """The state server, for the keys under one prefix.

    Args:
        url: redis://, rediss://, unix:// or redis+sentinel://.
        prefix: begins every key.
        outbox: whether the broker is another server, so that the caller publishes the scripts'
            messages.
        replication: how many replicas must have a submit, stop, resume, retry or delete before it
            returns. None of them by default.

    Raises:
        StoreUnavailable: from every method, if the server does not answer.
        NotReplicated: the operation was done, but the replicas did not have it in time.
    """

    @cached_property
    def pauses(self) -> Pauses:
        """The table of paused flows on the state server."""
        from perdure.worker.store.tables import Pauses  # Few programs need these two.

        return Pauses(self)

    @cached_property
    def figures(self) -> MetricRecords:
        """The totals of the metrics on the state server."""
        from perdure.worker.store.metrics import MetricRecords

        return MetricRecords(self)

    def submit(self, run_id: str, fields: Mapping[str, str], **options: Any) -> tuple[str, str]:
        """Create a run on the state server, and return the script's word and the run's id.

        The options are those of ``submit_and_tell``, which also returns the run's hash.
        """
        return self.submit_and_tell(run_id, fields, **options)[:2]

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
        topic: str | None = None,
        said: str | None = None,
        artifacts: Mapping[str, str] | None = None,
        step: int = 0,
        turns: Sequence[str] = (),
        values: str | None = None,
    ) -> tuple[str, str, dict[str, str] | None]:
        """Create a run on the state server, once per idempotency key (submit_run.lua).

        Durations are in ms.

        Args:
            submitted_by: lists the run in this submitter's index.
            topic: name that the run takes, with the signals that wait there.
            said: digest of the key of a message that may have been said to a run that held the
                topic before. The new run follows the last of them.
            artifacts: of the new run, by name.
            step: at which it begins. A fork begins at one above 0.
            turns: of its history, as they are stored. Only a fork begins with some.
            values: the named values with which it begins, as JSON, for its first event.

        Returns:
            The word of submit_run.lua, the id that it concerns, and the run's hash. The hash is
            None if the caller must read it, for example because this call did not make the run.
        """
        named = {
            "id": run_id,
            "nonce": nonce,
            "message": message,
            "phase": phase,
            "delay": delay,
            "deadline": deadline,
        }
        named |= {"content": content, "idempotency_key": idempotency_key}
        named |= {"submitted_by": submitted_by, "topic": topic, "said": said, "values": values}
        named |= {
            "step": step or None,
            "artifacts": 2 * len(artifacts) if artifacts else None,
        }
        keys = self.keys.of_run(run_id, idempotency_key)
        keys += [self.keys.submitted(submitted_by)] if submitted_by is not None else []
        rest = [*(text for pair in (artifacts or {}).items() for text in pair), *turns]
        reply = self._call("submit_run", keys, named, fields, rest, run_id)
        return reply[0], reply[1], _written(reply[2]) if len(reply) > 2 else None

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
    ) -> Claim | ClaimRefused:
        """Claim a run's round for a worker: ask for the lease that lets it play the round.

        The script is claim_round.lua. Durations are in ms.

        Returns:
            The claim, or why it was refused.
        """
        named = {
            "epoch": epoch,
            "step": step,
            "claim": claim,
            "owner": owner,
            "lease": lease,
            "back": back,
            "back_max": back_max,
        }
        named |= {
            "known": known_flows(known),
            "newest": NEWEST_TURNS,
            "schema": schema,
            "hold": PAUSED_LOOK,
        }
        reply = self._run("claim_round", run_id, named)
        if reply[0] != "ok":
            return ClaimRefused(reply[0], reply[1] if len(reply) > 1 else "")
        return self._granted(reply[1], claim) or ClaimRefused("missing")

    def commit(self, run_id: str, **options: Any) -> tuple[str, str]:
        """Commit a run's round without a prefetch, and return the script's word and its detail."""
        return self.commit_and_fetch(run_id, **options)[:2]

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
        fetch: PrefetchRequest | None = None,
        **named: str | int | None,
    ) -> CommitReply:
        """Commit a run's round and, if ``fetch`` asks for it, prefetch the next message.

        The script is commit_round.lua. If the worker has lost its lease, nothing is committed, and
        the reply's word is ``fenced``.

        Args:
            fetch: which message to prefetch in the same script.
            named: further arguments of commit_round.lua.

        Returns:
            What became of it.
        """
        named = {"epoch": epoch, "step": step, "token": token, "kind": kind, **named}
        if fetch is not None:
            named |= fetch.named()
        other_fields = dict(fields or {})
        # The remaining intents are a script argument. The script does not write them as an ordinary
        # field.
        named |= {
            "intent": other_fields.pop("intent", None),
            "artifacts": 2 * len(artifacts) if artifacts else None,
        }
        rest = [*(text for pair in (artifacts or {}).items() for text in pair), *additions]
        keys = self.keys.of_run(run_id, idempotency_key)
        # The lists of a flow set come first, and are not among the shared keys.
        if fetch is not None and fetch.lists[0] not in self.keys.queue_names:
            keys += [name for name in fetch.lists if name not in self.keys.queue_names]
        reply = self._call("commit_round", keys, named, other_fields, rest, run_id)
        word, detail, prefetched, follow_ups = [*reply, "", "", ""][:4]
        return CommitReply(
            word,
            detail,
            self._fetched(prefetched, fetch) if fetch is not None and prefetched else None,
            follow_ups.split(),
        )

    def commit_and_continue(
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
        mailbox: str | None = None,
        forget: int | None = None,
        keep_events: str | int | None = None,
        record: str | int | None = None,
    ) -> Continuation | None:
        """Commit a run's round and lease the run's next round to the same worker.

        The script is commit_and_continue.lua.

        Args:
            forget: the number of the oldest turns to drop.
            keep_events: about how many of the newest events stay. None: all.
            record: which of the fields are named values that the round's event gets.

        Returns:
            The lease of the next round. None: nothing was written, since the case needs
            ``commit_and_fetch``.
        """
        named = {
            "epoch": epoch,
            "step": step,
            "token": token,
            "claim": claim,
            "next_claim": next_claim,
            "list": queue,
            "message": message,
        }
        named |= {
            "took": took,
            "data": data,
            "forget": forget,
            "keep_events": keep_events,
            "record": record,
            "artifacts": 2 * len(artifacts) if artifacts else None,
            "mailbox": mailbox,
        }
        rest = (
            [*(text for pair in artifacts.items() for text in pair), *additions]
            if artifacts
            else additions
        )
        reply: Any = self._call(
            "commit_and_continue", self.keys.of_stay(run_id), named, fields, rest, run_id
        )
        word, *details = reply.split(" ")
        if word != "ok":
            return None
        token, now, lease_until, number, *round_until = details
        return Continuation(token, int(now), lease_until, number, *round_until)

    def _fetched(self, reply: str, fetch: PrefetchRequest) -> Prefetched | None:
        """Return the prefetched message in a commit's reply, or None if its run is gone by now."""
        head, _, rest = reply.partition(BETWEEN)
        word, _, name = head.partition(" ")
        if word == "message":
            return Prefetched(name, rest, None)
        claim = self._granted(rest, fetch.claim)
        return None if claim is None else Prefetched(name, claim.fields["message"], claim)

    def _granted(self, grant: str, claim: str) -> Claim | None:
        """Parse the text in which a Lua script grants a claim (GRANT in parts/grant.lua).

        Returns:
            The claim, or None if its run is gone by now.
        """
        head, *texts = grant.split(BETWEEN)
        now, turns, field_texts, waited_texts, run_id = head.split(" ", 4)
        behind = int(field_texts)
        last = behind + min(int(turns), NEWEST_TURNS)
        fields: dict[str, str] | None = dict(zip(texts[:behind:2], texts[1:behind:2], strict=False))
        newest, waited = texts[behind:last], texts[last:]
        if len(texts) != last + int(waited_texts):
            # A text contains the separator: a goal that was pasted in, or a damaged value. So read
            # the fields. The round reads by itself what it waited for.
            fields, newest, waited = self.fields(run_id), self.memory(run_id, -NEWEST_TURNS), []
        if not fields:
            return None
        attempt, lease_until = int(fields["attempt"]), int(fields["lease_until"])
        granted = Claim(
            fields["token"], attempt, lease_until, int(now), int(turns), fields, newest, claim
        )
        if not waited:
            return granted
        return granted._replace(waited_for=dict(zip(waited[::2], waited[1::2], strict=True)))

    def intend(
        self, run_id: str, *, epoch: int, step: int, token: str, claim: str | None, key: str
    ) -> str:
        """Record the commands that a round is about to carry out, and return the script's word.

        ``key`` has one line per command. The word ``ok`` means that they may begin. The script is
        record_intent.lua.
        """
        return str(
            self._run(
                "record_intent",
                run_id,
                {"epoch": epoch, "step": step, "token": token, "claim": claim, "key": key},
            )[0]
        )

    def record_result(
        self,
        run_id: str,
        *,
        nonce: str,
        step: int,
        name: str,
        value: str,
        artifact: str | None = None,
    ) -> tuple[str, str]:
        """Record a named result of a run's step before the step's commit.

        If the step has a result of this name already, that one stays.

        Args:
            artifact: the whole result, if ``value`` only stands for it.

        Returns:
            The word of record_result.lua, and with ``ok`` and ``large`` the recorded value.
        """
        named = {"nonce": nonce, "step": step, "name": name, "value": value, "artifact": artifact}
        reply = self._run("record_result", run_id, named)
        return reply[0], reply[1] if len(reply) > 1 else ""

    def set_trace(self, run_id: str, *, nonce: str, trace: str) -> tuple[str, str]:
        """Record the trace (a traceparent) that a run belongs to, unless it has one.

        Returns:
            The word of set_trace.lua, and with ``ok`` the recorded trace.
        """
        reply = self._run("set_trace", run_id, {"nonce": nonce, "trace": trace})
        return reply[0], reply[1] if len(reply) > 1 else ""

    def open_hook(self, run_id: str, *, nonce: str, name: str, digest: str) -> str:
        """Record the digest of a hook's secret, and return the word of open_hook.lua."""
        named = {"nonce": nonce, "name": name, "digest": digest}
        return str(self._run("open_hook", run_id, named)[0])

    def take_topic(
        self, run_id: str, *, topic: str, token: str, claim: str | None
    ) -> tuple[str, str]:
        """Take a topic for a run in one of its rounds, with the signals that wait there.

        Returns:
            The word of take_topic.lua. With ``taken`` the run that holds the topic, with ``other``
            the topic that this run holds, with ``damaged`` what is damaged. Otherwise an empty
            text.
        """
        named = {"token": token, "claim": claim, "topic": topic}
        word, *details = self._run("take_topic", run_id, named)
        return word, details[0] if details else ""

    def hook_key(self, proposed: str) -> str:
        """Return the key from which the secrets of hooks are derived.

        If none is stored, ``proposed`` is stored as the key. All workers of this prefix share it.
        """
        with self._answered():
            stored = self.redis.get(self.keys.hook_key)
            if stored is None:
                self.redis.set(self.keys.hook_key, proposed, nx=True)
                stored = self.redis.get(self.keys.hook_key)
        return str(stored)

    def ask_provider(
        self, what: str, name: str, holder: str, **named: int | None
    ) -> tuple[str, int]:
        """Ask whether a round may send a request to its model provider now.

        The same call with another ``what`` records how the request ended.

        Returns:
            The word of ask_provider.lua, and with ``wait`` the delay in ms.
        """
        reply = self._call(
            "ask_provider",
            [self.keys.queues],
            {"what": what, "name": name, "holder": holder, **named},
        )
        return reply[0], int(reply[1]) if reply[0] == "wait" else 0

    def extend(
        self,
        leases: Sequence[tuple[str, str, str]],
        limits: Sequence[int | None] = (),
        claims: Sequence[str] = (),
    ) -> list[str]:
        """Extend the leases of rounds (the heartbeat), and return one word per lease, in order.

        Args:
            leases: ``(run_id, token, progress JSON or "")`` of each.
            limits: in how many ms the round's own time is over; None for a round without a limit.
            claims: the id of each one's claim.
        """
        if not leases:
            return []
        keys = [self.keys.due, *(self.keys.run(run_id) for run_id, _, _ in leases)]
        rest = [text for _, token, progress in leases for text in (token, progress)]
        named: dict[str, str | int] = {
            f"limit:{position}": limit
            for position, limit in enumerate(limits, 1)
            if limit is not None
        }
        named |= {f"claim:{position}": claim for position, claim in enumerate(claims, 1)}
        return list(self._call("extend_leases", keys, named, None, rest))

    def release_dead_lease(self, run_id: str, *, epoch: int, step: int, process: str) -> list[str]:
        """End the lease of a round whose process is dead, and return the script's reply.

        The script is release_dead_lease.lua.
        """
        return self._run(
            "release_dead_lease", run_id, {"epoch": epoch, "step": step, "process": process}
        )

    def request_stop(
        self,
        run_id: str,
        *,
        op: str,
        mode: str,
        by: str | None = None,
        reason: str | None = None,
        only: bool = False,
    ) -> list[str]:
        """Ask a run to stop, and return the reply of request_stop.lua.

        Args:
            only: let its children go on.
        """
        named = {"op": op, "mode": mode, "by": by, "reason": reason, "only": 1 if only else None}
        return self._run("request_stop", run_id, named)

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
        """Continue an interrupted or stopped run, and return the reply of resume_run.lua.

        Args:
            fields: written in the same script.
            digest: digest of the content from which the caller made ``fields``.
            data: JSON for the event.
            more: give more cycles to a run that has used up its cycles.
        """
        named = {
            "op": op,
            "epoch": epoch,
            "step": step,
            "message": message,
            "after": after,
            "interrupt": interrupt,
            "answer": answer,
        }
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
        """Retry an errored run at the step that failed, and return the reply of retry_run.lua.

        ``fields`` and ``digest`` are as in ``resume``.
        """
        named = {
            "op": op,
            "epoch": epoch,
            "step": step,
            "message": message,
            "after": after,
            "digest": digest,
        }
        return self._run("retry_run", run_id, named, fields, idempotency_key=idempotency_key)

    def signal(
        self,
        run_id: str,
        *,
        name: str,
        payload: str,
        most: int,
        names: int,
        size: int,
        by: str | None = None,
        key: str | None = None,
        content: str | None = None,
    ) -> list[str]:
        """Put a signal into a run's mailbox, and return the reply of signal_run.lua.

        Args:
            most: the unread signals of one name that a run may have.
            names: the names of which a run may have unread signals.
            size: the bytes of unread signals that a run may have.
            key: the sender's own id of this signal; sent again under it, nothing changes.
            content: digest of the payload, with a key.
        """
        named = {"name": name, "payload": payload, "most": most, "names": names, "bytes": size}
        return self._run("signal_run", run_id, {**named, "by": by, "key": key, "content": content})

    def signal_topic(
        self,
        topic: str,
        *,
        keep: int,
        most_waiting: int,
        size_waiting: int,
        name: str,
        payload: str,
        most: int,
        names: int,
        size: int,
        by: str | None = None,
        key: str | None = None,
        content: str | None = None,
    ) -> list[str]:
        """Signal the run that holds a topic, or keep the signal for a run that takes the topic.

        The other arguments are those of ``signal``.

        Args:
            keep: ms for which the signal waits for a run.
            most_waiting: the signals that may wait in a topic.
            size_waiting: their bytes.

        Returns:
            The reply of signal_topic.lua.
        """
        named = {"topic": topic, "keep": keep, "name": name, "payload": payload}
        named |= {"most": most, "names": names, "bytes": size}
        named |= {"most_waiting": most_waiting, "bytes_waiting": size_waiting}
        named |= {"by": by, "key": key, "content": content}
        return self._call("signal_topic", self.keys.of_topic(topic), named, run_id=topic)

    def wake(
        self, run_id: str, *, epoch: int, step: int, message: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Queue a parked run whose wait is over, with the message of its next round.

        Returns:
            The word of wake_run.lua, and with an outbox the (queue, message) that the caller must
            publish.
        """
        reply = self._run("wake_run", run_id, {"epoch": epoch, "step": step, "message": message})
        return _woken(reply)

    def wake_all(
        self, messages: Mapping[str, tuple[str, str, str]]
    ) -> list[tuple[str, list[tuple[str, str]]]]:
        """Queue parked runs whose wait is over, and return of each what ``wake`` returns.

        Args:
            messages: epoch, step and message of each run, by its id.
        """
        calls = [
            (self.keys.of_run(run_id), {"epoch": epoch, "step": step, "message": message})
            for run_id, (epoch, step, message) in messages.items()
        ]
        return [_woken(reply) for reply in self._call_all("wake_run", calls)] if calls else []

    def raise_limit(
        self, run_id: str, *, op: str, add: str, by: str | None = None, child: str | None = None
    ) -> list[str]:
        """Add to the limits of a run's budgets, and return the reply of raise_limit.lua.

        Args:
            add: a line ``NAME MILLIONTHS`` for each budget.
            child: the run below it that asked for more.
        """
        return self._run("raise_limit", run_id, {"op": op, "add": add, "by": by, "child": child})

    def reconcile_children(
        self,
        run_id: str,
        walk: str | None = None,
        start: str | None = None,
        most: int = 16,
        ended: int = 0,
    ) -> ChildrenStep:
        """Stop, continue or hear a slice of a run's children, and return what comes next.

        The script is reconcile_children.lua.

        Args:
            walk: of the step before, to go on.
            start: where to go on, of the step before.
            most: the children to look at.
            ended: the children that have ended to pass over beside these.
        """
        named = {"id": run_id, "slice": most, "ended": ended, "walk": walk, "from": start}
        word, *rest = self._run("reconcile_children", run_id, named)
        match word, rest:
            case "more", [walk, start, *others]:
                return ChildrenStep("more", walk=walk, start=start, follow_ups=_ids(others))
            case "start", [group, first, nonce, room, common, plans]:
                plan = (common, plans)
                return ChildrenStep("start", group, int(first), nonce, int(room), plan)
            case "done", others:
                return ChildrenStep("done", follow_ups=_ids(others))
        return ChildrenStep(word, start=rest[0] if rest else None)

    def start_children(
        self,
        run_id: str,
        *,
        nonce: str,
        group: str,
        first: int,
        children: Sequence[tuple[int | None, Mapping[str, str]]],
    ) -> tuple[str, str, list[tuple[str, str]]]:
        """Make the next child runs of a group, and push their first rounds (start_children.lua).

        Args:
            run_id: the parent.
            nonce: the parent's.
            first: the place of the first one.
            children: for each the ms until its deadline, and the fields of its hash with its
                message.

        Returns:
            The script's word, its detail, and with an outbox the (queue, message) that the caller
            must publish.
        """
        rest: list[str] = []
        for deadline, fields in children:
            rest += ["" if deadline is None else str(deadline), str(2 * len(fields))]
            for pair in fields.items():
                rest += pair
        word, *details = self._call(
            "start_children",
            self.keys.of_run(run_id),
            {"nonce": nonce, "group": group, "from": first},
            rest=rest,
            run_id=run_id,
        )
        to_publish = list(zip(details[1::2], details[2::2], strict=True)) if word == "ok" else []
        return word, details[0] if details else "", to_publish

    def redirect_round(
        self, run_id: str, *, queue: str, to: str, by: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Move a run's message to a queue whose workers can play the run's flow.

        The script is redirect_round.lua.

        Returns:
            The word of redirect_round.lua, and with an outbox the (queue, message) that the caller
            must publish.
        """
        word, *to_publish = self._call(
            "redirect_round",
            [*self.keys.of_run(run_id), queue],
            {"list": queue, "to": to, "by": by},
            run_id=run_id,
        )
        return word, [(to_publish[0], to_publish[1])] if word == "ok" and to_publish else []

    def quarantine(
        self,
        run_id: str,
        *,
        epoch: str,
        step: str,
        message: str,
        error: str,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """End a queued run whose stored message is not that of its round.

        No worker could ever claim the round by it, and the sweeper would send it again for ever.

        Returns:
            The reply of quarantine_run.lua.
        """
        named = {"epoch": epoch, "step": step, "message": message, "error": error}
        return self._run("quarantine_run", run_id, named, idempotency_key=idempotency_key)

    def delete(
        self, run_id: str, idempotency_key: str | None = None, schema: str | None = None
    ) -> list[str]:
        """Delete an ended or damaged run, and return the reply of delete_run.lua."""
        return self._run(
            "delete_run", run_id, {"id": run_id, "schema": schema}, idempotency_key=idempotency_key
        )

    def examine(self, run_id: str) -> list[str]:
        """Check whether a run's stored data can be read, and return check_run.lua's reply."""
        return self._run("check_run", run_id, {})

    def examine_all(self, run_ids: Sequence[str]) -> list[list[str]]:
        """Check each of several runs as ``examine`` does, in one exchange."""
        nothing: Mapping[str, Any] = {}
        calls = [(self.keys.of_run(run_id), nothing) for run_id in run_ids]
        return self._call_all("check_run", calls) if calls else []

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
        times: int = 1,
    ) -> SweepReply:
        """Examine the runs that are due, and requeue those that are overdue (sweep_due.lua).

        Durations are in ms.

        Args:
            every: do nothing if the last sweep was less than this time ago.
            alive: a worker whose last announcement is younger counts as alive.
            lengths: the messages on each list of another broker. Empty: the broker does not answer.
            made: epoch, step and message of each run that an earlier sweep reported as ``unmade``,
                by id.
            soon: runs to examine before they are due.
            times: batches to examine in one exchange.
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
        now = [(f"made:{run_id}", " ".join(message)) for run_id, message in (made or {}).items()]
        now += [(f"soon:{run_id}", "1") for run_id in soon]
        keys = self.keys.of_sweep()
        replies = self._call_all(
            "sweep_due",
            [
                (keys, {**named, **dict(now[place * batch : (place + 1) * batch])})
                for place in range(max(times, -(-len(now) // batch)))
            ],
        )
        *flat, late, follow_ups, due_in = (
            list(chain(*each)) for each in zip(*replies, strict=True)
        )
        words, to_publish = (list(zip(each[::2], each[1::2], strict=True)) for each in flat)
        report = [(run_id, word.partition(" ")[0]) for run_id, word in words]
        unmade = {
            run_id: tuple(details)
            for run_id, word in words
            if len(details := word.split()[1:]) == 4
        }
        return SweepReply(
            report,
            to_publish,
            unmade,
            [(run_id, int(epoch)) for run_id, _, epoch in (call.partition(" ") for call in late)],
            follow_ups,
            int(due_in[-1]) if due_in else None,
        )


def _ids(texts: Sequence[str]) -> list[str]:
    return texts[0].split() if texts else []


def _written(reply: str) -> dict[str, str] | None:
    """Parse the new run's fields in a reply of submit_run.lua.

    Returns:
        The fields by name, or None if one of their texts has the character that separates them.
    """
    count, *texts = reply.split(BETWEEN)
    return dict(zip(texts[::2], texts[1::2], strict=True)) if len(texts) == int(count) else None


def _woken(reply: list[Any]) -> tuple[str, list[tuple[str, str]]]:
    """Return the word of wake_run.lua, and the (queue, message) that the caller must publish."""
    word, *rest = reply
    return word, [(rest[0], rest[1])] if word == "queued" and rest else []
