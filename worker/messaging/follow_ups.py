"""Follow-ups: work for the children of runs that scripts cannot do alone, mostly to start children.

A script that creates a follow-up returns it to its caller, and the caller does the work at once. If
the caller dies, a sweep gives the follow-up to another process (docs/internals/decisions/0046-...).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from perdure.worker.domain.children import born, child_of, unpack_plan
from perdure.worker.messaging.publisher import Publisher
from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.keys import role_of
from perdure.worker.store.replies import ChildrenStep

logger = logging.getLogger("perdure.children")

#: Children that one script starts, up to 0.1 ms each.
STARTED_AT_ONCE = 32
#: Ended children that one step skips, beside the children that it looks at.
PASSED_AT_ONCE = 256
#: Steps that one caller makes. A sweep passes the rest to another process, so that no worker is
#: kept from its rounds for long.
MOST_STEPS = 256
#: Maximum number of runs for which a process remembers its walk over their children. A forgotten
#: walk starts over.
MOST_WALKS = 100


class FollowUps:
    """Starts, stops and continues child runs, for one process."""

    def __init__(self, store: Store, publisher: Publisher) -> None:
        self._store = store
        self._publisher = publisher
        #: Unfinished walks: the walk and the place, by run. Without them, a walk over more children
        #: than the steps of one call reach would start over each time.
        self._walks: dict[str, tuple[str | None, str | None]] = {}

    def do(self, run_ids: Sequence[str], most: int = MOST_STEPS) -> None:
        """Start, stop or continue the children of runs, as the state of each run requires.

        The children of these children follow. If the state server does not answer, or is full, a
        warning is logged, and the sweeps do the rest.

        Args:
            run_ids: the ids of the parents.
            most: the maximum number of steps. The sweeps do the rest.
        """
        try:
            self._do(run_ids, most)
        except StoreUnavailable as error:
            logger.warning(
                "the children of run %s are looked after later: %s", ", ".join(run_ids), error
            )

    def _do(self, run_ids: Sequence[str], most: int) -> None:
        waiting = deque(dict.fromkeys(run_ids))
        while waiting and most > 0:
            run_id = waiting[0]
            walk, start = self._walks.get(run_id, (None, None))
            goes_on = True
            while goes_on and most > 0:
                most -= 1
                step = self._store.family.reconcile(run_id, walk, start, ended=PASSED_AT_ONCE)
                waiting.extend(each for each in step.follow_ups if each not in waiting)
                walk, start = (step.walk, step.start) if step.word == "more" else (None, None)
                goes_on = step.word in ("more", "moved") or (
                    step.word == "start" and self._start(run_id, step)
                )
                if step.word == "damaged":
                    logger.error(
                        "run %s: what the server holds of it is damaged (%s); its children are "
                        "left as they are",
                        run_id,
                        step.start,
                    )
            self._remember(run_id, walk, start)
            waiting.popleft()

    def _remember(self, run_id: str, walk: str | None, start: str | None) -> None:
        if start is None:
            self._walks.pop(run_id, None)
            return
        if len(self._walks) >= MOST_WALKS:
            self._walks.clear()
        self._walks[run_id] = walk, start

    def _start(self, run_id: str, step: ChildrenStep) -> bool:
        """Start planned children of a run. Return whether there may be more work for the run.

        Args:
            step: the reply of reconcile_children.lua, with the word ``start``.

        Returns:
            False if the start ended the follow-up, if another caller has started these children
                and continues, or if they cannot be started. In the last case, an error is logged.
        """
        try:
            planned = unpack_plan(step.plan, step.first, min(step.room, STARTED_AT_ONCE))
        except ValueError as error:
            logger.error(
                "run %s: the plan of its group %s is damaged, so its children from place %d on "
                "cannot be started: %s. Stop the run, or delete it",
                run_id,
                step.group,
                step.first,
                error,
            )
            return False
        children = []
        for place, child in enumerate(planned, step.first):
            fields = born(child, run_id, step.nonce, step.group, place)
            child_id, _ = child_of(run_id, step.nonce, step.group, place)
            epoch = 1 if "i_id" in fields else 0  # a run that begins with a question
            message = self._publisher.message(role_of(fields["queue"]), child_id, epoch, 0)
            fields |= {"message": message.text, "task": message.task, "queue": message.queue}
            children.append((child.deadline, fields))
        reply = self._store.family.start(
            run_id, nonce=step.nonce, group=step.group, first=step.first, children=children
        )
        self._publisher.publish(reply.to_publish)
        if reply.word in ("exists", "damaged", "unknown_queue"):
            logger.error(
                "run %s: the children of its group %s from place %d on cannot be started: "
                "the server replied %s %s; inspect that key with redis-cli",
                run_id,
                step.group,
                step.first,
                reply.word,
                reply.detail,
            )
            return False
        return reply.word != "stale" and not reply.has_ended_follow_up
