"""One round of a workflow: it carries out the next requests, and decides what follows."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from time import time_ns
from typing import Any

from perdure.flows.commands.in_doubt import retry_mark
from perdure.flows.core.errors import (
    FatalError,
    OutcomeUnknown,
    RetryableError,
    RoundStopped,
    UnstorableValue,
)
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import Role
from perdure.flows.core.outcomes import Advance, Command, Interrupt, Outcome, Turn
from perdure.flows.core.retry import Retry
from perdure.flows.core.summaries import safe_text, shown
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.facts import RoundPart
from perdure.flows.rounds.waits import NoWaits, Parked
from perdure.flows.workflows.arguments import INCOMPARABLE
from perdure.flows.workflows.begun import (
    Begun,
    begun_requests,
    digest_of_all,
    mark_begun,
)
from perdure.flows.workflows.concurrent_steps import Sibling, StepSignals, TimeLimits, put_together
from perdure.flows.workflows.function_context import InStep
from perdure.flows.workflows.journal import Diverged, JournalEntry, as_stored
from perdure.flows.workflows.questions import FAULTS, answered, ask_all, interrupt_of
from perdure.flows.workflows.requests import (
    AskRequest,
    NotShown,
    Request,
    StepRequest,
    WaitRequest,
    next_requests,
)
from perdure.flows.workflows.step_decisions import (
    Refused,
    accepted_result,
    answered_key,
    explained,
    without_old_answer,
)
from perdure.flows.workflows.step_times import carry_out_in_time, is_out_of_time, plan_of

#: The node of each role.
NODES: Mapping[Role, str] = {"executor": "Executor", "controller": "Controller"}
#: Name of the run's value with the time limit and the retry policy of the next round.
PLAN = "_next"
#: Maximum characters of an argument in the history.
SHOWN = 200
WAITS = (
    "step {!r} waits. A step holds a worker, so it must not. Wait in the function of the workflow: "
    "steps.sleep(...), steps.wait_for(...), steps.child(...)"
)
#: Maximum characters of a result's text (``WorkflowRound._explained``) in the history.
MOST_WORDS = 4_000


class WorkflowRound:
    """The progress of a workflow's round.

    Attributes:
        new: entries of finished requests. The commit appends them to the journal.
        marks: entries that the function noted (``now``, ``patched``, ...). The commit appends them
            before ``new``.
        replayed: number of journal entries read to get back to where the run was.
        changed: keys of entries whose step now has other arguments than the journal.
        faults: what is wrong with people's last answers, by the key of the question.
        begun: the requests that earlier attempts of the round have begun, by key. ``check_begun``
            empties it.

    Args:
        retry: the flow's retry policy, which completes those of the steps.
        strict: whether arguments that differ from earlier ones are always an error.
    """

    def __init__(
        self, node: str, context: RoundContext, retry: Retry | None = None, strict: bool = False
    ) -> None:
        self.node, self._context = node, context
        self._retry, self._strict = retry, strict
        self.begun: dict[str, Begun] = begun_requests(context)
        self.new: list[JournalEntry] = []
        self._summaries: dict[str, Callable[[Any], Any]] = {}
        self.marks: list[JournalEntry] = []
        self.replayed = 0
        self.changed: Sequence[str] = ()
        self.faults: dict[str, str] = context.committed.get(FAULTS) or {}
        #: Keys of steps that failed in this round, and may have happened nevertheless.
        self.unchecked: list[str] = []

    def perform(self, pending: Sequence[Request]) -> list[JournalEntry] | Outcome:
        """Carry out the pending requests of a function, within this round's limits.

        Steps come first, then questions, then waits. A round that has results is committed before
        anything else begins.

        Returns:
            The new entries, or the outcome with which the round ends.

        Raises:
            Parked: the run waits.
            RetryableError, FatalError: a step failed. The round is retried, or the run ends.
        """
        # What was begun in this round goes on in it: a commit would forget it.
        goes_on = bool(self.begun)
        due = next_requests(pending)
        self.check_begun(due)
        steps = [each for each in due if isinstance(each, StepRequest)]
        plan = plan_of(steps) if steps else {}
        here = not steps or NODES[steps[0].role] == self.node
        is_planned = here and plan == (self._context.committed.get(PLAN) or {})
        if self.new or not (is_planned or goes_on):
            node = NODES[steps[0].role] if steps else self.node
            return self.commit(node, plan, [each.key for each in steps])
        got = self._carry_out_all(steps) if steps else self._ask_or_wait(due)
        if not isinstance(got, list):
            return got
        self.new += got
        return got

    def has_finished(self) -> bool:
        """Return whether at least one request has finished in this round, and all succeeded."""
        return bool(self.new) and all(entry.error is None for entry in self.new)

    def check_begun(self, due: Sequence[Request]) -> None:
        """Raise Diverged unless the function comes to all requests that the round has begun.

        Otherwise their effects would be forgotten, or taken for those of another step, and the
        answer of a person would be lost.

        Args:
            due: the requests that the round carries out next. Empty if the function ends.
        """
        if not self.begun:
            return
        begun, by_key = list(self.begun.values()), {each.key: each for each in due}
        self.begun.clear()
        for each in begun:
            request = by_key.get(each.key)
            if request is None:
                raise self._comes_to_others(each, due)
            of = request.of if isinstance(request, StepRequest) else digest_of_all(due)
            if each.differs_from(request.kind, of, self._strict):
                raise self._asks_otherwise(each, request, of)

    def _comes_to_others(self, begun: Begun, due: Sequence[Request]) -> Diverged:
        where = f"run {self._context.run_id}, step {self._context.step}"
        wants = ", ".join(each.key for each in due) or "its end"
        if begun.key == answered_key(self._context):
            return Diverged(
                f"{where}: a person has answered {begun.key!r}, and the workflow's function does "
                f"not come to it any more. It comes to {wants}. Nothing was carried out. Was its "
                "code changed while the run waited? Deploy the version that asked. To go on "
                "without the answer, stop the run and resume it"
            )
        return Diverged(
            f"{where}: {begun.key!r} {begun.state}, and the workflow's function does not come to "
            f"it next. It comes to {wants}. Nothing was carried out. Was its code changed while "
            f"the run was live? Deploy the version that began {begun.key!r}, or put what is new "
            "before it under `if steps.patched('NAME'):`"
        )

    def _asks_otherwise(self, begun: Begun, request: Request, of: str) -> Diverged:
        now = f"{request.kind} with arguments of digest {of or INCOMPARABLE}"
        if isinstance(request, StepRequest):
            now += f", {canonical(request.facts(SHOWN))}"
        return Diverged(
            f"run {self._context.run_id}, step {self._context.step}: {begun.key!r} {begun.state}, "
            f"as {begun.kind or request.kind} with arguments of digest {begun.of}. The workflow's "
            f"function now asks for {begun.key!r} as {now}. Nothing was carried out. If its code "
            "was changed while the run was live, deploy the version that began it. If not: does "
            "it loop over a set, or use the time, chance, or a file outside of a step?"
        )

    def commit(self, node: str, plan: Mapping[str, Any], following: Sequence[str] = ()) -> Advance:
        """Return the outcome that commits this round's results.

        Args:
            node: the node of the next round.
            plan: the time limit and the retry policy of that round (``plan_of``).
            following: the keys of the next round's steps.
        """
        turns, artifacts = self.turns()
        values = {} if plan == (self._context.committed.get(PLAN) or {}) else {PLAN: dict(plan)}
        if self.faults != (self._context.committed.get(FAULTS) or {}):
            values[FAULTS] = self.faults
        summary = self.summary() or {"next": ", ".join(following)}
        return Advance(node, turns, values, bool(self.new), summary, artifacts)

    def turns(self) -> tuple[tuple[Turn, ...], dict[str, str]]:
        """Return the turns and artifacts of this round's entries."""
        turns: list[Turn] = []
        artifacts: dict[str, str] = {}
        for entry in (*self.marks, *self.new):
            turn, kept = entry.turn(f"{entry.key}-{self._context.step}")
            turns.append(self._explained(turn, entry))
            artifacts |= kept
        return tuple(turns), artifacts

    def _explained(self, turn: Turn, entry: JournalEntry) -> Turn:
        """Return a turn with its result as text, if the step has a summary.

        The text is for people. A model step's result is the object of its library, which people
        cannot read.
        """
        if entry.error is not None or entry.key not in self._summaries or turn.command is None:
            return turn
        words = safe_text(str(self._watched(entry)), MOST_WORDS)
        extras = {"thought": words} if words else {}
        return replace(turn, command=replace(turn.command, extras=extras))

    def summary(self) -> dict[str, Any]:
        """Return a short summary of this round, for people who watch the run."""
        if not self.new:
            return {}
        steps: dict[str, Any] = {"did": [entry.key for entry in self.new]}
        if self.replayed:
            steps["replayed"] = self.replayed
        if self.changed:
            steps["arguments"] = list(self.changed)
        if len(self.new) > 1:
            failed = [entry.key for entry in self.new if entry.error is not None]
            return {**steps, **({"failed": failed} if failed else {})}
        [entry] = self.new
        told = f"{entry.error[0]}: {entry.error[1]}" if entry.error else self._watched(entry)
        args = {"args": shown(dict(entry.args))} if entry.args else {}
        return {"command": entry.key, **args, "observation": shown(told), **steps}

    def _watched(self, entry: JournalEntry) -> Any:
        summarize = self._summaries.get(entry.key)
        return entry.result if summarize is None else summarize(entry.result)

    def _carry_out_all(self, steps: Sequence[StepRequest]) -> list[JournalEntry] | Interrupt:
        """Carry out steps, several concurrently, and return their entries.

        Nothing is committed while a step asks a person: a commit would begin another step of the
        run, without the intents and keys of the commands in doubt. The other steps are recorded
        (``RoundContext.once``), and their records are read when the person has answered.

        Returns:
            The question of the first step that asks a person, if any. Otherwise the entries.
        """
        context = self._context
        self._summaries |= {each.key: each.summarize for each in steps if each.summarize}
        context.progress(0, None, ", ".join(each.key for each in steps))
        if len(steps) == 1:
            got = [self._carry_out_alone(steps[0])]
        else:
            got = self._carry_out_together(steps)
        entries = []
        for each in got:
            if isinstance(each, Interrupt):
                return each
            entries.append(each)
        return entries

    def _carry_out_alone(self, step: StepRequest) -> JournalEntry | Interrupt:
        """Carry out the only step of the round. Add its failure to the round's trace.

        The function may catch the failure, and the trace would then show a round without an error.
        """
        began, context = time_ns(), self._context
        if step.timeout is None:
            got = self._carry_out(step, context)
        else:
            context = altered(context, signals=StepSignals(context.signals))
            with TimeLimits([(step, context)]):
                got = self._carry_out(step, context)
        if isinstance(got, JournalEntry) and got.error is not None:
            part = RoundPart(f"step {step.key}", {}, began, time_ns(), got.error[0])
            self._context.parts.append(part)
        return got

    def _carry_out_together(self, steps: Sequence[StepRequest]) -> list[JournalEntry | Interrupt]:
        """Carry out several steps at the same time.

        Returns:
            The entries or questions, in the order of ``steps``.

        Raises:
            BaseException: at least one step must be retried: the error of the first of them, in the
                order of ``steps``. An error that is not an Exception, such as the end of the
                process, takes precedence.
        """
        lock = threading.RLock()
        keys = {each.key for each in steps}
        siblings = [Sibling(each, self._context, lock, keys) for each in steps]
        # The files of recorded steps have their names before another step attaches files.
        recorded = [each.entry_recorded() for each in siblings]
        left = [each for each, entry in zip(siblings, recorded, strict=True) if entry is None]
        self.unchecked += [each.step.key for each in siblings if each.is_unchecked]
        limits = TimeLimits([(each.step, each.context) for each in left])
        with limits, ThreadPoolExecutor(len(steps), "perdure-step") as pool:
            futures = [
                pool.submit(contextvars.copy_context().run, self._carry_out_beside, each)
                for each in left
            ]
        put_together(self._context, siblings)
        errors = [error for each in futures if (error := each.exception()) is not None]
        if errors:
            raise next((each for each in errors if not isinstance(each, Exception)), errors[0])
        results = iter(futures)
        return [next(results).result() if entry is None else entry for entry in recorded]

    def _carry_out_beside(self, sibling: Sibling) -> JournalEntry | Interrupt:
        """Carry out one of several steps, and record its entry.

        It is recorded at once, because other steps may take longer.
        """
        step, context = sibling.step, sibling.context
        began, failed = time_ns(), ""
        try:
            got = self._carry_out(step, context)
            failed = got.error[0] if isinstance(got, JournalEntry) and got.error else ""
            return got if isinstance(got, Interrupt) else sibling.record(got)
        except BaseException as error:
            failed = type(error).__name__
            raise
        finally:
            part = RoundPart(f"step {step.key}", context.traced, began, time_ns(), failed)
            context.parts.append(part)

    def _carry_out(self, step: StepRequest, context: RoundContext) -> JournalEntry | Interrupt:
        """Carry out a step. Return its entry, or the question that a person must answer first."""
        args = step.facts(SHOWN)
        context = without_old_answer(context)
        if not step.idempotent:  # Others have no intent, which the description goes with.
            about = f"{step.key} {step.of or INCOMPARABLE}"
            context.journal.describe(context.key_of(Command(step.key)), about)
        try:
            with InStep(context, step.key), NoWaits(WAITS.format(step.key)):
                result = carry_out_in_time(step, context)
            if isinstance(result, Interrupt):
                return explained(result, step, context)
            stored = as_stored(accepted_result(step, result, context))
            return JournalEntry(step.key, "step", stored, None, args, of=step.of)
        except RoundStopped:
            raise
        except Exception as error:
            if not self._is_over(step, error, context):
                says_nothing_happened = isinstance(error, RetryableError) and not isinstance(
                    error, OutcomeUnknown
                )
                if not (says_nothing_happened or context.cancelled.is_set()):
                    mark_begun(context, step)
                raise
            if not step.idempotent and not isinstance(error, Refused | NotShown):
                self.unchecked.append(step.key)
            return JournalEntry.failed(step.key, "step", error, args, step.of)

    def _is_over(self, step: StepRequest, error: Exception, own: RoundContext) -> bool:
        """Return whether a failed step is not tried again.

        Args:
            own: the context of the step.
        """
        context, policy = self._context, step.retry or Retry()
        if context.cancelled.is_set():
            return False
        if not step.idempotent and not isinstance(error, UnstorableValue | OutcomeUnknown):
            # The exception says that the step failed, so it is not in doubt.
            context.journal.withdraw(context.key_of(Command(step.key)))
        if isinstance(error, Refused):
            return True  # The answer is the same in each attempt.
        if not isinstance(error, RetryableError):
            retried = step.idempotent or policy.names(policy.on, error)
            if not retried or isinstance(error, FatalError):
                return True
        return not context.may_retry(error, policy) or is_out_of_time(
            step, own, policy.over(self._retry)
        )

    def _ask_or_wait(self, pending: Sequence[Request]) -> list[JournalEntry] | Outcome:
        """Ask a function's pending questions, or else begin its first wait."""
        if not isinstance(pending[0], AskRequest):
            return self._wait(pending[0])
        questions = [each for each in pending if isinstance(each, AskRequest)]
        if (given := answered(questions, self._context)) is not None:
            return self._ask(given)
        if len(questions) == 1:
            return self._ask(questions[0])
        with self._describing_wait(questions):
            entries, unfit = ask_all(questions, self._context, self.faults)
        self.faults = unfit
        return entries or self.commit(self.node, {})

    @contextmanager
    def _describing_wait(self, requests: Sequence[Request]) -> Iterator[None]:
        """Store the requests for which the run waits, if the ``with`` block parks it."""
        try:
            yield
        except Parked as parked:
            about = [requests[0].kind, digest_of_all(requests)]
            wait = replace(parked.wait, about=about)
            self._context.mailbox.parked = wait
            raise Parked(wait) from None

    def _ask(self, request: AskRequest) -> list[JournalEntry] | Interrupt:
        fault = self.faults.get(request.key, "")
        if answered([request], self._context) is not None:
            answer, fault = request.read(self._context.answer)
            if not fault:
                self.faults = {key: told for key, told in self.faults.items() if key != request.key}
                return [JournalEntry(request.key, "ask", answer, of=request.of)]
        asked, about = interrupt_of(request, fault), {"asks_of": request.of}
        return replace(asked, data={**asked.data, **about, **retry_mark(self._context)})

    def _wait(self, request: Request) -> list[JournalEntry]:
        assert isinstance(request, WaitRequest)
        try:
            with self._describing_wait([request]):
                result = request.wait(self._context)
        except FatalError as error:
            if type(error) is FatalError:
                raise
            return [JournalEntry.failed(request.key, request.kind, error, of=request.of)]
        stored = storable(result, f"what {request.key} came to")
        return [JournalEntry(request.key, request.kind, stored, of=request.of)]


class JournalOnlyRound(WorkflowRound):
    """A round that carries nothing out: it ends where its journal ends."""

    def perform(self, pending: Sequence[Request]) -> list[JournalEntry] | Outcome:
        """Return an outcome that ends the round, whatever is pending."""
        return Advance(self.node)

    def check_begun(self, due: Sequence[Request]) -> None:
        """Do nothing: what was begun is not in the journal."""
