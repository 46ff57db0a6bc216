"""The form on a round's page that forks the run. The fork begins with this round."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from perdure.worker.domain.run import Run
from perdure.worker.domain.value_log import values_before
from perdure.worker.errors import InvalidInput
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.page import Filled, PageRoute, back

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True)
class ForkForm:
    """Initial content of a form that forks a run.

    Attributes:
        key: The idempotency key. With it, a form that is sent twice makes one run.
        inputs: The inputs of the run that is forked, as JSON text.
        remembered: The names of the remembered values that the user must enter, because they cannot
            be restored from the run's events.
    """

    key: str
    inputs: str
    remembered: list[str]


def form_of(runs: AuthorizedClient, run: Run, node: str, step: int) -> ForkForm | None:
    """Return the form that forks a run from a round.

    Args:
        node: The name of the round's node.
        step: The step of the round.

    Returns:
        None if the flow is not known, or permits no fork that begins at this node.
    """
    flow = runs.flows().get(run.flow)
    if flow is None or node not in flow.get("fork_nodes", ()):
        return None
    if step == run.state.step:
        remembered = []
    else:
        own = flow.get("own_values", [])
        now = {name: value for name, value in runs.values(run.id).items() if name not in own}
        events = runs.events(run.id, follow=False) if now else ()
        remembered = sorted(now) if values_before(events, step, now) is None else []
    inputs = json.dumps(dict(run.inputs), indent=2, ensure_ascii=False)
    return ForkForm(uuid.uuid4().hex, inputs, remembered)


@router.post("/runs/{run_id}/fork")
def fork(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Submit a fork of a run. A form that is sent twice makes one fork.

    Raises:
        InvalidInput: The step is not a number, or a field is neither empty nor a JSON object.
    """
    at = filled.get("at", "")
    if not at.isdecimal():
        raise InvalidInput(f"at: expected the number of a step, got {at[:60]!r}")
    goal = filled.get("goal", "").strip()
    made = runs.fork(
        run_id,
        int(at),
        goal=goal or None,
        inputs=_object(filled.get("inputs", ""), "the inputs"),
        values=_object(filled.get("values", ""), "the values"),
        idempotency_key=filled.get("key") or None,
    )
    return back(
        request, "runs", made.id, notice=f"Run {made.id} was forked from {run_id}, step {at}."
    )


def _object(text: str, what: str) -> dict[str, Any] | None:
    """Return the JSON object in a form field.

    None if the field is empty.

    Args:
        what: The name of the field in the error's text.

    Raises:
        InvalidInput: The text is not a JSON object.
    """
    if not text.strip():
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what}: expected a JSON object, got {text[:60]!r} ({error})"
        ) from error
    if not isinstance(data, dict):
        raise InvalidInput(f"{what}: expected a JSON object, got {text[:60]!r}")
    return data
