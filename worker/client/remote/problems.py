"""The conversion of the HTTP API's problem details (RFC 9457) to exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from perdure.flows.core.errors import PerdureError
from perdure.worker.errors import HTTP_ERRORS, InvalidInput, StoreUnavailable, Taken

if TYPE_CHECKING:
    import httpx2

TYPE = "urn:perdure:"
#: Problems of requests that were refused before they were executed. These have no class.
REFUSED = ("invalid-request", "unreadable-body", "body-too-large", "no-json")
#: The error to raise, by the code in the problem's type.
ERRORS: dict[str, type[PerdureError]] = HTTP_ERRORS | dict.fromkeys(REFUSED, InvalidInput)
#: Status codes with which a proxy answers if it cannot reach the server behind it.
AWAY = (502, 503, 504)


def raise_problem(answer: httpx2.Response, place: str) -> NoReturn:
    """Raise the error that an unsuccessful response reports.

    Args:
        answer: The response.
        place: Address of the server, for the error texts of other responses.

    Raises:
        PerdureError: The class with the code of the problem. If no class has the code, or if
            another program sent the response, PerdureError itself.
        StoreUnavailable: A proxy answered that it cannot reach the HTTP API.
    """
    told = _problem(answer)
    word = str(told.get("type", "")).removeprefix(TYPE)
    if word in ERRORS:
        detail = str(told.get("detail"))
        if word == Taken.code:
            raise Taken(detail, str(told.get("holder", "")))
        raise ERRORS[word](detail)
    if answer.status_code in AWAY:
        raise StoreUnavailable(
            f"the HTTP API at {place} is away: what stands before it answered {answer.status_code}"
        )
    if told.get("detail") and told.get("type", "").startswith(TYPE):
        raise PerdureError(
            f"{told['detail']} (the HTTP API at {place} answered {answer.status_code})"
        )
    to = f" and sends on to {answer.headers['location']!r}" if "location" in answer.headers else ""
    raise PerdureError(
        f"{place} answered {answer.status_code}{to}, which is not Perdure's HTTP API; "
        "is the address right?"
    )


def _problem(answer: httpx2.Response) -> dict[str, Any]:
    if "json" not in answer.headers.get("content-type", ""):
        return {}
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
