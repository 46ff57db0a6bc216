"""Whether a server answers."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.places import place_of
from worker.store.connection import SOCKET_TIMEOUT, StoreUnavailable, denied, is_denied
from worker.store.hints import hint
from worker.store.reaching import client_of, close


def check_answers(url: str) -> None:
    """Ask once, without patience.

    Raises:
        StoreUnavailable: the server at ``url`` does not answer commands. AccessDenied: it does not let this user in.
    """
    client = client_of(
        url, decode_responses=True, socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=SOCKET_TIMEOUT, retry=Retry(NoBackoff(), 0)
    )
    try:
        client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        if is_denied(error):
            raise denied(url, error) from error
        what = hint(url, error) or ". Is it running? `holdfast up` starts one"
        raise StoreUnavailable(f"no server answers at {place_of(url)}: {str(error).rstrip('.')}{what}") from error
    finally:
        close(client)
