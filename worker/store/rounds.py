"""The transitions of a round: its claim, its lease, its records and its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.worker.store.connection import StoreConnection
from perdure.worker.store.part import StorePart
from perdure.worker.store.reads import RunFields
from perdure.worker.store.replies import (
    BETWEEN,
    NEWEST_TURNS,
    Claim,
    ClaimRefused,
    CommitReply,
    Continuation,
    Prefetched,
    PrefetchRequest,
    known_flows,
)


class RoundTransitions(StorePart):
    """The transitions of rounds (``store.rounds``)."""

    def __init__(self, connection: StoreConnection, reads: RunFields) -> None:
        super().__init__(connection)
        self._reads = reads

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
        """Claim a round for a worker.

        The worker then holds the run's lease. The script is claim_round.lua. Durations are in ms.

        Args:
            epoch, step: those of the received message.
            claim: an id made for this claim. A repeated call with the same id gets the same claim.
            owner: the worker's name.
            lease: the time until the lease ends.
            known: the names of the flows that the worker runs.
            schema: the newest schema version of runs that the worker reads. None: any version.
            back: the first wait of a run whose flow this worker does not run.
            back_max: the longest wait of such a run. Its waits double.

        Returns:
            The claim. A ClaimRefused with the reason if the round was not claimed.
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
            "hold": self._store.paused_look,
        }
        reply = self._store._run("claim_round", run_id, named)
        if reply[0] != "ok":
            return ClaimRefused(reply[0], reply[1] if len(reply) > 1 else "")
        return self._granted(reply[1], claim) or ClaimRefused("missing")

    def commit(self, run_id: str, **options: Any) -> tuple[str, str]:
        """Commit a run's round without a prefetch.

        Args:
            options: the arguments of ``commit_and_fetch``.

        Returns:
            The word and the detail of a CommitReply.
        """
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
        """Commit a run's round, and prefetch the next message if ``fetch`` is set.

        The script is commit_round.lua. If the worker has lost the lease, nothing is committed, and
        the reply's word is ``fenced``.

        Args:
            epoch, step, token: those of the round's claim.
            kind: the kind of the commit, such as ``next``, ``end`` or ``failed``.
            fields: fields of the run's hash to write.
            additions: turns to append to the run's history, as stored texts.
            artifacts: artifacts to write, by name.
            idempotency_key: the run's idempotency key, if it has one.
            fetch: the prefetch in the same script. None: no prefetch.
            named: further arguments of the script, by name. An argument that is None is left out.
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
        reply = self._store._call("commit_round", keys, named, other_fields, rest, run_id)
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
        """Commit a round, and lease the run's next round to the same worker.

        The script is commit_and_continue.lua. No message is pushed.

        Args:
            epoch, step, token, claim: those of the round's claim.
            next_claim: an id made for the claim of the next round.
            queue: the queue of the next round.
            message: the message of the next round. Empty if it was not built.
            fields: fields of the run's hash to write.
            additions: turns to append to the run's history, as stored texts.
            artifacts: artifacts to write, by name.
            took: the duration of the round in ms.
            data: JSON for the round's event.
            mailbox: the field ``mailbox`` of the run's hash, as the claim read it. None: it was not
                there.
            forget: how many of the oldest turns to drop. None: none.
            keep_events: about how many of the newest events to keep. None: all.
            record: digest and names of the values that the round's event gets. None: no values.

        Returns:
            The lease of the next round. None if nothing was written: the round must be committed
            with ``commit_and_fetch``.
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
        reply: Any = self._store._call(
            "commit_and_continue", self.keys.of_stay(run_id), named, fields, rest, run_id
        )
        word, *details = reply.split(" ")
        if word != "ok":
            return None
        token, now, lease_until, number, *round_until = details
        return Continuation(token, int(now), lease_until, number, *round_until)

    def _fetched(self, reply: str, fetch: PrefetchRequest) -> Prefetched | None:
        """Parse the prefetched message in the reply to a commit.

        Args:
            reply: the part of the reply after the detail.
            fetch: the commit's request.

        Returns:
            The message, with a claim if the script claimed its round. None if the run has been
            deleted meanwhile.
        """
        head, _, rest = reply.partition(BETWEEN)
        word, _, name = head.partition(" ")
        if word == "message":
            return Prefetched(name, rest, None)
        claim = self._granted(rest, fetch.claim)
        return None if claim is None else Prefetched(name, claim.fields["message"], claim)

    def _granted(self, grant: str, claim: str) -> Claim | None:
        """Parse a granted claim (GRANT in parts/grant.lua).

        If a text of the run contains the separator of the reply, the run is read again.

        Args:
            claim: the id of the claim.

        Returns:
            None if the run has been deleted meanwhile.
        """
        head, *texts = grant.split(BETWEEN)
        now, turns, field_texts, waited_texts, run_id = head.split(" ", 4)
        behind = int(field_texts)
        last = behind + min(int(turns), NEWEST_TURNS)
        fields: dict[str, str] | None = dict(zip(texts[:behind:2], texts[1:behind:2], strict=False))
        newest, waited = texts[behind:last], texts[last:]
        if len(texts) != last + int(waited_texts):
            # A text contains the separator: a goal that was pasted in, or a damaged value. So read
            # the fields. The round itself reads the texts of ``waited_for``.
            fields, newest, waited = (
                self._reads.fields(run_id),
                self._reads.memory(run_id, -NEWEST_TURNS),
                [],
            )
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
        """Record the commands that a round is about to execute.

        The script is record_intent.lua.

        Args:
            epoch, step, token, claim: those of the round's claim. A ``claim`` of None is not
                checked.
            key: a line for each command, which begins with its idempotency key. It replaces the
                lines of an earlier call.

        Returns:
            The word of the script. Only after ``ok`` may the commands begin.
        """
        return str(
            self._store._run(
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
        """Record a step's named result before the commit.

        If the step already has a result of this name, that result is kept.

        Args:
            nonce: the nonce of the run.
            value: the result, or its digest if ``artifact`` is set.
            artifact: a large result, to be stored as an artifact. None: ``value`` is the result.

        Returns:
            The word of record_result.lua. With ``ok`` and ``large`` also the recorded value,
            otherwise an empty text.
        """
        named = {"nonce": nonce, "step": step, "name": name, "value": value, "artifact": artifact}
        reply = self._store._run("record_result", run_id, named)
        return reply[0], reply[1] if len(reply) > 1 else ""

    def ask_provider(
        self, what: str, name: str, holder: str, **named: int | None
    ) -> tuple[str, int]:
        """Ask whether a round may send a request to a model provider, or report its end.

        The provider may be busy. Then one round of all workers may send a request, and the others
        wait.

        Args:
            what: ``enter`` asks for the permission. ``refused``, ``answered`` and ``left`` report
                how the request ended.
            name: the provider: endpoint and model.
            holder: the attempt of the round.
            named: further arguments of ask_provider.lua, in ms.

        Returns:
            The word of the script, and the ms to wait. The number is 0 unless the word is ``wait``.
        """
        reply = self._store._call(
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
        """Extend the leases of rounds (the heartbeat).

        Args:
            leases: ``(run_id, token, progress)`` of each round. The progress is JSON, or empty.
            limits: for each round the ms until its own time limit. None: the round has no limit.
                Empty: no round has one.
            claims: the id of each round's claim. Empty: the ids are not checked.

        Returns:
            A word of extend_leases.lua for each round, in the order of ``leases``.
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
        return list(self._store._call("extend_leases", keys, named, None, rest))

    def release_dead_lease(self, run_id: str, *, epoch: int, step: int, process: str) -> list[str]:
        """End the lease of a round whose process died.

        The script is release_dead_lease.lua. The next sweep then requeues the round.

        Args:
            process: the name of the process. If it does not hold the lease, nothing happens.

        Returns:
            The reply of the script.
        """
        return self._store._run(
            "release_dead_lease", run_id, {"epoch": epoch, "step": step, "process": process}
        )

    def redirect(
        self, run_id: str, *, queue: str, to: str, by: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Move a run's message to the queue of workers that can run the round.

        The script is redirect_round.lua.

        Args:
            queue: the queue that only those workers consume.
            to: the names of those workers, as a text for people.
            by: the name of the worker that received the message.

        Returns:
            The word of the script, and the messages that the caller must publish, as (queue,
            message). There are none without an outbox.
        """
        word, *to_publish = self._store._call(
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
        """End a queued run whose stored message is unusable.

        The run ends as errored. The message belongs to another round, or is invalid. So no worker
        could ever claim the round, and the sweeper would publish the message again for ever.

        Args:
            epoch, step, message: those of the run, as the caller read them. If the run has changed
                since then, nothing happens.
            error: the text of the run's error.
            idempotency_key: the run's idempotency key, if it has one.

        Returns:
            The reply of quarantine_run.lua.
        """
        named = {"epoch": epoch, "step": step, "message": message, "error": error}
        return self._store._run("quarantine_run", run_id, named, idempotency_key=idempotency_key)
