"""How a route gets at the runs: ``def get(run_id: str, runs: Runs)``. The router it stands in has put them into the request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from worker.web.access import Permitted


def _of(request: Request) -> Permitted:
    permitted = request.state.permitted
    assert isinstance(permitted, Permitted)
    return permitted


Runs = Annotated[Permitted, Depends(_of)]
