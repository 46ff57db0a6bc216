"""Stage: the servers and settings that stories are played on, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from worker.settings import Settings
from worker.store import Store


@dataclass
class Stage:
    """See the module.

    Attributes:
        app: a Celery app of the settings; it makes the messages.
        broker_url: where they are, for the outbox; the state server for the fused hand-over.
        inspector: looks at what is there, by no process of a story.
    """

    settings: Settings
    app: Celery
    broker_url: str
    inspector: Store
    outbox: bool = False

    @property
    def url(self) -> str:
        assert self.settings.redis_url is not None
        return self.settings.redis_url
