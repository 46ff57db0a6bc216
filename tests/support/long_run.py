"""A run of very many rounds, as stored."""

from __future__ import annotations

import json
from typing import Any

from perdure import Client, Run
from perdure.worker.domain.turn_texts import pack_turn
from perdure.worker.store import Store

TRACEBACK = """ValueError: no such till
  File "flows/till.py", line 12, in pay
    charge(amount)
  (3 of Perdure, Python and libraries, last httpx/_client.py:88 in send)
"""


def long_run(client: Client, store: Store, rounds: int) -> Run:
    """Make a run with this number of rounds in its event stream; every thousandth failed once
    before.
    """
    run = client.submit("countdown", "A long one", {"rounds": rounds})
    at = int(run.created_at.timestamp() * 1000)
    with store.redis.pipeline(transaction=False) as pipe:
        for step in range(rounds):
            node = ("Controller", "Executor")[step % 2]
            frame = {"step": step, "node": node, "attempt": 1, "at": at + 50 * step + 50}
            if step % 1000 == 999:
                more = {"type": "failed", "error": "no such till", "retry_in": 10}
                pipe.xadd(store.keys.events(run.id), {**frame, **more, "traceback": TRACEBACK})
            data: dict[str, Any] = {
                "command": "pay",
                "args": json.dumps({"amount": step, "to": "Ann, of the till"}),
                "tokens": 1200,
                "money": 0.01,
            }
            if node == "Executor":
                data["observation"] = f"paid {step}\nreceipt {step}"
            entry = {**frame, "type": "committed", "took": 30, "data": json.dumps(data)}
            pipe.xadd(store.keys.events(run.id), entry)
        pipe.hset(store.keys.run(run.id), "step", rounds)
        pipe.execute()
    return run


def add_turn(store: Store, run: Run, args: Any, observation: Any) -> str:
    """Add a run's next turn, with its round's event; return the digest of the observation."""
    from perdure.flows.core.outcomes import Command, Turn
    from perdure.flows.core.summaries import digest, shown

    at = int(run.created_at.timestamp() * 1000) + 100
    store.redis.rpush(
        store.keys.memory(run.id), pack_turn(Turn(Command("pay", args), observation), run.id)
    )
    data = {
        "command": "pay",
        "args": shown(args),
        "observation": shown(observation),
        "digest": digest(observation),
    }
    entry = {"type": "committed", "at": at, "step": 1, "attempt": 2, "node": "Executor", "took": 9}
    store.redis.xadd(store.keys.events(run.id), {**entry, "data": json.dumps(data)})
    store.redis.hset(store.keys.run(run.id), mapping={"turns": 1, "step": 2})
    return digest(observation)
