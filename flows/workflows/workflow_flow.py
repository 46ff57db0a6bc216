"""WorkflowFlow: a flow whose rounds run a function. ``@workflow`` creates one.

The function is run from its beginning in each round. Finished steps are in its journal
(``journal``), so it reaches its first unfinished request. The round carries the request out, and
commits it. While a run keeps its worker, a coroutine stays suspended between two rounds and is not
run again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, overload

from pydantic import BaseModel, ConfigDict, create_model

from perdure.flows.core.answer_types import AnswerType
from perdure.flows.core.errors import (
    FatalError,
    InvalidFlow,
    RoundStopped,
    ends_process,
    with_remedy,
)
from perdure.flows.core.json_values import storable
from perdure.flows.core.names import Role
from perdure.flows.core.outcomes import Advance, End, Outcome, Renew
from perdure.flows.core.retry import Retry, retry_of
from perdure.flows.rounds.answer_texts import AnswerText, check_answer_text, output_of
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.registry import register
from perdure.flows.workflows.base_steps import Restart
from perdure.flows.workflows.function_errors import (
    description_of,
    failures_behind,
    remedy_of_all,
    without_restarts,
)
from perdure.flows.workflows.journal import JournalEntry, journal_of
from perdure.flows.workflows.live_script import LiveScript
from perdure.flows.workflows.round import NODES, PLAN, JournalOnlyRound, WorkflowRound
from perdure.flows.workflows.scripts import PlainScript, Suspended
from perdure.flows.workflows.step_times import UNLIMITED
from perdure.flows.workflows.steps import AsyncSteps, Steps, running

F = TypeVar("F", bound=Callable[..., Any])

#: Seconds after a step's time limit, until its round is cancelled too.
AFTER_STEP = 2.0


class WorkflowFlow(Flow):
    """A function whose steps are rounds. ``@workflow`` makes a subclass for each function.

    Attributes:
        function: the function. Its first parameter is ``Steps``, or ``AsyncSteps`` for a coroutine
            function. The others are the inputs; one named ``goal`` gets the goal.
        parameters: the names of the function's parameters after the first.
        arguments: ``strict`` if a step must have the arguments with which it was carried out. With
            ``compare``, a live run keeps its results when new code passes other arguments, unless
            these belong to another step.
        text: the key of the answer whose value people read, or a function that returns that text.
    """

    function: ClassVar[Callable[..., Any]]
    parameters: ClassVar[tuple[str, ...]]
    arguments: ClassVar[str] = "compare"
    text: ClassVar[AnswerText | None] = None

    @property
    def nodes(self) -> Mapping[str, Role]:
        """A node for each role of a step."""
        return {node: role for role, node in NODES.items()}

    @property
    def fork_nodes(self) -> Sequence[str]:
        """Both nodes: the journal brings the function to where the run was."""
        return tuple(self.nodes)

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Run the function to its first unfinished request, and carry that request out."""
        is_strict = self.arguments == "strict"
        return self._play(WorkflowRound(node, context, self.retry, is_strict), context)

    def replay(self, context: RoundContext) -> int:
        """Run the function to its first unfinished request, without effects.

        Returns:
            The number of entries of the function's journal.

        Raises:
            Diverged: the function departs from its journal.
            FatalError: the function raised an error.
        """
        journal_only = JournalOnlyRound(self.first_node, context)
        self._play(journal_only, context)
        return journal_only.replayed

    def _play(self, this_round: WorkflowRound, context: RoundContext) -> Outcome:
        try:
            if inspect.iscoroutinefunction(type(self).function):
                return self._play_live(this_round, context)
            return self._play_plain(this_round, context)
        except Restart as restart:
            if this_round.new:
                return this_round.commit(this_round.node, {})
            this_round.check_begun(())
            return Renew(restart.inputs, values={})
        except _CaughtEnd:
            raise
        except BaseException as error:
            if ends_process(error) or not this_round.has_finished():
                raise
            # The next round comes to the same end, and then has nothing that would be lost.
            return this_round.commit(this_round.node, {})

    def retry_of(self, node: str, values: Mapping[str, Any]) -> Retry | None:
        """Return the next step's retry policy. The flow's policy supplies missing settings.

        Returns:
            None if neither the step nor the flow has a policy.
        """
        own = retry_of((values.get(PLAN) or {}).get("retry"), "the next step")
        if own is None or self.retry is None:
            return own or self.retry
        if own.max_attempts == UNLIMITED:  # Each of several steps has its own limits.
            return own.over(replace(self.retry, within=None, on=(), not_on=()))
        return own.over(self.retry)

    def time_limit(self, node: str, values: Mapping[str, Any]) -> float | None:
        """Return the seconds that a round may take, or None for no limit.

        A round cancels a step that times out (``TimeLimits``). If the step does not react, the
        round itself is cancelled ``AFTER_STEP`` seconds later, and loses its lease.
        """
        own: float | None = (values.get(PLAN) or {}).get("timeout")
        return self.round_timeout_seconds if own is None else own + AFTER_STEP

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the end of a run that used up its ``max_rounds``. Its status is ``unfinished``."""
        return End(output={"status": "unfinished"})

    def _play_plain(self, this_round: WorkflowRound, context: RoundContext) -> Outcome:
        kept = context.kept.take()
        journal = kept if isinstance(kept, list) else self._read(this_round, context)
        script = PlainScript(context, journal, this_round.perform, self.arguments == "strict")
        this_round.changed = script.changed
        script.marks, script.begun = this_round.marks, this_round.begun
        try:
            answer = type(self).function(Steps(script), **self._arguments(context))
        except Suspended as suspended:
            result = suspended.result
        except Restart:
            raise
        except BaseException as error:
            if ends_process(error):
                raise
            if script.suspended is not None:
                raise _went_on(context) from error
            return self._failed(this_round, script, error)
        else:
            if script.suspended is not None:
                raise _went_on(context)
            return self._end(this_round, script, answer)
        if isinstance(result, BaseException):
            raise result
        if isinstance(result, Advance):
            context.kept.keep([*journal, *this_round.marks, *this_round.new])
        return result

    def _play_live(self, this_round: WorkflowRound, context: RoundContext) -> Outcome:
        script = context.kept.take()
        if isinstance(script, LiveScript):
            script.context = context
            script.marks, script.begun = this_round.marks, this_round.begun
        else:
            journal = self._read(this_round, context)
            script = LiveScript(context, journal, self.arguments == "strict")
            this_round.changed = script.changed
            script.marks, script.begun = this_round.marks, this_round.begun
            steps = AsyncSteps(script)
            with running(steps):
                script.begin(type(self).function(steps, **self._arguments(context)))
        stays = False
        try:
            while not script.task.done():
                got = this_round.perform(script.pending)
                if not isinstance(got, list):
                    stays = isinstance(got, Advance)
                    return got
                for entry in got:
                    script.resolve(entry)
            script.check()
            if script.has_entries_left():
                raise script.diverged("its end")
            if (error := _error_of(script)) is None:
                return self._end(this_round, script, script.task.result())
            error = without_restarts(error)
            if isinstance(error, Restart) or ends_process(error):
                raise error
            return self._failed(this_round, script, error)
        finally:
            if stays:
                context.kept.keep(script)
            elif not script.close():
                raise _went_on(context)

    def _read(self, this_round: WorkflowRound, context: RoundContext) -> list[JournalEntry]:
        journal = journal_of(context.history, context.artifact)
        this_round.replayed = len(journal)
        return journal

    def _arguments(self, context: RoundContext) -> dict[str, Any]:
        """Return the arguments of the function after its steps, by name."""
        given: dict[str, Any] = {}
        if self.Inputs is not None:
            model = self.Inputs.model_validate(dict(context.inputs))
            given = {name: getattr(model, name) for name in self.Inputs.model_fields}
            if _is_default_goal(self.Inputs, given) and context.goal:
                given["goal"] = context.goal
        return {name: given.get(name, context.goal) for name in self.parameters}

    def _end(self, this_round: WorkflowRound, script: Any, answer: Any) -> Outcome:
        if script.has_entries_left():
            raise script.diverged("its end")
        this_round.check_begun(())
        try:
            plain = self._plain_answer(answer, script.context)
        except Exception as error:  # The classes of the answer are the user's.
            return self._failed(this_round, script, error)
        turns, artifacts = this_round.turns()
        output = output_of(plain, self.text, script.context)
        return End(plain, output, turns, {}, this_round.summary(), artifacts)

    def _plain_answer(self, answer: Any, context: RoundContext) -> Any:
        if self.Answer is None:
            return storable(answer, "what the workflow returned")
        return self.check_answer(answer, f"run {context.run_id}, step {context.step}: ")

    def _failed(
        self, this_round: WorkflowRound, script: PlainScript | LiveScript, error: BaseException
    ) -> Outcome:
        """Return the outcome after an error of the function, or raise it.

        The finished steps of the round are committed first. A failed step is not committed: a retry
        of the run by a person tries it again.
        """
        if this_round.has_finished():
            script.drop_last_refusals()
            return this_round.commit(this_round.node, {})
        if isinstance(error, FatalError | InvalidFlow | RoundStopped):
            raise error
        context, uncommitted = script.context, {entry.key: entry for entry in this_round.new}
        text = f"run {context.run_id}, step {context.step}: {description_of(error)}"
        failures = failures_behind(error)
        for failure in failures:
            if failure.step in uncommitted:  # The error then has the line that raised it.
                failure.__cause__ = uncommitted[failure.step].cause
        if this_round.unchecked:
            text += (
                f". Not idempotent: {', '.join(this_round.unchecked)}. Before you retry the run, "
                "check whether it has happened"
            )
        committed = {each.step: None for each in failures if each.step in script.known}
        if again := [key for key in committed if key not in uncommitted]:
            text += (
                f". A retry does not try step {', '.join(again)} again: its failure is in the "
                "journal, since the function went on after it (a step in a `finally` or `except`). "
                f"To try it again, fork the run before it: perdure fork {context.run_id} STEP"
            )
        raise with_remedy(FatalError(text), remedy_of_all(failures, again)) from error


class _CaughtEnd(FatalError):
    """Raised for a function that caught the end of its round. Nothing of the round is committed."""


def _went_on(context: RoundContext) -> FatalError:
    return _CaughtEnd(
        f"run {context.run_id}, step {context.step}: the workflow's function caught the end of its "
        "round (a BaseException) and went on. Catch Exception instead of everything, or raise it "
        "again"
    )


def _error_of(script: LiveScript) -> BaseException | None:
    """Return the error with which a coroutine has ended.

    It is an error, too, if the coroutine ended and never awaited one of its requests.

    Returns:
        None if the coroutine returned, and has awaited all its requests.
    """
    if script.task.cancelled():
        return asyncio.CancelledError("the workflow's function was cancelled by its own code")
    if (error := script.task.exception()) is not None or not script.left_out:
        return error
    return FatalError(
        f"run {script.context.run_id}, step {script.context.step}: the workflow's function "
        f"ended and has never awaited {', '.join(script.left_out)}. Write `await` before it, "
        "or cancel its task"
    )


@overload
def workflow(name: F) -> F: ...
@overload
def workflow(name: str | None = None, **settings: Any) -> Callable[[F], F]: ...
def workflow(name: Any = None, **settings: Any) -> Any:
    """Register a function as a flow. Each of its steps is a round.

    The function gets ``Steps`` (a coroutine function ``AsyncSteps``) as its first argument. Its
    other parameters are the inputs of a run, with their types. A parameter named ``goal`` gets the
    goal. If it has a default, a run needs no goal, and an input ``goal`` may stand for it. The
    return value is the run's answer, of the type in its signature (``Answer``).

    Args:
        name: the flow's name. None: the function's name.
        settings: attributes of the flow: ``budgets``, ``retry``, ``max_rounds``, ``Inputs``, ...

    Raises:
        InvalidFlow: the function, the name or a setting is not valid.
    """
    if callable(name):
        return _made(name, getattr(name, "__name__", "workflow"), settings)
    return lambda function: _made(function, name or function.__name__, settings)


def _made(function: F, name: str, settings: Mapping[str, Any]) -> F:
    for setting in settings:
        if setting not in _SETTINGS:
            raise InvalidFlow(
                f"workflow {name!r} has no setting {setting!r}; it has {', '.join(_SETTINGS)}"
            )
    if settings.get("arguments", "compare") not in ("compare", "strict"):
        raise InvalidFlow(
            f"workflow {name!r}: arguments is {settings['arguments']!r}; expected 'compare' or "
            "'strict'"
        )
    check_answer_text(text := settings.get("text"), f"workflow {name!r}")
    if text is not None and not isinstance(text, str):
        settings = {**settings, "text": staticmethod(text)}
    inputs = settings.get("Inputs") or _inputs_of(function, name)
    parameters = tuple(inspect.signature(function).parameters)[1:]
    attributes = {
        "function": staticmethod(function),
        "Inputs": inputs,
        "Answer": _answer_of(function),
        "parameters": parameters,
        "needs_goal": "goal" in parameters and not _is_input("goal", inputs),
        "__doc__": function.__doc__ or f"The workflow {name}.",
        "__module__": function.__module__,
        **settings,
    }
    register(name)(type(function.__name__, (WorkflowFlow,), attributes))
    return function


_SETTINGS = (
    "Answer", "Inputs", "arguments", "budgets", "description", "expose", "keep_events",
    "lease_seconds", "lifespan", "max_rounds", "needs_goal", "note_store", "on_misfit",
    "reads_messages", "retry", "round_timeout_seconds", "text",
)  # fmt: skip


def _is_default_goal(inputs: type[BaseModel], given: Mapping[str, Any]) -> bool:
    """Return whether the input ``goal`` has its default value, and may be any text."""
    field = inputs.model_fields.get("goal")
    if field is None or field.annotation not in (str, str | None, Any):
        return False
    return not field.is_required() and given["goal"] == field.get_default()


def _is_input(name: str, inputs: type[BaseModel] | None) -> bool:
    return inputs is not None and name in inputs.model_fields


def _answer_of(function: Callable[..., Any]) -> Any:
    """Return the return type of a function, as its annotation names it.

    Returns:
        None if the function has no such annotation, if it is ``Any`` or ``None``, or if pydantic
            cannot read it.
    """
    kind = inspect.signature(function, eval_str=True).return_annotation
    if kind in (inspect.Signature.empty, Any, None):
        return None
    try:
        AnswerType(kind, "")
    except InvalidFlow:
        return None
    return kind


def _inputs_of(function: Callable[..., Any], name: str) -> type[BaseModel] | None:
    """Return the input model of a function's parameters. None if it has no inputs.

    Raises:
        InvalidFlow: the function has no parameter for its steps, or has a parameter that no input
            can fill.
    """
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (TypeError, ValueError, NameError) as error:
        raise InvalidFlow(f"workflow {name!r}: its parameters cannot be read: {error}") from error
    if not parameters:
        raise InvalidFlow(
            f"workflow {name!r} has no parameter; expected Steps as the first: def {name}(steps)"
        )
    steps = AsyncSteps if inspect.iscoroutinefunction(function) else Steps
    if parameters[0].annotation not in (parameters[0].empty, Any, steps):
        raise InvalidFlow(
            f"workflow {name!r}: its first parameter, {parameters[0]}, cannot be an input; "
            f"expected {parameters[0].name}: {steps.__name__} (Steps with def, AsyncSteps with "
            "async def)"
        )
    fields: dict[str, Any] = {}
    for parameter in parameters[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidFlow(
                f"workflow {name!r}: parameter {parameter} cannot be an input; expected names"
            )
        empty = parameter.default is parameter.empty
        if parameter.name == "goal" and empty:
            continue
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        fields[parameter.name] = (kind, ... if empty else parameter.default)
    if not fields:
        return None
    return create_model(
        f"{name}_inputs", __config__=ConfigDict(arbitrary_types_allowed=True), **fields
    )
