"""Where the state of an app's runs lives when no ``redis_url`` says so: in the app's broker, if that is one Redis database."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from worker.broker import is_fused, service_of
from worker.errors import InvalidSettings
from worker.places import place_of
from worker.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

#: kombu's names of a Redis, and redis-py's.
SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "redis+socket": "unix", "holdfast+socket": "unix"}
#: Query parameters that the two spell differently.
NAMES = {"virtual_host": "db"}


def with_state_server(settings: Settings, app: Celery) -> Settings:
    """The settings with ``redis_url``, taken from the app's broker where they have none, and with ``broker_url`` where that is another.

    So a client made with them sends messages where the app's workers look for them.

    Raises:
        InvalidSettings: the broker is no Redis, or cannot be told by one URL.
    """
    url, options, fault = app.conf.broker_write_url, app.conf.broker_transport_options or {}, ""
    if settings.redis_url is not None:
        elsewhere = isinstance(url, str) and settings.broker_url is None and not is_fused(app, settings.redis_url)
        return settings.model_copy(update={"broker_url": url}) if elsewhere else settings
    service = service_of(url, options) if isinstance(url, str) else None
    if service is not None and not app.conf.broker_use_ssl:
        return settings.model_copy(update={"redis_url": str(service)})
    if not isinstance(url, str) or (";" in url and service is None):
        fault = "names no single broker"
    elif urlsplit(url).scheme not in SCHEMES and service is None:
        fault = f"is {place_of(url)}, which is no Redis"
    elif app.conf.broker_use_ssl and (service is not None or urlsplit(url).scheme == "redis"):
        fault = "is encrypted by broker_use_ssl, which a URL does not tell"
    if fault:
        raise InvalidSettings(
            f"the state of runs needs a Redis or Valkey server, and the broker of Celery app {app.main!r} {fault}; "
            "set redis_url (HOLDFAST_REDIS_URL, config/worker.toml, or install(app, Settings(redis_url=...)))"
        )
    return settings.model_copy(update={"redis_url": redis_url(url)})


def redis_url(broker: str) -> str:
    """A Redis broker's URL (``redis://``, ``rediss://``, ``redis+socket://``) as redis-py spells it."""
    parts = urlsplit(broker)
    query = {NAMES.get(name, name): value for name, value in parse_qsl(parts.query)}
    if "ssl_cert_reqs" in query:
        query["ssl_cert_reqs"] = query["ssl_cert_reqs"].removeprefix("CERT_").lower()
    return f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path}" + (f"?{urlencode(query)}" if query else "")
