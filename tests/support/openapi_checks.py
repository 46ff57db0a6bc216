"""Schemathesis checks of our own for the HTTP API. Schemathesis loads this module by its name."""

from __future__ import annotations

from typing import Any

import schemathesis

#: Failures of a request that differs from its description in OpenAPI.
NOT_AS_DESCRIBED = (
    "invalid-request",
    "unreadable-body",
    "no-json",
    "body-too-large",
    "no-such-path",
    "no-such-method",
)


@schemathesis.check
def what_is_described_is_read(ctx: Any, response: Any, case: Any) -> None:
    """Check that a request as OpenAPI describes it is never malformed.

    It may be impossible (a flow that does not exist).
    """
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code < 400:
        return
    if "/hooks/" in case.operation.path and response.status_code == 404:
        return  # an invalid address of a hook is no such path
    kind = response.json()["type"].removeprefix("urn:perdure:")
    assert kind not in NOT_AS_DESCRIBED, f"a request as described is {kind}"


@schemathesis.check
def every_status_is_named(ctx: Any, response: Any, case: Any) -> None:
    """Check that each operation names the statuses of its answers; \"default\" is for unexpected
    ones.
    """
    if case.method.upper() == case.operation.method.upper():
        named = case.operation.definition.raw["responses"]
        assert str(response.status_code) in named, (
            f"{response.status_code} is not among {', '.join(named)}"
        )


@schemathesis.hook
def before_call(ctx: Any, case: Any, kwargs: Any) -> None:
    """Remove waits from the request: no worker plays the runs here.

    A stream of a chat would follow its run, and a read would wait for a value, in vain.
    """
    query = case.query or {}
    wait = query.get("wait")
    if can_wait(wait):
        # A number stays a number: Schemathesis looks at the query once more when it judges the
        # reply.
        case.query = {**query, "wait": "0.1" if isinstance(wait, str) else 0.1}
    if case.operation.path.endswith(("/ai-sdk", "/ag-ui", "/ai-sdk/{chat}/stream")):
        case.query = {**query, "follow": "false"}


def can_wait(seconds: Any) -> bool:
    """Return whether the API would accept this ``wait`` and wait. test_steering.py tests its
    bounds.
    """
    if isinstance(seconds, bool):
        return False
    try:
        return 0.1 < float(seconds) <= 30
    except (TypeError, ValueError):
        return False
