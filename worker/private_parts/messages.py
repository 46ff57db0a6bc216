"""Messages that Celery's consumer has received, and Celery's requests for these messages.

Private parts used: ``virtual.QoS._delivered``; ``virtual.Message._decoded_cache``;
``virtual.Transport._deliver`` and ``_callbacks``; ``Producer._publish`` (compared, not called);
``Request._request_dict``, ``_body``, ``_content_type``, ``_content_encoding`` and ``_decoded``,
which Celery's tracer reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kombu import Producer
from kombu.transport import virtual


class DecodedMessage(virtual.Message):  # type: ignore[misc]
    """A kombu message that takes its decoded body from the key ``content`` of its payload.

    If the payload has no such key, kombu decodes the body as usual.
    """

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        super().__init__(payload, channel=channel, **options)
        self._decoded_cache = payload.get("content")


def forget_delivery(message: Any) -> bool:
    """Make kombu forget that it delivered a message, so that it will not requeue the message.

    Returns:
        True if kombu had a record of the delivery. Only kombu's virtual transports keep such
        records.
    """
    qos = getattr(message.channel, "qos", None)
    delivered = getattr(qos, "_delivered", None)
    if delivered is None or message.delivery_tag not in delivered:
        return False
    del delivered[message.delivery_tag]
    return True


def has_consumer(transport: Any, queue: str) -> bool:
    """Return whether a consumer of this transport consumes a queue.

    The result is False if ``transport`` is None.
    """
    return transport is not None and queue in transport._callbacks


def deliver(transport: Any, message: Mapping[str, Any], queue: str) -> None:
    """Deliver a message to the consumer of a queue, as if the broker had sent it."""
    transport._deliver(message, queue)


def set_request_attribute(request: Any, name: str, value: Any) -> None:
    """Set an attribute that ``task.request`` will have while the task runs.

    Args:
        request: Celery's request for the message.
    """
    request._request_dict[name] = value


def set_decoded_body(request: Any, payload: Any) -> None:
    """Set the decoded body of a request, so that Celery's tracer need not decode the body."""
    request._body, request._content_type, request._content_encoding = payload, None, None
    request._decoded = True


def last_publish_function() -> Callable[..., Any]:
    """Return ``Producer._publish``, the last function of kombu that each message passes through.

    Tracing libraries replace this function.
    """
    function: Callable[..., Any] = Producer._publish
    return function
