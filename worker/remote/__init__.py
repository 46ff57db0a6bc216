"""RemoteClient: the methods of Client, over HTTP to a control room. Needs the extra ``server``."""

from __future__ import annotations

from worker.remote.following import Following
from worker.remote.many import Many
from worker.remote.place import Place
from worker.remote.steering import Steering
from worker.remote.submitting import Submitting


class RemoteClient(Submitting, Steering, Following, Many, Place):
    """A client of the runs of a control room; see Client for what each method does and raises.

    A call that cannot reach the server is tried again for a moment. So is one that was sent and got no answer, where it may be
    repeated: what only looks, and ``submit``. Of the others StoreUnavailable says that they may have been carried out.

    Args:
        url: the address of the control room, ``https://runs.example.org``; with a path, that of the API itself
            (``https://example.org/holdfast/api/v1``). A user and password in it are for a proxy in between, and shown nowhere.
        token: one of ``holdfast token create``; None where the server needs none. It is shown nowhere.
        timeout: seconds for each answer.

    Raises:
        StoreUnavailable: from every method, when the server does not answer, or the state server behind it.
        UnknownCaller, Forbidden: likewise, when it does not know the token, or its caller may not do this.
    """


__all__ = ["RemoteClient"]
