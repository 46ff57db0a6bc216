"""What a provider's error means: whether to try again, when, and whether the request may have to be paid for."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterable
from typing import Any

from flows.controllers.model.chat import ModelFailed
from flows.errors import BadReply, FatalError, RetryableError
from flows.secrets import scrubbed
from flows.summaries import safe_text
from flows.values import canonical

#: Of a provider's words, so many characters are told.
TOLD = 1000
#: Statuses that say: not now. Every other one below 500 says: not this. Such a refusal, and a server that cannot be reached, is no failure
#: of the round (``counts=False``), unless the request may have been paid for.
LATER = frozenset({408, 409, 425, 429})
#: No provider means more than a day, and a run should not wait longer for one that says so.
LONGEST_WAIT = 86_400.0
#: Of a call that the provider itself found wrong, so many characters are shown to the model.
CALL_LENGTH = 500
#: How providers say that a model calls no tools; a tool's name or schema that they refuse is another matter.
NO_TOOLS = re.compile(r"(support|enabl)\w*\b.*\b(tool|function)|\b(tool|function).*(support|enabl)", re.IGNORECASE | re.DOTALL)
#: Errors of cloud providers' libraries that say that this process has no usable credentials, by package and class.
NO_CREDENTIALS = {
    "botocore": ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "NoAuthTokenError", "NoRegionError"),
    "google": ("DefaultCredentialsError",),
}
#: Errors of these classes never come of an answer: the library refused to send the request.
REFUSED_HERE = {
    "botocore": (
        "InvalidEndpointConfigurationError",
        "UnsupportedSignatureVersionError",
        "ParamValidationError",
        "UnknownServiceError",
        "InvalidRegionError",
    )
}


def failed(error: BaseException, model: str, secrets: Iterable[str], reply_format: str = "", has_answered: bool = True) -> ModelFailed:
    """What a request has come to that raised ``error``; nothing of it holds a secret.

    Args:
        model: how errors name the model.
        reply_format: how the flow asks for replies; where the model refuses tools, the error tells of the other way.
        has_answered: False where the reply had not even begun.
    """
    from pydantic_ai import exceptions

    told = _told(error, secrets)
    if _cannot_be_sent(error, has_answered):
        return ModelFailed(FatalError(f"model {model} cannot be asked: {told}"), billed=False)
    if isinstance(error, exceptions.ModelHTTPError):
        status, billed = error.status_code, bool(error.in_stream)
        quota = isinstance(error, exceptions.ModelQuotaExceededError)
        if not quota and (status in LATER or status >= 500):
            return ModelFailed(RetryableError(f"model {model} answers {status}: {told}", _wait(error.retry_after), counts=billed), billed)
        if (call := _failed_call(error.body)) is not None:
            what = f"the provider refused the model's call: {told}"
            shown = f": {safe_text(scrubbed(call, secrets), CALL_LENGTH)}" if call else ""
            return ModelFailed(BadReply(f"{what}{shown}; call it again as its schema says"), billed=True)
        too_long = isinstance(error, exceptions.ModelContextWindowExceededError)
        advice = " (show it less of the history: window, in the flow)" if too_long else _advice(status, told, reply_format)
        return ModelFailed(FatalError(f"model {model} answers {status}: {told}{advice}"), billed)
    if isinstance(error, TimeoutError | exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout):
        never = _never_sent(error)
        return ModelFailed(RetryableError(f"model {model} took too long: {told}", counts=not never), billed=not never)
    if isinstance(error, exceptions.ModelConnectionError | OSError):
        if any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error)):
            return ModelFailed(FatalError(f"model {model}: its server's certificate is not trusted: {told}"), billed=False)
        never = _never_sent(error)
        what = "cannot be reached" if never else "was cut off from us"
        return ModelFailed(RetryableError(f"model {model} {what}: {told}", counts=not never), billed=not never)
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        return ModelFailed(FatalError(f"model {model} refuses the request: {told}"), billed=error.in_stream)
    if isinstance(error, exceptions.UserError | ImportError):
        return ModelFailed(FatalError(f"model {model} cannot be asked: {told}"), billed=False)
    # What is left: a stream that ended in the middle, an answer that is none, a fault of the library. Another attempt may do.
    return ModelFailed(RetryableError(f"model {model} gave no whole reply: {told}"), billed=True)


def no_reply(body: bytes, error: BaseException, model: str, secrets: Iterable[str]) -> ModelFailed:
    """What a request has come to that was answered 200 with a page or an error in place of a reply: no model was asked."""
    text = _words(body.decode("utf-8", "replace").strip()) or _told(error, secrets)
    told = safe_text(scrubbed(text, secrets), TOLD)
    return ModelFailed(RetryableError(f"model {model} gave no reply, its server answers 200 with something else: {told}"), billed=False)


def _advice(status: int, told: str, reply_format: str) -> str:
    if reply_format != "json" and status in (400, 404, 422) and NO_TOOLS.search(told):
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
    found = _read(body)
    for key in ("error", "Error", "message", "Message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    if found in (None, "", {}, []):
        return ""
    return found if isinstance(found, str) else canonical(found)


def _read(body: Any) -> Any:
    """A body, also where the library gives it as the JSON text that it was."""
    if not isinstance(body, str) or not body.lstrip().startswith("{"):
        return body
    try:
        return json.loads(body)
    except ValueError:
        return body


def _failed_call(body: Any) -> str | None:
    """Return the call that the provider checked against its schema and refused; None if it refused something else."""
    found = _read(body)
    told = found.get("error", found) if isinstance(found, dict) else None  # some libraries give what is in it
    if not isinstance(told, dict) or told.get("code") != "tool_use_failed":
        return None
    return str(told.get("failed_generation") or "")


def _cannot_be_sent(error: BaseException, has_answered: bool) -> bool:
    """Return whether the request never left this process, and never will: a setting or a credential is missing or wrong."""
    for each in _chain(error):
        package = type(each).__module__.partition(".")[0]
        if type(each).__name__ in (*NO_CREDENTIALS.get(package, ()), *REFUSED_HERE.get(package, ())):
            return True
    # Their subclasses are faults of an answer: a JSON that does not read, a value that does not fit.
    return not has_answered and type(error) in (ValueError, TypeError)


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
