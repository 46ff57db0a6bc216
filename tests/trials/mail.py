"""Trials of signals: to many runs, to a topic before and behind its run, in the moment of a
time-out, and while a run finishes.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from typing import Any

from perdure import CircularFlow, MailboxFull, Node, RoundContext, register
from perdure.flows.core.errors import ProcessEnd
from perdure.worker.ids import process_name
from perdure.worker.store import Store
from tests.support.redis_servers import until
from tests.support.round_driver import driving
from tests.support.runs import START
from tests.support.steering_orders import heard_or_refused
from tests.trials.ground import place
from tests.trials.trees import LONG
from tests.trials.trial import Figures

#: Seconds before and behind the submission in which signals to the topic are sent, at the full
#: size.
AROUND = 60.0
SENDERS = 4
#: Senders of signals to many runs, and these runs; a trial of fewer signals has a tenth of the
#: runs.
MANY_SENDERS, RUNS, MANY = 8, 50, 10_000
#: Waits that end in the same millisecond as signals come.
TOGETHER = 50


def signals(size: int, handover: str = "fused", renews: int = 0) -> Figures:
    """Send signals of eight senders to many runs, each twice under its key, half of them before a
    run waits.
    """
    with place(handover) as ground:
        count = RUNS if size >= MANY else RUNS // 10
        each = size // (count * MANY_SENDERS)
        inputs = {"total": each * MANY_SENDERS, "renews": renews}
        runs = [ground.client.submit("trial_mail", "g", inputs).id for _ in range(count)]

        def send(sender: int, numbers: range) -> None:
            for number in numbers:
                for run_id in (*runs, *runs):
                    while not _sent(ground.client, f"{sender}:{number}", run_id=run_id):
                        threading.Event().wait(0.05)

        def send_all(numbers: range) -> None:
            with ThreadPoolExecutor(MANY_SENDERS) as pool:
                list(pool.map(partial(send, numbers=numbers), range(MANY_SENDERS)))

        send_all(range(each // 2))
        with ground.killing(1.0) as kills:
            send_all(range(each // 2, each))
            ended = [ground.client.wait(run_id, LONG) for run_id in runs]
        left = sum(sum(ground.client.unread(run_id).values()) for run_id in runs)
    wrong = sum(len(run.answer) for run in ended)
    renewed = sum(run.details.get("generation", 0) for run in ended)
    text = (
        f"{count * each * MANY_SENDERS:,} signals to {count} runs, each twice, {len(kills)} kills, "
        f"{renewed:,} renewals: {wrong} lost, taken twice or out of order, {left} left"
    )
    kept = wrong == left == 0 and len(kills) > 0 and (renewed > 0) == (renews > 0)
    return Figures(text, kept)


signals_renewing = partial(signals, renews=100)


def topics(size: int) -> Figures:
    """Send signals to a topic, each twice, from before to after its run is submitted."""
    with place() as ground, ground.killing(2.0) as kills:
        each = size // SENDERS
        pause = AROUND * 2 / each * min(1.0, size / 10_000)
        refused = Counter[str]()

        def send(sender: int) -> None:
            for number in range(each):
                for _ in range(2):
                    while not _sent(ground.client, f"{sender}:{number}", topic="trial"):
                        refused["full"] += 1
                        threading.Event().wait(0.2)
                threading.Event().wait(pause)

        threads = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
        for thread in threads:
            thread.start()
        threading.Event().wait(pause * each / 2)
        run = ground.client.submit("collector", "g", {"total": each * SENDERS}, topic="trial")
        for thread in threads:
            thread.join()
        taken = ground.client.wait(run.id, 300).answer
    lost, twice = each * SENDERS - len(set(taken)), len(taken) - len(set(taken))
    ordered = all(
        (numbers := [int(text.split(":")[1]) for text in taken if text.startswith(f"{sender}:")])
        == sorted(numbers)
        for sender in range(SENDERS)
    )
    text = (
        f"{each * SENDERS:,} signals, each twice, {len(kills)} kills, {refused['full']} refused for "
        f"a full room and sent again: {lost} lost, {twice} taken twice, {'in' if ordered else 'NOT in'} order"
    )
    return Figures(text, lost == 0 and twice == 0 and ordered and len(kills) > 0)


def _sent(client: Any, text: str, **to: str) -> bool:
    try:
        client.signal(**to, name="paid", payload=text, key=text)
    except MailboxFull:
        return False
    return True


#: The sight of each attempt of a step: True if the signal, False if the end of its time.
SAW: dict[str, list[bool]] = {}


class Lost(ProcessEnd):
    """The process dies."""


@register("trial_racer")
class TrialRacer(CircularFlow):
    """Waits for a signal for a time; the first two attempts behind the wait die."""

    topology = (Node("Wait", "wait"),)

    def wait(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        came = context.wait_for("paid", timeout=context.inputs["seconds"]) is not None
        seen = SAW.setdefault(context.run_id, [])
        seen.append(came)
        if len(seen) < 3:
            raise Lost
        return {self.early_exit_key: True, "answer": came}


def time_outs(size: int) -> Figures:
    """Send a signal in the millisecond in which its wait times out, and kill the first two attempts
    behind it.
    """
    SAW.clear()
    with place() as ground, driving(ground.settings) as driver:
        for _ in range(0, size, TOGETHER):
            seconds = 0.25
            ids = [
                ground.client.submit("trial_racer", "g", inputs={"seconds": seconds}).id
                for _ in range(TOGETHER)
            ]
            driver.play()
            ends = [
                float(ground.client._store.reads.fields(each)["wait_until"]) / 1000 for each in ids
            ]

            def signal(ids: list[str] = ids, ends: list[float] = ends) -> None:
                for run_id, end in sorted(zip(ids, ends, strict=True), key=itemgetter(1)):
                    time.sleep(max(0.0, end - time.time() - 0.0005))
                    ground.client.signal(run_id, "paid", 1)

            sender = threading.Thread(target=signal)
            sender.start()
            time.sleep(max(0.0, min(ends) - time.time() - 0.002))
            while sender.is_alive():
                driver.sweeper.sweep()
            sender.join()
            _play_all(driver, ids)
    wrong = sum(len(set(seen)) != 1 or len(seen) != 3 for seen in SAW.values())
    won = Counter(seen[0] for seen in SAW.values())
    text = (
        f"{len(SAW):,} waits, three attempts each: the signal won {won[True]:,}, the time "
        f"{won[False]:,}; {wrong} whose attempts saw different winners"
    )
    return Figures(text, wrong == 0 and len(SAW) >= size and min(won[True], won[False]) > 0)


def _play_all(driver: Any, ids: list[str]) -> None:
    store = driver.engine.store

    def ended() -> bool:
        driver.sweeper.sweep()
        while (message := driver.take()) is not None:
            try:
                driver.engine.rounds.run(*message)
            except Lost:
                run_id, epoch, step = message
                store.rounds.release_dead_lease(
                    run_id, epoch=epoch, step=step, process=process_name()
                )
        return all((store.reads.fields(each) or {})["phase"] == "completed" for each in ids)

    until(ended, "the end of all racers", 60)


def says(size: int) -> Figures:
    """Send messages to a run of many rounds a second: its next controller round reads it."""
    with place() as ground, ground.workers(1):
        run = ground.client.submit("steered", "g", {"rounds": 1_000_000})
        until(lambda: ground.client.get(run.id).state.step > 20, "rounds under way", 30)
        before, seconds = [], []
        for number in range(size):
            began = time.monotonic()
            ground.client.say(run.id, str(number))
            before.append(ground.client.get(run.id).state.step)
            until(lambda: not ground.client.unread(run.id), "it is heard", 10)
            seconds.append(time.monotonic() - began)
        last = ground.client.get(run.id).state.step
        ground.client.request_stop(run.id, mode="now")
        turns = ground.client.transcript(run.id)["history"]
    said = [place for place, turn in enumerate(turns) if turn["command"] is None]
    # The turn of round 2k is the k-th of the run's own, beside the earlier messages.
    heard = [2 * (place - number) for number, place in enumerate(said)]
    late = sum(step - came > 4 for step, came in zip(heard, before, strict=False))
    text = (
        f"{size:,} said within {last:,} rounds: {len(heard):,} heard, {late} later than in the next "
        f"controller round; known as heard after {1000 * statistics.median(seconds):.1f} ms (median)"
    )
    return Figures(text, len(heard) == size and late == 0)


def finishes(size: int) -> Figures:
    """Send messages in the moment of a finish, in random orders: read or refused, never lost."""
    with place() as ground:
        store = Store(ground.settings.redis_url or "", "trials", now=START)
        try:
            told = heard_or_refused(store, range(size))
        finally:
            store.close()
    text = f"{size:,} runs: {told['heard']:,} words heard, {told['refused']:,} refused behind the end, {told['unread']:,} reported unread, 0 silent"
    return Figures(text, all(told[word] > 0 for word in ("heard", "refused", "unread")))
