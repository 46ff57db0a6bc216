"""The page that submits a run. Its form is built from the flow's schema."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response

from perdure.worker.client.again import (
    differences,
    lost_pause_text,
    lost_pauses,
    options_again,
    submitted_files,
)
from perdure.worker.domain.fleet import shown
from perdure.worker.domain.run import Run
from perdure.worker.errors import Conflict, InvalidInput, RunExists, RunNotFound, UnknownFlow
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.page import Filled, PageRoute, back, page
from perdure.worker.web.dashboard.schema_form import (
    Field,
    MissingField,
    fields_of,
    is_line,
    texts_of,
    values_of,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: A text in the quotes of JSON, and a line ``name=text`` whose parts may have such quotes.
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
PAIR = re.compile(rf"\s*(?P<name>{QUOTED.pattern}\s*|[^=\s][^=]*)=(?P<value>.*)")
#: Prefix of the inputs' field names, so that none clashes with the goal or an option.
INPUT = "input."
#: Prefix of the boxes that choose the files of a run that is submitted again.
FILE = "file:"


@dataclass
class Started:
    """The state of a form for a new run.

    Attributes:
        filled: The entered texts by field. Empty for a new form.
        faults: The faults by field.
        before: The run that the form submits again. None: the form is for a first submission.
    """

    filled: Mapping[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    before: Run | None = None

    def text(self, name: str, at_first: str = "") -> str:
        """Return the entered text of a form field. In a new form, return ``at_first``."""
        return self.filled.get(name, "") if self.filled else at_first

    def fault(self, name: str) -> str:
        """Return the fault of a form field. '' if the field has no fault."""
        return self.faults.get(name, "")


@router.get("/start")
def choose(request: Request, runs: Runs, flow: str = "", again: str = "") -> Response:
    """Show the flows, and the form of the chosen flow.

    Args:
        flow: The name of the chosen flow. '': the flow of the run ``again``, or none yet.
        again: The id of a run that is submitted again: its submission fills the form. ``flow`` may
            be another flow than that run's, such as a newer version. '': the form is new.
    """
    if not again:
        return _page(request, runs, flow, Started())
    run, flows = runs.get(again), runs.flows()
    name = flow or run.flow
    form = Started(before=run)
    if name in flows:
        options = options_again(run, flows, name)
        form.filled = _filled_again(run, flows[name], options)
        for option, nodes in lost_pauses(options, flows[name]).items():
            form.faults[option.removeprefix("interrupt_")] = lost_pause_text(option, nodes)
    return _page(request, runs, name, form)


@router.post("/start")
def start(request: Request, runs: Runs, filled: Filled) -> Response:
    """Submit a run from the form. A form that is sent twice creates one run.

    If a field or the submission is invalid, show the form again, with the faults and all entered
    texts.

    Raises:
        UnknownFlow: No flow has the name in the form.
    """
    name = filled.get("flow", "")
    flow_info = runs.flows().get(name)
    if flow_info is None:
        raise UnknownFlow(
            f"unknown flow {name[:100]!r}. Perhaps the last worker that knows it has shut down"
        )
    form = Started(filled)
    if again := filled.get("again"):
        _find_before(runs, again, form)
    inputs, faults = values_of(fields_of(flow_info["inputs"]), _inputs(filled))
    form.faults |= {INPUT + each: text for each, text in faults.items()}
    options = _options(flow_info, form)
    goal = filled.get("goal", "").strip()
    if not goal and flow_info.get("needs_goal", True):
        form.faults["goal"] = "expected a goal, but the field is empty"
    if form.faults:
        return _page(request, runs, name, form, 422)
    if form.before is not None:
        files = [each for each in submitted_files(form.before) if filled.get(FILE + each)]
        options["files"] = [runs.file(form.before.id, each) for each in files] or None
    try:
        run = runs.submit(
            name,
            goal,
            inputs,
            idempotency_key=filled.get("key") or None,
            **options,
        )
    except (InvalidInput, RunExists, Conflict) as error:
        form.faults["form"] = str(error)
        # The same form was sent again with changes.
        if isinstance(error, Conflict):
            form.faults["form"] = (
                "This form has already submitted a run. Send it again to submit another one."
            )
            form.filled = {**filled, "key": uuid.uuid4().hex}
        return _page(request, runs, name, form, 422)
    return back(request, "runs", run.id, notice=f"Run {run.id} was submitted.")


def _find_before(runs: Runs, run_id: str, form: Started) -> None:
    """Set ``form.before`` to the run that the form submits again.

    If that run does not exist any more, its id and its files are removed from the form. A fault
    then names these files.
    """
    try:
        form.before = runs.get(run_id)
    except RunNotFound:
        names = [each.removeprefix(FILE) for each in form.filled if each.startswith(FILE)]
        form.filled = {
            name: text
            for name, text in form.filled.items()
            if name != "again" and not name.startswith(FILE)
        }
        if names:
            form.faults["form"] = (
                f"Run {run_id[:100]} does not exist any more, so these files are gone: "
                f"{', '.join(names)}. Send the form again to submit a run without them."
            )


def _filled_again(run: Run, info: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a form that repeats a submission.

    The texts are by field. The new run has the same inputs as ``run``.

    Args:
        info: The description of the new run's flow.
        options: The options of the new run, by name.
    """
    budgets = options.get("budgets", {})
    filled = {
        "goal": run.goal,
        "labels": "\n".join(_line(*label) for label in run.labels.items()),
        # A rounded limit would be another one.
        "budgets": "\n".join(f"{name}={json.dumps(limit)}" for name, limit in budgets.items()),
        "max_rounds": str(options.get("max_rounds", "")),
        "retry": json.dumps(options["retry"]) if "retry" in options else "",
        "model": options.get("model", ""),
    }
    for name, text in texts_of(fields_of(info["inputs"]), run.inputs).items():
        filled[INPUT + name] = text
    for when in ("before", "after"):
        for node in options.get(f"interrupt_{when}", info[f"interrupt_{when}"]):
            filled[f"{when}:{node}"] = "on"
    return filled | {FILE + name: "on" for name in submitted_files(run)}


def _changed_by_form(run: Run, info: Mapping[str, Any]) -> list[str]:
    """Return which parts of a run's submission the form would change: ``goal``, ``input NAME``.

    The form cannot show every value exactly. For an empty field, the flow's default applies.

    Args:
        info: The description of the new run's flow.
    """
    fields = fields_of(info["inputs"])
    inputs, _ = values_of(fields, texts_of(fields, run.inputs))
    properties = (info["inputs"] or {}).get("properties", {})
    changed = [] if run.goal == run.goal.strip() else ["goal"]
    for name, value in run.inputs.items():
        default = properties.get(name, {}).get("default")
        entered = inputs.get(name, default)
        # The schema has no default that a function makes. Such a default is mostly empty.
        if entered != value and (entered or value):
            changed.append(f"input {name}")
    return changed


def _page(request: Request, runs: Runs, name: str, form: Started, status: int = 200) -> Response:
    flows = runs.flows()
    chosen = flows.get(name)
    fields: list[Field] = fields_of(chosen["inputs"]) if chosen is not None else []
    key = form.text("key") or uuid.uuid4().hex
    context = {
        "flows": shown(flows, runs.client.settings.enabled_flows, name),
        "flow_name": name,
        "chosen": chosen,
        "fields": fields,
        "form": form,
        "key": key,
        "before": form.before,
        "differences": differences(form.before, chosen) if form.before and chosen else [],
        "changed": _changed_by_form(form.before, chosen) if form.before and chosen else [],
        "files": submitted_files(form.before) if form.before else [],
        "FILE": FILE,
        "INPUT": INPUT,
    }
    return page(request, "start.html", status, **context)


def _inputs(filled: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(INPUT): text for name, text in filled.items() if name.startswith(INPUT)
    }


def _options(flow_info: Mapping[str, Any], form: Started) -> dict[str, Any]:
    """Return the options of a new run from a form.

    The goal, the inputs, the files and empty fields are left out. The fault of an invalid field is
    added to ``form.faults``.
    """
    options: dict[str, Any] = {}
    for name, read in (
        ("labels", _pairs),
        ("budgets", _amounts),
        ("max_rounds", _count),
        ("retry", _object),
        ("run_id", str.strip),
        ("model", str.strip),
    ):
        text = form.filled.get(name, "")
        if text.strip():
            try:
                options[name] = read(text)
            except MissingField as error:
                form.faults[name] = str(error)
    for when in ("before", "after"):
        # The boxes state the complete list, including the nodes that the flow itself interrupts at.
        # An equal list is no choice. Without boxes in the form, the flow's own list applies too.
        option = f"interrupt_{when}"
        nodes = [node for node in flow_info["nodes"] if form.filled.get(f"{when}:{node}")]
        if f"{when}?" in form.filled and set(nodes) != set(flow_info[option]):
            options[option] = nodes
    return options


def _pairs(text: str) -> dict[str, str]:
    """Return the texts by name in lines of the form ``name=text``. Empty lines are ignored.

    A name or text in double quotes is read as JSON, so it can contain line breaks.

    Raises:
        MissingField: A line has another form, or has quotes but no valid JSON.
    """
    pairs = {}
    for line in text.split("\n"):
        match = PAIR.fullmatch(line)
        if line.strip() and match is None:
            raise MissingField(f"expected name=text, one per line, got {line[:60]!r}")
        if match is not None:
            pairs[_read_part(match["name"])] = _read_part(match["value"])
    return pairs


def _line(name: str, text: str) -> str:
    """Return a name and a text as a line for ``_pairs``.

    Each is quoted as JSON if ``_pairs`` would read it differently without quotes.
    """
    return f"{_part(name) if '=' not in name else json.dumps(name)}={_part(text) if text else ''}"


def _part(text: str) -> str:
    return text if is_line(text) and text[0] != '"' else json.dumps(text)


def _read_part(text: str) -> str:
    text = text.strip()
    if not QUOTED.fullmatch(text):
        return text
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise MissingField(
            f"expected a text, or one in the quotes of JSON, got {text[:60]!r}"
        ) from error


def _amounts(text: str) -> dict[str, float]:
    """Return the numbers by name in lines of the form ``name=number``.

    Raises:
        MissingField: A line has another form.
    """
    amounts: dict[str, float] = {}
    for name, amount in _pairs(text).items():
        try:
            amounts[name] = int(amount) if amount.isdecimal() else float(amount)
        except ValueError as error:
            raise MissingField(f"expected a number for {name}, got {amount[:60]!r}") from error
    return amounts


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        MissingField: The text is not a JSON object.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MissingField(f"expected a JSON object: {error}") from error
    if not isinstance(data, dict):
        raise MissingField(f"expected a JSON object, got {text.strip()[:60]!r}")
    return data


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise MissingField(f"expected a whole number of at least 1, got {text.strip()[:60]!r}")
    return int(text)
