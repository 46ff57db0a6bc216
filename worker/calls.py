"""Calls: the Celery signature of a run (``on_end``), called when the run has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.app.amqp import AMQP, Queues
from kombu import Exchange, Queue
from kombu.utils import json as kombu_json

from worker.errors import InvalidInput, InvalidSettings
from worker.record import Record
from worker.run import Run, status_of

if TYPE_CHECKING:
    from worker.store import Store

logger = logging.getLogger("holdfast.calls")

#: The hash field: the signature as JSON.
ON_END = "on_end"
#: Bytes of a signature; every look at the run carries it.
MOST_BYTES = 16 * 1024
#: What a commit came to that ended its run.
ENDS = frozenset({"completed", "errored", "stopped"})


def signature_text(on_end: Mapping[str, Any] | str) -> str:
    """A signature as it is kept: JSON.

    Raises:
        InvalidInput: it is none, cannot be JSON, or is too long.
    """
    if isinstance(on_end, str):
        try:
            on_end = kombu_json.loads(on_end)
        except ValueError as error:
            raise InvalidInput(
                f"on_end should be a Celery signature, as an object, a dict or its JSON; this is not JSON: {error}"
            ) from error
    if not isinstance(on_end, Mapping) or not isinstance(on_end.get("task"), str) or not on_end["task"]:
        raise InvalidInput(f"on_end should be a Celery signature, as task.s(...) makes one; it is {str(on_end)[:80]!r}")
    try:
        text = kombu_json.dumps(dict(on_end), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"on_end, a signature of {on_end['task']}, cannot be JSON: {error}; give it arguments that can") from error
    if len(text.encode()) > MOST_BYTES:
        raise InvalidInput(f"on_end takes {len(text.encode())} bytes, at most {MOST_BYTES} are accepted; pass a reference to large things")
    return str(text)


class Calls:
    """Calls for one process. A call that fails is made again by a sweep: the store knows which are still to be made.

    Args:
        owns_app: the app is Holdfast's own, which knows no queues but those of rounds.
    """

    def __init__(self, app: Celery, store: Store, owns_app: bool) -> None:
        self._app = app
        self._store = store
        self._owns_app = owns_app
        self._publisher: Celery | None = None
        self._late: threading.Thread | None = None

    def make(self, run_id: str, epoch: int) -> None:
        """Publish the call for the end of the run in ``epoch``, and mark it as made. It raises nothing."""
        try:
            fields = self._store.fields(run_id)
            if fields is not None and ON_END in fields and fields.get("epoch") == str(epoch) and status_of(fields).ended:
                self._publish(fields)
            # Else the run is deleted, or somebody took it up again before this call: the next end calls.
            self._store.called(run_id, epoch)
        except Exception as error:
            logger.error(
                "run %s: its on_end is not called yet, a sweep tries again: %s: %s",
                run_id,
                type(error).__name__,
                error,
                extra={"run_id": run_id},
            )

    def make_late(self, calls: Iterable[tuple[str, int]]) -> None:
        """Make late calls in a thread of their own, so that a broker that does not answer cannot hold up the caller."""
        if self._late is not None and self._late.is_alive():
            return  # a later sweep is told of them again
        self._late = threading.Thread(target=self._make_each, args=(list(calls),), name="holdfast-calls", daemon=True)
        self._late.start()

    def _make_each(self, calls: list[tuple[str, int]]) -> None:
        for run_id, epoch in calls:
            self.make(run_id, epoch)

    def _publish(self, fields: Mapping[str, str]) -> None:
        if self._publisher is None:
            self._publisher = publisher_like(self._app) if self._owns_app else self._app
        signature = self._publisher.signature(kombu_json.loads(fields[ON_END]), app=self._publisher)
        signature.apply_async((told(fields),), retry=False)


def told(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return what a call gets of the run, as JSON data: its first argument."""
    run = Run.of(Record(fields))
    return {
        "run_id": run.id,
        "flow": run.flow,
        "status": run.status.value,
        "finished": run.finished,
        "answer": run.answer,
        "output": run.output,
        "error": run.error,
        "labels": dict(run.labels),
        "epoch": int(fields["epoch"]),
    }


class UndeclaredQueues(Queues):  # type: ignore[misc]
    """Queues by name alone. Consumers declare them, in a form that the publisher does not know."""

    def __missing__(self, name: str) -> Queue:
        return Queue(name, Exchange("", no_declare=True), name, no_declare=True)


class UndeclaredAMQP(AMQP):  # type: ignore[misc]
    queues_cls = UndeclaredQueues


def publisher_like(app: Celery) -> Celery:
    """An app that publishes tasks of others to the broker of ``app``, by their names and to the queues that their options name."""
    made = Celery("holdfast-calls", amqp=UndeclaredAMQP, broker=app.conf.broker_write_url, set_as_current=False)
    for name in ("broker_read_url", "broker_write_url", "broker_transport", "broker_use_ssl", "broker_connection_timeout"):
        setattr(made.conf, name, getattr(app.conf, name))
    options = {**app.conf.broker_transport_options, "confirm_publish": True}
    made.conf.update(
        broker_transport_options=options,
        task_routes=[_named_queue_alone],
        task_serializer="json",
        task_ignore_result=True,
        result_backend="disabled://",
    )
    return made


def _named_queue_alone(name: str, args: Any, kwargs: Any, options: Mapping[str, Any], task: Any = None, **_: Any) -> None:
    if "queue" not in options:
        raise InvalidSettings(
            f"on_end calls {name}, and names no queue; a worker of Holdfast's own knows none. Name it: {name}.s(...).set(queue='...')"
        )
