"""The prompt of a run's committed or next round.

A prompt is not stored: the code of the flow rebuilds it from the run's history. The event of a
round has a digest of the prompt that was sent. The digest shows whether the rebuilt prompt is equal
to the sent prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.flows.core.budgets import Budget, sum_of
from perdure.flows.core.history import History
from perdure.flows.core.thread_messages import Earlier
from perdure.flows.rings.held_turn import HELD
from perdure.flows.rounds import registry
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.providers import Endpoint
from perdure.worker.domain.budget import BudgetAccount
from perdure.worker.domain.prompt import PromptOfRound
from perdure.worker.domain.run import Run
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.errors import ArtifactNotFound, InvalidInput, UnknownFlow
from perdure.worker.features import features
from perdure.worker.operations.run_events import events as events_of
from perdure.worker.operations.run_files import artifact as artifact_of
from perdure.worker.operations.session import Session
from perdure.worker.presentation.text import count
from perdure.worker.store.thread_messages import earlier_messages

if TYPE_CHECKING:
    from perdure.flows.core.outcomes import Turn
    from perdure.flows.rounds.flow import Flow
    from perdure.worker.domain.event import Event
    from perdure.worker.domain.record import Record

#: Maximum number of steps that an error names.
MOST_STEPS = 20


def prompt_of_run(session: Session, run_id: str, step: int) -> PromptOfRound:
    """Return the prompt of a committed or next round.

    Returns:
        ``run``, ``step``, ``node``, ``turns`` (the number of turns before the round), ``messages``
            and ``tools``. ``sent`` says whether the round was committed. ``exact`` says whether the
            messages and tools are equal to the prompt that was sent. It is None for the next round.

    Raises:
        RunNotFound: No run has this id.
        UnknownFlow: This process does not know the run's flow.
        InvalidInput: The run has no such step, the event of this step is gone, or the round of this
            step asks no model.
    """
    record = session.record(run_id)
    session.find_flows()
    name = record.fields.get("flow", "")
    try:
        flow = registry.make(name)
    except registry.FlowNotFound as error:
        raise UnknownFlow(
            f"the prompt of run {run_id} is made by the code of its flow {name!r}, which this "
            "process does not know. Name its module in flow_modules (PERDURE_FLOW_MODULES), or run "
            f"this where its workers run. {error}"
        ) from error
    events = [
        event for event in events_of(session, run_id, follow=False) if event.type == "committed"
    ]
    if step < record.step:
        return _sent(session, record, flow, step, events)
    if step > record.step or Run.of(record).status.ended:
        ended = "" if step > record.step else " and has ended"
        raise InvalidInput(
            f"run {run_id} has {count(record.step, 'committed round')}{ended}, so there is no step "
            f"{step} to come; {_steps_with_prompt(events)}"
        )
    context = _context(session, record, flow, step, record.node, record.turns)
    if record.budgets:
        account = BudgetAccount(record, 1, session.store.time())
        context = altered(context, budgets=account.budgets())
    prompt = flow.prompt_for(record.node, context)
    if prompt is None:
        raise _asks_no_model(record, step, record.node, events)
    return _document(context, prompt, sent=False, exact=None)


def _sent(
    session: Session, record: Record, flow: Flow, step: int, events: Sequence[Event]
) -> PromptOfRound:
    """Return the prompt of a committed round.

    Args:
        events: The stored events of committed rounds.

    Raises:
        InvalidInput: The event of this step is gone, or its round asked no model.
    """
    done = next((each for each in events if each.step == step), None)
    if done is None:
        raise InvalidInput(
            f"run {record.id}: the event of step {step} is gone (keep_events), so its prompt "
            f"cannot be made again; {_steps_with_prompt(events)}"
        )
    traces = done.data.get("prompt")
    if not isinstance(traces, Mapping):
        raise _asks_no_model(record, step, done.node, events)
    context = _context(session, record, flow, step, done.node, int(traces["turns"]))
    context = altered(context, budgets=_budgets_before(record, events, step))
    prompt = flow.prompt_for(done.node, context, traces.get("tools", True))
    if prompt is None:
        raise _asks_no_model(record, step, done.node, events)
    return _document(context, prompt, sent=True, exact=prompt["digest"] == traces["digest"])


def _asks_no_model(record: Record, step: int, node: str, events: Sequence[Event]) -> InvalidInput:
    return InvalidInput(
        f"run {record.id}: step {step} (node {node}) sends nothing to a model, or an earlier "
        f"release of Perdure played it; {_steps_with_prompt(events)}"
    )


def _steps_with_prompt(events: Sequence[Event]) -> str:
    steps = [event.step for event in events if "prompt" in event.data]
    if not steps:
        return "none of its rounds has asked a model"
    newest = ", ".join(map(str, steps[-MOST_STEPS:]))
    return f"its {'newest ' if len(steps) > MOST_STEPS else ''}steps with a prompt are {newest}"


def _document(
    context: RoundContext, prompt: Mapping[str, Any], sent: bool, exact: bool | None
) -> PromptOfRound:
    return {
        "run": context.run_id,
        "step": context.step,
        "node": context.node,
        "turns": len(context.history),
        "sent": sent,
        "exact": exact,
        "messages": list(prompt["messages"]),
        "tools": list(prompt["tools"]),
    }


def _context(
    session: Session, record: Record, flow: Flow, step: int, node: str, turns: int
) -> RoundContext:
    """Return the context of a round, from the stored run.

    For a committed round, the named values are those of the run now, because older values are not
    stored. The value with the held turn is then None.

    Args:
        turns: The number of turns before the round.
    """
    gone = record.forgotten

    def load(start: int, stop: int) -> list[Turn]:
        stored = session.store.reads.memory(record.id, max(0, start - gone), max(0, stop - gone))
        return unpack_turns(record.id, stored)

    def artifact(name: str) -> str:
        try:
            return artifact_of(session, record.id, name)
        except ArtifactNotFound as error:
            raise KeyError(name) from error

    settings, is_next = session.settings, step == record.step
    inputs = record.inputs
    if record.fields.get("inputs_checked") != "1":
        inputs = flow.check_inputs(inputs)
    values = record.values
    more: dict[str, Any] = {}
    for feature in features():
        more |= feature.context(session.store, settings, record, flow)
    return RoundContext(
        goal=record.fields.get("goal", ""),
        inputs=inputs,
        run_id=record.id,
        node=node,
        step=step,
        history=History(turns, (), load, min(gone, turns)),
        committed=values if is_next else {**values, HELD: None},
        artifact=artifact,
        endpoint=Endpoint(settings.model, settings.model_url, settings.model_key),
        earlier=Earlier(lambda: earlier_messages(session.store, record)[0]),
        model=record.fields.get("model"),
        files=record.files,
        **more,
    )


def _budgets_before(record: Record, events: Sequence[Event], step: int) -> dict[str, Budget]:
    """Return the run's budgets before a round, as well as the events show them.

    The spending is the sum of the earlier rounds' events, but 0 for seconds and cycles. The limits
    are those of the run now.
    """
    spent = sum_of(
        [
            {name: each.data.get(name, 0) for name in record.limits}
            for each in events
            if each.step < step
        ]
    )
    return {
        name: Budget(limit, 0 if name in ("seconds", "cycles") else spent.get(name, 0))
        for name, limit in record.limits.items()
    }
