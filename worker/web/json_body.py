"""JSON bodies: strict reading of requests, and writing of responses."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from perdure.flows.core.files import MOST_FILES, MOST_TOGETHER
from perdure.worker.domain.submission import MAX_NAMES_BYTES
from perdure.worker.settings import Settings

#: Bytes above which a body is parsed in a thread. Parsing it in the event loop would delay all
#: other requests.
LARGE = 64 * 1024
#: How much longer a text may be as JSON: an escaped control character takes six bytes.
LONGEST_ESCAPE = 6
#: Bytes of a submission's files in a body: base64 takes four bytes for three, and each file has a
#: name and a type.
MOST_ENCODED = MOST_TOGETHER * 4 // 3 + MOST_FILES * 1024
#: U+0000 as JSON escapes it. The first alternative skips escaped backslashes.
NUL = re.compile(r"\\\\|(\\u0000)")


def most_bytes(settings: Settings) -> int:
    """Return the maximum size of a body in bytes.

    Files are not included. A run's goal, inputs, labels and other options fit even if every
    character is escaped.
    """
    return LONGEST_ESCAPE * (
        settings.max_goal_bytes + settings.max_addition_bytes + 2 * MAX_NAMES_BYTES
    )


class Json(JSONResponse):
    """A JSON response.

    A damaged run may hold bytes that are not UTF-8. Python reads such bytes as lone surrogates, and
    this response writes them as escapes.
    """

    def render(self, content: Any) -> bytes:
        """Return the content as compact JSON in UTF-8."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "backslashreplace"
        )


class JsonRequest(Request):
    """A request whose body must be strict JSON.

    Strict JSON is I-JSON (RFC 7493), which all parsers read alike. FastAPI's limit
    ``max_body_size`` is not used, because its error is always plain text.

    Args:
        most: Maximum size of the body in bytes.
    """

    def __init__(self, request: Request, most: int) -> None:
        super().__init__(request.scope, request.receive)
        self._most = most

    def check(self) -> None:
        """Check the headers that declare the body's size and type.

        The type must be JSON, because an HTML form of another site cannot send this type. A request
        without a body needs no type.

        Raises:
            HTTPException: 413 if the declared size is too large, 415 if the type is not JSON in
                UTF-8.
        """
        length = self.headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length) > self._most:
            raise self._too_large()
        content_type = self.headers.get("content-type", "")
        empty = length == "0" and "transfer-encoding" not in self.headers
        kind, _, parameters = content_type.partition(";")
        charset = parameters.strip().lower()
        if (content_type or not empty) and (
            kind.strip().lower() != "application/json"
            or charset not in ("", "charset=utf-8", 'charset="utf-8"')
        ):
            raise HTTPException(
                415,
                "expected a body of type application/json in UTF-8, "
                f"got {content_type or 'no type'!r}",
            )

    async def body(self) -> bytes:
        """Read the request's body, and return it. Later calls return the same bytes.

        Raises:
            HTTPException: 413 as soon as the received part is larger than the limit.
        """
        if not hasattr(self, "_body"):
            body = bytearray()
            async for chunk in self.stream():
                body += chunk
                if len(body) > self._most:
                    raise self._too_large()
            self._body = bytes(body)
        return self._body

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the body is larger than the limit of {self._most:,} bytes")

    async def json(self) -> Any:
        """Return the JSON value of the request's body. A large body is parsed in a thread.

        Raises:
            HTTPException: 400 if the body is not valid JSON (``read``), 413 if it is too large.
        """
        body = await self.body()
        return await run_in_threadpool(read, body) if len(body) > LARGE else read(body)


def read(body: bytes) -> Any:
    """Return the value of a body that is strict JSON.

    Raises:
        HTTPException: 400 if the body is not valid JSON in UTF-8, is nested too deep, or has a part
            that parsers read differently: a repeated key, NaN, an infinite number, U+0000 or a lone
            surrogate.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(f"not UTF-8 ({error.reason} at byte {error.start})") from error
    if any(match[1] for match in NUL.finditer(text)):
        raise _unreadable(
            "a text contains the character U+0000, at which many programs cut texts off"
        )
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_number,
            parse_float=_finite_number,
            object_pairs_hook=_unique_keys,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _unreadable("a text contains a lone surrogate, which is not a character") from error
    except RecursionError as error:
        raise _unreadable("nested too deep") from error
    except ValueError as error:
        raise _unreadable(str(error)) from error
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"an object has the key {name[:100]!r} more than once")
        fields[name] = value
    return fields


def _finite_number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not a JSON number")


def _unreadable(why: str) -> HTTPException:
    return HTTPException(400, f"the body is not valid JSON: {why}")
