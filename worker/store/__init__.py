"""The run state in Redis: keys, transitions as Lua scripts, and the only importer of redis."""

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
