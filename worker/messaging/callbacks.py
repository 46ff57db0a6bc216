"""Callbacks: the Celery signature of a run (``on_end``), published when the run has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.app.amqp import AMQP, Queues
from kombu import Exchange, Queue
from kombu.utils import json as kombu_json

from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run, status_of
from perdure.worker.errors import InvalidInput, InvalidSettings
from perdure.worker.fork_gate import ForkGate

if TYPE_CHECKING:
    from perdure.worker.store import Store

logger = logging.getLogger("perdure.calls")

#: The hash field that holds the signature as JSON.
ON_END = "on_end"
#: Maximum bytes of a signature. Every read of the run carries it.
MOST_BYTES = 16 * 1024
#: Default of each field of a signature. Celery fails to publish a signature without these fields.
EMPTY: Mapping[str, Any] = {
    "args": [],
    "kwargs": {},
    "options": {},
    "immutable": False,
    "subtask_type": None,
}
#: The arguments of Celery's own tasks that hold signatures, by the type of the signature.
PARTS = {"chain": ("tasks",), "group": ("tasks",), "chord": ("header", "body")}
#: Outcomes of a commit that end the run.
ENDS = frozenset({"completed", "errored", "stopped"})


def signature_text(on_end: Mapping[str, Any] | str) -> str:
    """Return a callback's signature as JSON, for the run's hash.

    Args:
        on_end: The signature, or its JSON.

    Raises:
        InvalidInput: ``on_end`` is not a signature, cannot be JSON, or is too long.
    """
    if isinstance(on_end, str):
        try:
            on_end = kombu_json.loads(on_end)
        except ValueError as error:
            raise InvalidInput(
                "on_end should be a Celery signature, as an object, a dict or its JSON; "
                f"this is not JSON: {error}"
            ) from error
    signature = complete(on_end)
    try:
        text = kombu_json.dumps(signature, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"on_end, a signature of {signature['task']}, cannot be JSON: {error}; "
            "give it arguments that can"
        ) from error
    if len(text.encode()) > MOST_BYTES:
        raise InvalidInput(
            f"on_end takes {len(text.encode())} bytes, at most {MOST_BYTES} are accepted; "
            "pass a reference to large things"
        )
    return str(text)


def complete(signature: Any) -> dict[str, Any]:
    """Return a copy of a signature with all fields.

    A missing field gets its default. The signatures in a chain, group or chord are completed as
    well.

    Raises:
        InvalidInput: ``signature`` is not a signature, or could not be published.
    """
    if (
        not isinstance(signature, Mapping)
        or not isinstance(signature.get("task"), str)
        or not signature["task"]
    ):
        raise InvalidInput(
            "on_end should be a Celery signature, as task.s(...) makes one; "
            f"it is {str(signature)[:80]!r}"
        )
    fields = {name: value for name, value in signature.items() if value is not None}
    whole = {**EMPTY, **fields}
    for name, kinds, expected in (
        ("args", (list, tuple), "a list"),
        ("kwargs", Mapping, "a dict"),
        ("options", Mapping, "a dict"),
    ):
        if not isinstance(whole[name], kinds):
            raise InvalidInput(
                f"on_end: the {name} of {whole['task']} should be {expected}, as task.s(...) "
                f"makes it; it is {str(whole[name])[:80]!r}"
            )
    for name in PARTS.get(str(whole["subtask_type"]), ()):
        part = whole["kwargs"].get(name)
        if part is None:
            raise InvalidInput(
                f"on_end: {name} of {whole['task']} is missing; expected signatures, as "
                f"celery.{whole['subtask_type']}(...) makes them"
            )
        parts = [complete(each) for each in part] if isinstance(part, list | tuple) else None
        whole["kwargs"] = {**whole["kwargs"], name: complete(part) if parts is None else parts}
    return whole


class Callbacks:
    """Publishes the callbacks of ended runs, for one process.

    The store has a list of the callbacks that are not published yet. A sweep publishes them later.

    Args:
        owns_app: Whether the app is Perdure's own. It knows only the queues of rounds, so another
            app publishes the callbacks.
    """

    def __init__(self, app: Celery, store: Store, owns_app: bool) -> None:
        self._app = app
        self._store = store
        self._owns_app = owns_app
        self._publisher: Celery | None = None
        self._gate = ForkGate()
        self._late: threading.Thread | None = None

    def make(self, run_id: str, epoch: int) -> None:
        """Publish the callback of an ended run, and record that it is published.

        Nothing is published if the run was deleted or continued meanwhile. No error is raised: it
        is logged, and a sweep tries again.

        Args:
            epoch: The epoch in which the run ended.
        """
        try:
            fields = self._store.reads.fields(run_id)
            if (
                fields is not None
                and ON_END in fields
                and fields.get("epoch") == str(epoch)
                and status_of(fields).ended
            ):
                self._publish_call(fields)
            # Else the run was deleted or taken up again before this call. Its next end publishes.
            self._store.fleet.called(run_id, epoch)
        except Exception as error:
            logger.error(
                "run %s: its on_end is not called yet, a sweep retries it: %s: %s",
                run_id,
                type(error).__name__,
                error,
                extra={"run_id": run_id},
            )

    def make_late(self, calls: Iterable[tuple[str, int]]) -> None:
        """Publish ended runs' overdue callbacks in a separate thread.

        So a broker that does not answer does not block the caller. If the thread of an earlier call
        is still running, nothing happens: a later sweep reports the callbacks again.

        Args:
            calls: Run id and epoch of each ended run.
        """
        if self._late is not None and self._late.is_alive():
            return  # a later sweep reports them again
        self._late = threading.Thread(
            target=self._make_each, args=(list(calls),), name="perdure-calls", daemon=True
        )
        self._late.start()

    def _make_each(self, calls: list[tuple[str, int]]) -> None:
        for run_id, epoch in calls:
            with self._gate:
                self.make(run_id, epoch)

    def _publish_call(self, fields: Mapping[str, str]) -> None:
        if self._publisher is None:
            self._publisher = publisher_like(self._app) if self._owns_app else self._app
        # An older release stored the submitted signature, with fields left out.
        stored = complete(kombu_json.loads(fields[ON_END]))
        signature = self._publisher.signature(stored, app=self._publisher)
        signature.apply_async((callback_argument(fields),), retry=False)


def callback_argument(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the argument with which a callback is called: the run's result as JSON data.

    Args:
        fields: The fields of the run's hash.
    """
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
    """Celery's queues, where an unknown name stands for a queue that is not declared here.

    The consumer of such a queue declares it, with options that the publisher does not know.
    """

    def __missing__(self, name: str) -> Queue:
        return Queue(name, Exchange("", no_declare=True), name, no_declare=True)


class UndeclaredAMQP(AMQP):  # type: ignore[misc]
    """Celery's AMQP helper with ``UndeclaredQueues``."""

    queues_cls = UndeclaredQueues


def publisher_like(app: Celery) -> Celery:
    """Return a Celery app that can publish any task to the broker of ``app``.

    It does not need to know the task. But the options of each signature must name a queue.
    """
    made = Celery(
        "perdure-calls", amqp=UndeclaredAMQP, broker=app.conf.broker_write_url, set_as_current=False
    )
    for name in (
        "broker_read_url",
        "broker_write_url",
        "broker_transport",
        "broker_use_ssl",
        "broker_connection_timeout",
    ):
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


def _named_queue_alone(
    name: str, args: Any, kwargs: Any, options: Mapping[str, Any], task: Any = None, **_: Any
) -> None:
    if "queue" not in options:
        raise InvalidSettings(
            f"on_end calls {name}, and names no queue; a worker of Perdure's own knows none. "
            f"Name it: {name}.s(...).set(queue='...')"
        )
