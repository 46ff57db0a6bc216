"""Trials of code that changes while runs are live: a deployment that rolls back and forth, three
versions at once.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.example_flows import changing_rules
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.workers import ROOT, WorkerProcess
from tests.support.workflow_effects import DONE, let_time_pass, play_one
from tests.trials.ground import THREADS, Ground, place
from tests.trials.trial import Figures

VERSIONS = ("a", "b", "c")
SLOTS = 3
#: Seconds between two replacements of a worker, and live runs that the load keeps.
PERIOD, LIVE = 6.0, 60
ROUNDS = 6
FLOWS = ("rolled_workflow", "rolled_controller", "rolled_ring")
#: No version fits the runs of another: steps, decided commands and nodes have its name.
CODE = '''
from perdure import CircularFlow, Command, ControllerExecutorFlow, Finish, Node, Steps, command
from perdure import register, workflow

ROUNDS = {rounds}


@workflow("rolled_workflow")
def rolled(steps: Steps) -> list:
    found = []
    for number in range(ROUNDS):
        found.append(steps.step(work, number, name="{version}" + str(number), idempotent=True))
        steps.sleep(0.3)
    return found


def work(number):
    return "{version}"


@register("rolled_controller")
class Rolled(ControllerExecutorFlow):
    needs_goal = False

    def decide(self, context):
        done = [turn.observation for turn in context.history]
        if len(done) < ROUNDS:
            return Command("do_{version}", {{"number": len(done)}})
        return Finish(done)

    @command(idempotent=True)
    def do_{version}(self, context, number: int) -> int:
        """Do it, a moment later."""
        context.cancelled.wait(0.1)
        return number


@register("rolled_ring")
class RolledRing(CircularFlow):
    needs_goal = False
    topology = (Node("Begin", "begin"), Node("Work_{version}", "work"))

    def begin(self, state, context):
        context.cancelled.wait(0.05)
        return {{}}

    def work(self, state, context):
        done = [*state.get("done", []), len(state.get("done", []))]
        return {{"done": done, "EARLY_EXIT": len(done) == ROUNDS, "answer": done}}
'''


def rolling(size: int) -> Figures:
    """Drive ``size`` seconds of load while one worker after the other gets another version."""
    chance = random.Random(size)
    ids: list[str] = []
    with ExitStack() as running:
        ground = running.enter_context(place(flow_modules=()))
        base = Path(running.enter_context(tempfile.TemporaryDirectory()))
        slots = [_worker(ground, base, version) for version in VERSIONS]
        running.callback(lambda: [each.close() for each in slots])
        for each in slots:
            each.ready()
        began, replaced = time.monotonic(), 0
        open_runs: set[str] = set()
        while (passed := time.monotonic() - began) < size:
            if passed > PERIOD * (replaced + 1):
                slot = replaced % SLOTS
                slots[slot].terminate() if chance.random() < 0.5 else slots[slot].kill()
                gone = slots[slot]
                slots[slot] = _worker(ground, base, chance.choice(VERSIONS)).ready()
                gone.close()
                replaced += 1
            open_runs -= {each for each in open_runs if ground.client.get(each).status.ended}
            while len(open_runs) < LIVE:
                flow = FLOWS[len(ids) % len(FLOWS)]
                ids.append(ground.client.submit(flow, inputs={}).id)
                open_runs.add(ids[-1])
            time.sleep(0.1)
        last = [_worker(ground, base, version).ready() for version in VERSIONS]
        running.callback(lambda: [each.close() for each in last])

        def all_ended() -> bool:
            open_runs.difference_update(
                [each for each in open_runs if ground.client.get(each).status.ended]
            )
            return not open_runs

        until(all_ended, "the end of all runs", 240)
        runs = [ground.client.get(each) for each in ids]
        statuses = Counter(run.status.value for run in runs)
        wrong = [run.id for run in runs if not _is_right(run.flow, run.answer)]
        store = ground.client._store
        waits = sum(
            int(store.redis.hget(store.keys.queues, f"moves:code_waits:{flow}") or 0)
            for flow in FLOWS
        )
    text = (
        f"{len(ids):,} runs in {size} s, {replaced} workers replaced, {waits:,} rounds did not fit "
        f"their worker: {dict(statuses)}, {len(wrong)} wrong answers"
    )
    kept = statuses["completed"] == len(ids) and not wrong and waits > 0 and replaced > 0
    return Figures(text, kept)


def _worker(ground: Ground, base: Path, version: str) -> WorkerProcess:
    directory = base / version
    directory.mkdir(exist_ok=True)
    (directory / "rolled.py").write_text(CODE.format(version=version, rounds=ROUNDS), "utf-8")
    return ground.worker(
        *THREADS,
        "--concurrency",
        "8",
        PERDURE_FLOW_MODULES="rolled",
        PYTHONPATH=f"{directory}:{ROOT}",
        root=directory,
    )


def _is_right(flow: str, answer: Any) -> bool:
    if flow == "rolled_workflow":  # its steps are all of the version that began it
        return isinstance(answer, list) and len(answer) == ROUNDS and len(set(answer)) == 1
    return bool(answer == list(range(ROUNDS)))


def questions(size: int) -> Figures:
    """Answer questions at random while the rule that asks, its arguments and the build of the code
    change at random.
    """
    chance = random.Random(size)
    found = Counter[str]()
    with ExitStack() as running:
        ground = running.enter_context(place())
        drivers = [
            running.enter_context(driving(ground.settings.model_copy(update={"build": build})))
            for build in VERSIONS
        ]
        for _ in range(size):
            flow = chance.choice(changing_rules.FLOWS)
            DONE.clear()
            changing_rules.RULE.update(needed=True, args="ann")
            run = ground.client.submit(flow, "go")
            _play_by_chance(drivers, chance, lambda: bool(ground.client.inbox().waiting), 1.0)
            word = _answered(ground, chance, flow)
            _play_by_chance(drivers, chance, partial(_has_ended, ground, run.id), 0.5)
            ended = ground.client.get(run.id)
            sent = {who: DONE[f"send {who}"] for who in ("ann", "bob")}
            expected = {"refuse": (0, 0), "edit": (0, 1), "approve": (1, 0)}[word]
            right = ended.status.value == "completed" and tuple(sent.values()) == expected
            found[word if right else f"WRONG {word} {flow} {sent} {ended.status.value}"] += 1
    wrong = sum(many for name, many in found.items() if name.startswith("WRONG"))
    return Figures(f"{size:,} questions: {dict(found)}; {wrong} wrong", wrong == 0)


def _has_ended(ground: Ground, run_id: str) -> bool:
    return ground.client.get(run_id).status.ended


def _answered(ground: Ground, chance: random.Random, flow: str) -> str:
    """Answer the one question that waits, and return the answer as a word."""
    words = ["refuse", "approve", *(["edit"] if flow in changing_rules.EDITABLE else [])]
    word = chance.choice(words)
    answers = {"refuse": {"refuse": "never"}, "edit": {"edit": {"to": "bob"}}, "approve": "approve"}
    [question] = ground.client.inbox().waiting
    ground.client.resume(question.run_id, answers[word])
    return word


def _play_by_chance(
    drivers: Sequence[Driver],
    chance: random.Random,
    is_over: Callable[[], bool],
    needed: float,
) -> None:
    """Play each round with code of another build.

    Args:
        needed: the probability that the rule asks, in each round.
    """

    def over() -> bool:
        changing_rules.RULE["needed"] = chance.random() < needed
        driver = chance.choice(drivers)
        play_one(driver)
        let_time_pass(driver)
        return is_over()

    until(over, "the end of a run", 60)
