"""Steps: the effects of a workflow's function that must not happen twice."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import suggest
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.children import OnFailure, Until
from perdure.flows.workflows.base_steps import BaseSteps, Duration
from perdure.flows.workflows.journal import JournalEntry
from perdure.flows.workflows.requests import Request
from perdure.flows.workflows.run_view import Script

#: The options of a question.
ASK_OPTIONS = ("deadline", "default", "expects", "name")
#: The awaitable that a coroutine function awaits.
Awaited = Coroutine[Any, Any, Any]
#: Types that a step's result keeps, since JSON has them. A subclass comes back as its base: an enum
#: of texts as a text.
J = TypeVar("J", bool, int, float, str, None, list[Any], dict[str, Any])
#: A coroutine function of a step.
AsyncFunction = Callable[..., Coroutine[Any, Any, J]]


#: The steps of the coroutine function that is being run.
_CURRENT: ContextVar[AsyncSteps | None] = ContextVar("steps", default=None)


def current_steps() -> AsyncSteps | None:
    """Return the steps of the running coroutine function. None outside of a workflow."""
    return _CURRENT.get()


@contextmanager
def running(steps: AsyncSteps) -> Iterator[None]:
    """Make ``current_steps`` return these steps, also in tasks created in the ``with`` block."""
    before = _CURRENT.set(steps)
    try:
        yield
    finally:
        _CURRENT.reset(before)


class BlockingScript(Script, Protocol):
    """The interface that ``Steps`` needs of the running function and its journal."""

    def entry_of(self, request: Request) -> JournalEntry: ...


class AwaitedScript(Script, Protocol):
    """The interface that ``AsyncSteps`` needs of the running coroutine and its journal."""

    def expect(self, request: Request, awaited: Awaited) -> None: ...


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


@dataclass(frozen=True)
class Ask:
    """A question for ``Steps.gather``, with the options of ``Steps.ask``."""

    question: str
    data: Any
    options: Mapping[str, Any]

    def __init__(self, question: str, data: Any = None, **options: Any) -> None:
        object.__setattr__(self, "question", question)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "options", options)


class Steps(BaseSteps):
    """A plain function's view of its run. Each method blocks until its result is available.

    A call that must wait ends the round with an exception (a BaseException), and the function is
    run again from its beginning. So do only what may happen twice outside of steps, ``finally``
    included.
    """

    def __init__(self, script: BlockingScript) -> None:
        super().__init__(script)
        self._plain = script

    @overload
    def step(self, function: AsyncFunction[J], *args: Any, **options: Any) -> J: ...

    @overload
    def step(self, function: Callable[..., J], *args: Any, **options: Any) -> J: ...

    @overload
    def step(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any: ...

    def step(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function once, and return its result.

        When the workflow's function is run again, it gets the same result. The call is a round of
        the run. Its result is committed before the next step begins.

        Args:
            function: a plain function, or a coroutine function. If it has a parameter ``context``,
                it gets the ``RoundContext``, with the ``idempotency_key`` of this step.
            args: its arguments.
            options: ``name`` (default: that of the function), ``role`` of the workers that carry it
                out (``executor``), and as for a ``@command``: ``idempotent``, ``retry``,
                ``timeout``, ``approval``, and ``in_doubt`` (default: ``ask``, a person). ``shown``
                is JSON that people see in place of the arguments.

        Returns:
            JSON data. Type checkers know it as text, number, bool, None, list or object, if the
            function returns such a type. A model comes back as an object, so its type is not kept.

        Raises:
            StepFailed: the function raised an exception, and is not tried again. An idempotent step
                is tried as often as its ``retry`` allows. Another step is tried again only after
                RetryableError, or after an error listed in ``on`` of its ``retry``.
            InvalidFlow: an option is not valid.
        """
        return self._one(self._step(function, args, **options))

    def gather(self, steps: Iterable[Step | Ask]) -> list[Any]:
        """Call several functions concurrently, and return their results in order.

        They are carried out in one round, at most 16 at a time. Each result is recorded as soon as
        it is available. Then several questions are asked at the same time, each by a child run, so
        that people answer them in any order. The function goes on when all are answered.

        Raises:
            StepFailed: a function failed; the first in order. The others are carried out anyway.
            InvalidFlow: an item is neither a ``Step`` nor an ``Ask``, or an option is not valid.
        """
        requests = [self._request(each) for each in list(steps)]
        return [entry.unpack() for entry in self._script.ask_for(requests)]

    def _request(self, each: Step | Ask) -> Request:
        if isinstance(each, Step):
            return self._step(each.function, each.args, **each.options)
        if not isinstance(each, Ask):
            raise InvalidFlow(
                f"steps.gather is given {safe_text(repr(each), 80)}; expected "
                "Step(function, argument, ...), or Ask(question, ...)"
            )
        for option in each.options:
            if option not in ASK_OPTIONS:
                raise InvalidFlow(f"Ask has no option {option!r}; {suggest(option, ASK_OPTIONS)}")
        options = {**dict.fromkeys(("deadline", "default", "name")), "expects": Any, **each.options}
        return self._ask(each.question, each.data, **options)

    def ask(
        self,
        question: str,
        data: Any = None,
        *,
        deadline: Duration | None = None,
        default: Any = None,
        expects: Any = Any,
        name: str | None = None,
    ) -> Any:
        """Ask a person, and return the answer. The run waits in the inbox, without a worker.

        Args:
            data: JSON shown with the question.
            deadline: how long to wait until ``default`` is taken; None waits for ever.
            expects: the type of the answer, as pydantic knows types: ``int``,
                ``Literal["yes", "no"]``, a model. After an answer that does not fit, the person is
                asked again.

        Returns:
            The answer as JSON data.

        Raises:
            InvalidFlow: ``default`` is not of the type.
        """
        return self._one(self._ask(question, data, deadline, default, expects, name))

    def sleep(self, seconds: Duration, *, name: str | None = None) -> None:
        """Sleep for a duration. Meanwhile the run holds no worker."""
        self._one(self._sleep(seconds, name))

    def wait_for(
        self, *signals: str, timeout: Duration | None = None, name: str | None = None
    ) -> Any:
        """Wait for the first of some signals. Meanwhile the run holds no worker.

        Returns:
            A mapping with ``signal``, ``payload`` and ``by`` (its sender), or None after
            ``timeout``.
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
        """Start another run, wait for it, and return its answer.

        Args:
            timeout, on_failure: as for ``RoundContext.child``.
            options: ``budgets``, ``deadline``, ``labels``, ``max_rounds``, ``policy``, as for
                ``RoundContext.child``.

        Raises:
            StepFailed: the run did not complete, or the timeout passed.
            InvalidFlow: an option is unknown.
        """
        options |= {"timeout": timeout, "on_failure": on_failure}
        return self._one(self._child(flow, goal, inputs, name, options))

    def map(
        self,
        flow: str,
        items: Iterable[Any],
        *,
        wait: Until = "all",
        name: str | None = None,
        **options: Any,
    ) -> list[Any]:
        """Start a run for each item, and return their answers.

        The answers are in the order of the items. With another ``wait`` than ``all``, the answer of
        a run that has not succeeded, or has not ended, is None.
        ``RoundContext.map`` also returns their errors.

        Args:
            options: the options of ``RoundContext.map``: ``goal``, ``inputs``, ``max_concurrency``,
                ...

        Raises:
            StepFailed: with ``wait="all"``, a run did not complete.
            InvalidFlow: an option is unknown, or ``items`` is a set, which has no order.
        """
        answers: list[Any] = self._one(self._map(flow, items, name, wait, options))
        return answers

    def _one(self, request: Request) -> Any:
        return self._plain.entry_of(request).unpack()


class AsyncSteps(BaseSteps):
    """A coroutine function's view of its run. ``asyncio.gather`` of steps is one round.

    The methods are those of ``Steps``, but awaitable. The coroutine is suspended while it waits. It
    is run again from its beginning if another worker continues the run.
    """

    def __init__(self, script: AwaitedScript) -> None:
        super().__init__(script)
        self._live = script

    @overload
    def step(
        self, function: AsyncFunction[J], *args: Any, **options: Any
    ) -> Coroutine[Any, Any, J]: ...

    @overload
    def step(
        self, function: Callable[..., J], *args: Any, **options: Any
    ) -> Coroutine[Any, Any, J]: ...

    @overload
    def step(self, function: Callable[..., Any], *args: Any, **options: Any) -> Awaited: ...

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
        expects: Any = Any,
        name: str | None = None,
    ) -> Awaited:
        """Ask a person, as ``Steps.ask`` does.

        Questions that the function awaits at the same time (``asyncio.gather``) are asked at the
        same time, each by a child run. The function goes on when all are answered.
        """
        return self._one(self._ask(question, data, deadline, default, expects, name))

    def sleep(self, seconds: Duration, *, name: str | None = None) -> Awaited:
        """Sleep for a duration, as ``Steps.sleep`` does."""
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
        """Start another run and return its answer, as ``Steps.child``."""
        options |= {"timeout": timeout, "on_failure": on_failure}
        return self._one(self._child(flow, goal, inputs, name, options))

    def map(
        self,
        flow: str,
        items: Iterable[Any],
        *,
        wait: Until = "all",
        name: str | None = None,
        **options: Any,
    ) -> Awaited:
        """Start a run for each item and return their answers, as ``Steps.map`` does."""
        return self._one(self._map(flow, items, name, wait, options))

    def _one(self, request: Request) -> Awaited:
        awaited = self._awaited(request)
        self._live.expect(request, awaited)
        return awaited

    async def _awaited(self, request: Request) -> Any:
        return await self._live.ask_for([request])
