"""Controls: the engine with one rule taken away.

Stories of these must break a law, or the laws are blind to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from perdure.worker.messaging.publisher import Publisher
from perdure.worker.store import Store
from perdure.worker.store.scripts import Transition, source
from tests.crash.points.faults import transitions

TOKEN = "if run.phase ~= 'leased' or run.token ~= arg.token or run.step ~= arg.step or run.epoch ~= arg.epoch then return { 'fenced' } end"
CLAIM = "if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end"
FENCE = f"{TOKEN}\n{CLAIM}"
ANY_TOKEN = TOKEN.replace("run.token ~= arg.token or ", "")
ANSWERED = "if run.last_token == arg.token then\n"
OPERATED = "if repeated then return repeated end"
FETCHED_BEFORE = ", fetched_before(k, now, fetched) }"
STAY_FENCE = "if token ~= arg.token or claim ~= arg.claim or step ~= arg.step or epoch ~= arg.epoch then return OTHER end"
STAY_ANSWERED = """if last_token == arg.token then -- made already, and the reply was lost
  if claim ~= arg.next_claim then return OTHER end
  return granted(token, claimed_at, lease_until, number_in_line, round_until or nil)
end"""
STAY_DUE = "call('ZADD', k.due, lease_until, id)"
STAY_STOP = "stop == 'stop_requested' or "
PROMISE = "  due_at(k, run, now + number(run.grace))\nend"
WOKEN_DUE = "due_at(k, run, now)\n  return { 'unmade'"
FOLLOWED = "  pcall('ZADD', follow_ups_of(k.due), 'LT', now + FOLLOWED, run.id)\n"
RENEWED = "  in_parts('HDEL', k.run, values, 1, #values)\n"
PUSHED = "call('LPUSH', queue, arg.message)\n"
PUSHING = ("submit_run", "commit_round", "resume_run", "retry_run", "sweep_due")


def without(text: str, *names: str, instead: str = "") -> Callable[[Store], None]:
    """Return a change of a store: these transitions without ``text``, which occurs once in each."""

    def change(store: Store) -> None:
        for name in names:
            whole = source(name)
            assert whole.count(text) == 1, (
                f"{name}.lua has {text!r} {whole.count(text)} times; the control takes nothing away"
            )
            changed = Transition(whole.replace(text, instead))
            transitions()[changed.sha] = name
            store._scripts[name] = changed

    return change


class Split(Publisher):
    """No outbox: a separate request pushes the messages of a script, and no due time stands in for
    it.
    """

    name = "split"
    outbox = True

    def __init__(self, process: Any) -> None:
        super().__init__(process.engine.app, process.story.inspector.keys)
        self._process = process

    def publish(self, messages: Iterable[tuple[str, str]]) -> None:
        for queue, text in messages:
            self._process.engine.store.redis.lpush(queue, text)

    def lengths(self) -> Mapping[str, int]:
        redis = self._process.engine.store.redis
        return {queue: redis.llen(queue) for queue in self._keys.queue_names}

    def close(self) -> None:
        """Do nothing: it has no connection."""


def split(store: Store) -> None:
    """Let the caller push for the scripts that push, and let them record no due time."""
    without(PROMISE, *PUSHING, instead="  never_due(k, run)\nend")(store)
    store.outbox = True
