"""Announcements of workers, the sweep, and dead letters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

from perdure.worker.store.part import StorePart
from perdure.worker.store.replies import SweepReply


class FleetRecords(StorePart):
    """Announcements of workers, the sweep, and dead letters (``store.fleet``)."""

    def announce(self, worker: str, info: Mapping[str, Any], at: int, forget_before: int) -> None:
        """Store a worker's announcement, and the time of its heartbeat.

        Args:
            worker: the worker's name.
            info: the announcement. It is stored as JSON.
            at: the time of the heartbeat (ms).
            forget_before: a time (ms). Workers whose last heartbeat is older are removed.
        """
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            pipe.zadd(self.keys.workers, {worker: at})
            pipe.hset(self.keys.announcements, worker, json.dumps(info))
            pipe.zrangebyscore(self.keys.workers, "-inf", forget_before)
            gone = cast(list[str], pipe.execute()[-1])
            if gone:
                pipe.zrem(self.keys.workers, *gone)
                pipe.hdel(self.keys.announcements, *gone)
                pipe.execute()

    def withdraw(self, worker: str) -> None:
        """Remove the announcement of a worker that has ended.

        Nothing happens if the worker is not announced.
        """
        with self._store._answered(), self._store.redis.pipeline() as pipe:
            pipe.zrem(self.keys.workers, worker)
            pipe.hdel(self.keys.announcements, worker)
            pipe.execute()

    def workers(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Return each worker's name, last heartbeat (ms) and announcement."""
        with (
            self._store._answered(),
            self._store.redis.pipeline(transaction=False) as pipe,
        ):
            pipe.zrange(self.keys.workers, 0, -1, withscores=True)
            pipe.hgetall(self.keys.announcements)
            heartbeats, infos = pipe.execute()
        return [
            (name, float(beat), json.loads(infos[name]))
            for name, beat in heartbeats
            if name in infos
        ]

    def called(self, run_id: str, epoch: int) -> None:
        """Record that a run's ``on_end`` callback is done.

        It was published, or is not needed. The sweep then does not report the callback again.

        Args:
            epoch: the epoch in which the run ended.
        """
        with self._store._answered():
            self._store.redis.zrem(self.keys.endings, f"{run_id} {epoch}")

    def stops(self) -> int:
        """Return the number of stops of all runs so far.

        It increases with each stop. A run that was stopped twice counts twice.
        """
        with self._store._answered():
            counters = cast("dict[str, str]", self._store.redis.hgetall(self.keys.queues))
        return sum(
            int(text)
            for name, text in counters.items()
            if name.startswith("stops:") and text.isdecimal()
        )

    def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """Return the newest dead letters, the newest first.

        A dead letter is a message that a worker did not accept, because it was invalid.

        Args:
            limit: the maximum number of dead letters.
        """
        with self._store._answered():
            return [
                json.loads(text)
                for text in cast(
                    list[str], self._store.redis.lrange(self.keys.dead_letters, 0, limit - 1)
                )
            ]

    def sweep(
        self,
        *,
        lease: int,
        max_losses: int,
        max_failures: int = 3,
        jitter: float,
        batch: int = 25,
        loss_delay: int = 1000,
        loss_delay_max: int = 30_000,
        lengths: Mapping[str, int] | None = None,
        schema: str | None = None,
        every: int | None = None,
        alive: int = 10_000,
        made: Mapping[str, tuple[str, str, str]] | None = None,
        soon: Sequence[str] = (),
        times: int = 1,
    ) -> SweepReply:
        """Examine due runs, and requeue the overdue ones.

        The script is sweep_due.lua. Durations are in ms.

        Args:
            lease: the shortest lease in use.
            max_losses: how many lost workers a run may have in one step before it ends as errored.
            max_failures: how many failed attempts a step may have before its run ends as errored.
            jitter: a random number from 0 to 1, by which the waits of runs are spread.
            batch: the number of runs that one call of the script examines.
            loss_delay: the first wait after a repeated loss.
            loss_delay_max: the longest wait after a repeated loss.
            lengths: the number of messages in each queue, if the broker is another server. Empty:
                that broker does not answer. None: the script reads the lengths itself.
            schema: the newest schema version of runs that the caller reads. None: any version.
            every: do nothing if the last sweep of any worker was less than this time ago. None:
                always sweep.
            alive: a worker counts as alive if its last announcement is younger than this.
            made: epoch, step and message of each run that an earlier sweep reported as ``unmade``,
                by run id. These runs are examined, even if they are not due.
            soon: ids of runs to examine before they are due.
            times: the number of batches to examine in one exchange. More are examined if ``made``
                and ``soon`` need them.
        """
        named: dict[str, str | int | None] = {
            "prefix": self.keys.prefix,
            "batch": batch,
            "lease": lease,
            "max_losses": max_losses,
            "max_failures": max_failures,
            "jitter": f"{jitter:.6f}",
        }
        named |= {
            "loss_delay": loss_delay,
            "loss_delay_max": loss_delay_max,
            "hold": self._store.paused_look,
            "schema": schema,
            "every": every,
            "alive": alive,
        }
        named |= {f"length:{queue}": length for queue, length in (lengths or {}).items()}
        now = [(f"made:{run_id}", " ".join(message)) for run_id, message in (made or {}).items()]
        now += [(f"soon:{run_id}", "1") for run_id in soon]
        keys = self.keys.of_sweep()
        replies = self._store._call_all(
            "sweep_due",
            [
                (keys, {**named, **dict(now[place * batch : (place + 1) * batch])})
                for place in range(max(times, -(-len(now) // batch)))
            ],
        )
        *flat, late, follow_ups, due_in = (
            list(chain(*each)) for each in zip(*replies, strict=True)
        )
        words, to_publish = (list(zip(each[::2], each[1::2], strict=True)) for each in flat)
        report = [(run_id, word.partition(" ")[0]) for run_id, word in words]
        unmade = {
            run_id: tuple(details)
            for run_id, word in words
            if len(details := word.split()[1:]) == 4
        }
        return SweepReply(
            report,
            to_publish,
            unmade,
            [(run_id, int(epoch)) for run_id, _, epoch in (call.partition(" ") for call in late)],
            follow_ups,
            int(due_in[-1]) if due_in else None,
        )
