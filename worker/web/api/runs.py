"""Routes of single runs: submit, list, stop, resume, retry, fork, signal and delete.

Routes of groups of errors and of the text of an artifact are here too. Those that read one run are
derived (``derived.py``).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse

from perdure.flows.core.files import file_from
from perdure.worker.domain.error_groups import ErrorGroups
from perdure.worker.domain.run import Run
from perdure.worker.domain.signal import SignalReceipt
from perdure.worker.domain.stop import StopReceipt
from perdure.worker.errors import UnknownFlow
from perdure.worker.operations import validation
from perdure.worker.web.api.requests import (
    Deletion,
    ErrorListing,
    ForkOne,
    Keep,
    Limits,
    Listing,
    Resume,
    RetryOne,
    Signal,
    Stop,
    Submit,
    Topic,
)
from perdure.worker.web.api.responses import RunPage
from perdure.worker.web.api.routes import (
    BODILESS,
    BODY_PROBLEMS,
    CHANGE_PROBLEMS,
    EmptyResponse,
    RunId,
    problems,
    resource_router,
)
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.json_body import Json
from perdure.worker.web.problems import unknown_flow

router = resource_router("runs")

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=900,
        pattern=r"^[\x21-\x7E]([\x20-\x7E]*[\x21-\x7E])?$",
        description="Repeating the call with the same key and content changes nothing, and returns "
        "the same run or receipt. Other content is refused with 409.",
        examples=["nightly-2026-11-22"],
    ),
]


@router.post(
    "/runs",
    operation_id="submit_run",
    status_code=201,
    response_model=Run,
    response_description="The run, which may already exist under this idempotency key.",
    responses={
        201: {
            "headers": {
                "Location": {"description": "The run's path.", "schema": {"type": "string"}}
            }
        },
        **problems(
            *BODY_PROBLEMS, *CHANGE_PROBLEMS, "unknown-flow", "invalid-input", "unstorable-value",
            "run-exists", "conflict", "taken", "damaged-run", "unsafe-server",
            unknown_flow=422,
        ),
    },
)  # fmt: skip
def submit_run(body: Submit, request: Request, runs: Runs, idempotency_key: Key = None) -> Response:
    """Submit a run. Once this call has returned, the run is not lost.

    With an `Idempotency-Key`, the call can be repeated safely.
    """
    options = {name: getattr(body, name) for name in body.model_fields_set}
    if body.files:
        options["files"] = [file_from(each.model_dump()) for each in body.files]
    try:
        run = runs.submit(**options, idempotency_key=idempotency_key)
    except UnknownFlow as error:
        return unknown_flow(error)
    return Json(run.to_dict(), 201, {"Location": f"{request.url.path}/{run.id}"})


@router.get(
    "/runs",
    operation_id="list_runs",
    response_model=RunPage,
    responses=problems("invalid-request", "invalid-input", "run-not-found", "damaged-run"),
)
def list_runs(listing: Annotated[Listing, Query()], runs: Runs) -> Response:
    """List runs, newest first, one page at a time.

    Ended runs are ordered by the time of their end, others by the time of their submission. The
    cost of a page does not depend on how many runs exist: if no index selects the matching runs,
    the page examines at most 1,500 runs and returns a cursor for the rest. With `sort:duration` or
    `sort:cost` in `q`, a page has the largest of the examined runs. The first page has `counts`:
    the number of runs of each status. Child runs are listed only if `children` is true, and are
    never counted. With `parent`, only the children of that run are listed, and there are no counts.
    """
    labels = dict(label.split("=", 1) for label in listing.label)
    page = runs.runs(
        listing.status, listing.flow, listing.limit, listing.cursor, labels=labels,
        children=listing.children, parent=listing.parent, thread_id=listing.thread_id,
        query=listing.q or None,
    )  # fmt: skip
    counts = None if listing.cursor or listing.parent else runs.status_counts()
    return Json(RunPage(page.runs, page.cursor, page.damaged, counts).to_dict())


@router.get(
    "/errors",
    operation_id="list_errors",
    response_model=ErrorGroups,
    responses=problems("invalid-request", "invalid-input"),
)
def list_errors(listing: Annotated[ErrorListing, Query()], runs: Runs) -> Response:
    """List the errored runs in groups by flow, node and kind of error, the largest group first.

    `query` of a group chooses its runs in `POST /retries`, `POST /deletions` and `GET /runs`. If
    `looked_back` is set, there are older errored runs that were not looked at.
    """
    groups = runs.error_groups(listing.flow, query=listing.q or None, look=listing.look)
    return Json(groups.to_dict())


@router.delete(
    "/runs/{run_id}",
    operation_id="delete_run",
    status_code=204,
    response_class=EmptyResponse,
    responses=problems(
        *CHANGE_PROBLEMS,
        "run-not-found",
        "invalid-request",
        "invalid-transition",
        "damaged-run",
        content=BODILESS,
    ),
)
def delete_run(run_id: RunId, deletion: Annotated[Deletion, Query()], runs: Runs) -> Response:
    """Delete a run that has ended, or that is too damaged to continue."""
    runs.delete(run_id, deletion.tree)
    return Response(status_code=204)


STATE_PROBLEMS = ("run-not-found", "invalid-transition", "stale", "damaged-run")


@router.post(
    "/runs/{run_id}/stop",
    operation_id="stop_run",
    response_model=StopReceipt,
    responses=problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, "invalid-input", "run-not-found", "damaged-run"
    ),
)
def stop_run(run_id: RunId, runs: Runs, body: Stop | None = None) -> Response:
    """Stop a run.

    If the run has already ended, this is no error: the receipt says so. If the run is unknown, an
    admin gets a receipt too, and other callers get an error.
    """
    body = body or Stop()
    return Json(runs.request_stop(run_id, body.mode, body.reason, children=body.children).to_dict())


@router.post(
    "/runs/{run_id}/resume",
    operation_id="resume_run",
    response_model=Run,
    responses=problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, "invalid-input", "unstorable-value", *STATE_PROBLEMS
    ),
)
def resume_run(run_id: RunId, runs: Runs, body: Resume | None = None) -> Response:
    """Resume a stopped run, or an interrupted one with the answer, in the caller's name."""
    body = body or Resume()
    return Json(runs.resume(run_id, body.answer, body.add, body.interrupt).to_dict())


@router.post(
    "/runs/{run_id}/limits",
    operation_id="raise_limits",
    response_model=Run,
    responses=problems(*BODY_PROBLEMS, *CHANGE_PROBLEMS, "invalid-input", *STATE_PROBLEMS),
)
def raise_limits(run_id: RunId, runs: Runs, body: Limits) -> Response:
    """Add amounts to the limits of a run's budgets, in the caller's name.

    Runs that wait for these budgets go on.
    """
    # After this check, no amount has the name of a parameter.
    amounts = validation.budgets(body.add, "add")
    return Json(runs.add(run_id, by=None, **amounts).to_dict())


@router.post(
    "/runs/{run_id}/retry",
    operation_id="retry_run",
    response_model=Run,
    responses=problems(*BODY_PROBLEMS, *CHANGE_PROBLEMS, *STATE_PROBLEMS),
)
def retry_run(run_id: RunId, runs: Runs, body: RetryOne | None = None) -> Response:
    """Retry an errored run from the step that failed."""
    return Json(runs.retry(run_id, (body or RetryOne()).children).to_dict())


@router.post(
    "/runs/{run_id}/fork",
    operation_id="fork_run",
    status_code=201,
    response_model=Run,
    response_description="The fork, which may already exist under this idempotency key.",
    responses={
        201: {
            "headers": {
                "Location": {"description": "The run's path.", "schema": {"type": "string"}}
            }
        },
        **problems(
            *BODY_PROBLEMS, *CHANGE_PROBLEMS, "unknown-flow", "invalid-input", "unstorable-value",
            "run-not-found", "not-forkable", "stale", "run-exists", "conflict", "damaged-run",
            "unsafe-server",
            unknown_flow=422,
        ),
    },
)  # fmt: skip
def fork_run(
    run_id: RunId, body: ForkOne, request: Request, runs: Runs, idempotency_key: Key = None
) -> Response:
    """Submit a copy of a run that begins at one of its steps.

    That step and all later ones run again. The rounds before it, and their effects, are not
    repeated. The other run does not change. With an `Idempotency-Key`, the call can be repeated
    safely.
    """
    options = {name: getattr(body, name) for name in body.model_fields_set}
    try:
        run = runs.fork(run_id, **options, idempotency_key=idempotency_key)
    except UnknownFlow as error:
        return unknown_flow(error)
    place = request.url.path.removesuffix(f"/{run_id}/fork")
    return Json(run.to_dict(), 201, {"Location": f"{place}/{run.id}"})


@router.post(
    "/runs/{run_id}/signals/{name}",
    operation_id="signal_run",
    status_code=202,
    response_model=SignalReceipt,
    responses=problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, *STATE_PROBLEMS, "invalid-input", "unstorable-value",
        "conflict", "mailbox-full",
    ),
)  # fmt: skip
def signal_run(
    run_id: RunId,
    name: Annotated[str, Path(description="Name of the signal.")],
    runs: Runs,
    body: Signal | None = None,
    idempotency_key: Key = None,
) -> Response:
    """Send a signal to a run, in the caller's name. Once this call has returned, it is stored.

    With an `Idempotency-Key`, the call can be repeated safely.
    """
    payload = None if body is None else body.payload
    return Json(runs.signal(run_id, name, payload, key=idempotency_key).to_dict(), 202)


@router.post(
    "/topics/{topic}/signals/{name}",
    operation_id="signal_topic",
    status_code=202,
    response_model=SignalReceipt,
    response_description="The receipt. Without a run, `run_id` is null and `status` is `kept`.",
    responses=problems(
        *BODY_PROBLEMS, *CHANGE_PROBLEMS, "invalid-input", "unstorable-value", "conflict",
        "mailbox-full", "damaged-run",
    ),
)  # fmt: skip
def signal_topic(
    topic: Annotated[Topic, Path()],
    name: Annotated[str, Path(description="Name of the signal.")],
    query: Annotated[Keep, Query()],
    runs: Runs,
    body: Signal | None = None,
    idempotency_key: Key = None,
) -> Response:
    """Send a signal to the run that holds a topic of the caller's.

    If no run holds the topic, the next run that takes it gets the signal. Once this call has
    returned, the signal is stored. With an `Idempotency-Key`, the call can be repeated safely.
    """
    payload = None if body is None else body.payload
    receipt = runs.signal(
        topic=topic, name=name, payload=payload, key=idempotency_key, keep=query.keep
    )
    return Json(receipt.to_dict(), 202)


Name = Annotated[str, Path(description="The artifact's name.", examples=["4-run_tests"])]


@router.get(
    "/runs/{run_id}/artifacts/{name:rest}",
    operation_id="get_artifact",
    response_class=PlainTextResponse,
    response_description="The text.",
    responses=problems("run-not-found", "artifact-not-found", "damaged-run"),
)
def get_artifact(run_id: RunId, name: Name, runs: Runs) -> Response:
    """Return one artifact, unchanged.

    It is always plain text, whatever it contains: browsers must not guess another type.
    """
    text = runs.artifact(run_id, name).encode("utf-8", "surrogateescape")
    return PlainTextResponse(text, headers={"X-Content-Type-Options": "nosniff"})
