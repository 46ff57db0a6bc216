"""The table of runs: its query line, tabs and order, and the filters that users saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from perdure.worker.domain.query_line import QueryTerm, line_of, terms_of, with_term
from perdure.worker.domain.run import Page, Run, RunStatus
from perdure.worker.domain.run_query import KEYS, SORTED_AFTER_READING, SORTS, RunQuery
from perdure.worker.errors import InvalidInput
from perdure.worker.web.auth.permissions import RUNS_READ_PER_PAGE, Runs
from perdure.worker.web.dashboard.chosen import ACTIONS
from perdure.worker.web.dashboard.page import PageRoute, back, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rows on one page.
ROWS = 50
#: Query parameters that choose runs. Other pages and filters that were saved earlier use the ones
#: beside ``q``. The position in the table is not among them.
VIEW = ("q", "status", "flow", "label", "children")
#: Ages for which the page has a link.
AGES = {"last hour": "<1h", "last day": "<1d", "last week": "<7d"}
#: Seconds between two updates of an open page, if an index finds its rows, and if a search does.
SECONDS, SECONDS_OF_SEARCH = 2, 10
QueryText = Annotated[str, Query()]


@router.get("/runs")
def table(
    request: Request,
    runs: Runs,
    q: QueryText = "",
    status: QueryText = "",
    flow: QueryText = "",
    label: QueryText = "",
    children: QueryText = "",
    cursor: QueryText = "",
) -> Response:
    """Show the runs that match the query line, newest first by default.

    An invalid query line shows the page with the fault and status 422.

    Args:
        q: The query line. The parameters after it, except ``cursor``, are added to it as terms.
        cursor: The cursor of the previous page.
    """
    view = {"q": q, "status": status, "flow": flow, "label": label, "children": children}
    line, asked, fault, found = q.strip(), RunQuery(), "", None
    try:
        line = line_of_view(view)
        asked = RunQuery.of(line)
        found = runs.runs(limit=ROWS, cursor=cursor or None, query=line or None)
    except InvalidInput as error:
        fault = str(error)
    flows = sorted(runs.flows())
    is_plain = not fault and is_of_statuses(line)
    return page(
        request,
        "runs.html",
        422 if fault else 200,
        line=line,
        asked=asked,
        fault=fault,
        found=found,
        looked_back=looked_back(found, cursor, asked),
        looked_at=RUNS_READ_PER_PAGE,
        counts=runs.status_counts() if is_plain and not cursor else None,
        cursor=cursor,
        statuses=[each.value for each in RunStatus],
        chosen_status=chosen(line, "status") if not fault else "",
        chosen_age=chosen(line, "submitted") if not fault else "",
        line_with=lambda key, text: with_term(line, key, text),
        ages=AGES,
        keys=KEYS,
        columns=columns_of(found),
        actions=ACTIONS,
        completions=json.dumps(completions_of(found, flows)),
        seconds=SECONDS if is_plain and asked.sort == "newest" else SECONDS_OF_SEARCH,
        filters=runs.saved_filters(),
        saved_lines={name: _saved_line(saved) for name, saved in runs.saved_filters().items()},
        query=query_of({"q": line}),
    )


@router.post("/filters")
def save(
    request: Request,
    runs: Runs,
    name: Annotated[str, Form()] = "",
    query: Annotated[str, Form()] = "",
) -> Response:
    """Save the filters of the table under a name."""
    runs.save_filter(name.strip(), query_of(dict(parse_qsl(query))))
    return _to(request, query, f"Filter {name.strip()} was saved.")


@router.post("/filters/forget")
def forget(
    request: Request,
    runs: Runs,
    name: Annotated[str, Form()] = "",
    query: Annotated[str, Form()] = "",
) -> Response:
    """Delete a saved filter."""
    runs.forget_filter(name)
    return _to(request, query, f"Filter {name} was deleted.")


def line_of_view(view: Mapping[str, str]) -> str:
    """Return the query line for the table's URL parameters.

    Raises:
        InvalidInput: The query line or a label is not valid.
    """
    line = view.get("q", "").strip()
    named = [
        ("status", view.get("status", "")),
        ("flow", view.get("flow", "").strip()),
        *(("label", text) for text in _labels_of(view.get("label", ""))),
        ("children", "yes" if view.get("children") else ""),
    ]
    more = [QueryTerm(key, text) for key, text in named if text]
    return line_of([*terms_of(line), *more]) if more else line


def is_of_statuses(line: str) -> bool:
    """Return whether a query line selects by status alone, if at all.

    Then an index finds the runs, and the counts by status apply. The order does not matter.
    """
    return all(term.key in ("status", "sort") for term in terms_of(line))


def chosen(line: str, key: str) -> str:
    """Return the text of the only term with this key in a query line.

    Returns:
        '' if the line has no such term, several, or a negated one.
    """
    texts = [str(term).partition(":")[2] for term in terms_of(line) if term.key == key]
    return texts[0] if len(texts) == 1 and f"-{key}:" not in line else ""


def looked_back(found: Page | None, cursor: str, asked: RunQuery) -> datetime | None:
    """Return how far back in time the search for a page has examined runs.

    ``cursor`` is ignored.

    Returns:
        None if there is no page or no next page, or if the page is full. A page that is sorted
        after the search does not count as full.
    """
    if found is None or found.cursor is None:
        return None
    if len(found) == ROWS and asked.sort not in SORTED_AFTER_READING:
        return None
    score = found.cursor.partition("|")[2].partition(":")[0]
    return datetime.fromtimestamp(min(float(score), 4e12) / 1000, UTC)


def columns_of(found: Page | None) -> set[str]:
    """Return the optional columns with content on this page.

    Empty if there is no page (None).
    """
    runs = found.runs if found is not None else []
    columns = {"error"} if any(run.error for run in runs) else set()
    return columns | ({"labels"} if any(run.labels for run in runs) else set())


def completions_of(found: Page | None, flows: list[str]) -> dict[str, Any]:
    """Return suggestions for the query line, by key.

    Labels and submitters are those of the runs on the page. No further runs are read.
    """
    runs: list[Run] = found.runs if found is not None else []
    labels = {f"{name}={value}" for run in runs for name, value in run.labels.items()}
    by = {run.details["submitted_by"] for run in runs if run.details.get("submitted_by")}
    return {
        "": list(KEYS.items()),
        "status": [each.value for each in RunStatus],
        "flow": flows,
        "label": sorted(labels),
        "by": sorted(by),
        "submitted": list(AGES.values()),
        "ended": list(AGES.values()),
        "duration": [">10s", ">1m", ">10m", ">1h"],
        "cost": [">0.01", ">0.1", ">1"],
        "children": ["yes"],
        "sort": list(SORTS),
    }


def query_of(view: Mapping[str, Any]) -> str:
    """Return the URL query string for the parameters of the table. Other parameters are dropped."""
    return urlencode({name: view[name] for name in VIEW if view.get(name)})


def _labels_of(text: str) -> list[str]:
    """Return the labels in a text like ``team=a, env=b``.

    Raises:
        InvalidInput: A label has no ``=``.
    """
    labels = [part.strip() for part in text.split(",") if part.strip()]
    for label in labels:
        if "=" not in label:
            raise InvalidInput(
                f"expected labels as name=value, separated by commas, got {text[:80]!r}"
            )
    return labels


def _saved_line(query: str) -> str:
    try:
        return line_of_view(dict(parse_qsl(query)))
    except InvalidInput:
        return query


def _to(request: Request, query: str, notice: str) -> Response:
    return back(
        request,
        "runs",
        notice=notice,
        **{name: value for name, value in parse_qsl(query) if name in VIEW},
    )
