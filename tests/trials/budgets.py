"""A trial of a tree's budget: model children whose workers are killed in every second request."""

from __future__ import annotations

import threading
import time

from tests.support.budget_trees import held_up, millionths, tree_of
from tests.support.chat_server import Asked, Says, chat_server
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess
from tests.trials.ground import Ground, place
from tests.trials.trees import LONG
from tests.trials.trial import Figures

#: The provider's usage of each request: at most the expected usage of a first one, which may be
#: lost.
READ, WROTE = 80, 20
PAID = READ + WROTE
#: Of the tree, for each of its children.
SHARE = 600


def purse(size: int) -> Figures:
    """Drive a tree of model children that spends its budget while workers die, asks once, and goes
    on with more.
    """
    limit = SHARE * size
    with (
        chat_server([Says("On.", [("step", {})], tokens=(READ, WROTE))]) as model,
        place(model_url=model.url, retry_delay_max_seconds=1.0) as ground,
    ):
        workers: list[WorkerProcess] = []
        killing, lock = threading.Event(), threading.Lock()
        killing.set()

        def kill(asked: Asked) -> None:
            with lock:
                if killing.is_set() and len(model.play.asked) % 2 == 0 and workers:
                    workers[
                        -1
                    ].kill()  # before it is answered: the provider bills the reply all the same

        model.play.before = kill
        run = ground.client.submit(
            "trial_party", "g", inputs={"count": size}, budgets={"tokens": float(limit)}
        )
        kills, all_workers = 0, []
        try:
            while not _rests(ground, run.id):
                worker = _worker(ground, model.url)
                all_workers.append(worker)
                workers[:] = [worker]
                until(
                    lambda worker=worker: (
                        worker.process.poll() is not None or _rests(ground, run.id)
                    ),
                    "a kill, or a question",
                    LONG,
                )
                kills += worker.process.poll() is not None
            asked = len(model.play.asked)
            now = ground.client.get(run.id)
            spent = millionths(now.details["spent_below"], "tokens")
            own = millionths(now.details.get("spent", {}), "tokens")
            below = sum(
                millionths(each.details.get("spent", {}), "tokens")
                for each in tree_of(ground.client, now)
            )
            questions = len(ground.client.inbox().waiting)
            killing.clear()
            if not any(each.process.poll() is None for each in all_workers):
                all_workers.append(_worker(ground, model.url))
            until(lambda: _asked_for(ground, run.id) >= 1, "its siblings wait", 5)
            waiting = _asked_for(ground, run.id)
            ground.client.add(run.id, tokens=1_000.0 * PAID * size)
            began = time.monotonic()
            until(lambda: _asked_for(ground, run.id) == 0, "all go on", 20)
            seconds = time.monotonic() - began
            ground.client.request_stop(run.id, mode="now")
        finally:
            for each in all_workers:
                each.close()
    # Sent requests are paid for, also by attempts that were lost; as many may be in flight as there
    # are children.
    paid = asked * PAID
    text = (
        f"{size} children, {kills} workers killed, {asked} requests: {spent / 1e6:,.6f} tokens below the root, "
        f"{below / 1e6:,.6f} by its runs, own {own / 1e6:,.6f}; limit {limit:,}, paid {paid:,}; {questions} question; "
        f"{waiting} held up went on {seconds:.2f} s after the budget was raised"
    )
    kept = spent == below and questions == 1 and paid <= limit + PAID * size and kills >= 2
    return Figures(text, kept, in_time=seconds <= 1.0)


def _worker(ground: Ground, url: str) -> WorkerProcess:
    pace = {"PERDURE_MODEL_URL": url, "PERDURE_RETRY_DELAY_MAX_SECONDS": "1"}
    return ground.worker(**pace).ready()


def _rests(ground: Ground, run_id: str) -> bool:
    return bool(ground.client.inbox().waiting)


def _asked_for(ground: Ground, run_id: str) -> int:
    """Return how many children the budget holds up."""
    asking, waiting = held_up(ground.client, ground.client.get(run_id))
    return len(asking) + len(waiting)
