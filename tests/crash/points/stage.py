"""Stage: the servers and settings that stories are played on, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from perdure.worker.settings import Settings
from perdure.worker.store import Store

#: How a worker gets its rounds: it takes each message from a list; or the run stays with the
#: worker, or its commit prefetches the next round.
LISTS, STAYING = "by lists", "staying"


@dataclass
class Stage:
    """See the module.

    Attributes:
        app: a Celery app of the settings; it makes the messages.
        broker_url: where they are, for the outbox; the state server for the fused hand-over.
        inspector: a store that looks at the data, outside the processes of a story.
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
