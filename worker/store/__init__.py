"""The run state in Redis: its keys, and its transitions as Lua scripts.

No other package of ``perdure`` imports redis-py, except through kombu.
"""

from perdure.worker.errors import AccessDenied, NotReplicated, ServerFull, StoreUnavailable
from perdure.worker.store.keys import Keys
from perdure.worker.store.replication import Replication
from perdure.worker.store.replies import (
    Claim,
    ClaimRefused,
    CommitReply,
    Continuation,
    Prefetched,
    PrefetchRequest,
)
from perdure.worker.store.transitions import Store

__all__ = [
    "AccessDenied",
    "Claim",
    "ClaimRefused",
    "CommitReply",
    "Continuation",
    "Keys",
    "NotReplicated",
    "PrefetchRequest",
    "Prefetched",
    "Replication",
    "ServerFull",
    "Store",
    "StoreUnavailable",
]
