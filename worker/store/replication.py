"""Replication: an answer that a client gets only once replicas have what it rests on (WAIT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis
from redis.commands.core import Script

from flows.errors import HoldfastError

#: The transitions that a client asks for, and whose answer it builds on. A round's claim and commit are not among them: the next
#: round's message is out with the commit itself, so nobody would be held up by waiting after it (docs/decisions/0015).
ACKNOWLEDGED = frozenset({"submit_run", "request_stop", "resume_run", "retry_run", "delete_run"})
#: How often the scripts may be unknown to the server in a row: it may have been replaced, again, by one that never saw them.
UNKNOWN_SCRIPTS = 5


class NotReplicated(HoldfastError):
    """It was done, but too few replicas have it yet: a failover at this moment could undo it. The message names the run."""


@dataclass(frozen=True)
class Replication:
    """How many replicas must have it, and for how long (s) a client waits for them; 0: none, at once."""

    replicas: int = 0
    seconds: float = 1.0


def answer_and_wait(client: redis.Redis, script: Script, keys: Sequence[str], argv: Sequence[Any], wanted: Replication, mark: str) -> Any:
    """Run a transition and wait for replicas, in one exchange over one connection; its answer, and how many replicas have it.

    WAIT looks at the connection's own last write. An operation that was sent again, or found its work done, writes nothing, and
    Valkey would say at once that all replicas have that. So something is sent to the replicas first that changes nothing: a
    publication on the channel ``mark``. After it, "they have it" means that they have all that the answer was read from. One exchange:
    after a failover in between, the answer would be the old master's and the waiting the new one's.
    """
    for _ in range(UNKNOWN_SCRIPTS):
        with client.pipeline(transaction=False) as pipe:
            pipe.evalsha(script.sha, len(keys), *keys, *argv)
            pipe.publish(mark, "")
            pipe.wait(wanted.replicas, round(wanted.seconds * 1000))
            found = pipe.execute(raise_on_error=False)
        if not isinstance(found[0], redis.exceptions.NoScriptError):
            break
        client.script_load(script.script)
    for each in found:
        if isinstance(each, Exception):
            raise each
    return found[0], found[2]
