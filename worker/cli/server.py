"""Which server a command talks to: the one named, else the one of `holdfast up`, else a safe one on localhost; never none silently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from worker.cli.exits import NoServer
from worker.cli.on_app import engine_here

if TYPE_CHECKING:
    from worker.client import Client
    from worker.settings import Settings


def settings_for(url: str | None, **overrides: Any) -> Settings:
    """The settings in force, with the server they lead to.

    Args:
        url: what ``--url`` said; None looks further, as the module says.

    Raises:
        NoServer: there is none, or it does not answer. InvalidSettings: also where the URL cannot be that of a server.
    """
    from worker.settings import load_settings
    from worker.store.address import check_url
    from worker.store.safety import check_answers

    engine = engine_here()
    if engine is not None:
        settings = engine.settings if url is None else engine.given.model_copy(update={"redis_url": url})
    else:
        settings = load_settings(redis_url=url, **overrides)
    if settings.redis_url is None:
        settings = _found(settings)
    assert settings.redis_url is not None
    check_url(settings.redis_url)
    check_answers(settings.redis_url)
    return settings


@contextmanager
def client_for(url: str | None, **options: Any) -> Iterator[Client]:
    """A client of that server, closed afterwards. ``options`` of the client; not of one on an app of one's own, which has its own."""
    settings = settings_for(url)
    from worker.client import Client

    engine = engine_here()
    client = Client(settings=settings, **options) if engine is None or url is not None else Client(app=engine.app)
    try:
        yield client
    finally:
        client.close()


def _found(settings: Settings) -> Settings:
    from worker.doctor.unnamed import unsafe_because
    from worker.embedded import EmbeddedServer
    from worker.store.address import LOCALHOST

    running = EmbeddedServer.running()
    if running is not None:
        return settings.model_copy(update={"redis_url": running, "broker_url": None})  # as its worker has it
    reason = unsafe_because(LOCALHOST, settings)
    if reason is None:
        click.echo("using the server at localhost:6379", err=True)
        return settings.model_copy(update={"redis_url": LOCALHOST})
    raise NoServer(
        "there is no server to talk to: none is named (--url, HOLDFAST_REDIS_URL, config/worker.toml), none was started by "
        f"`holdfast up`, and localhost:6379 {reason}. Start one with `holdfast up`"
    )
