"""Bodies are read in time that grows with their size, and no faster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

# These bounds are the tests' own limits of time: quadratic work takes many minutes here.
NAMES = 400_000
CHUNKS = 400_000


@pytest.mark.timeout(60)
def test_a_name_that_comes_twice_is_found_in_one_pass() -> None:
    from fastapi import HTTPException

    from perdure.worker.web.json_body import read

    body = "{" + ",".join(f'"{number:x}":0' for number in range(NAMES)) + f',"{NAMES - 1:x}":0}}'
    with pytest.raises(HTTPException, match="more than once") as refused:
        read(body.encode())
    assert refused.value.status_code == 400


@pytest.mark.timeout(60)
def test_a_body_in_many_pieces_is_added_up_once() -> None:
    from fastapi import Request

    from perdure.worker.web.json_body import JsonRequest

    left = CHUNKS

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": b" ", "more_body": left > 0}

    scope = {"type": "http", "method": "POST", "headers": [], "path": "/"}
    body = asyncio.run(JsonRequest(Request(scope, receive), CHUNKS).body())
    assert len(body) == CHUNKS
