"""Bodies: JSON as it comes in, read strictly, and as it goes out."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from worker.settings import Settings
from worker.submission import MAX_NAMES_BYTES

#: A body of more bytes is read in a thread: it would hold up everybody else's requests.
LARGE = 64 * 1024
#: How many times as long a text may be as JSON: a control character takes six.
LONGEST_ESCAPE = 6
#: U+0000 as JSON escapes it; what follows an escaped backslash is no escape.
NUL = re.compile(r"\\\\|(\\u0000)")


def most_bytes(settings: Settings) -> int:
    """The bytes that a body may take: as much as a run's goal, inputs, labels and the rest, all escaped, could need."""
    return LONGEST_ESCAPE * (settings.max_goal_bytes + settings.max_addition_bytes + 2 * MAX_NAMES_BYTES)


class Json(JSONResponse):
    """A response of JSON. Bytes in a damaged run that are no UTF-8, lone surrogates in Python, are escaped as such."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


class JsonRequest(Request):
    """A request whose body is taken only as JSON that everybody reads alike (I-JSON, RFC 7493), and of at most so many bytes.

    FastAPI has a limit of its own, ``max_body_size``; what it refuses by, in plain text, cannot be told otherwise.
    """

    def __init__(self, request: Request, most: int) -> None:
        super().__init__(request.scope, request.receive)
        self._most = most

    def check(self) -> None:
        """Raise HTTPException where it says that it is too large (413), or something else (415): forms of other sites cannot say JSON."""
        length = self.headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length) > self._most:
            raise self._too_large()
        given = self.headers.get("content-type", "")
        empty = length == "0" and "transfer-encoding" not in self.headers
        kind, _, parameters = given.partition(";")
        charset = parameters.strip().lower()
        if (given or not empty) and (kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8", 'charset="utf-8"')):
            raise HTTPException(415, f"the body should be application/json (in UTF-8); it is {given or 'of no type'!r}")

    async def body(self) -> bytes:
        """The body; raises HTTPException 413 before more than the limit is kept of it."""
        if not hasattr(self, "_body"):
            body = bytearray()
            async for chunk in self.stream():
                body += chunk
                if len(body) > self._most:
                    raise self._too_large()
            self._body = bytes(body)
        return self._body

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the body takes more than the {self._most:,} bytes that are accepted")

    async def json(self) -> Any:
        """The body; raises HTTPException 400."""
        body = await self.body()
        return await run_in_threadpool(read, body) if len(body) > LARGE else read(body)


def read(body: bytes) -> Any:
    """The value in it; raises HTTPException 400 where readers of JSON would differ about it, or give up."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(f"it is no UTF-8 ({error.reason} at byte {error.start})") from error
    if any(found[1] for found in NUL.finditer(text)):
        raise _unreadable("a text holds the character U+0000, at which many programs cut texts off")
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_once)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _unreadable("a text holds a lone surrogate, which is no character") from error
    except RecursionError as error:
        raise _unreadable("it is nested too deep") from error
    except ValueError as error:
        raise _unreadable(str(error)) from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"an object has the name {name[:100]!r} more than once")
        found[name] = value
    return found


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no number that JSON has")


def _unreadable(why: str) -> HTTPException:
    return HTTPException(400, f"the body cannot be read as JSON: {why}")
