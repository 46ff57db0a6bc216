"""Perdure's own Celery app, which runs rounds: ``celery -A perdure.app worker``.

``install`` makes a user's own app run rounds too.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from celery import Celery, signals

from perdure.flows.rounds.flow import Flow
from perdure.worker.broker_urls import broker_url
from perdure.worker.client import Client
from perdure.worker.errors import InvalidSettings
from perdure.worker.logs import set_up_logging
from perdure.worker.messaging.celery_app import OwnApp, celery_app
from perdure.worker.messaging.message import SUBMIT
from perdure.worker.runtime.runtime import Runtime, engine_of
from perdure.worker.runtime.worker_step import install_rounds
from perdure.worker.settings import Settings, current, with_server
from perdure.worker.store.urls import check_url
from perdure.worker.tracing.export import set_up

if TYPE_CHECKING:
    from celery import Task

__all__ = ["broker_url", "engine_of", "install", "make_app"]


class PerdureApp(OwnApp):
    """The Celery app that ``make_app`` creates.

    Its pickled form is a call that creates the app again. Celery pickles the app for pool processes
    that are not forks (macOS).
    """

    def __reduce__(self) -> tuple[Callable[..., Celery], tuple[Any, ...]]:
        engine = engine_of(self)
        return _make_again, (engine.settings, engine.name, engine.worker_pid)


def _make_again(settings: Settings, name: str, worker_pid: int | None) -> Celery:
    app = make_app(settings)
    engine = engine_of(app)
    engine.name, engine.worker_pid = name, worker_pid
    set_up()
    return app


def make_app(settings: Settings) -> Celery:
    """Return Perdure's own Celery app, with the tasks that run rounds and the worker step.

    The worker step (``PerdureStep``) starts the sweeper in a worker.
    """
    app = celery_app(settings, PerdureApp)
    _install(app, Runtime(app, settings, owns_app=True))
    return app


def install(
    celery_app: Celery,
    settings: Settings | None = None,
    *,
    flows: Iterable[str | type[Flow] | Flow] = (),
) -> Celery:
    """Add rounds, heartbeat and sweep to an existing Celery app.

    The app's own tasks and settings stay unchanged. A second call with equal settings does nothing.

    Args:
        celery_app: The app whose workers run rounds. Without ``-Q`` they consume the queues
            ``PREFIX.controller`` and ``PREFIX.executor`` beside the app's own. With ``-Q`` they
            consume exactly the queues that it names, and for each of these two also a queue of
            their set of flows.
        settings: Perdure's settings. None means those of this process. Without a ``redis_url`` the
            state lives in the app's broker, if that is a Redis.
        flows: Flows, or names of modules that register flows. A module ``perdure_flows`` is also
            found in each installed Django app, in the app's own package, and in the packages of
            ``imports`` and ``include``.

    Raises:
        InvalidSettings: The app has Perdure already, with other settings, or ``redis_url`` is not
            the URL of a state server.
    """
    settings = settings or current()
    if settings.redis_url is not None:
        check_url(settings.redis_url)
    installed = getattr(celery_app, "perdure", None)
    if isinstance(installed, Runtime):
        if installed.given != settings:
            differing = [
                name for name, value in installed.given if getattr(settings, name) != value
            ]
            raise InvalidSettings(
                "Perdure is on this Celery app already, with other settings "
                f"({', '.join(differing)}); an app has one. Call install once"
            )
        return celery_app
    _install(celery_app, Runtime(celery_app, settings, tuple(flows)))
    return celery_app


def _install(app: Celery, engine: Runtime) -> None:
    app.perdure = engine
    install_rounds(engine)
    _add_submit_task(app)


def _add_submit_task(app: Celery) -> None:
    """Register the Celery task ``perdure.submit``, which submits a run, on an app.

    Celery beat and canvas can use the task. It takes the arguments of ``Client.submit`` and returns
    the run's id. Its default idempotency key is the id of the Celery task. So a message that is
    delivered twice, or a retry of the task, submits no second run.
    """

    @cache
    def client() -> Client:
        return Client(app=app)

    def submit(
        task: Task, flow: str, goal: str, inputs: dict[str, Any] | None = None, **options: Any
    ) -> str:
        options.setdefault("idempotency_key", f"celery:{task.request.id}")
        return client().submit(flow, goal, inputs, **options).id

    app.task(submit, name=SUBMIT, bind=True, shared=False)


def __getattr__(name: str) -> Celery:
    """Return Perdure's Celery app for the names ``app`` and ``celery``.

    The first access creates the app, so that importing this module reads no settings.

    Raises:
        AttributeError: The module has no such name.
    """
    if name in ("app", "celery"):
        settings = with_server(current())
        globals()["app"] = globals()["celery"] = made = make_app(settings)
        if re.search(r"\s(-P|--pool)[\s=]?prefork(\s|$)", " ".join(sys.argv)):
            # Celery takes prefork for "not service_options", and would use the app's own pool.
            made.conf.worker_pool = "prefork"
        if settings.log_format == "json":  # text is left to Celery's own options
            signals.setup_logging.connect(
                lambda loglevel=None, **_: set_up_logging("json", loglevel or logging.WARNING),
                weak=False,
            )
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
