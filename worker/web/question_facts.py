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
    """The two events of an answered question.

    Such a question is no longer open.

    Attributes:
        asked: The event with which the run asked. ``asked.data`` has the data of the question.
        resumed: The event with which the run continued. ``resumed.data`` can have the keys
            ``answer`` (missing if the answer is null), ``by`` (the person who answered, or
            ``deadline``) and ``added`` (the amounts that were added to budgets of this run).
    """

    asked: Event
    resumed: Event

    @property
    def approval(self) -> Mapping[str, Any] | None:
        """The command that the question asked to approve.

        None if the question was no approval.
        """
        approval = self.asked.data.get("approval")
        return approval if isinstance(approval, Mapping) else None


def pending(run: Run) -> PendingInterrupt | None:
    """Return a run's own open question, or None if the run is not interrupted."""
    return PendingInterrupt.of(run) if run.status is RunStatus.INTERRUPTED else None


def open_question(runs: AuthorizedClient, run: Run) -> PendingInterrupt | None:
    """Return the open question of a run or its tree.

    Returns:
        The run's own question if one is open. Else, if the run waits for its children, the first
        question in the inbox of the runs below it. None if no question is open.
    """
    own = pending(run)
    if own is not None or not run.details.get("waits_for_children"):
        return own
    return next(iter(runs.inbox(1, below=run.id)), None)


def is_paused_after_node(run: Run) -> bool:
    """Return whether a run's interrupt is a pause after a node (``interrupt_after``).

    No node receives the answer to such a pause.
    """
    interrupt = run.details.get("interrupt")
    return interrupt is not None and interrupt["kind"] == "after"


def answered_question(
    runs: AuthorizedClient, run_id: str, interrupt: str
) -> AnsweredQuestion | None:
    """Return the two events of an answered question.

    Args:
        interrupt: The id of the question.

    Returns:
        None if the question is not among the newest MOST_EVENTS events of the run, or if the run
        has not continued since the question.
    """
    resumed: Event | None = None
    for event in reversed(runs.latest_events(run_id, MOST_EVENTS)):
        if event.type == "resumed":
            resumed = event
        elif event.type == "interrupted" and event.data.get("interrupt") == interrupt:
            return None if resumed is None else AnsweredQuestion(event, resumed)
    return None


def answer_event(runs: AuthorizedClient, run_id: str, interrupt: str) -> Event | None:
    """Return the event with which a run continued after a question.

    Args:
        interrupt: The id of the question.

    Returns:
        ``AnsweredQuestion.resumed``. None if ``answered_question`` returns None.
    """
    answered = answered_question(runs, run_id, interrupt)
    return None if answered is None else answered.resumed


def is_answer_known(resumed: Event) -> bool:
    """Return whether an event shows a question's answer.

    The event is that of ``answer_event``. An event does not store an answer of null. After a
    deadline, a missing answer is the default null. Otherwise a missing answer is not known: a
    person may have answered null, added an amount to a budget, or only permitted the run to go on.
    """
    return "answer" in resumed.data or resumed.data.get("by") == DEADLINE


def how_answered(resumed: Event) -> str:
    """Return who or what answered a question, in words.

    Args:
        resumed: The event of ``answer_event``.
    """
    by = resumed.data.get("by")
    if by == DEADLINE:
        return "its deadline passed, and its default is the answer"
    return f"it was answered by {by}" if by else "it was answered"


def question_key(run_id: str, waiting: PendingInterrupt) -> str:
    """Return a key of a question.

    The key is unique in the tree of run ``run_id``. It is the question's id. If a run below asks
    the question, that run's id stands before it.
    """
    return waiting.id if waiting.run_id == run_id else f"{waiting.run_id}/{waiting.id}"


def question_facts(run_id: str, waiting: PendingInterrupt) -> dict[str, Any]:
    """Return a question as JSON data.

    The data says which answer is expected.

    Args:
        run_id: The run that the client has started. If a run below it asks the question, the data
            also has the id and the flow of the run that asks.
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
    """Return a text that says which answer a question expects."""
    if waiting.kind != "budget":
        return EXPECTED[waiting.kind]
    budget = (waiting.data or {})["budget"]
    return f'add: {{"{budget}": {waiting.as_much_again}}}, or another amount'
