"""Start: submit a run by a form made from the flow's schema."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response

from worker.announcement import shown
from worker.errors import Conflict, InvalidInput, RunExists, UnknownFlow
from worker.web.pages.filled import Filled
from worker.web.pages.form import Field, NotFilledIn, fields_of, values_of
from worker.web.pages.page import back, page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: In front of the inputs' names, so that none of them is taken for the goal or an option.
INPUT = "input."


@dataclass
class Started:
    """A form that starts a run: what stands in it, and what is wrong with it, by field."""

    filled: Mapping[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, at_first: str = "") -> str:
        """What stands in a field; ``at_first`` where nothing was sent yet."""
        return self.filled.get(name, "") if self.filled else at_first

    def fault(self, name: str) -> str:
        """What is wrong with it; '' for nothing."""
        return self.faults.get(name, "")


@router.get("/start")
def choose(request: Request, runs: Runs, flow: str = "") -> Response:
    """The flows; and the form of the one that was chosen."""
    return _page(request, runs, flow, Started())


@router.post("/start")
def start(request: Request, runs: Runs, filled: Filled) -> Response:
    """Submit the run; a form that was sent twice makes one. What is wrong is told at its field, and nothing that was typed is lost."""
    name = filled.get("flow", "")
    described = runs.flows().get(name)
    if described is None:
        raise UnknownFlow(f"no flow is named {name[:100]!r} (any more); a worker that knows it may have left")
    form = Started(filled)
    inputs, faults = values_of(fields_of(described["inputs"]), _inputs(filled))
    form.faults |= {INPUT + each: text for each, text in faults.items()}
    options = _options(described, form)
    if not filled.get("goal", "").strip():
        form.faults["goal"] = "expected what to pursue; it is empty"
    if form.faults:
        return _page(request, runs, name, form, 422)
    try:
        run = runs.submit(name, filled["goal"].strip(), inputs, idempotency_key=filled.get("key") or None, **options)
    except (InvalidInput, RunExists, Conflict) as error:
        form.faults["form"] = str(error)
        if isinstance(error, Conflict):  # of this very form, sent again with something changed
            form.faults["form"] = "This form has submitted a run already; send it again to submit another one, as it stands now."
            form.filled = {**filled, "key": uuid.uuid4().hex}
        return _page(request, runs, name, form, 422)
    return back(request, "runs", run.id, said=f"Run {run.id} is submitted.")


def _page(request: Request, runs: Runs, name: str, form: Started, status: int = 200) -> Response:
    flows = runs.flows()
    chosen = flows.get(name)
    fields: list[Field] = fields_of(chosen["inputs"]) if chosen is not None else []
    key = form.text("key") or uuid.uuid4().hex
    more = {
        "flows": shown(flows, runs.client.settings.enabled_flows, name),
        "flow_name": name,
        "chosen": chosen,
        "fields": fields,
        "form": form,
        "key": key,
        "INPUT": INPUT,
    }
    return page(request, "start.html", status, **more)


def _inputs(filled: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(INPUT): text for name, text in filled.items() if name.startswith(INPUT)}


def _options(described: Mapping[str, Any], form: Started) -> dict[str, Any]:
    """What was filled in beside goal and inputs, with the faults noted in the form."""
    options: dict[str, Any] = {}
    for name, read in (("labels", _pairs), ("budgets", _amounts), ("max_rounds", _count), ("run_id", str.strip)):
        text = form.filled.get(name, "")
        if text.strip():
            try:
                options[name] = read(text)
            except NotFilledIn as error:
                form.faults[name] = str(error)
    for when in ("before", "after"):
        # The boxes stand for the whole list, those that the flow ticks itself too; without them it has its own.
        if f"{when}?" in form.filled:
            options[f"interrupt_{when}"] = [node for node in described["nodes"] if form.filled.get(f"{when}:{node}")]
    return options


def _pairs(text: str) -> dict[str, str]:
    """``name=text``, one a line."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not (equals and name.strip()):
            raise NotFilledIn(f"expected name=text, one a line; it is {line[:60]!r}")
        if line.strip():
            found[name.strip()] = value.strip()
    return found


def _amounts(text: str) -> dict[str, float]:
    """``name=number``, one a line."""
    found: dict[str, float] = {}
    for name, amount in _pairs(text).items():
        try:
            found[name] = int(amount) if amount.isdecimal() else float(amount)
        except ValueError as error:
            raise NotFilledIn(f"expected a number for {name}; it is {amount[:60]!r}") from error
    return found


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise NotFilledIn(f"expected a whole number from 1; it is {text.strip()[:60]!r}")
    return int(text)
