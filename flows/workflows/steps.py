"""Steps, by which the function of a workflow does all that must not happen twice."""

from __future__ import annotations

import inspect
import random
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Protocol

from perdure.flows.children import Child, OnFailure, Until
from perdure.flows.commands.approval import approval_of
from perdure.flows.commands.in_doubt import policy_of
from perdure.flows.context import RoundContext
from perdure.flows.durations import as_seconds
from perdure.flows.errors import InvalidFlow
from perdure.flows.flow import Role
from perdure.flows.json_values import storable
from perdure.flows.names import is_name, suggest
from perdure.flows.retry import Retry, retry_of
from perdure.flows.summaries import safe_text
from perdure.flows.workflows.journal import JournalEntry, Kind
from perdure.flows.workflows.requests import (
    AskRequest,
    Request,
    StepRequest,
    WaitRequest,
)

#: The options of a step.
OPTIONS = ("name", "role", "idempotent", "retry", "timeout", "approval", "in_doubt", "shown")
#: What a coroutine function awaits.
Awaited = Coroutine[Any, Any, Any]
#: A duration: seconds, a timedelta, or a text like ``10m``.
Duration = float | timedelta | str


#: The steps of the coroutine function that is being run.
_CURRENT: ContextVar[AsyncSteps | None] = ContextVar("steps", default=None)


def current_steps() -> AsyncSteps | None:
    """Return the steps of the coroutine function of a workflow that is being run, or None."""
    return _CURRENT.get()


@contextmanager
def running(steps: AsyncSteps) -> Iterator[None]:
    """Make these steps the current ones for the tasks that are created in the ``with`` block."""
    before = _CURRENT.set(steps)
    try:
        yield
    finally:
        _CURRENT.reset(before)


class Restart(BaseException):
    """The function goes on as a new one, without its journal. No code may catch it and continue.

    Args:
        inputs: the inputs from now on; None keeps them.
    """

    def __init__(self, inputs: Mapping[str, Any] | None) -> None:
        super().__init__("the workflow begins anew")
        self.inputs = inputs


class Script(Protocol):
    """The function that is being run, with its journal. What ``Steps`` asks."""

    @property
    def context(self) -> RoundContext: ...
    def found(self, key: str) -> JournalEntry | None: ...
    def is_replaying(self) -> bool: ...
    def mark(self, entry: JournalEntry) -> None: ...
    def ask_for(self, requests: Sequence[Request]) -> Any: ...


class AwaitedScript(Script, Protocol):
    """The coroutine that is being run, with its journal. What ``AsyncSteps`` asks."""

    def expect(self, request: Request) -> None: ...


@dataclass(frozen=True)
class Step:
    """A step for ``Steps.gather``: a function, its arguments, and the options of ``Steps.step``."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]

    def __init__(self, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "options", options)


class _Common:
    """What the steps of plain functions and of coroutine functions have in common."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._asked: Counter[str] = Counter()

    @property
    def context(self) -> RoundContext:
        """The context of the round that is being played. It is another one in each round."""
        return self._script.context

    @property
    def goal(self) -> str:
        """The goal, as submitted."""
        return self.context.goal

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs, after validation."""
        return self.context.inputs

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.context.run_id

    def now(self) -> datetime:
        """Return the time at which the function came to this line for the first time, in UTC."""
        key = self._key("now", None)
        entry = self._script.found(key)
        if entry is None:
            told = self.context.once(key, lambda: datetime.now(UTC).isoformat())
            entry = JournalEntry(key, "now", told)
            self._script.mark(entry)
        return datetime.fromisoformat(entry.result)

    def random(self) -> float:
        """Return a number from 0 to 1 by chance, the same whenever the function is run again."""
        return random.Random(self._seed("random")).random()

    def uuid(self) -> uuid.UUID:
        """Return a UUID by chance, the same whenever the function is run again."""
        return uuid.uuid5(uuid.NAMESPACE_OID, self._seed("uuid"))

    def patched(self, name: str) -> bool:
        """Return whether this run takes the new way of a change with this name.

        A run that came past this line before the change takes the old way.

        Raises:
            InvalidFlow: the name is not valid.
        """
        if not is_name(name):
            raise InvalidFlow(f"patched({name!r}): expected letters, digits, '_', '.' or '-'")
        key = f"patched.{name}"
        if self._script.found(key) is not None:
            return True
        if self._script.is_replaying():
            return False
        self._script.mark(JournalEntry(key, "patched", True))
        return True

    def restart(self, inputs: Mapping[str, Any] | None = None) -> NoReturn:
        """Begin the function anew, in the same run, without what its journal holds.

        A run of very many steps stays small in this way.

        Args:
            inputs: the inputs from now on; None keeps them.
        """
        raise Restart(inputs)

    def _seed(self, name: str) -> str:
        return f"{self.run_id} {self._key(name, None)}"

    def _key(self, default: str, name: str | None) -> str:
        chosen = default if name is None else name
        if not is_name(chosen) or chosen.rpartition(".")[2].isdecimal():
            raise InvalidFlow(
                f"{chosen!r} cannot name a step; expected letters, digits, '_', '.' or '-', at "
                "most 90, and no '.' with a number at its end. Give it a name: name='...'"
            )
        self._asked[chosen] += 1
        number = self._asked[chosen]
        return chosen if number == 1 else f"{chosen}.{number}"

    def _step(
        self,
        function: Any,
        args: Sequence[Any],
        *,
        name: str | None = None,
        role: Role = "executor",
        idempotent: bool = False,
        retry: Retry | Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        approval: Any = None,
        in_doubt: Any = None,
        shown: Mapping[str, Any] | None = None,
        listener: str = "workflow",
        summarize: Callable[[Any], Any] | None = None,
        **unknown: Any,
    ) -> StepRequest:
        if not callable(function):
            if inspect.iscoroutine(function):
                function.close()
            raise InvalidFlow(
                f"a step is given {safe_text(repr(function), 80)}; expected a function and its "
                "arguments: steps.step(charge, 12), not steps.step(charge(12))"
            )
        key = self._key(str(getattr(function, "__name__", type(function).__name__)), name)
        for option in unknown:
            raise InvalidFlow(
                f"step {key} has no option {option!r}; {suggest(option, OPTIONS)}. Arguments of "
                "the function by name: functools.partial(function, name=...)"
            )
        if role not in ("controller", "executor"):
            raise InvalidFlow(f"step {key}: role is {role!r}; expected 'controller' or 'executor'")
        policy = policy_of(in_doubt, idempotent)
        return StepRequest(
            key,
            "step",
            function,
            tuple(args),
            role,
            idempotent,
            retry_of(retry, f"step {key}"),
            as_seconds(timeout),
            approval_of(approval),
            "ask" if policy is None else policy,
            None if shown is None else storable(dict(shown), f"what step {key} shows"),
            listener,
            summarize,
        )

    def _ask(
        self, question: str, data: Any, deadline: Duration | None, default: Any, name: str | None
    ) -> AskRequest:
        return AskRequest(self._key("ask", name), "ask", question, data, deadline, default)

    def _wait(
        self, kind: Kind, name: str | None, wait: Callable[[RoundContext, str], Any]
    ) -> WaitRequest:
        key = self._key(kind, name)
        return WaitRequest(key, kind, lambda context: wait(context, key))

    def _sleep(self, seconds: Duration, name: str | None) -> WaitRequest:
        return self._wait("sleep", name, lambda context, key: context.sleep(seconds, name=key))

    def _wait_for(
        self, signals: tuple[str, ...], timeout: Duration | None, name: str | None
    ) -> WaitRequest:
        def wait(context: RoundContext, key: str) -> Any:
            signal = context.wait_for(*signals, timeout=timeout, name=key)
            if signal is None:
                return None
            return {"signal": signal.name, "payload": signal.payload, "by": signal.by}

        return self._wait("signal", name, wait)

    def _child(
        self, child: Child, timeout: Duration | None, on_failure: OnFailure, name: str | None
    ) -> WaitRequest:
        def wait(context: RoundContext, key: str) -> Any:
            return context.child(
                child.flow,
                child.goal,
                child.inputs,
                timeout=timeout,
                name=key,
                on_failure=on_failure,
                budgets=child.budgets,
                deadline=child.deadline,
                max_rounds=child.max_rounds,
                labels=child.labels,
            )

        return self._wait("child", name, wait)

    def _map(
        self,
        flow: str,
        items: Iterable[Any],
        name: str | None,
        wait_until: Until,
        options: Mapping[str, Any],
    ) -> WaitRequest:
        given = list(items)

        def wait(context: RoundContext, key: str) -> Any:
            group = context.map(flow, given, name=key, wait=wait_until, **options)
            return [each.answer if each.ok else None for each in group]

        return self._wait("children", name, wait)


class Steps(_Common):
    """What a plain function sees of its run. Each method blocks until its result is there.

    A call that has to wait ends the round by an exception (a BaseException), and the function is
    run again from its beginning. So do only what may happen twice outside of steps, ``finally``
    included.
    """

    def step(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function once, and return what it returns, whenever this function is run again.

        It is a round of the run. Its result is committed before the next step begins.

        Args:
            function: a plain function, or a coroutine function. If it has a parameter ``context``,
                it gets the ``RoundContext``, with the ``idempotency_key`` of this step.
            args: its arguments.
            options: ``name`` (default: that of the function), ``role`` of the workers that carry it
                out (``executor``), and as for a ``@command``: ``idempotent``, ``retry``,
                ``timeout``, ``approval``, and ``in_doubt`` (default: ``ask``, a person). ``shown``
                is JSON that people see in place of the arguments.

        Returns:
            JSON data.

        Raises:
            StepFailed: the function raised an exception, and is not tried again. An idempotent step
                is tried as often as its ``retry`` says. Another is tried again only after
                RetryableError, or after an error that ``on`` of its ``retry`` names.
            InvalidFlow: an option is not valid.
        """
        return self._one(self._step(function, args, **options))

    def gather(self, steps: Iterable[Step]) -> list[Any]:
        """Call several functions at the same time, and return their results in order.

        They are carried out in one round, at most 16 at a time. Each result is kept as soon as it
        is there.

        Raises:
            StepFailed: one has failed; the first of them in order. The others are carried out.
        """
        requests = [self._step(each.function, each.args, **each.options) for each in steps]
        return [entry.unpack() for entry in self._script.ask_for(requests)]

    def ask(
        self,
        question: str,
        data: Any = None,
        *,
        deadline: Duration | None = None,
        default: Any = None,
        name: str | None = None,
    ) -> Any:
        """Ask a person, and return the answer. The run waits in the inbox, without a worker.

        Args:
            data: JSON shown with the question.
            deadline: how long to wait until ``default`` is taken; None waits for ever.
        """
        return self._one(self._ask(question, data, deadline, default, name))

    def sleep(self, seconds: Duration, *, name: str | None = None) -> None:
        """Wait until a time has passed, without a worker."""
        self._one(self._sleep(seconds, name))

    def wait_for(
        self, *signals: str, timeout: Duration | None = None, name: str | None = None
    ) -> Any:
        """Wait for the first of these signals, without a worker.

        Returns:
            A mapping with ``signal``, ``payload`` and ``by``, or None if the time is over.
        """
        return self._one(self._wait_for(signals, timeout, name))

    def child(
        self,
        flow: str,
        goal: str = "",
        inputs: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        on_failure: OnFailure = "tell",
        name: str | None = None,
        **options: Any,
    ) -> Any:
        """Start another run, wait until it has ended, and return its answer.

        Args:
            timeout, on_failure: as for ``RoundContext.child``.
            options: the other attributes of ``Child``.

        Raises:
            StepFailed: it did not complete, or the time was over.
        """
        child = Child(flow, goal, inputs or {}, **options)
        return self._one(self._child(child, timeout, on_failure, name))

    def map(
        self,
        flow: str,
        items: Iterable[Any],
        *,
        wait: Until = "all",
        name: str | None = None,
        **options: Any,
    ) -> list[Any]:
        """Start a run for each item, wait for them, and return their answers in order.

        Args:
            options: those of ``RoundContext.map``: ``goal``, ``inputs``, ``max_concurrency``, ...

        Raises:
            StepFailed: with ``wait="all"``, one of them did not complete.
        """
        answers: list[Any] = self._one(self._map(flow, items, name, wait, options))
        return answers

    def _one(self, request: Request) -> Any:
        [entry] = self._script.ask_for([request])
        return entry.unpack()


class AsyncSteps(_Common):
    """What a coroutine function sees of its run. ``asyncio.gather`` of steps is one round.

    The methods are those of ``Steps``, to be awaited. The coroutine stands still while it waits. It
    is run again from its beginning if another worker goes on with the run.
    """

    def __init__(self, script: AwaitedScript) -> None:
        super().__init__(script)
        self._live = script

    def step(self, function: Callable[..., Any], *args: Any, **options: Any) -> Awaited:
        """Call a function once, as ``Steps.step`` does."""
        return self._one(self._step(function, args, **options))

    def ask(
        self,
        question: str,
        data: Any = None,
        *,
        deadline: Duration | None = None,
        default: Any = None,
        name: str | None = None,
    ) -> Awaited:
        """Ask a person, as ``Steps.ask`` does."""
        return self._one(self._ask(question, data, deadline, default, name))

    def sleep(self, seconds: Duration, *, name: str | None = None) -> Awaited:
        """Wait until a time has passed, as ``Steps.sleep`` does."""
        return self._one(self._sleep(seconds, name))

    def wait_for(
        self,
        *signals: str,
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> Awaited:
        """Wait for a signal, as ``Steps.wait_for`` does."""
        return self._one(self._wait_for(signals, timeout, name))

    def child(
        self,
        flow: str,
        goal: str = "",
        inputs: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        on_failure: OnFailure = "tell",
        name: str | None = None,
        **options: Any,
    ) -> Awaited:
        """Start another run and wait for its answer, as ``Steps.child`` does."""
        child = Child(flow, goal, inputs or {}, **options)
        return self._one(self._child(child, timeout, on_failure, name))

    def map(
        self,
        flow: str,
        items: Iterable[Any],
        *,
        wait: Until = "all",
        name: str | None = None,
        **options: Any,
    ) -> Awaited:
        """Start a run for each item and wait for their answers, as ``Steps.map`` does."""
        return self._one(self._map(flow, items, name, wait, options))

    def _one(self, request: Request) -> Awaited:
        self._live.expect(request)
        return self._awaited(request)

    async def _awaited(self, request: Request) -> Any:
        return await self._live.ask_for([request])
