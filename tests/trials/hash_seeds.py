"""A trial of random workflow programs whose rounds are played by processes with different hash
seeds, some of which die.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from random import Random
from threading import Lock
from typing import Any

from perdure import Run, RunStatus, Settings
from tests.support.random_workflows import (
    CHANCE,
    MOST_DEPTH,
    OF_SETS,
    Op,
    is_of_its_name,
    program,
)
from tests.support.redis_servers import until
from tests.support.round_driver import driving
from tests.support.workflow_effects import Killed, journal, let_time_pass, play_one
from tests.trials.ground import Ground, place
from tests.trials.trial import Figures

#: Processes that play the rounds of one program, each with another hash seed.
PLAYERS = 4
#: Programs that are played at once.
GROUPS = 2
FIRST_SEED = 20_000
#: Started processes inherit their hash seed from the environment, which all threads share.
_starting = Lock()


def _play(settings: Settings, orders: Connection) -> None:
    """Play one round for each order, in a separate process; some die in it."""
    logging.getLogger("perdure").setLevel(logging.CRITICAL)  # steps fail by chance
    with driving(settings) as driver:
        while (order := orders.recv()) is not None:
            seed, dies = order
            CHANCE[:] = [] if seed is None else [Random(seed)]
            played = play_one(driver, before_its_commit=dies)
            let_time_pass(driver)
            orders.send((played, Killed.count))
            Killed.count = 0


@contextmanager
def _players(settings: Settings, first: int) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    with _starting:
        for number in range(PLAYERS):
            mine, its = context.Pipe()
            os.environ["PYTHONHASHSEED"] = str(first + number)
            processes.append(context.Process(target=_play, args=(settings, its)))
            processes[-1].start()
            pipes.append(mine)
        del os.environ["PYTHONHASHSEED"]
    try:
        yield pipes
    finally:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join(30)


def _has_sets(code: list[Op]) -> bool:
    """Return whether a program goes over a set, so that its order is another in each process."""
    return any(op[0] in OF_SETS or (op[0] == "loop" and _has_sets(op[2])) for op in code)


def _group(number: int, count: int) -> tuple[int, int, list[str]]:
    """Play programs in a separate process.

    Returns:
        How often a process died, how many programs diverged, and the faults.
    """
    deaths, diverged, wrong = 0, 0, []
    with place() as ground, _players(ground.settings, 10 * number + 1) as players:
        for seed in range(FIRST_SEED + number * count, FIRST_SEED + (number + 1) * count):
            random = Random(seed)
            is_live = random.random() < 0.5
            code = program(random, MOST_DEPTH, is_live, with_sets=True)
            has_sets = _has_sets(code)
            flow = "workflow_live_by_chance" if is_live else "workflow_by_chance"
            found = []
            for chance in (None, random):
                run = ground.client.submit(flow, "go", {"code": code})
                ended, died = _played(ground, players, run, chance)
                deaths += died
                entries = sorted(
                    str(each).replace(run.id, "RUN") for each in journal(ground.client, run)
                )
                found.append((ended, [] if has_sets else entries))
            (calm, entries), (wild, disturbed) = found
            if has_sets and wild.status is RunStatus.ERRORED and "function now" in str(wild.error):
                diverged += 1
            elif not (
                calm.status is wild.status is RunStatus.COMPLETED
                and calm.answer == wild.answer
                and all(map(is_of_its_name, wild.answer))
                and entries == disturbed
            ):
                wrong.append(
                    f"seed {seed}: {[(each.status, each.error, each.answer) for each, _ in found]}"
                )
    return deaths, diverged, wrong


def _played(
    ground: Ground, players: list[Connection], run: Run, random: Random | None
) -> tuple[Run, int]:
    """Play a run to its end, each round by a process that is chosen by chance, and answer its
    questions.
    """
    client, deaths = ground.client, 0

    def rests() -> bool:
        nonlocal deaths
        played = True
        while played:
            player = players[0] if random is None else random.choice(players)
            dies = random is not None and random.random() < 0.15
            player.send((None if random is None else random.random(), dies))
            played, died = player.recv()
            deaths += died
        for each in client.inbox().waiting:
            said: Any = f"an answer to {each.question}"
            if each.kind == "in_doubt":
                said = {"result": f"did {each.args['name']}"}
            client.resume(each.run_id, said, interrupt=each.id)
        return client.get(run.id).status.ended

    until(rests, "the end of the run", 120)
    return client.get(run.id), deaths


def programs(size: int) -> Figures:
    """Play ``size`` random programs undisturbed, and under deaths with other hash seeds."""
    with ThreadPoolExecutor(GROUPS) as pool:
        found = list(pool.map(_group, range(GROUPS), [size // GROUPS] * GROUPS))
    deaths = sum(died for died, *_ in found)
    wrong = [each for *_, those in found for each in those]
    diverged = sum(each for _, each, _ in found)
    text = (
        f"{size:,} programs, {GROUPS * PLAYERS} hash seeds, {deaths:,} deaths: {diverged} over "
        f"sets diverged, {len(wrong)} other answers or journals"
        f"{''.join(f'; {each}' for each in wrong[:3])}"
    )
    return Figures(text, not wrong and deaths > 0)
