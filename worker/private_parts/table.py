"""The table of the private parts of Celery and kombu, and the check that they are still there."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version
from types import FunctionType
from typing import Any, NamedTuple


class PrivatePart(NamedTuple):
    """A private attribute of a class of Celery or kombu that Perdure needs.

    Attributes:
        owner: The class, as ``module:Class``.
        name: The name of the attribute.
        use: The feature of Perdure that needs the attribute, a key of ``USES``.
        parameters: The names of a method's parameters. None for an attribute that is not a method.
    """

    owner: str
    name: str
    use: str
    parameters: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.owner.replace(':', '.')}.{self.name}"

    @property
    def library(self) -> str:
        """The package that defines the part: ``celery`` or ``kombu``."""
        return self.owner.partition(".")[0]


#: Each feature that stands on private parts, and the effect on a worker if one of them changes.
USES = {
    "validation": "invalid messages on a Redis broker reach Celery unchecked",
    "shutdown": "a worker that shuts down may keep or delay messages of a Redis broker",
    "lost connection": "a worker may end when its Redis broker is lost while rounds run",
    "full server": "a worker cannot start while its Redis broker is full",
    "sentinel": "a worker's broker connections may not follow a failover of Sentinel",
    "prefetch": "commits do not prefetch the next message",
    "decoded messages": "the body of each message is decoded twice",
    "templates": "Celery builds each message",
    "child results": "a prefork worker may end when its broker is lost while a result is read",
}

_QOS = "kombu.transport.virtual.base:QoS"
_TRANSPORT = "kombu.transport.virtual.base:Transport"
_CHANNEL = "kombu.transport.redis:Channel"
_SENTINEL = "kombu.transport.redis:SentinelChannel"
_REQUEST = "celery.worker.request:Request"

PARTS = (
    PrivatePart(_CHANNEL, "_create_client", "validation", ("self", "asynchronous")),
    PrivatePart(_CHANNEL, "_brpop_start", "shutdown", ("self", "timeout")),
    PrivatePart(_CHANNEL, "_brpop_read", "shutdown", ("self", "options")),
    PrivatePart(_CHANNEL, "_basic_cancel", "shutdown", ("self", "consumer_tag")),
    PrivatePart(_CHANNEL, "_in_poll", "shutdown"),
    PrivatePart(_QOS, "_flush", "shutdown", ("self",)),
    PrivatePart(_QOS, "_delivered", "lost connection"),
    PrivatePart(_CHANNEL, "_size", "full server", ("self", "queue")),
    PrivatePart(
        _CHANNEL,
        "_queue_bind",
        "full server",
        ("self", "exchange", "routing_key", "pattern", "queue"),
    ),
    PrivatePart(_SENTINEL, "_sentinel_managed_pool", "sentinel", ("self", "asynchronous")),
    PrivatePart(_SENTINEL, "_connparams", "sentinel", ("self", "asynchronous")),
    PrivatePart(_SENTINEL, "_sentinel_manager", "sentinel"),
    PrivatePart(_SENTINEL, "_async_sentinel_manager", "sentinel"),
    PrivatePart(_TRANSPORT, "_deliver", "prefetch", ("self", "message", "queue")),
    PrivatePart(_TRANSPORT, "_callbacks", "prefetch"),
    # Public, but prefetch relies on their counting.
    PrivatePart(_QOS, "append", "prefetch", ("self", "message", "delivery_tag")),
    PrivatePart(_QOS, "ack", "prefetch", ("self", "delivery_tag")),
    PrivatePart(_QOS, "can_consume", "prefetch", ("self",)),
    PrivatePart(_REQUEST, "_request_dict", "prefetch"),
    PrivatePart(_REQUEST, "_body", "prefetch"),
    PrivatePart(_REQUEST, "_content_type", "prefetch"),
    PrivatePart(_REQUEST, "_content_encoding", "prefetch"),
    PrivatePart(_REQUEST, "_decoded", "prefetch"),
    PrivatePart("celery.concurrency.thread:TaskPool", "executor", "prefetch"),
    PrivatePart("kombu.transport.virtual.base:Message", "_decoded_cache", "decoded messages"),
    PrivatePart("kombu.messaging:Producer", "_publish", "templates"),
    PrivatePart("celery.concurrency.asynpool:AsynPool", "_fileno_to_outq", "child results"),
    PrivatePart("celery.concurrency.prefork:TaskPool", "_pool", "child results"),
)


def changed_parts(use: str | None = None) -> list[PrivatePart]:
    """Return the parts that the installed Celery and kombu lack, or have with other parameters.

    Args:
        use: The key of ``USES`` for which the parts are checked. None checks all parts.
    """
    return [part for part in PARTS if use in (None, part.use) and not _is_there(part)]


def explained(parts: list[PrivatePart]) -> str:
    """Return a sentence about changed private parts, for the log and the doctor.

    It has the versions of the libraries, the names of the parts, and the effects on a worker.
    """
    libraries = sorted({part.library for part in parts})
    versions = " and ".join(f"{library} {version(library)}" for library in libraries)
    names = ", ".join(map(str, parts))
    effects = "; ".join(dict.fromkeys(USES[part.use] for part in parts))
    return f"{versions}: other private parts than Perdure knows ({names}): {effects}"


def _is_there(part: PrivatePart) -> bool:
    module, _, name = part.owner.partition(":")
    owner = getattr(import_module(module), name, None)
    if not isinstance(owner, type):
        return False
    if part.parameters is None:
        return hasattr(owner, part.name) or _is_set_by(owner, part.name)
    method = getattr(owner, part.name, None)
    return callable(method) and tuple(inspect.signature(method).parameters) == part.parameters


def _is_set_by(owner: type, name: str) -> bool:
    """Return whether any method of the class uses an attribute of this name."""
    methods: list[Any] = [method for cls in owner.__mro__ for method in vars(cls).values()]
    return any(
        isinstance(method, FunctionType) and name in method.__code__.co_names for method in methods
    )
