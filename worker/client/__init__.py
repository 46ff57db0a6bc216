"""Client: submit goals, look at runs, stop, resume and retry them."""

from __future__ import annotations

from worker.client.inbox import Inbox, Inboxes
from worker.client.listing import Page
from worker.client.many import ManyRuns
from worker.client.steering import Steering
from worker.client.stuck import Standstill
from worker.client.submitting import Submitting


class Client(Submitting, Steering, Inboxes, Standstill, ManyRuns):
    """A client of the runs on one server.

    Args:
        url: redis://, rediss://, unix:// or redis+sentinel://; None for the settings'.
        settings: None for those of this process (``config/worker.toml``, ``HOLDFAST_*``).
        app: a Celery app of your own that ``install`` was called for, alone: its state server, its broker, its way to get there.
        resends: how often a command that got no answer is sent again before StoreUnavailable is raised.

    Raises:
        StoreUnavailable: from every method, when the server does not answer.
        NotReplicated: from submit, request_stop, resume, retry and delete, where ``wait_replicas`` is set: it was done, but so many
            replicas did not have it in time.
    """


__all__ = ["Client", "Inbox", "Page"]
