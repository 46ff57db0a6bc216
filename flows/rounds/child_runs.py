"""The methods of a round that start child runs and wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from perdure.flows.rounds.children import (
    Child,
    ChildFailed,
    Group,
    GroupOptions,
    OnFailure,
    Policy,
    Until,
    WaitOver,
    goal_of,
)
from perdure.flows.rounds.facts import Deps, RoundFacts


class RoundWithChildren(RoundFacts[Deps]):
    """The part of ``RoundContext`` that starts other runs and waits for them."""

    def child(
        self,
        flow: str,
        goal: str = "",
        inputs: Mapping[str, Any] | None = None,
        *,
        timeout: float | timedelta | str | None = None,
        name: str | None = None,
        policy: Policy = "stop",
        on_failure: OnFailure = "tell",
        budgets: Mapping[str, float] | None = None,
        deadline: datetime | timedelta | float | None = None,
        max_rounds: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Any:
        """Start another run, and return its answer. This run is paused until the other has ended.

        It waits as ``sleep`` does. The child is started once, however often this node runs.

        Args:
            flow, goal, inputs: the task of the child, as in ``Client.submit``.
            timeout: how long to wait; None waits for ever.
            name: the wait's name, as in ``sleep``.
            policy: ``stop``: the child is stopped if this run stops, ends, or no longer waits for
                it. ``abandon``: it goes on.
            on_failure: the reaction if the child does not succeed. ``tell``: this method raises
                ChildFailed. ``hold``: this run goes on waiting until a person has continued the
                child and it has completed.
            budgets, deadline, max_rounds, labels: of the child, as in ``Child``.

        Raises:
            ChildFailed: the child did not complete. The round is not retried.
            WaitOver: the timeout passed before the child had ended.
            InvalidFlow: a name or the duration is not valid.
            InvalidChild: the child's flow is unknown, or does not accept its inputs.
            FatalError: this step has waited 64 times, or the command must not wait.
        """
        child = Child(flow, goal, inputs or {}, budgets, deadline, max_rounds, labels or {})
        group = self.gather(
            [child],
            wait="settled",
            timeout=timeout,
            name=name,
            policy=policy,
            on_failure=on_failure,
        )
        if not group:
            raise WaitOver(
                f"run {self.run_id}, step {self.step}: the time ({timeout}) was over before its "
                f"child (flow {flow}) had ended. A retry finds the same: catch WaitOver, or submit "
                "the run again with a longer timeout"
            )
        if not group[0].ok:
            raise ChildFailed.of(group[0])
        return group[0].answer

    def gather(
        self,
        children: Sequence[Child],
        *,
        wait: Until = "all",
        max_concurrency: int = 100,
        timeout: float | timedelta | str | None = None,
        name: str | None = None,
        policy: Policy = "stop",
        on_failure: OnFailure = "tell",
    ) -> Group:
        """Start other runs, and wait until enough have ended. This run is paused meanwhile.

        It waits as ``child`` does. When this round is done, children that still run are stopped.

        Args:
            wait: ``all`` (raises at the first failure), ``settled`` (all have ended), ``any`` (one
                has), ``first`` (one has succeeded), or the number of children that must succeed.
            max_concurrency: how many of them run at a time.
            timeout: how long to wait; None waits for ever.
            policy, on_failure: as in ``child``.

        Returns:
            The children that have ended, in the order in which they were given. After a ``timeout``
            with another ``wait`` than ``all``, some may be missing.

        Raises:
            ChildFailed: with ``wait="all"``, a child did not complete.
            WaitOver: with ``wait="all"``, the timeout passed before all children had ended.
            InvalidChild: an argument is not valid, a child's flow is unknown, or the flow does not
                accept the inputs. No child is started.
        """
        options = GroupOptions(max_concurrency, policy, on_failure)
        group = self.mailbox.gather(children, wait, timeout, name, options)
        return self._complete(group, wait, timeout)

    def start(
        self,
        children: Sequence[Child],
        *,
        max_concurrency: int = 100,
        name: str | None = None,
        policy: Policy = "stop",
        on_failure: OnFailure = "tell",
    ) -> str:
        """Start other runs that go on beside this run.

        The round ends here for a moment, and this node runs again from its beginning, as with
        ``sleep``. The children are started once. ``join`` waits for them, in this step or a later
        one. When this run completes, children that still run are stopped, or go on, depending on
        ``policy``.

        Args:
            max_concurrency, name, policy, on_failure: as in ``gather``.

        Returns:
            The name of the group, for ``join``. Keep it in the state.

        Raises:
            InvalidChild: as in ``gather``, or there are no children.
        """
        options = GroupOptions(max_concurrency, policy, on_failure, kept=True)
        return self.mailbox.start(children, name, options)

    def join(
        self,
        group: str,
        *,
        wait: Until = "all",
        timeout: float | timedelta | str | None = None,
        name: str | None = None,
    ) -> Group:
        """Wait for children of a group that ``start`` started.

        This run is paused until enough of them have ended. When this round is done, the group is
        forgotten, and children that still run are stopped. But if the timeout passes first, the
        children go on, and a later round may join the group again.

        Args:
            group: the name returned by ``start``.
            wait, timeout, name: as in ``gather``.

        Returns:
            As ``gather``.

        Raises:
            ChildFailed, WaitOver: as ``gather``.
            InvalidChild: the run has no such group, or has joined it before.
        """
        return self._complete(self.mailbox.join(group, wait, timeout, name), wait, timeout)

    def _complete(self, group: Group, wait: Until, timeout: object) -> Group:
        """Return the group. With ``wait="all"``, raise an error unless every child succeeded.

        Raises:
            ChildFailed: a child ended without success.
            WaitOver: a child has not ended.
        """
        if wait == "all" and group.failed:
            raise ChildFailed.of(group.failed[0])
        if wait == "all" and group.missing:
            raise WaitOver(
                f"run {self.run_id}, step {self.step}: the time ({timeout}) was over before "
                f"{len(group.missing)} of {group.total} children had ended. "
                "A retry finds the same: catch WaitOver, or submit the run again with a longer "
                "timeout"
            )
        return group

    def map(
        self,
        flow: str,
        items: Iterable[Any],
        *,
        goal: str = "{item}",
        inputs: Callable[[Any], Mapping[str, Any]] | None = None,
        wait: Until = "all",
        max_concurrency: int = 100,
        timeout: float | timedelta | str | None = None,
        name: str | None = None,
        policy: Policy = "stop",
        on_failure: OnFailure = "tell",
        budgets: Mapping[str, float] | None = None,
        deadline: datetime | timedelta | float | None = None,
        max_rounds: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Group:
        """Start a run for each item, as ``gather`` does.

        Args:
            goal: the goal of each; ``{item}`` stands for the item, and ``{{NAME}}`` for the text
                ``{NAME}``.
            inputs: makes the inputs of each from its item. None: no inputs.
            budgets, deadline, max_rounds, labels: of each child, as in ``Child``.

        Raises:
            InvalidChild: ``goal`` has another placeholder than ``{item}``.
        """
        where = f"run {self.run_id}, step {self.step}"
        limits = (budgets, deadline, max_rounds, labels or {})
        children = [
            Child(flow, goal_of(goal, item, where), inputs(item) if inputs else {}, *limits)
            for item in items
        ]
        return self.gather(
            children,
            wait=wait,
            max_concurrency=max_concurrency,
            timeout=timeout,
            name=name,
            policy=policy,
            on_failure=on_failure,
        )
