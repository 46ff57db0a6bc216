"""The transitions of a round: its claim, lease, records and commit."""

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
        """Claim a run's round for a worker: ask for the lease that lets it play the round.

        The script is claim_round.lua. Durations are in ms.

        Returns:
            The claim, or the refusal.
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

        Returns:
            The script's word and its detail.
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
        """Commit a run's round, and prefetch if ``fetch`` asks.

        The script is commit_round.lua. If the worker has lost its lease, nothing is committed, and
        the reply's word is ``fenced``.

        Args:
            fetch: the message to prefetch in the same script. None: no prefetch.
            named: further arguments of commit_round.lua.

        Returns:
            The reply of the script.
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
        """Commit a round, and lease the run's next one.

        The same worker gets the lease. The script is commit_and_continue.lua.

        Args:
            forget: number of the oldest turns to drop.
            keep_events: about how many of the newest events stay. None: all.
            record: digest and names of the values that the round's event gets.

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
        reply: Any = self._store._call(
            "commit_and_continue", self.keys.of_stay(run_id), named, fields, rest, run_id
        )
        word, *details = reply.split(" ")
        if word != "ok":
            return None
        token, now, lease_until, number, *round_until = details
        return Continuation(token, int(now), lease_until, number, *round_until)

    def _fetched(self, reply: str, fetch: PrefetchRequest) -> Prefetched | None:
        """Return the prefetched message in a commit's reply.

        None if its run is gone by now.
        """
        head, _, rest = reply.partition(BETWEEN)
        word, _, name = head.partition(" ")
        if word == "message":
            return Prefetched(name, rest, None)
        claim = self._granted(rest, fetch.claim)
        return None if claim is None else Prefetched(name, claim.fields["message"], claim)

    def _granted(self, grant: str, claim: str) -> Claim | None:
        """Parse a granted claim (GRANT in parts/grant.lua).

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
        """Record the commands that a round will execute.

        ``key`` has one line per command. The script is record_intent.lua. Its word is returned:
        ``ok`` means that the commands may begin.
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

        If the step has a result of this name already, that one stays.

        Args:
            artifact: the whole result, if ``value`` is only its digest.

        Returns:
            The word of record_result.lua, and with ``ok`` and ``large`` the recorded value.
        """
        named = {"nonce": nonce, "step": step, "name": name, "value": value, "artifact": artifact}
        reply = self._store._run("record_result", run_id, named)
        return reply[0], reply[1] if len(reply) > 1 else ""

    def ask_provider(
        self, what: str, name: str, holder: str, **named: int | None
    ) -> tuple[str, int]:
        """Ask whether a round may send a request to a model provider.

        The provider may be busy. The same call with another ``what`` than ``enter`` records how the
        request ended.

        Returns:
            The word of ask_provider.lua, and with ``wait`` the delay in ms.
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
            leases: ``(run_id, token, progress JSON or "")`` of each round.
            limits: ms until the round's own time is over; None for a round without a limit.
            claims: the id of each round's claim.

        Returns:
            One word per lease, in order.
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

        The script is release_dead_lease.lua. Its reply is returned.
        """
        return self._store._run(
            "release_dead_lease", run_id, {"epoch": epoch, "step": step, "process": process}
        )

    def redirect(
        self, run_id: str, *, queue: str, to: str, by: str
    ) -> tuple[str, list[tuple[str, str]]]:
        """Redirect a run's message to workers with its flow.

        The message moves to their queue. The script is redirect_round.lua.

        Returns:
            The word of redirect_round.lua, and with an outbox the (queue, message) that the caller
            must publish.
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

        The message is not that of the run's round. No worker could ever claim the round with it,
        and the sweeper would send it again for ever.

        Returns:
            The reply of quarantine_run.lua.
        """
        named = {"epoch": epoch, "step": step, "message": message, "error": error}
        return self._store._run("quarantine_run", run_id, named, idempotency_key=idempotency_key)
