"""Questions of runs, for clients of other protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.worker.domain.event import Event
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.operations.resume import DEADLINE
from perdure.worker.web.auth import AuthorizedClient

#: Number of a run's newest events among which the answer to a question, and the last resume or
#: retry, are looked for.
MOST_EVENTS = 1_000

#: The answer to pass, by the kind of the question.
EXPECTED = {
    "approval": '"approve", "refuse", {"refuse": "why"} or {"edit": {the arguments}}',
    "in_doubt": '"retry", {"result": what it came to} or {"tell": "words for the controller"}',
    "question": "any JSON, often a text",
    "pause": "nothing: it only needs permission to go on",
}


class AnsweredQuestion(NamedTuple):
    """Events of a question that is no longer open.

    Attributes:
        asked: the event with which the run asked. Its data has the data of the question.
        resumed: the event with which the run continued. Its data has the answer under ``answer``,
            unless the answer is null, who answered under ``by``, and the amounts for budgets of
            this run under ``added``.
    """

    asked: Event
    resumed: Event

    @property
    def approval(self) -> Mapping[str, Any] | None:
        """The call whose approval was asked for, or None if it was another question."""
        approval = self.asked.data.get("approval")
        return approval if isinstance(approval, Mapping) else None


def pending(run: Run) -> PendingInterrupt | None:
    """Return a run's open question, or None."""
    return PendingInterrupt.of(run) if run.status is RunStatus.INTERRUPTED else None


def open_question(runs: AuthorizedClient, run: Run) -> PendingInterrupt | None:
    """Return the open question of a run, or None.

    If the run waits for its children, it is the first open question of the runs below it.
    """
    own = pending(run)
    if own is not None or not run.details.get("waits_for_children"):
        return own
    return next(iter(runs.inbox(1, below=run.id)), None)


def is_paused_after_node(run: Run) -> bool:
    """Return whether a run's open question is a pause after a node. No node receives its answer."""
    interrupt = run.details.get("interrupt")
    return interrupt is not None and interrupt["kind"] == "after"


def answered_question(
    runs: AuthorizedClient, run_id: str, interrupt: str
) -> AnsweredQuestion | None:
    """Return the events of a question that is no longer open.

    Returns:
        None if the question is not among the run's newest events, or if the run has not continued.
    """
    resumed: Event | None = None
    for event in reversed(runs.latest_events(run_id, MOST_EVENTS)):
        if event.type == "resumed":
            resumed = event
        elif event.type == "interrupted" and event.data.get("interrupt") == interrupt:
            return None if resumed is None else AnsweredQuestion(event, resumed)
    return None


def answer_event(runs: AuthorizedClient, run_id: str, interrupt: str) -> Event | None:
    """Return the event with which a run continued after a question (``AnsweredQuestion``).

    Returns:
        None under the same conditions as ``answered_question``.
    """
    answered = answered_question(runs, run_id, interrupt)
    return None if answered is None else answered.resumed


def is_answer_known(resumed: Event) -> bool:
    """Return whether the event of ``answer_event`` tells the answer.

    The null of a deadline is its default. Another null may stand for an amount that was added to a
    budget, or for permission to go on.
    """
    return "answer" in resumed.data or resumed.data.get("by") == DEADLINE


def how_answered(resumed: Event) -> str:
    """Return in words who answered a question, by the event of ``answer_event``."""
    by = resumed.data.get("by")
    if by == DEADLINE:
        return "its deadline passed, and its default is the answer"
    return f"it was answered by {by}" if by else "it was answered"


def question_key(run_id: str, waiting: PendingInterrupt) -> str:
    """Return a question's name, unique among those of run ``run_id`` and the runs below."""
    return waiting.id if waiting.run_id == run_id else f"{waiting.run_id}/{waiting.id}"


def question_facts(run_id: str, waiting: PendingInterrupt) -> dict[str, Any]:
    """Return a question as JSON data, with the expected form of the answer.

    ``run_id`` is the run that the client has started. If a run below it asks the question, the data
    has that run's id and flow.
    """
    facts: dict[str, Any] = {"id": waiting.id, "kind": waiting.kind, "text": waiting.question}
    if waiting.run_id != run_id:
        facts |= {"run": waiting.run_id, "flow": waiting.flow}
    if waiting.command is not None:
        facts |= {"command": waiting.command, "args": dict(waiting.args)}
    elif waiting.shown_data:
        facts["data"] = waiting.shown_data
    if waiting.deadline is not None:
        facts |= {"deadline": waiting.deadline.isoformat(), "default": waiting.default}
    return facts | {"expected": expected(waiting)}


def expected(waiting: PendingInterrupt) -> str:
    """Return in words which answer a run's question takes."""
    if waiting.kind != "budget":
        return EXPECTED[waiting.kind]
    budget = (waiting.data or {})["budget"]
    return f'add: {{"{budget}": {waiting.as_much_again}}}, or another amount'
