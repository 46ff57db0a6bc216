"""Trials of workflows: each effect once under kills, and random programs with the same results
under deaths.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import ExitStack, closing
from typing import Any

from perdure import Client, InvalidTransition
from tests.support.random_workflows import compared
from tests.support.redis_servers import server
from tests.support.redis_servers import until as wait_until
from tests.support.round_driver import driving
from tests.trials.ground import place
from tests.trials.ten_steps import EACH, LEDGER, ledger
from tests.trials.trial import Figures


def effects(size: int) -> Figures:
    """Run workflows of ten steps while a worker is killed every second.

    A person who knows the effects answers doubts.
    """
    with ExitStack() as running:
        receiver = running.enter_context(server("valkey", "no"))
        os.environ[LEDGER] = receiver.url
        ledger.cache_clear()
        ground = running.enter_context(place())
        kills = running.enter_context(ground.killing(1.0))
        runs = [ground.client.submit("trial_ten", "go") for _ in range(size)]
        open_runs = {run.id for run in runs}
        asked = Counter[str]()
        began = time.monotonic()

        def all_ended() -> bool:
            for question in ground.client.inbox().waiting:
                asked[_answer(ground.client, question)] += 1
            open_runs.difference_update(
                [each for each in open_runs if ground.client.get(each).status.ended]
            )
            return not open_runs

        wait_until(all_ended, "the end of all runs", 900)
        seconds = time.monotonic() - began
        right = sum(ground.client.get(run.id).answer == sum(range(2 * EACH)) for run in runs)
        found = {
            "effects": Counter(ledger().lrange("effects", 0, -1)),
            "keyed": Counter(ledger().hvals("keyed")),
        }
        killed = len(kills)
    twice = {name: sum(many > 1 for many in each.values()) for name, each in found.items()}
    text = (
        f"{right:,} of {size:,} runs with the right answer, {killed} kills in {seconds:.0f} s, "
        f"{asked.total()} questions; effects {len(found['effects']):,}, {twice['effects']} twice; "
        f"with keys {len(found['keyed']):,}, {twice['keyed']} twice"
    )
    whole = all(len(each) == EACH * size for each in found.values())
    return Figures(text, right == size and whole and not any(twice.values()) and killed > 0)


def _answer(client: Client, question: Any) -> str:
    """Answer a question in doubt as the ledger says."""
    number = question.data["in_doubt"]["command"].removeprefix("s")
    happened = f"{question.run_id}:{number}" in ledger().lrange("effects", 0, -1)
    try:
        client.resume(
            question.run_id, {"result": int(number)} if happened else "retry", interrupt=question.id
        )
    except InvalidTransition:
        return "answered before"
    return "happened" if happened else "retry"


def programs(size: int) -> Figures:
    """Play random programs, each with random deaths and without: the same answers and journals."""
    with (
        place() as ground,
        driving(ground.settings) as driver,
        driving(ground.settings) as other,
        closing(Client(settings=ground.settings)) as client,
    ):
        deaths = compared(client, [driver, other], 5_000, size)
    return Figures(f"{size:,} programs, {deaths:,} deaths: same answers and journals", deaths > 0)
