"""The truth about runs, in Redis: keys, transitions as Lua files, and the only code that speaks to the server."""

from worker.store.answers import Fetch, Fetched, Granted, Refused, Stayed
from worker.store.connection import AccessDenied, ServerFull, StoreUnavailable
from worker.store.keys import Keys
from worker.store.replication import NotReplicated, Replication
from worker.store.store import Store

__all__ = [
    "AccessDenied",
    "Fetch",
    "Fetched",
    "Granted",
    "Keys",
    "NotReplicated",
    "Refused",
    "Replication",
    "ServerFull",
    "Stayed",
    "Store",
    "StoreUnavailable",
]
