"""A driver that plays the rounds of all runs in this process, like a worker with one slot."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from perdure import Client, Run, RunStatus, Settings
from perdure.worker.app import engine_of, make_app
from perdure.worker.engine.heartbeat import Heartbeat
from perdure.worker.engine.sweeper import Sweeper
from perdure.worker.messaging.message import stored_round
from perdure.worker.runtime.runtime import Runtime
from tests.support.redis_servers import until

#: Settings with which a worker that has announced itself once counts as alive during the whole
#: test.
LASTING = {"heartbeat_seconds": 60.0, "lease_seconds": 240.0}


class Driver:
    """An engine whose messages the test takes by itself."""

    def __init__(self, engine: Runtime, client: Client) -> None:
        self.engine, self.client = engine, client
        self.sweeper = Sweeper(engine.store, engine.publisher, client.settings, "driver", dict)

    @property
    def name(self) -> str:
        """The name of the worker that plays the rounds."""
        return self.engine.name

    def sweeper_of_a_worker(self, role: str = "all", slots: int = 1) -> Sweeper:
        """Return a sweeper as a worker has it: it announces the worker, and may run in a thread."""
        return self.engine.new_sweeper(role, "threads", slots)

    def take(self) -> tuple[str, int, int] | None:
        """Take the next message: run, epoch and step."""
        store = self.engine.store
        lists = [*store.keys.queue_names, *self.engine.own_queues]
        popped = store.redis.lmpop(len(lists), *lists, direction="RIGHT")
        if popped is None:
            return None
        queue, [text] = popped
        run_id, epoch, step = stored_round(text, queue)
        return run_id, epoch, step

    def play(self, most: int = 1_000) -> list[str]:
        """Play rounds until no message is left; the ids of their runs, in order."""
        played = []
        while (message := self.take()) is not None:
            self.engine.rounds.run(*message)
            played.append(message[0])
            assert len(played) < most, "the runs do not come to an end"
        return played

    def sweep_and_play(self) -> list[tuple[str, str]]:
        """Sweep as often as a worker's sweeper does, and play the published messages."""
        report = self.sweeper.sweep()
        report += self.sweeper.sweep()  # with the messages that the first one asked for
        self.play()
        return report

    def play_to_rest(self, run_id: str) -> Run:
        """Sweep and play until a run has ended or waits for a person; return it."""

        def rests() -> bool:
            self.sweep_and_play()
            run = self.client.get(run_id)
            return run.status.ended or run.status is RunStatus.INTERRUPTED

        until(rests, f"run {run_id} to rest")
        return self.client.get(run_id)

    def dies_before_its_commit(self, run_id: str, epoch: int, step: int) -> None:
        """Play a round in a process that dies when its result is there."""

        class Died(BaseException):
            pass

        def die(*args: object, **named: object) -> str:
            raise Died

        committer = self.engine.rounds.committer
        committer.commit = die  # type: ignore[method-assign]
        try:
            with suppress(Died):
                self.engine.rounds.run(run_id, epoch, step)
        finally:
            del committer.commit

    def dies_before_follow_ups(self) -> None:
        """Disable the follow-ups of its rounds' runs from now on, as if the process were dead."""
        self.engine.rounds.committer._follow_ups.do = lambda run_ids, most=0: None  # type: ignore[method-assign]


@contextmanager
def driving(settings: Settings) -> Iterator[Driver]:
    with (
        closing(engine_of(make_app(settings))) as engine,
        closing(Client(settings=settings)) as client,
    ):
        yield Driver(engine, client)
        engine.write_stats()


def have_ended(threads: Sequence[threading.Thread], heartbeat: Heartbeat) -> bool:
    """Cancel all rounds in flight, and return whether all threads have ended."""
    for lease in heartbeat.leases:
        lease.signals.cancelled.set()
    return not any(thread.is_alive() for thread in threads)


@contextmanager
def playing(settings: Settings, slots: int = 1) -> Iterator[Driver]:
    """Play rounds and sweep in threads while the block runs, like a worker of this process.

    At the end of the block, rounds that still run are cancelled.
    """
    ended = threading.Event()
    errors: list[BaseException] = []

    def play(driver: Driver) -> None:
        try:
            while not ended.is_set():
                if (message := driver.take()) is not None:
                    driver.engine.rounds.run(*message)
                else:
                    ended.wait(0.01)
        except BaseException as error:
            errors.append(error)

    with driving(settings) as driver:
        heartbeat, sweeper = driver.engine.heartbeat, driver.sweeper_of_a_worker(slots=slots)
        threads = [threading.Thread(target=play, args=(driver,)) for _ in range(slots)]
        sweeper.start()
        for thread in threads:
            thread.start()
        try:
            yield driver
        finally:
            ended.set()
            until(lambda: have_ended(threads, heartbeat), "the end of the rounds", 60)
            sweeper.stop()
    assert errors == []
