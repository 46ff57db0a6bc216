"""Consequences of provider errors and refusals for the run.

The error of a provider decides whether and when to retry, and whether the request may be charged.
After a model's refusal, the run ends or a person is asked.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.flows.controllers.model.chat import ChatMessage, ModelFailed, Reply, UserMessage
from perdure.flows.controllers.model.messages import text_of
from perdure.flows.core.errors import BadReply, FatalError, RetryableError
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Interrupt
from perdure.flows.core.secrets import scrubbed
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

#: Maximum characters of a provider's error text.
TOLD = 1000
#: HTTP statuses that mean "not now". All others below 500 mean "not this request". Such a refusal,
#: and a server that cannot be reached, does not count as a failed attempt (``counts=False``),
#: unless the request may be charged.
LATER = frozenset({408, 409, 425, 429})
#: HTTP statuses that mean "not this model, or not with this key". Some providers answer 400 for an
#: unknown or retired model, and say so in the text.
GONE = frozenset({401, 402, 403, 404, 410})
UNKNOWN_MODEL = re.compile(
    r"\bmodel\b.{0,200}(not (found|exist)|unknown|identifier is invalid|decommissioned|retired"
    r"|no longer)",
    re.IGNORECASE | re.DOTALL,
)
#: The code of an error for a request that exceeds the model's context window, and the statuses of
#: codes in events.
TOO_LONG = "context_length_exceeded"
STATUSES = {TOO_LONG: "400", "rate_limit_exceeded": "429"}
#: Maximum seconds to wait. No provider means more than a day, and a run should not wait longer.
LONGEST_WAIT = 86_400.0
#: Maximum characters shown to the model of a call that the provider refused.
CALL_LENGTH = 500
#: Matches errors saying that a model does not support tools. It is not meant for
#: errors about a tool's name or schema.
NO_TOOLS = re.compile(
    r"(support|enabl)\w*\b.*\b(tool|function)|\b(tool|function).*(support|enabl)",
    re.IGNORECASE | re.DOTALL,
)
#: Errors of cloud providers' libraries for missing or unusable credentials, by package and class.
NO_CREDENTIALS = {
    "botocore": (
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "NoAuthTokenError",
        "NoRegionError",
    ),
    "google": ("DefaultCredentialsError",),
}
#: Errors of libraries that refused to send the request, by package and class. No answer causes
#: them.
REFUSED_HERE = {
    "botocore": (
        "InvalidEndpointConfigurationError",
        "UnsupportedSignatureVersionError",
        "ParamValidationError",
        "UnknownServiceError",
        "InvalidRegionError",
    )
}


def failed(
    error: BaseException,
    model: str,
    secrets: Iterable[str],
    reply_format: str = "",
    has_answered: bool = True,
    has_content: bool = True,
) -> ModelFailed:
    """Translate a request's exception into the round's error.

    The result also says whether the provider may charge for the request. Its text contains no
    secret.

    Args:
        model: The model's name, for the error.
        secrets: Texts that the error must not show.
        reply_format: The flow's setting ``reply``. If the provider rejects tools, the error
            suggests ``reply: json``, unless the flow has set that.
        has_answered: False if not even the beginning of a reply arrived.
        has_content: False if no part of a reply arrived. An error that is an event of a stream is
            then the same as an error status, and the provider does not charge for it.
    """
    from pydantic_ai import exceptions

    is_event = isinstance(error, exceptions.ModelAPIError) and error.in_stream

    text = _error_text(error, secrets)
    if _cannot_be_sent(error, has_answered):
        return ModelFailed(FatalError(f"model {model} cannot be used: {text}"), billed=False)
    if isinstance(error, exceptions.ModelHTTPError):
        billed = is_event and has_content
        return _translate_status(error, text, model, secrets, reply_format, billed)
    if isinstance(
        error, TimeoutError | exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout
    ):
        never = _never_sent(error)
        return ModelFailed(
            RetryableError(f"model {model} took too long: {text}", counts=not never),
            billed=not never,
        )
    if isinstance(error, exceptions.ModelConnectionError | OSError):
        return _translate_connection_error(error, text, model)
    if isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelQuotaExceededError):
        is_gone = isinstance(
            error,
            exceptions.ModelQuotaExceededError
            | exceptions.ModelAuthenticationError
            | exceptions.ModelNotFoundError,
        )
        return ModelFailed(
            FatalError(f"model {model} refuses the request: {text}"),
            billed=is_event and has_content,
            kind="gone" if is_gone else "rejected",
        )
    if isinstance(error, exceptions.UserError | ImportError):
        return ModelFailed(FatalError(f"model {model} cannot be used: {text}"), billed=False)
    # All other errors: a stream that ended early, an unreadable answer, a fault of the library.
    # Another attempt may succeed.
    return ModelFailed(
        RetryableError(f"model {model} gave an incomplete reply: {text}"),
        billed=has_content or not is_event,
    )


def _translate_status(
    error: ModelHTTPError,
    text: str,
    model: str,
    secrets: Iterable[str],
    reply_format: str,
    billed: bool,
) -> ModelFailed:
    """Translate a provider's error status into the round's error.

    The provider is busy, has rejected a tool call of the model, does not offer the model, or has
    rejected the request.

    Args:
        text: The provider's error text, without secrets.
    """
    from pydantic_ai import exceptions

    status = error.status_code
    quota = isinstance(error, exceptions.ModelQuotaExceededError)
    is_gone = quota or status in GONE or (status == 400 and UNKNOWN_MODEL.search(text))
    if not quota and (status in LATER or status >= 500):
        return ModelFailed(
            RetryableError(
                f"model {model} answers {status}: {text}",
                _wait(error.retry_after),
                counts=billed,
            ),
            billed,
        )
    if (call := _failed_call(error.body)) is not None:
        what = f"the provider refused the model's call: {text}"
        shown = f": {safe_text(scrubbed(call, secrets), CALL_LENGTH)}" if call else ""
        return ModelFailed(
            BadReply(f"{what}{shown}; call it again according to its schema"), billed=True
        )
    too_long = isinstance(error, exceptions.ModelContextWindowExceededError)
    advice = (
        " (show it less of the history: set window in the flow)"
        if too_long
        else _advice(status, text, reply_format)
    )
    return ModelFailed(
        FatalError(f"model {model} answers {status}: {text}{advice}"),
        billed,
        "gone" if is_gone else "rejected",
    )


def _translate_connection_error(error: BaseException, text: str, model: str) -> ModelFailed:
    """Translate a failed, broken or untrusted connection into the round's error."""
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error)):
        return ModelFailed(
            FatalError(f"model {model}: the server's certificate is not trusted: {text}"),
            billed=False,
        )
    never = _never_sent(error)
    what = " cannot be reached" if never else ": the connection broke"
    return ModelFailed(
        RetryableError(f"model {model}{what}: {text}", counts=not never), billed=not never
    )


def error_of_event(event: Mapping[str, Any], model: str) -> ModelAPIError:
    """Return the error for an event by which the model's server ends its reply."""
    from pydantic_ai import exceptions

    inner = event.get("error")
    body = dict(inner if isinstance(inner, Mapping) else event)
    code = str(body.get("code"))
    status = STATUSES.get(code, code)
    if re.fullmatch("[45][0-9][0-9]", status):
        return exceptions.ModelHTTPError.for_category(
            exceptions.ModelContextWindowExceededError if code == TOO_LONG else None,
            status_code=int(status),
            model_name=model,
            body=body,
            in_stream=True,
        )
    text = str(body.get("message") or inner or event)
    return exceptions.ModelAPIError(model, text, body=body, in_stream=True)


def no_reply(body: bytes, error: BaseException, model: str, secrets: Iterable[str]) -> ModelFailed:
    """Return the error for a response with status 200 that has no reply of a model.

    The server has sent a web page or an error instead. No model was used, so nothing is charged.

    Args:
        body: The body of the response.
        error: The exception of the model library. Its text is used if the body has none.
    """
    text = _message_in(body.decode("utf-8", "replace").strip()) or _error_text(error, secrets)
    shown = safe_text(scrubbed(text, secrets), TOLD)
    return ModelFailed(
        RetryableError(
            f"model {model} gave no reply: its server answers 200 with other content: {shown}"
        ),
        billed=False,
    )


def _advice(status: int, text: str, reply_format: str) -> str:
    """Return advice on how to fix a provider's error. It is empty if there is none.

    Args:
        reply_format: The flow's setting ``reply``.
    """
    if reply_format != "json" and status in (400, 404, 422) and NO_TOOLS.search(text):
        return " (for a model without tools, set `reply: json`)"
    if status in (401, 403):
        return " (check the key: setting model_key, or api_key in the flow, each as env:NAME)"
    return ""


def _wait(seconds: float | None) -> float | None:
    return None if seconds is None else min(max(float(seconds), 0.0), LONGEST_WAIT)


def _error_text(error: BaseException, secrets: Iterable[str]) -> str:
    """Return the text of a failed request, without secrets.

    It is the provider's error message. If the provider sent none, it is the text of the exception
    and of its cause.
    """
    text = _message_in(getattr(error, "body", None))
    if not text:
        *_, cause = _chain(error)
        text, why = (
            (str(getattr(each, "message", "") or each) or type(each).__name__).rstrip(".")
            for each in (error, cause)
        )
        text = text if why in text else f"{text}: {why}"
    return safe_text(scrubbed(text, secrets), TOLD)


def _message_in(body: Any) -> str:
    """Return the error message in a provider's response body. Empty if the body is empty.

    Most bodies look like ``{"error": {"message": ...}}`` or similar. If a body has no message in a
    known form, the whole body is returned.
    """
    message = _read(body)
    for key in ("error", "Error", "message", "Message", "detail"):
        if isinstance(message, dict) and message.get(key):
            message = message[key]
    if message in (None, "", {}, []):
        return ""
    return message if isinstance(message, str) else canonical(message)


def _read(body: Any) -> Any:
    """Return an error body as data. Only a text with a JSON object is parsed."""
    if not isinstance(body, str) or not body.lstrip().startswith("{"):
        return body
    try:
        return json.loads(body)
    except ValueError:
        return body


def _failed_call(body: Any) -> str | None:
    """Return the tool call that a provider rejected because it does not fit the tool's schema.

    Returns:
        An empty text if the provider does not show the call. None if the error is not about a call.
    """
    content = _read(body)
    # Some libraries pass only the value of "error".
    error = content.get("error", content) if isinstance(content, dict) else None
    if not isinstance(error, dict) or error.get("code") != "tool_use_failed":
        return None
    return str(error.get("failed_generation") or "")


def _cannot_be_sent(error: BaseException, has_answered: bool) -> bool:
    """Return whether a request was not sent because a setting or a credential is wrong.

    If so, another attempt would fail, too.
    """
    for each in _chain(error):
        package = type(each).__module__.partition(".")[0]
        if type(each).__name__ in (
            *NO_CREDENTIALS.get(package, ()),
            *REFUSED_HERE.get(package, ()),
        ):
            return True
    # Their subclasses are faults of an answer: invalid JSON, or a value that does not validate.
    return not has_answered and type(error) in (ValueError, TypeError)


def _never_sent(error: BaseException) -> bool:
    """Return whether a request failed before it connected."""
    return any(getattr(each, "phase", None) in ("pool", "connect") for each in _chain(error))


def _chain(error: BaseException) -> Iterable[BaseException]:
    """Yield an exception and its causes, outermost first."""
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


#: Codes and types of errors by which a provider's filter blocks a request: OpenAI, Azure and the
#: gateways that copy them, Alibaba.
FILTERED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "ResponsibleAIPolicyViolation",
        "data_inspection_failed",
        "DataInspectionFailed",
    }
)
KEYS = ("code", "type")
#: Maximum characters shown of a refusal.
LENGTH = 1_000


def refusal_of(error: BaseException, secrets: Iterable[str]) -> str:
    """Return the provider's words if its error says that its filter blocked the request.

    The error is a status or an event of a stream.

    Returns:
        An empty text for any other error.
    """
    content = _read(getattr(error, "body", None))
    body = content.get("error", content) if isinstance(content, dict) else None
    status = getattr(error, "status_code", None)
    is_event = status is None and getattr(error, "in_stream", False)
    if not isinstance(body, dict) or not (is_event or status in (400, 403)):
        return ""
    inner = body.get("innererror")
    codes = {str(each.get(key)) for each in (body, inner) if isinstance(each, dict) for key in KEYS}
    metadata = body.get("metadata")  # OpenRouter
    is_flagged = isinstance(metadata, dict) and "flagged_input" in metadata
    return _error_text(error, secrets) if is_flagged or codes & FILTERED else ""


#: Name of the refusal in a question's data.
REFUSAL = "refusal"


def refused(reply: Reply, becomes: str) -> Interrupt:
    """Return the question to a person after a refusal.

    Args:
        becomes: The flow's setting ``refusal``.

    Raises:
        FatalError: ``becomes`` is not ``ask``, so the refusal ends the run.
    """
    text = safe_text(reply.refusal.strip(), LENGTH)
    if becomes != "ask":
        raise FatalError(
            f"the model refuses: {text} (perdure retry RUN repeats the request; "
            "with refusal: ask in the flow, a person is asked)"
        )
    return Interrupt(f"The model refuses: {text} What should it be told?", {REFUSAL: text})


def after_refusal(context: RoundContext) -> list[ChatMessage]:
    """Return a list with the message that tells the model a person's answer to its refusal.

    The list is empty if the person did not answer a refusal.
    """
    asked = context.asked
    if not context.answered or not isinstance(asked, Mapping) or REFUSAL not in asked:
        return []
    return [UserMessage(f"You refused: {asked[REFUSAL]}\nA person says: {text_of(context.answer)}")]
