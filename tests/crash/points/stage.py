"""Stage: the servers and settings that stories are played on, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from perdure.worker.settings import Settings
from perdure.worker.store import Store

#: How a worker comes to its rounds: each message is taken from a list; or the run stays with the worker, or its commit fetches the next.
LISTS, STAYING = "by lists", "staying"


@dataclass
class Stage:
    """See the module.

    Attributes:
        app: a Celery app of the settings; it makes the messages.
        broker_url: where they are, for the outbox; the state server for the fused hand-over.
        inspector: looks at what is there, by no process of a story.
        fetches: whether a worker's commits fetch, and its runs stay.
    """

    settings: Settings
    app: Celery
    broker_url: str
    inspector: Store
    outbox: bool = False
    fetches: bool = False

    @property
    def url(self) -> str:
        assert self.settings.redis_url is not None
        return self.settings.redis_url
