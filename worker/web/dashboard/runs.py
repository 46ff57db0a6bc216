"""The table of runs, its filters, and the filters that users saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from perdure.worker.client.bulk import LIVE
from perdure.worker.domain.run import RunStatus
from perdure.worker.errors import InvalidInput
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.page import PageRoute, back, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rows on one page.
ROWS = 50
#: Query parameters that a saved filter holds. The position in the table is not among them.
VIEW = ("status", "flow", "label", "children")
QueryText = Annotated[str, Query()]


@router.get("/runs")
def table(
    request: Request,
    runs: Runs,
    status: QueryText = "",
    flow: QueryText = "",
    label: QueryText = "",
    children: QueryText = "",
    cursor: QueryText = "",
) -> Response:
    """Show the runs that match the filter, newest first."""
    view = {
        "status": status,
        "flow": flow.strip(),
        "label": label.strip(),
        "children": "1" if children else "",
    }
    fault, found_runs = "", None
    try:
        found_runs = runs.runs(
            status or None,
            view["flow"] or None,
            ROWS,
            cursor or None,
            labels_of(view["label"]),
            bool(children),
        )
    except InvalidInput as error:
        fault = str(error)
    return page(
        request,
        "runs.html",
        422 if fault else 200,
        view=view,
        fault=fault,
        found=found_runs,
        counts=None
        if cursor or view["flow"] or view["label"] or children
        else runs.status_counts(),
        cursor=cursor,
        statuses=[each.value for each in RunStatus],
        flows=sorted(runs.flows()),
        filters=runs.saved_filters(),
        query=query_of(view),
        stoppable=status in ("", *(each.value for each in LIVE))
        and (status or view["flow"])
        and not view["label"],
    )


@router.get("/stops")
def ask_to_stop(
    request: Request, runs: Runs, status: QueryText = "", flow: QueryText = ""
) -> Response:
    """Show how many runs would be stopped, and ask for a confirmation."""
    ids = runs.live(status or None, flow or None)
    return page(request, "stop_many.html", status=status, flow=flow, ids=ids)


@router.post("/filters")
def save(
    request: Request,
    runs: Runs,
    name: Annotated[str, Form()] = "",
    query: Annotated[str, Form()] = "",
) -> Response:
    """Save the present filter under a name."""
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


def labels_of(text: str) -> dict[str, str]:
    """Return the labels of runs that a text such as ``team=a, env=b`` names.

    Raises:
        InvalidInput: A part is not ``name=value``.
    """
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, _ in pairs:
        if not name.strip() or not equals:
            raise InvalidInput(
                f"expected labels as name=value, separated by commas, got {text[:80]!r}"
            )
    return {name.strip(): value.strip() for name, _, value in pairs}


def query_of(view: Mapping[str, Any]) -> str:
    """Return the URL's query string for a filter of the table of runs."""
    return urlencode({name: view[name] for name in VIEW if view.get(name)})


def _to(request: Request, query: str, notice: str) -> Response:
    return back(
        request,
        "runs",
        notice=notice,
        **{name: value for name, value in parse_qsl(query) if name in VIEW},
    )
