"""Checks: is the Celery app set so that rounds keep their promises?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.doctor.finding import Finding, Level, ok, refused, warning

if TYPE_CHECKING:
    from celery import Celery

JSON = {"json", "application/json"}
PICKLE = {"pickle", "application/x-python-serialize"}


def app_findings(app: Celery, own: bool) -> list[Finding]:
    """What the app's settings come to.

    Args:
        own: whether it is Holdfast's app. What an app of somebody else's sets is theirs to decide: a warning.
    """
    level = Level.REFUSED if own else Level.WARNING
    return [
        _content(app),
        _queue_names(app),
        _pickle(app, level),
        _prefetch(app, level),
        _prefetch_multiplier(app),
        _remote_control(app, level),
        _eager(app),
    ]


def _content(app: Celery) -> Finding:
    check, taken = "accept-content", set(app.conf.accept_content or ())
    if not taken & JSON:
        return refused(
            check,
            f"the app's workers accept {', '.join(sorted(taken)) or 'nothing'} and no JSON: they would refuse every round's message",
            "Add 'json' to accept_content; the app's own tasks may go on with what they use",
        )
    return ok(check, "the app accepts JSON")


def _queue_names(app: Celery) -> Finding:
    """Rounds are pushed to lists named like their queues; kombu can be told to name its lists otherwise."""
    check, options = "queue-names", app.conf.broker_transport_options or {}
    if options.get("global_keyprefix"):
        name, use = "global_keyprefix", "no prefix (databases of a server keep apps apart as well)"
    elif 0 not in options.get("priority_steps", (0,)):
        name, use = "priority_steps", "steps that begin with 0"
    else:
        return ok(check, "the app's workers look for a queue where its name says")
    return refused(
        check,
        f"broker_transport_options sets {name} to {options[name]!r}: the app's workers would look for rounds where none are",
        f"Use {use}; or have rounds played by an app of their own (celery -A worker.app worker)",
    )


def _pickle(app: Celery, level: Level) -> Finding:
    check, taken = "pickle", PICKLE & set(app.conf.accept_content or ())
    if taken:
        return Finding(
            check,
            level,
            "the app accepts pickle: whoever can write to the broker can run any code in its workers",
            "Take it out of accept_content",
        )
    return ok(check, "the app accepts no pickle")


def _prefetch(app: Celery, level: Level) -> Finding:
    check = "prefetch"
    if app.conf.worker_disable_prefetch:
        return Finding(
            check,
            level,
            "worker_disable_prefetch is on: with the thread pool it starves, and rounds wait although slots are free",
            "Leave it off; with worker_prefetch_multiplier = 1 and late acknowledgement a round is not held up behind another",
        )
    return ok(check, "worker_disable_prefetch is off")


def _prefetch_multiplier(app: Celery) -> Finding:
    check, multiplier = "prefetch-multiplier", app.conf.worker_prefetch_multiplier
    if multiplier != 1:
        return warning(
            check,
            f"worker_prefetch_multiplier is {multiplier or 'unlimited'}: a worker takes messages before it has a free slot, "
            "and a round may wait in it behind the app's own tasks although another worker is free; it is then sent again",
            "worker_prefetch_multiplier = 1; or workers for rounds alone: celery -A APP worker -Q PREFIX.controller,PREFIX.executor",
        )
    return ok(check, "workers take one message a slot ahead at most")


def _eager(app: Celery) -> Finding:
    check = "always-eager"
    if app.conf.task_always_eager:
        return warning(
            check,
            "task_always_eager is on: the app's own tasks run where they are called; rounds are sent to workers all the same",
            "Leave it to tests; rounds need a worker",
        )
    return ok(check, "task_always_eager is off")


def _remote_control(app: Celery, level: Level) -> Finding:
    check = "remote-control"
    if app.conf.worker_enable_remote_control:
        return Finding(
            check,
            level,
            "remote control is on: whoever can write to the broker can end the app's workers, and each worker polls a queue of its own",
            "worker_enable_remote_control = False; holdfast workers and holdfast stop need none",
        )
    return ok(check, "remote control is off")
