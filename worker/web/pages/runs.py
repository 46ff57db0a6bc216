"""Runs: the table of them, narrowed by a form, and views of it under names of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from worker.client.many import LIVE
from worker.errors import InvalidInput
from worker.run import RunStatus
from worker.web.pages.page import back, page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Rows of one page.
ROWS = 50
#: What a view is made of; where in the table it was looked at is no part of it.
VIEW = ("status", "flow", "label")
Word = Annotated[str, Query()]


@router.get("/runs")
def table(request: Request, runs: Runs, status: Word = "", flow: Word = "", label: Word = "", cursor: Word = "") -> Response:
    """Newest first, of a status, of a flow, with labels."""
    view = {"status": status, "flow": flow.strip(), "label": label.strip()}
    fault, found = "", None
    try:
        found = runs.runs(status or None, view["flow"] or None, ROWS, cursor or None, labels_of(view["label"]))
    except InvalidInput as error:
        fault = str(error)
    return page(
        request,
        "runs.html",
        422 if fault else 200,
        view=view,
        fault=fault,
        found=found,
        counts=None if cursor or view["flow"] or view["label"] else runs.status_counts(),
        cursor=cursor,
        statuses=[each.value for each in RunStatus],
        flows=sorted(runs.flows()),
        filters=runs.saved_filters(),
        query=query_of(view),
        stoppable=status in ("", *(each.value for each in LIVE)) and (status or view["flow"]) and not view["label"],
    )


@router.get("/stops")
def ask_to_stop(request: Request, runs: Runs, status: Word = "", flow: Word = "") -> Response:
    """How many runs would be stopped, before they are."""
    ids = runs.live(status or None, flow or None)
    return page(request, "stop_many.html", status=status, flow=flow, ids=ids)


@router.post("/filters")
def save(request: Request, runs: Runs, name: Annotated[str, Form()] = "", query: Annotated[str, Form()] = "") -> Response:
    """Name the view that is looked at."""
    runs.save_filter(name.strip(), query_of(dict(parse_qsl(query))))
    return _to(request, query, f"The filter is kept as {name.strip()}.")


@router.post("/filters/forget")
def forget(request: Request, runs: Runs, name: Annotated[str, Form()] = "", query: Annotated[str, Form()] = "") -> Response:
    """Forget the name of one."""
    runs.forget_filter(name)
    return _to(request, query, f"The filter {name} is forgotten.")


def labels_of(text: str) -> dict[str, str]:
    """``team=a, env=b`` as labels; raises InvalidInput."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, _ in pairs:
        if not name.strip() or not equals:
            raise InvalidInput(f"labels are written name=value, several with a comma between; it is {text[:80]!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def query_of(view: Mapping[str, Any]) -> str:
    """The part of the page's address that makes this view."""
    return urlencode({name: view[name] for name in VIEW if view.get(name)})


def _to(request: Request, query: str, said: str) -> Response:
    return back(request, "runs", said=said, **{name: value for name, value in parse_qsl(query) if name in VIEW})
