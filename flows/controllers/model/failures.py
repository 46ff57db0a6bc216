"""What a provider's error means: whether to try again, when, and whether the request may have to be paid for."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

from flows.controllers.model.chat import ModelFailed
from flows.errors import FatalError, RetryableError
from flows.secrets import scrubbed
from flows.summaries import safe_text
from flows.values import canonical

#: Of a provider's words, so many characters are told.
TOLD = 1000
#: Statuses that say: not now. Every other one below 500 says: not this.
LATER = frozenset({408, 409, 425, 429})
#: No provider means more than a day, and a run should not wait longer for one that says so.
LONGEST_WAIT = 86_400.0


def failed(error: BaseException, model: str, secrets: Iterable[str], reply_format: str = "") -> ModelFailed:
    """What a request has come to that raised ``error``; nothing of it holds a secret.

    Args:
        model: how errors name the model.
        reply_format: how the flow asks for replies; where the model refuses tools, the error tells of the other way.
    """
    from pydantic_ai import exceptions

    told = _told(error, secrets)
    if isinstance(error, exceptions.ModelHTTPError):
        status, billed = error.status_code, bool(error.in_stream)
        quota = isinstance(error, exceptions.ModelQuotaExceededError)
        if not quota and (status in LATER or status >= 500):
            return ModelFailed(RetryableError(f"model {model} answers {status}: {told}", _wait(error.retry_after)), billed)
        too_long = isinstance(error, exceptions.ModelContextWindowExceededError)
        advice = " (show it less of the history: window, in the flow)" if too_long else _advice(status, told, reply_format)
        return ModelFailed(FatalError(f"model {model} answers {status}: {told}{advice}"), billed)
    if isinstance(error, TimeoutError | exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout):
        return ModelFailed(RetryableError(f"model {model} took too long: {told}"), billed=not _never_sent(error))
    if isinstance(error, exceptions.ModelConnectionError | OSError):
        if any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error)):
            return ModelFailed(FatalError(f"model {model}: its server's certificate is not trusted: {told}"), billed=False)
        never = _never_sent(error)
        what = "cannot be reached" if never else "was cut off from us"
        return ModelFailed(RetryableError(f"model {model} {what}: {told}"), billed=not never)
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        return ModelFailed(FatalError(f"model {model} refuses the request: {told}"), billed=error.in_stream)
    if isinstance(error, exceptions.UserError | ImportError):
        return ModelFailed(FatalError(f"model {model} cannot be asked: {told}"), billed=False)
    # What is left: a stream that ended in the middle, an answer that is none, a fault of the library. Another attempt may do.
    return ModelFailed(RetryableError(f"model {model} gave no whole reply: {told}"), billed=True)


def _advice(status: int, told: str, reply_format: str) -> str:
    if reply_format != "json" and status in (400, 404, 422) and "tool" in told.lower():
        return " (a model that calls no tools takes `reply: json`)"
    if status in (401, 403):
        return " (the key: setting model_key, or api_key in the flow, each as env:NAME)"
    return ""


def _wait(seconds: float | None) -> float | None:
    return None if seconds is None else min(max(float(seconds), 0.0), LONGEST_WAIT)


def _told(error: BaseException, secrets: Iterable[str]) -> str:
    """The provider's own words where it has any, else the error's and its cause's; without secrets, and not too long."""
    text = _words(getattr(error, "body", None))
    if not text:
        *_, cause = _chain(error)
        text, why = ((str(getattr(each, "message", "") or each) or type(each).__name__).rstrip(".") for each in (error, cause))
        text = text if why in text else f"{text}: {why}"
    return safe_text(scrubbed(text, secrets), TOLD)


def _words(body: Any) -> str:
    """What a provider says in the body of an error: ``{"error": {"message": ...}}``, or one of its many relatives."""
    found = body
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    if found in (None, "", {}, []):
        return ""
    return found if isinstance(found, str) else canonical(found)


def _never_sent(error: BaseException) -> bool:
    """Whether the connection was not even made, so that nothing was asked."""
    return any(getattr(each, "phase", None) in ("pool", "connect") for each in _chain(error))


def _chain(error: BaseException) -> Iterable[BaseException]:
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
