"""Checks of a state server's URL and its replies."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from perdure.worker.errors import InvalidSettings, StoreUnavailable
from perdure.worker.store.connection import SOCKET_TIMEOUT, hint
from perdure.worker.store.refusals import denied, is_denied, refusal_code, refusal_text
from perdure.worker.store.sentinel import client_of, close
from perdure.worker.urls import LOCALHOST, place_of, state_fault


def check_url(url: object) -> None:
    """Raise InvalidSettings unless ``url`` can name a state server.

    The text of the error never contains the URL's password. No connection is opened.
    """
    if not isinstance(url, str):
        raise InvalidSettings(
            f"the server URL must be a string like {LOCALHOST}, not {type(url).__name__}"
        )
    fault = state_fault(url) or _refused(url)
    if fault:
        raise InvalidSettings(
            f"invalid server URL {place_of(url)!r}: {fault}; expected something like {LOCALHOST}"
        )


def _refused(url: str) -> str | None:
    """Return why redis-py does not accept a URL's parameters.

    No connection is opened.

    Returns:
        None if redis-py accepts them.
    """
    try:
        client = client_of(url)
    except ValueError:
        return "a query parameter has an invalid value"
    except TypeError:
        return "a query parameter is unknown"
    try:
        client.connection_pool.make_connection()
    except (TypeError, ValueError, redis.RedisError):
        return "a query parameter is unknown"
    finally:
        close(client)
    return None


#: The refusal of a PING after which a server still answers reads.
READS_ANSWERED = "MISCONF"


def check_answers(url: str) -> str | None:
    """Raise an error if the state server at ``url`` does not answer PING.

    PING is sent once, without retries.

    Returns:
        None if the server answers as usual. If it does not accept writes, for example because its
        disk is full, the reason as a sentence. It still answers reads then.

    Raises:
        StoreUnavailable: the server cannot be reached, or answers no commands for now.
        AccessDenied: the login failed, or the user may not send PING.
    """
    client = client_of(
        url,
        decode_responses=True,
        socket_timeout=SOCKET_TIMEOUT,
        socket_connect_timeout=SOCKET_TIMEOUT,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        if is_denied(error):
            raise denied(url, error) from error
        code = refusal_code(error)
        if code == READS_ANSWERED:
            return refusal_text(url, error, code)
        if code is not None:
            raise StoreUnavailable(refusal_text(url, error, code)) from error
        advice = hint(url, error) or ". Is it running? `perdure up` starts one"
        raise StoreUnavailable(
            f"no server answers at {place_of(url)}: {str(error).rstrip('.')}{advice}"
        ) from error
    else:
        return None
    finally:
        close(client)
