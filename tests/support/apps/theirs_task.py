"""A task class and a router of somebody's own."""

from __future__ import annotations

from typing import Any

from celery import Task


class Stubborn(Task):
    """Refuses to play a round: rounds are Celery's plain tasks, not the app's."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert not str(self.name).startswith("perdure."), "a round was played as a task of theirs"
        return super().__call__(*args, **kwargs)


class TheirRouter:
    """Sends everything it is asked about elsewhere."""

    def route_for_task(self, task: str, args: Any = None, kwargs: Any = None) -> dict[str, str]:
        return {"queue": "theirs", "exchange": "elsewhere", "routing_key": "elsewhere"}
