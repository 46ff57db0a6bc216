"""Base of ``Steps`` and ``AsyncSteps``. It converts a workflow function's calls to requests."""

from __future__ import annotations

import inspect
import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import FunctionType
from typing import Any, NoReturn

from pydantic import TypeAdapter

from perdure.flows.commands.approval import approval_of
from perdure.flows.commands.in_doubt import policy_of
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.errors import FatalError, InvalidFlow, TopicTaken
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import Role, is_name, suggest
from perdure.flows.core.retry import Retry, retry_of
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.children import Until
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.waits import why_no_waits
from perdure.flows.workflows.arguments import (
    FORM,
    INCOMPARABLE,
    digest_of,
    digest_of_call,
    is_older,
    older_digest_of_call,
)
from perdure.flows.workflows.begun import check_order
from perdure.flows.workflows.journal import (
    ANY_ORDER,
    MARKS,
    PATCHED,
    REFUSED,
    JournalEntry,
    Kind,
    is_time,
    name_of_mark,
    ordered_digest,
)
from perdure.flows.workflows.requests import AskRequest, Request, StepRequest, WaitRequest
from perdure.flows.workflows.run_view import RunView, Script

#: The options of a step.
OPTIONS = (
    "name", "role", "idempotent", "retry", "timeout", "approval", "in_doubt", "shown", "compare",
)  # fmt: skip
#: The options of a child, and of ``map`` for each child and for the group.
CHILD_OPTIONS = ("budgets", "deadline", "labels", "max_rounds", "policy")
MAP_OPTIONS = (*CHILD_OPTIONS, "goal", "inputs", "max_concurrency", "on_failure", "timeout")
#: A duration: seconds, a timedelta, or a text like ``10m``.
Duration = float | timedelta | str


class Restart(BaseException):
    """Raised to restart a workflow's function with an empty journal. No code may catch it.

    Args:
        inputs: the run's inputs from now on. None keeps the inputs that it has.
    """

    def __init__(self, inputs: Mapping[str, Any] | None) -> None:
        super().__init__("the workflow begins anew")
        self.inputs = inputs


class BaseSteps(RunView):
    """The methods of ``Steps`` that do not wait, and the requests of the methods that wait."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._asked: dict[str, int] = {}

    def now(self) -> datetime:
        """Return the time in UTC at which the run first made this call."""
        key = self._key("now", None)
        entry = self._script.known.get(key)
        if entry is None:
            entry = JournalEntry(key, "now", self._recorded_time(key))
            self._script.mark(entry)
        return datetime.fromisoformat(entry.result)

    def _recorded_time(self, key: str) -> str:
        """Return the time that an earlier attempt of the round recorded, or record the time."""
        context, name = self._script.context, name_of_mark(key)
        journal = context.journal
        if name not in journal.recorded and context.attempt > 1:
            # Older releases recorded it as `context.once` of a step does, under the same names.
            told = context.recorded(key)
            if is_time(told):
                return str(told)
        text = journal.recorded.get(name) or journal.record(
            name, canonical(datetime.now(UTC).isoformat())
        )
        return str(json.loads(text))

    def random(self) -> float:
        """Return a random number (0 to below 1). It is the same each time the function is run."""
        return random.Random(self._seed("random")).random()

    def uuid(self) -> uuid.UUID:
        """Return a random UUID. It is the same whenever the function is run again."""
        return uuid.uuid5(uuid.NAMESPACE_OID, self._seed("uuid"))

    def patched(self, name: str) -> bool:
        """Return whether this run takes the new code of a change.

        A run that passed this line before the change takes the old code. So does a run that has
        begun a step or a wait behind this line.

        Raises:
            InvalidFlow: the name is not valid.
        """
        if not is_name(name):
            raise InvalidFlow(f"patched({name!r}): expected letters, digits, '_', '.' or '-'")
        self._script.check_open(f"patched({name!r})")
        key = f"{PATCHED}{name}"
        if key in self._script.known:
            return True
        # It is recorded at once: what the function begins behind it belongs to the new code.
        journal, record = self._script.context.journal, name_of_mark(key)
        if record not in journal.recorded:
            if self._script.is_replaying():
                return False
            journal.record(record, "true")
        self._script.mark(JournalEntry(key, "patched", True))
        return True

    def listen(self, topic: str) -> None:
        """Take a topic. Signals to the topic then reach this run.

        Raises:
            TopicTaken: another live run held the topic when the run first made this call.
        """
        key = self._key("listen", None)
        if key in self._script.known:
            return
        refusal = self._script.known.get(f"{REFUSED}{key}")
        if refusal is None:
            facts = self._refusal_of(topic, key)
            if facts is None:
                self._script.mark(JournalEntry(key, "listen", topic))
                return
            refusal = JournalEntry(f"{REFUSED}{key}", "listen", facts)
            self._script.mark(refusal)
        raise TopicTaken(*refusal.result)

    def _refusal_of(self, topic: str, key: str) -> list[str] | None:
        """Take a topic. Return the arguments of ``TopicTaken`` if another live run holds the topic.

        None if this run now has the topic. The refusal is recorded at once: the next attempt of the
        round must take the same way.
        """
        context = self._script.context
        name = name_of_mark(f"{key} {context.retried}")  # A retry by a person asks again.
        if (text := context.journal.recorded.get(name)) is None:
            try:
                context.listen(topic)
                return None
            except TopicTaken as error:
                facts = [str(error), error.topic, error.run_id]
                text = context.journal.record(name, canonical(facts))
        refusal: list[str] = json.loads(text)
        return refusal

    def restart(self, inputs: Mapping[str, Any] | None = None) -> NoReturn:
        """Restart the function in the same run, with an empty journal.

        A run of very many steps stays small in this way.

        Args:
            inputs: the run's inputs from now on. None keeps the inputs that it has.
        """
        self._script.check_open("restart")
        raise Restart(inputs)

    def _seed(self, name: str) -> str:
        return f"{self._script.seed()} {self._key(name, None)}"

    def _key(self, default: str, name: str | None) -> str:
        if why_no_waits() is not None:
            raise FatalError(
                f"run {self.run_id}: {default!r} is asked of the workflow's steps within a step. "
                "Ask for it in the function of the workflow"
            )
        chosen = default if name is None else name
        self._script.check_open(chosen)
        number = self._asked.get(chosen, 0) + 1
        if number > 1:
            self._asked[chosen] = number
            return f"{chosen}.{number}"
        if not is_name(chosen) or chosen.rpartition(".")[2].isdecimal():
            raise InvalidFlow(
                f"{chosen!r} cannot name a step; expected letters, digits, '_', '.' or '-', at "
                "most 90, and no '.' with a number at its end. Give it a name: name='...'"
            )
        known = self._script.known.get(chosen)  # Older releases let a step have such a name.
        if chosen.startswith((PATCHED, REFUSED)) and (known is None or known.kind in MARKS):
            raise InvalidFlow(
                f"{chosen!r} cannot name a step: names that begin with {PATCHED!r} or {REFUSED!r} "
                "belong to the journal. Give it another name: name='...'"
            )
        self._asked[chosen] = 1
        return chosen

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
        compare: bool = True,
        compared: Any = None,
        **unknown: Any,
    ) -> Request:
        if type(function) is FunctionType:  # as most are; the other way takes longer
            own_name = function.__name__
        elif callable(function):
            own_name = str(getattr(function, "__name__", type(function).__name__))
        else:
            if inspect.iscoroutine(function):
                function.close()
            raise InvalidFlow(
                f"a step is given {safe_text(repr(function), 80)}; expected a function and its "
                "arguments: steps.step(charge, 12), not steps.step(charge(12))"
            )
        key = self._key(own_name, name)
        of, known = "", self._script.known
        entry = known.get(key)
        if compared is not None:  # An adapter names what tells the step from others of its name.
            of = digest_of(compared)
        elif compare:
            like = known.get(own_name if name is None else name) if entry is None else entry
            if like is None or like.of.startswith(FORM) or not is_older(like.of):
                of = digest_of_call(function, args)
            else:
                of = older_digest_of_call(function, args) if shown is None else digest_of(shown)
        if entry is not None:
            return Request(key, "step", of=of)  # It is done, so the rest does not count.
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
            of=of,
        )

    def _ask(
        self,
        question: str,
        data: Any,
        deadline: Duration | None,
        default: Any,
        expects: Any,
        name: str | None,
    ) -> AskRequest:
        key = self._key("ask", name)
        is_done = key in self._script.known  # Making a type takes long.
        kind = None if expects is Any or is_done else TypeAdapter(expects)
        of = digest_of([question, data])
        request = AskRequest(key, "ask", question, data, deadline, default, kind, of=of)
        if deadline is not None and (fault := request.read(default)[1]):
            raise InvalidFlow(f"the default of the question {key!r} does not fit: {fault}")
        return request

    def _wait(
        self,
        kind: Kind,
        name: str | None,
        wait: Callable[[RoundContext, str], Any],
        compared: Any = None,
    ) -> WaitRequest:
        """Return the request of a wait.

        Args:
            name: the wait's key without its number. None: the kind.
            wait: carries the wait out, given the round's context and the wait's key.
            compared: the wait's arguments. If the journal has the wait's key with other arguments,
                the run has diverged. None: the arguments are not compared.
        """
        key = self._key(kind, name)
        of = "" if compared is None else digest_of(compared)
        return WaitRequest(key, kind, lambda context: wait(context, key), of=of)

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

        return self._wait("signal", name, wait, signals)

    def _child(
        self,
        flow: str,
        goal: str,
        inputs: Mapping[str, Any] | None,
        name: str | None,
        options: Mapping[str, Any],
    ) -> WaitRequest:
        _validate("child", options, ("on_failure", "timeout", *CHILD_OPTIONS))

        def wait(context: RoundContext, key: str) -> Any:
            return context.child(flow, goal, inputs, name=key, **options)

        return self._wait("child", name, wait, [flow, goal, inputs])

    def _map(
        self,
        flow: str,
        items: Iterable[Any],
        name: str | None,
        wait_until: Until,
        options: Mapping[str, Any],
    ) -> WaitRequest:
        _validate("map", options, MAP_OPTIONS)
        key = self._key("children", name)
        entry = self._script.known.get(key)
        if entry is None:
            check_order(items, flow, key, self._script.context)
        given, about = list(items), [flow, options.get("goal")]
        of = digest_of([*about, given])
        if entry is not None and ordered_digest(entry.of) == of:
            of = entry.of
        elif of != INCOMPARABLE:
            of += ANY_ORDER + digest_of([*about, sorted(map(digest_of, given))])

        def wait(context: RoundContext) -> Any:
            return context.map(flow, given, name=key, wait=wait_until, **options).by_place

        return WaitRequest(key, "children", wait, of=of)


def _validate(method: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Raise InvalidFlow if one of a method's ``options`` is not among its ``known`` ones."""
    for option in options:
        if option not in known:
            raise InvalidFlow(f"steps.{method} has no option {option!r}; {suggest(option, known)}")
