"""The truth about runs, in Redis: keys, transitions as Lua files, and the only code that speaks to the server."""

from worker.store.connection import AccessDenied, StoreUnavailable
from worker.store.keys import Keys
from worker.store.replication import NotReplicated, Replication
from worker.store.store import Granted, Refused, Store

__all__ = ["AccessDenied", "Granted", "Keys", "NotReplicated", "Refused", "Replication", "Store", "StoreUnavailable"]
