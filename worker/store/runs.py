"""The transitions of runs, from submission to deletion.

People and programs ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.worker.store.part import StorePart
from perdure.worker.store.replies import BETWEEN


class RunTransitions(StorePart):
    """The transitions of runs (``store.runs``)."""

    def submit(self, run_id: str, fields: Mapping[str, str], **options: Any) -> tuple[str, str]:
        """Create a run. Return the script's word and the run's id.

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
        said_content: str | None = None,
        artifacts: Mapping[str, str] | None = None,
        step: int = 0,
        turns: Sequence[str] = (),
        values: str | None = None,
    ) -> tuple[str, str, dict[str, str] | None]:
        """Create a run, once per idempotency key (submit_run.lua).

        Durations are in ms.

        Args:
            submitted_by: adds the run to this submitter's index.
            topic: name that the run takes, with the signals that wait there.
            said: digest of the key of a message that earlier holders of the topic may have read.
                The new run follows the last of these runs. A copy that none of them has read
                becomes the new run's.
            said_content: digest of this message.
            artifacts: artifacts of the new run, by name.
            step: the step at which the run begins. A fork begins at one above 0.
            turns: stored turns of its history. Only a fork begins with some.
            values: the run's first named values, as JSON, for its first event.

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
        """Record a run's traceparent, unless it has a trace.

        Returns:
            The word of set_trace.lua, and with ``ok`` the recorded trace.
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
        """Request a run's stop. Return the reply of request_stop.lua.

        Args:
            only: let the run's children continue.
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
        """Continue an interrupted or stopped run. Return the reply of resume_run.lua.

        Args:
            op: id of this operation. A repetition gets the first reply.
            message, after: messages of the next epoch, and of the epoch after it.
            fields: fields of the run's hash to write in the same script.
            digest: digest of the content from which the caller made ``fields``.
            data: JSON for the event.
            more: whether ``fields`` gives more cycles to a run that has used up its cycles.
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
        """Retry an errored run at the failed step. Return the reply of retry_run.lua.

        The arguments are as in ``resume``.
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
        """Add to the limits of a run's budgets. Return the reply of raise_limit.lua.

        Args:
            add: a line ``NAME MILLIONTHS`` for each budget.
            child: the run below that asked for more.
        """
        return self._store._run(
            "raise_limit", run_id, {"op": op, "add": add, "by": by, "child": child}
        )

    def delete(
        self, run_id: str, idempotency_key: str | None = None, schema: str | None = None
    ) -> list[str]:
        """Delete an ended or damaged run. Return the reply of delete_run.lua."""
        return self._store._run(
            "delete_run", run_id, {"id": run_id, "schema": schema}, idempotency_key=idempotency_key
        )

    def examine(self, run_id: str) -> list[str]:
        """Check whether a run's stored data can be read. Return the reply of check_run.lua."""
        return self._store._run("check_run", run_id, {})

    def examine_all(self, run_ids: Sequence[str]) -> list[list[str]]:
        """Examine several runs in one exchange. Return replies like those of ``examine``."""
        nothing: Mapping[str, Any] = {}
        calls = [(self.keys.of_run(run_id), nothing) for run_id in run_ids]
        return self._store._call_all("check_run", calls) if calls else []


def _written(reply: str) -> dict[str, str] | None:
    """Parse the run's fields in submit_run.lua's reply.

    Returns:
        The fields by name, or None if one of their texts has the character that separates them.
    """
    count, *texts = reply.split(BETWEEN)
    return dict(zip(texts[::2], texts[1::2], strict=True)) if len(texts) == int(count) else None
