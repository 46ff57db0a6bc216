"""Client: the client of one state server, composed of the modules of this package."""

from __future__ import annotations

from perdure.worker.client.bulk import BulkOperations
from perdure.worker.client.steer import Steering
from perdure.worker.client.threads import Threads


class Client(Threads, Steering, BulkOperations):
    """Client of the runs on one state server.

    Args:
        url: redis://, rediss://, unix:// or redis+sentinel://. None means the URL in the settings.
        settings: None means the settings of this process (``config/worker.toml``, ``PERDURE_*``).
        app: A Celery app of your own, after ``install``. It has its own state server, broker and
            settings, so pass it without ``url`` and ``settings``. None means an app of Perdure.
        resends: How often a Redis command without a reply is sent again before StoreUnavailable is
            raised.

    Raises:
        StoreUnavailable: From every method, if the state server does not reply.
        NotReplicated: From submit, request_stop, resume, add, retry, signal and delete, if
            ``wait_replicas`` is set. The operation was done, but not on enough replicas in time.
    """
