"""Celery settings, a task class and a router of a user's app that must not affect rounds.

Each setting leaves the app's own tasks able to run.
"""

from __future__ import annotations

from typing import Any

from celery import Task

SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {"task_always_eager": True},
    "routes": {"task_routes": {"*": {"exchange": "elsewhere", "routing_key": "elsewhere"}}},
    "router": {"task_routes": ["tests.support.apps.user_app_settings.TheirRouter"]},
    "default queue": {
        "task_default_queue": "mail",
        "task_default_exchange": "mails",
        "task_default_exchange_type": "topic",
    },
    "pickle": {"task_serializer": "pickle", "accept_content": ["json", "pickle"]},
    "compression": {"task_compression": "gzip"},
    "no missing queues": {"task_create_missing_queues": False},
    "protocol 1": {"task_protocol": 1},
    "sent events": {"task_send_sent_event": True, "worker_send_task_events": True},
    "priorities": {
        "task_queue_max_priority": 10,
        "task_default_priority": 9,
        "task_inherit_parent_priority": True,
    },
    "annotations": {
        "task_annotations": {
            "*": {"rate_limit": "1/m", "time_limit": 1, "serializer": "pickle", "max_retries": 9}
        }
    },
    "rate limit": {"task_default_rate_limit": "1/m"},
    "results": {
        "task_ignore_result": False,
        "task_track_started": True,
        "task_store_errors_even_if_ignored": True,
    },
    "acks": {
        "task_acks_late": False,
        "task_reject_on_worker_lost": True,
        "task_acks_on_failure_or_timeout": False,
    },
}


class Stubborn(Task):
    """Refuses to play a round: rounds are Celery's plain tasks, not the app's."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert not str(self.name).startswith("perdure."), "a round was played as a task of theirs"
        return super().__call__(*args, **kwargs)


class TheirRouter:
    """Sends everything it is asked about elsewhere."""

    def route_for_task(self, task: str, args: Any = None, kwargs: Any = None) -> dict[str, str]:
        return {"queue": "theirs", "exchange": "elsewhere", "routing_key": "elsewhere"}
