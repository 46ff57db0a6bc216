"""RemoteClient: the methods of every client, over the HTTP API. Needs the extra ``server``."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from perdure.worker.client.remote.derived import request
from perdure.worker.client.remote.events import RemoteEvents
from perdure.worker.client.remote.runs import RemoteBulk, RemoteControl
from perdure.worker.operations.operation import Operation

R = TypeVar("R")


class RemoteClient(RemoteControl, RemoteEvents, RemoteBulk):
    """Client of a server with the HTTP API (``perdure server``).

    It has the methods of ``Client``. They differ in these points:

    - The token identifies the caller, so ``submitted_by``, ``requested_by`` and ``by`` raise
      InvalidInput.
    - Runs of other owners are not found, unless the token's scopes include ``admin``.
    - ``on_end`` raises InvalidInput.
    - ``ids_beginning`` looks at about 4,500 runs, and ``status_counts`` of a caller's runs at
      1,000, the newest first.
    - ``look`` is an approximate number.
    - ``events`` reconnects if the connection is cut, and yields each event exactly once.
    - ``doctor`` checks the process of the HTTP API.

    A call that cannot reach the server is retried for about a second. If the server was reached but
    did not answer, a call is retried only if it cannot take effect twice. Such calls are reads,
    ``submit``, ``fork``, ``send``, ``put_note``, and signals with a key. For other calls,
    StoreUnavailable says that they may have been carried out. If you then repeat ``resume``, pass
    ``interrupt``, so that the answer cannot reach another question.

    Args:
        url: URL of the server, ``https://runs.example.org``. If it has a path, it is the URL of
            the API itself (``https://example.org/perdure/api/v1``). A user and password in it
            are for a proxy and never shown.
        token: A token of ``perdure token create``, or None if the server needs none. It is never
            shown.
        timeout: Seconds to wait for each answer.

    Raises:
        StoreUnavailable: From every method, if the server or its state server does not answer.
        UnknownCaller: From every method, if the server does not accept the token.
        Forbidden: From every method, if the token has no permission for it.
    """

    def _perform(self, operation: Operation[Any, R], bound: inspect.BoundArguments) -> R:
        return request(self, operation, bound)


__all__ = ["RemoteClient"]
