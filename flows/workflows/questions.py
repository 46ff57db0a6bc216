"""Questions of a workflow to people. Concurrent questions are child runs.

A run can have only one open question. So each of several questions is asked by its own child run
(``perdure.flows.library.workflow_question``), and people answer them in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.flows.core.durations import as_seconds
from perdure.flows.core.json_values import storable
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.rounds.children import Child, ChildFailed
from perdure.flows.rounds.context import RoundContext
from perdure.flows.workflows.journal import JournalEntry
from perdure.flows.workflows.requests import AskRequest, Request

#: The flow that asks one of several questions.
FLOW = "workflow-question"
#: Name of the run's value that says what is wrong with the last answers, by the question's key.
FAULTS = "_unfit"


def answered(requests: Sequence[Request], context: RoundContext) -> AskRequest | None:
    """Return the request whose question the answer of this round belongs to.

    A round has an answer only if its run asked the question itself. Questions of child runs
    (``ask_all``) do not count.

    Returns:
        None if the round has no answer, or if the answer belongs to none of ``requests``.
    """
    asked = context.asked
    if not (context.answered and isinstance(asked, Mapping)):
        return None
    questions = (each for each in requests if isinstance(each, AskRequest))
    return next((each for each in questions if each.key == asked.get("asks")), None)


def interrupt_of(request: AskRequest, fault: str) -> Interrupt:
    """Return the interrupt that asks a question.

    Args:
        fault: what is wrong with the last answer. Empty if there was no answer yet.
    """
    data: dict[str, Any] = {"asks": request.key}
    if request.expects is not None:
        data["expects"] = request.expects.json_schema()
    if request.data is not None:
        plain = storable(request.data, f"the data of the question {request.key!r}")
        data = {**plain, **data} if isinstance(plain, dict) else {"data": plain, **data}
    why = f" (the last answer does not fit: {fault})" if fault else ""
    return Interrupt(f"{request.question}{why}", data, request.deadline, request.default)


def ask_all(
    requests: Sequence[AskRequest], context: RoundContext, faults: Mapping[str, str]
) -> tuple[list[JournalEntry], dict[str, str]]:
    """Ask several questions at once, and wait for all answers.

    Args:
        faults: what is wrong with the last answers, by the key of the question.

    Returns:
        The entries of valid answers and of questions whose child run failed, in the order of their
        arrival. And what is wrong with the other answers, by key. The caller asks those questions
        again.

    Raises:
        Parked: a question is not answered yet.
    """
    children = []
    for request in requests:
        asked = interrupt_of(request, faults.get(request.key, ""))
        inputs = {
            "data": asked.data,
            "deadline": as_seconds(asked.deadline),
            "default": asked.default,
        }
        children.append(Child(FLOW, asked.reason, inputs))
    ended = context.gather(children, wait="settled", name=requests[0].key)
    entries: list[JournalEntry] = []
    unfit: dict[str, str] = {}
    for each in ended.arrived:
        request = requests[each.place]
        answer, fault = request.read(each.answer)
        if not each.ok:
            error = ChildFailed.of(each)
            entries.append(JournalEntry.failed(request.key, "ask", error, of=request.of))
        elif fault:
            unfit[request.key] = fault
        else:
            entries.append(JournalEntry(request.key, "ask", answer, of=request.of))
    return entries, unfit
