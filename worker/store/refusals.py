"""Error replies of the state server by which it refuses a command, as texts with advice.

A server denies access, or it refuses many commands until its state changes. The first is an
``AccessDenied``, the second a ``StoreUnavailable`` (``StoreConnection``).
"""

from __future__ import annotations

import re

import redis

from perdure.worker.errors import AccessDenied
from perdure.worker.urls import place_of, user_of

#: How a server reports that its ACL refused a command inside a script. Older servers leave out
#: NOPERM.
REFUSED_IN_SCRIPT = ("The user executing the script", "ACL failure in script")


def is_denied(error: Exception) -> bool:
    """Return whether an error of redis-py means denied access.

    Access is denied if the login failed, or if the user's ACL does not allow the command.
    """
    refused = isinstance(
        error,
        redis.AuthenticationError
        | redis.exceptions.NoPermissionError
        | redis.exceptions.AuthorizationError,
    )
    return (
        refused
        or str(error).startswith(("NOPERM", "NOAUTH", "WRONGPASS"))
        or any(text in str(error) for text in REFUSED_IN_SCRIPT)
    )


#: Codes of the replies by which a server that answers refuses commands, each with advice.
REFUSALS = {
    "MISCONF": (
        "It cannot write to its disk, which may be full, and refuses all writes. Free space there, "
        "and see its log. Acknowledged writes are kept, and runs continue by themselves"
    ),
    "READONLY": "It is a replica. Set PERDURE_REDIS_URL to the primary",
    "LOADING": "It has started and still reads its data. Wait until it has read everything",
    "NOREPLICAS": (
        "Fewer replicas follow it than its min-replicas-to-write demands. Start the replicas, "
        "or check their connection"
    ),
    "BUSY": "A script of another client runs on it for too long. See its log",
    "CLUSTERDOWN": "It is part of a cluster. Use a server without cluster mode",
    "MASTERDOWN": "It is a replica, and has lost its primary. Set PERDURE_REDIS_URL to the primary",
}
#: The code in a text of ``refusal_text``.
REFUSED = re.compile(r"refuses for now: ([A-Z]+) ")
#: Codes of errors from whose texts redis-py removes the code.
REFUSAL_ERRORS = {
    redis.exceptions.BusyLoadingError: "LOADING",
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.MasterDownError: "MASTERDOWN",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
}


def refusal_code(error: Exception) -> str | None:
    """Return the code of an error reply, if it is one of ``REFUSALS``.

    With these codes, a server refuses many commands until its state changes (``LOADING``,
    ``READONLY``).

    Returns:
        The code. None if redis-py's error is no reply (the connection failed), or if the reply has
        another code.
    """
    for kind, code in REFUSAL_ERRORS.items():
        if isinstance(error, kind):
            return code
    if not isinstance(error, redis.ResponseError):
        return None
    code = reply_text(error).partition(" ")[0]
    return code if code in REFUSALS else None


def refusal_of(url: str, error: Exception, code: str) -> tuple[str, str]:
    """Return the text of an error reply, and advice.

    The text names the server, too. The two texts are sentences without a period at the end.

    Args:
        error: the error reply, as redis-py raised it.
        code: the result of ``refusal_code`` for ``error``. It must not be None.
    """
    reply = reply_of(error, code)
    return f"the state server at {place_of(url)} refuses for now: {code} {reply}", REFUSALS[code]


def reply_of(error: Exception, code: str) -> str:
    """Return the text of a Redis error reply, without its code and period.

    Args:
        code: the code at the beginning of the reply, such as ``READONLY``.
    """
    return reply_text(error).removeprefix(code).strip().rstrip(".")


def shown_refusal(text: str) -> str | None:
    """Return the server's error reply from an error text, without the server's address.

    Args:
        text: any error text. ``refusal_text`` may have made it.

    Returns:
        A sentence with the code of the error reply, and advice. None if the text was not made by
        ``refusal_text``.
    """
    code = REFUSED.search(text)
    if code is None or code[1] not in REFUSALS:
        return None
    return f"the state server refuses for now: {code[1]}. {REFUSALS[code[1]]}"


def refusal_text(url: str, error: Exception, code: str) -> str:
    """Return the error text for an error reply.

    It includes advice. The arguments are those of ``refusal_of``.
    """
    return ". ".join(refusal_of(url, error, code))


def reply_text(error: Exception) -> str:
    """Return the text of a Redis error reply, with its code.

    If the command was in a pipeline, redis-py writes the command before the reply. It is removed
    here.
    """
    return str(error).rpartition(" of pipeline caused error: ")[2]


def denied(url: str, error: Exception, what: str = "") -> AccessDenied:
    """Return the AccessDenied for a server that denied access.

    Args:
        error: the error reply, as redis-py raised it.
        what: the name of the transition or command that was denied. It is not used if the login
            failed.
    """
    server = f"the state server at {place_of(url)} refuses the user {user_of(url)!r}"
    if (
        str(error).startswith("WRONGPASS")
        or "invalid username-password" in str(error)
        or "invalid password" in str(error)
    ):
        return AccessDenied(
            f"{server}: it does not accept the password. "
            "Put the right one into the URL: "
            "redis://:PASSWORD@HOST, redis://USER:PASSWORD@HOST or unix:///PATH?password=PASSWORD"
        )
    if str(error).startswith(
        "NOAUTH"
    ) or "must be called with the client already authenticated" in str(error):
        return AccessDenied(
            f"{server}: it wants a password, and the URL has none. Put it into the URL: "
            "redis://:PASSWORD@HOST, redis://USER:PASSWORD@HOST or unix:///PATH?password=PASSWORD"
        )
    operation = f" ({what})" if what else ""
    return AccessDenied(
        f"{server}{operation}: {str(error).rstrip('.')}. Use a login that may do this; "
        "docs/operations/security.md lists what each role may do"
    )
