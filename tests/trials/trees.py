"""Trials of child runs: started once, answers delivered once, held back, stopped, resumed and
retried as a tree.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from perdure import Client, Run, RunStatus
from tests.crash.test_families import CHILDREN, check_family
from tests.support.redis_servers import until
from tests.support.round_driver import driving
from tests.trials.ground import Ground, place
from tests.trials.trial import Figures

#: Seconds that trials of this size may take on two slow cores.
LONG = 1_500.0


def families(size: int, handover: str = "fused") -> Figures:
    """Drive parents of three children of three rounds, while a worker is killed every second."""
    with place(handover) as ground:
        children = [{"rounds": 3, "seconds": 0.25}] * CHILDREN
        inputs = {"children": children, "options": {"wait": "settled", "max_concurrency": 2}}
        with ground.killing(1.0) as kills:
            runs = [ground.client.submit("fan", f"goal {each}", inputs) for each in range(size)]
            began = time.monotonic()
            for run in runs:
                ground.client.wait(run.id, LONG)
            until(lambda: ground.count("live") == 0, "the end of all children", 60)
            seconds = time.monotonic() - began
        wrong = [str(error) for run in runs if (error := _wrong(ground.client, run))]
        made = sum(len(ground.client.children(run.id).runs) for run in runs)
        lost = sum(
            event.type == "lost"
            for run in runs
            for each in (run, *ground.client.children(run.id).runs)
            for event in ground.client.events(each.id, follow=False)
        )
    text = (
        f"{size:,} parents, {made:,} children, {len(kills)} kills in {seconds:.0f} s, "
        f"{lost} rounds lost and played again; {len(wrong)} families wrong"
    )
    return Figures(text + "".join(f"\n{each}" for each in wrong[:3]), not wrong and lost > 0)


def _wrong(client: Client, run: Run) -> AssertionError | None:
    try:
        check_family(client, run)
    except AssertionError as error:
        return error
    return None


def starts(size: int) -> Figures:
    """Kill processes behind a parent's park, before its children are started."""
    with place(sweep_seconds=0.5) as ground:
        queue = f"{ground.settings.prefix}.executor"
        died: dict[str, float] = {}
        with ground.workers(1, *("--queues", queue)):
            for _ in range(size):
                run = ground.client.submit("trial_starter", "g")
                process = os.fork()
                if process == 0:
                    _park_and_die(ground)
                _, status = os.waitpid(process, 0)
                assert os.waitstatus_to_exitcode(status) == -9, "the process died in another way"
                died[run.id] = time.time()
                threading.Event().wait(random.random() * 0.2)
            late = []
            for run_id, at in died.items():
                until(lambda run_id=run_id: _has_a_child(ground, run_id), "the child", 20)
                [child] = ground.client.children(run_id).runs
                ended = ground.client.wait(child.id, 20)
                late.append(ended.updated_at.timestamp() - at)
    late.sort()
    median, p99 = statistics.median(late), late[min(len(late) - 1, int(0.99 * len(late)))]
    text = f"{size} processes died between park and start: children had run after {median:.2f} s (median), {p99:.2f} s (p99)"
    return Figures(text, True, in_time=median <= 2.6 and p99 <= 3.5)


def _park_and_die(ground: Ground) -> None:
    """Play the next round in this process, and end it where it would start children."""
    try:
        with driving(ground.settings) as driver:
            follow_ups = driver.engine.rounds.committer._follow_ups
            follow_ups.do = lambda *_, **__: os.kill(os.getpid(), 9)  # type: ignore[method-assign]
            driver.play()
    finally:
        os._exit(1)


def _has_a_child(ground: Ground, run_id: str) -> bool:
    return bool(ground.client.children(run_id).runs)


def at_once(size: int) -> Figures:
    """Drive a map of 16 at a time, while a worker is killed every two seconds."""
    with place() as ground, ground.killing(2.0) as kills:
        inputs = {"items": size, "at_once": 16, "child": {"seconds": 0.2}}
        run = ground.client.submit("trial_map", "g", inputs=inputs)
        answer = ground.client.wait(run.id, LONG).answer
        children = ground.children(run)
        moves: list[tuple[float, int]] = []
        for child in children:
            moves += [(child.created_at.timestamp(), 1), (child.updated_at.timestamp(), -1)]
    moves.sort()
    last_start = max(at for at, step in moves if step == 1)
    live = most = 0
    area, before = 0.0, moves[0][0]
    for at, step in moves:
        if at <= last_start:
            area += live * (at - before)
        live, before = live + step, at
        most = max(most, live)
    mean = area / (last_start - moves[0][0])
    text = f"{len(children):,} children, {len(kills)} kills: at most {most} live, {mean:.2f} on average while there were more"
    kept = answer == size == len(children) and most <= 16 and len(kills) > 0
    return Figures(text, kept, in_time=mean >= 14)


def stops(size: int, handover: str = "fused") -> Figures:
    """Stop a root with 1,110 parked descendants on three levels by ``stop --now``."""
    width, below = 10, 10 + 100 + 1000
    with place(handover) as ground, ground.workers(2):
        seconds, at_return = [], 0
        for _ in range(size):
            parked = ground.count("live") + below
            stopped = ground.count("stopped") + below
            run = ground.client.submit("trial_level", "g", inputs={"depth": 3, "width": width})
            until(lambda parked=parked: ground.count("live") >= parked, "the tree", 120)
            until(lambda: ground.parked("trial_level") == below + 1, "the tree's rest", 60)
            began = time.monotonic()
            at_return += ground.client.request_stop(run.id, mode="now").stopped
            until(lambda stopped=stopped: ground.count("stopped") >= stopped, "the stop", 60)
            seconds.append(time.monotonic() - began)
    seconds.sort()
    text = (
        f"{size} stops of 1,110 descendants: the root when the call returned in {at_return}; "
        f"the last after {statistics.median(seconds):.2f} s (median), {seconds[-1]:.2f} s (most)"
    )
    return Figures(text, at_return == size, in_time=seconds[-1] <= 2.0)


def wide_stop(size: int) -> Figures:
    """Stop a run with very many parked children by ``stop --now``; all are resumed with it, and
    stopped again.
    """
    with place() as ground, ground.workers(2):
        inputs = {"depth": 1, "width": size}
        run = ground.client.submit("trial_level", "g", inputs)
        until(lambda: ground.count("live") == size, "the children", LONG)
        until(lambda: ground.parked("trial_level") == size + 1, "their rest", 120)
        seconds = []
        for act, index in (("stop", "stopped"), ("resume", "live"), ("stop", "stopped")):
            began = time.monotonic()
            if act == "stop":
                ground.client.request_stop(run.id, mode="now")
            else:
                ground.client.resume(run.id)
            until(lambda index=index: ground.count(index) == size, f"all {index}", 300)
            seconds.append(f"{act} {time.monotonic() - began:.1f} s")
    return Figures(f"{size:,} children: {', '.join(seconds)} until the last", True)


def stops_while_starting(size: int) -> Figures:
    """Stop parents that start ten children, one after another, at random moments."""
    chance = random.Random(size)
    with place() as ground, ground.workers(2):

        def one(seed: float) -> tuple[int, int]:
            inputs = {"items": 10, "at_once": 3}
            run = ground.client.submit("trial_map", "g", inputs=inputs)
            threading.Event().wait(seed * 0.12)
            ground.client.request_stop(run.id, mode="now")
            made = len(ground.client.children(run.id).runs)
            return made, _made_later(ground, run, made)

        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(one, [chance.random() for _ in range(size)]))
        until(lambda: ground.count("live") == 0, "the end of all children", 60)
    made = sum(each for each, _ in found)
    under_way = sum(0 < each < 10 for each, _ in found)
    later = sum(each for _, each in found)
    text = f"{size:,} stops, {under_way:,} of them while children were being started ({made:,} were): {later} started after the acknowledgement"
    return Figures(text, later == 0 and under_way > size // 20)


def _made_later(ground: Ground, run: Run, made: int) -> int:
    """Return how many more children it has once the round that was in flight has ended."""
    until(lambda: ground.client.get(run.id).status.ended, "its end", 30)
    return len(ground.client.children(run.id).runs) - made


def stop_and_resume(size: int) -> Figures:
    """Stop and resume a tree again and again; a person has stopped two of its children before."""
    chance = random.Random(size)
    with place() as ground, ground.workers(2):
        children = [{"rounds": 10, "seconds": 0.2}] * 30
        inputs = {"children": children, "options": {"wait": "settled"}}
        run = ground.client.submit("fan", "g", inputs)
        until(lambda: len(ground.client.children(run.id).runs) == 30, "the children", 30)
        by_hand = set()
        for number, child in list(enumerate(ground.client.children(run.id).runs))[-2:]:
            ground.client.request_stop(child.id, mode="now")
            if ground.client.wait(child.id, 30).status is RunStatus.STOPPED:
                by_hand.add(number)  # not completed before
        cycles = 0
        for _ in range(size):
            threading.Event().wait(chance.random() * 0.05)
            if ground.client.get(run.id).status is RunStatus.COMPLETED:
                break
            ground.client.request_stop(run.id, mode="now")
            until(lambda: ground.count("live") == 0, "all are stopped", 30)
            ground.client.resume(run.id)
            cycles += 1
        told, missing = ground.client.wait(run.id, 120).answer
    wanted = [
        [number, "stopped", None] if number in by_hand else [number, "completed", f"item {number}"]
        for number in range(30)
    ]
    wrong = [pair for pair in zip(told, wanted, strict=True) if pair[0] != pair[1]]
    text = f"{cycles} cycles, {len(by_hand)} children stopped by hand: {len(wrong)} other answers than undisturbed"
    kept = not wrong and missing == [] and cycles >= min(size, 3) and len(by_hand) > 0
    return Figures(text + "".join(f"\n{each}" for each in wrong[:3]), kept)


def held(size: int) -> Figures:
    """Hold one failed child of a map back until a person has retried it."""
    with place() as ground, ground.workers(2), tempfile.TemporaryDirectory() as directory:
        mended = Path(directory) / "mended"
        child = {"fails": size // 2, "until": str(mended)}
        inputs = {"items": size, "at_once": 100, "child": child, "options": {"on_failure": "hold"}}
        run = ground.client.submit("trial_map", "g", inputs=inputs)
        until(lambda: ground.count("errored") == 1 and ground.count("live") == 0, "one left", LONG)
        before = ground.client.get(run.id).phase
        [failed] = [each for each in ground.children(run) if each.status is RunStatus.ERRORED]
        mended.touch()
        ground.client.retry(failed.id)
        began = time.monotonic()
        answer = ground.client.wait(run.id, LONG).answer
        seconds = time.monotonic() - began
        rounds = [
            sum(each.type == "committed" for each in ground.client.events(child.id, follow=False))
            for child in ground.children(run)
        ]
    counted = {many: len(list(each)) for many, each in groupby(sorted(rounds))}
    text = f"{size:,} children, one failed while its parent was {before}, retried: answer {answer:,} after {seconds:.0f} s; commits by child {counted}"
    return Figures(text, answer == size and counted == {1: size} and before == "parked")
