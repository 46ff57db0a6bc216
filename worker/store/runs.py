"""The transitions of runs that people and programs request, from submission to deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.worker.store.part import StorePart
from perdure.worker.store.replies import BETWEEN


class RunTransitions(StorePart):
    """The transitions of a run from submission to deletion (``store.runs``)."""

    def submit(self, run_id: str, fields: Mapping[str, str], **options: Any) -> tuple[str, str]:
        """Create a run.

        Args:
            options: the other arguments of ``submit_and_tell``.

        Returns:
            The first two results of ``submit_and_tell``: the word and the id.
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
        said_content: str | None = None,
        artifacts: Mapping[str, str] | None = None,
        step: int = 0,
        turns: Sequence[str] = (),
        values: str | None = None,
    ) -> tuple[str, str, dict[str, str] | None]:
        """Create a run, once per idempotency key (submit_run.lua).

        Durations are in ms.

        Args:
            fields: the fields of the run's hash.
            nonce: a random text of this submission. A repeated call with the same nonce changes
                nothing.
            message: the message of the run's first round.
            phase: ``queued``, ``waiting`` (until ``delay`` is over) or ``interrupted``.
            delay: the time until a waiting run starts.
            deadline: the time from now until the run's deadline. None: no deadline.
            content: the digest of the submission. It is needed with an idempotency key.
            submitted_by: the submitter, to whose index the run is added. None: it is added to no
                index.
            topic: the topic that the run takes, with the signals that wait there. None: no topic.
            said: the key of a message that an earlier run of the topic may have read. If one has
                read it, no run is created. Otherwise unread copies of the message move to the new
                run.
            said_content: the digest of that message.
            artifacts: artifacts of the new run, by name.
            step: the step at which the run begins. Only a fork begins at a step above 0.
            turns: the stored turns with which the history of a fork begins.
            values: the named values with which the run begins, as JSON for its first event.

        Returns:
            The word of submit_run.lua, the id of the run that the word concerns, and the fields of
            the new run's hash. The fields are None if no run was created, or if the caller has to
            read them.
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
        named |= {"submitted_by": submitted_by, "topic": topic, "values": values}
        named |= {"said": said, "said_content": said_content}
        named |= {
            "step": step or None,
            "artifacts": 2 * len(artifacts) if artifacts else None,
        }
        keys = self.keys.of_run(run_id, idempotency_key)
        keys += [self.keys.submitted(submitted_by)] if submitted_by is not None else []
        rest = [*(text for pair in (artifacts or {}).items() for text in pair), *turns]
        reply = self._store._call("submit_run", keys, named, fields, rest, run_id)
        return reply[0], reply[1], _written(reply[2]) if len(reply) > 2 else None

    def set_trace(self, run_id: str, *, nonce: str, trace: str) -> tuple[str, str]:
        """Record the trace of a run that has none.

        Args:
            nonce: the nonce of the run.
            trace: a traceparent. If the run already has one, that one is kept.

        Returns:
            The word of set_trace.lua. With ``ok`` also the run's traceparent, otherwise an empty
            text.
        """
        reply = self._store._run("set_trace", run_id, {"nonce": nonce, "trace": trace})
        return reply[0], reply[1] if len(reply) > 1 else ""

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
        """Request the stop of a run. Return the reply of request_stop.lua.

        Args:
            op: the id of this operation. A repetition gets the first reply.
            mode: ``graceful`` or ``now``.
            by: the person who stops the run.
            only: whether the run's children continue. If not, they are stopped too.
        """
        named = {"op": op, "mode": mode, "by": by, "reason": reason, "only": 1 if only else None}
        return self._store._run("request_stop", run_id, named)

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
        """Continue an interrupted, stopped or unfinished run. Return the reply of resume_run.lua.

        Args:
            op: the id of this operation. A repetition gets the first reply.
            epoch, step: those of the run, as the caller read them. If the run has changed since
                then, it does not continue.
            message: the message of the next epoch.
            after: the message of the epoch after the next. The script stores it if the run is
                interrupted again at once, because its question still has no answer.
            interrupt: the id of the interrupt that ``answer`` answers. None: no answer.
            answer: the answer, as JSON.
            fields: fields of the run's hash to write in the same script.
            digest: the digest of the content from which the caller made ``fields``.
            data: JSON for the event.
            more: whether ``fields`` gives more cycles to a run that has used up its cycles.
            idempotency_key: the key under which the run was submitted, not an id of this operation
                like ``op``. The key's record expires with the run, so the script also updates the
                record. None: the run was submitted without a key.
            by: the person who continues the run.
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
        return self._store._run(
            "resume_run", run_id, named, fields, idempotency_key=idempotency_key
        )

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
        """Continue an errored run at the step that failed. Return the reply of retry_run.lua.

        The arguments are those of ``resume`` with the same names.
        """
        named = {
            "op": op,
            "epoch": epoch,
            "step": step,
            "message": message,
            "after": after,
            "digest": digest,
        }
        return self._store._run("retry_run", run_id, named, fields, idempotency_key=idempotency_key)

    def raise_limit(
        self, run_id: str, *, op: str, add: str, by: str | None = None, child: str | None = None
    ) -> list[str]:
        """Raise limits of a run's budgets. Return the reply of raise_limit.lua.

        Args:
            op: the id of this operation. A repetition gets the first reply.
            add: a line ``NAME MILLIONTHS`` for each budget. The amount is added to the limit.
            by: the person who raises the limits.
            child: the run below this run that asked for more. Then the limits are raised even if
                this run is completed.
        """
        return self._store._run(
            "raise_limit", run_id, {"op": op, "add": add, "by": by, "child": child}
        )

    def delete(
        self, run_id: str, idempotency_key: str | None = None, schema: str | None = None
    ) -> list[str]:
        """Delete an ended, stopped or damaged run. Return the reply of delete_run.lua.

        Args:
            idempotency_key: the key under which the run was submitted. Its record is deleted with
                the run, unless another run has the key now. None: the run was submitted without a
                key.
            schema: the newest schema version of runs that the caller reads. A run of a newer
                version is not deleted as damaged. None: any version.
        """
        return self._store._run(
            "delete_run", run_id, {"id": run_id, "schema": schema}, idempotency_key=idempotency_key
        )

    def examine(self, run_id: str) -> list[str]:
        """Check whether a run's stored data can be read. Return the reply of check_run.lua."""
        return self._store._run("check_run", run_id, {})

    def examine_all(self, run_ids: Sequence[str]) -> list[list[str]]:
        """Check whether the stored data of several runs can be read, in one exchange.

        Returns:
            For each run the reply that ``examine`` would return.
        """
        nothing: Mapping[str, Any] = {}
        calls = [(self.keys.of_run(run_id), nothing) for run_id in run_ids]
        return self._store._call_all("check_run", calls) if calls else []


def _written(reply: str) -> dict[str, str] | None:
    """Parse the run's fields in submit_run.lua's reply.

    Returns:
        The fields by name. None if one of their texts contains the separator of the reply.
    """
    count, *texts = reply.split(BETWEEN)
    return dict(zip(texts[::2], texts[1::2], strict=True)) if len(texts) == int(count) else None
