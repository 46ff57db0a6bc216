"""Addresses: whether a text can be the URL of a state server, told before anybody connects."""

from __future__ import annotations

from urllib.parse import urlsplit

import redis

from worker.errors import InvalidSettings
from worker.places import TORN, is_torn, place_of
from worker.sentinel_url import SCHEMES as SENTINEL_SCHEMES
from worker.sentinel_url import is_sentinel, read
from worker.store.reaching import client_of, close

SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)
#: Where a server is looked for when nothing says otherwise.
LOCALHOST = "redis://localhost:6379/0"


def check_url(url: object) -> None:
    """Raise InvalidSettings unless this can be the URL of a server; a password in it is not repeated."""
    if not isinstance(url, str):
        raise InvalidSettings(f"the URL of a server should be a text like {LOCALHOST}; it is a {type(url).__name__}")
    fault = _fault(url)
    if fault:
        raise InvalidSettings(f"{place_of(url)!r} is no URL of a server: {fault}; expected something like {LOCALHOST}")


def _fault(url: str) -> str | None:
    if is_torn(url):
        return TORN
    if is_sentinel(url):
        try:
            read(url)
        except ValueError as error:
            return str(error)
        return _refused(url)
    parts = urlsplit(url)
    database = parts.path.strip("/")
    if parts.scheme not in SCHEMES:
        return "it should begin with redis://, rediss://, unix:// or redis+sentinel://"
    if parts.scheme == "unix" and not parts.path:
        return "a unix URL needs the path of the socket: unix:///path/to/server.sock?db=0"
    if parts.scheme != "unix" and database and not database.isdecimal():
        return "the database, behind the host, should be a number"
    if parts.scheme != "unix" and parts.port == 0:
        return "port 0 is none"
    return _refused(url)


def _refused(url: str) -> str | None:
    """What the client library has against the arguments in the URL's query; it does not connect for that."""
    try:
        client = client_of(url)
    except ValueError:
        return "an argument behind the ? does not read"
    except TypeError:
        return "an argument behind the ? is not known"
    try:
        client.connection_pool.make_connection()
    except (TypeError, ValueError, redis.RedisError):
        return "an argument behind the ? is not known"
    finally:
        close(client)
    return None
