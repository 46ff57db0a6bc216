"""Which server a command talks to: the one named, else the one of `holdfast up`, else a safe one on localhost; never none silently.

A command that a client is enough for can talk to a control room instead, where ``--url`` or ``HOLDFAST_SERVER_URL`` names one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import click

from worker.cli.exits import USAGE, Failed, NoServer
from worker.cli.on_app import engine_here
from worker.places import place_of

if TYPE_CHECKING:
    from worker.client import Client
    from worker.settings import Settings

#: The control room that commands talk to where no ``--url`` is given, and who one is there.
SERVER_URL, TOKEN = "HOLDFAST_SERVER_URL", "HOLDFAST_TOKEN"


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

    if is_control_room(url):
        raise Failed(
            f"this command works on the state server itself, not through a control room ({place_of(url or '')}); "
            "name it with --url redis://... or HOLDFAST_REDIS_URL",
            USAGE,
        )
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
def client_for(url: str | None) -> Iterator[Client]:
    """A client of that server or control room, closed afterwards. Only what is public of it is there in either case."""
    room = _control_room(url)
    if room is None:
        with state_client_for(url) as client:
            yield client
        return
    from worker.remote import RemoteClient

    remote = RemoteClient(room, os.environ.get(TOKEN) or None)
    try:
        yield cast("Client", remote)
    finally:
        remote.close()


@contextmanager
def state_client_for(url: str | None, **options: Any) -> Iterator[Client]:
    """A client of the state server, for what no control room does; closed afterwards.

    ``options`` are the client's; one on an app of one's own has that one's.
    """
    settings = settings_for(url)
    from worker.client import Client

    engine = engine_here()
    client = Client(settings=settings, **options) if engine is None or url is not None else Client(app=engine.app)
    try:
        yield client
    finally:
        client.close()


def _control_room(url: str | None) -> str | None:
    """The control room to talk to, where it is one; an app of one's own has its server already."""
    if url is not None or engine_here() is not None:
        return url if is_control_room(url) else None
    return os.environ.get(SERVER_URL) or None


def is_control_room(url: str | None) -> bool:
    """Whether a URL is that of a control room, and not of a state server."""
    return url is not None and url.partition("://")[0].lower() in ("http", "https")


def _found(settings: Settings) -> Settings:
    from worker.discovery import with_server
    from worker.doctor.unnamed import unsafe_because
    from worker.store.address import LOCALHOST

    found = with_server(settings)
    if found.redis_url is not None:
        return found
    reason = unsafe_because(LOCALHOST, settings)
    if reason is None:
        click.echo("using the server at localhost:6379", err=True)
        return settings.model_copy(update={"redis_url": LOCALHOST})
    raise NoServer(
        "there is no server to talk to: none is named (--url, HOLDFAST_REDIS_URL, config/worker.toml), none was started by "
        f"`holdfast up`, and localhost:6379 {reason}. Start one with `holdfast up`"
    )
