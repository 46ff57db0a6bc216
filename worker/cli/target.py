"""Target of a command: its server, and the run that a shortened id names.

``--url`` or the settings name the state server. The default is the server of `perdure up`, else the
Redis on localhost if it is safe for runs. A command that needs only the client's public API can
also use an HTTP server (`perdure server`) that ``--url`` or ``PERDURE_SERVER_URL`` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.worker.cli.celery_command import engine_here
from perdure.worker.cli.exit_codes import USAGE, Failed, NoServer
from perdure.worker.cli.main import paused_collector
from perdure.worker.presentation.text import plain
from perdure.worker.urls import LOCALHOST, is_http, place_of

if TYPE_CHECKING:
    from perdure.worker.client import Client
    from perdure.worker.client.api import ClientApi
    from perdure.worker.client.connection import ClientConnection
    from perdure.worker.client.read_api import ReadApi
    from perdure.worker.settings import Settings

_C = TypeVar("_C", bound="ClientConnection")

#: Environment variables: the HTTP server to use without ``--url``, and the token for it.
SERVER_URL, TOKEN = "PERDURE_SERVER_URL", "PERDURE_TOKEN"


def settings_for(url: str | None, **overrides: Any) -> Settings:
    """Return the command's settings. Their ``redis_url`` is the state server to use.

    If the server answers but does not accept writes, the reason is printed on stderr.

    Args:
        url: The value of ``--url``. None means the server of the settings, else that of `perdure
            up`, else the one on localhost if it is safe for runs.
        overrides: Settings that override those of files and environment. None as a value overrides
            nothing. They are ignored on the user's own Celery app, whose settings are used.

    Raises:
        NoServer: No state server was found.
        Failed: The URL is that of an HTTP server.
        InvalidSettings: A setting is invalid, or the URL is not that of a state server.
        StoreUnavailable: The state server does not answer.
        AccessDenied: The state server refuses the login.
    """
    with paused_collector():
        from perdure.worker.settings import load_settings
        from perdure.worker.store.urls import check_answers, check_url

    if is_http(url):
        raise Failed(
            f"this command needs the state server, not an HTTP server ({place_of(url or '')}); "
            "name it with --url redis://... or PERDURE_REDIS_URL",
            USAGE,
        )
    engine = engine_here()
    if engine is not None:
        settings = (
            engine.settings if url is None else engine.given.model_copy(update={"redis_url": url})
        )
    else:
        settings = load_settings(redis_url=url, **overrides)
    if settings.redis_url is None:
        settings = _find_server(settings)
    assert settings.redis_url is not None
    check_url(settings.redis_url)
    refusal = check_answers(settings.redis_url)
    if refusal is not None:
        click.echo(f"perdure: {refusal}", err=True)
    return settings


@contextmanager
def client_for(url: str | None) -> Iterator[ClientApi]:
    """Yield a client of the command's server.

    The client is closed at the end of the block. The server is the HTTP server that ``--url`` or
    PERDURE_SERVER_URL names, else the state server. ``url`` is the value of ``--url``. The errors
    are those of ``settings_for``.
    """
    server = _http_server(url)
    if server is None:
        with state_client_for(url) as client:
            yield client
        return
    from perdure.worker.client.remote import RemoteClient

    with closing(RemoteClient(server, os.environ.get(TOKEN) or None)) as remote:
        yield remote


@contextmanager
def reader_for(url: str | None) -> Iterator[ReadApi]:
    """Yield a client that can only read runs.

    It is closed at the end of the block. It uses the same server as ``client_for``, but the command
    starts faster.
    """
    if _http_server(url) is not None:
        with client_for(url) as client:
            yield client
        return
    settings = settings_for(url)
    with paused_collector():
        from perdure.worker.client.reader import Reader

    with closing(_connected(Reader, url, settings)) as reader:
        yield reader


@contextmanager
def state_client_for(url: str | None, **options: Any) -> Iterator[Client]:
    """Yield a client of the state server.

    It is closed at the end of the block. A command uses it if an HTTP server does not offer its
    operation.

    Args:
        url: The value of ``--url``.
        options: Options for ``Client``. They are ignored for a command on the user's own Celery app
            without ``--url``.
    """
    settings = settings_for(url)
    with paused_collector():
        from perdure.worker.client import Client

    with closing(_connected(Client, url, settings, **options)) as client:
        yield client


def _connected(kind: type[_C], url: str | None, settings: Settings, **options: Any) -> _C:
    """Return a client of class ``kind``, for the state server of the settings.

    But without ``--url``, a command on the user's own Celery app gets a client of that app, and
    ``settings`` and ``options`` are ignored.
    """
    engine = engine_here()
    if engine is None or url is not None:
        return kind(settings=settings, **options)
    return kind(app=engine.app)


def _http_server(url: str | None) -> str | None:
    """Return the URL of the command's HTTP server, or None if it uses the state server.

    ``--url`` names it, else PERDURE_SERVER_URL. That variable is ignored on the user's own Celery
    app, which has a state server. ``url`` is the value of ``--url``.
    """
    if url is not None or engine_here() is not None:
        return url if is_http(url) else None
    return os.environ.get(SERVER_URL) or None


def _find_server(settings: Settings) -> Settings:
    """Find a state server because the settings name none. Return the settings with its URL.

    It is the server of `perdure up`, else the one on localhost if that server is safe for runs. The
    use of the server on localhost is announced on stderr.

    Raises:
        NoServer: Neither server can be used.
    """
    from perdure.worker.settings import with_server

    settings_of_up = with_server(settings)
    if settings_of_up.redis_url is not None:
        return settings_of_up
    from perdure.worker.doctor.default_server import unsafe_because

    reason = unsafe_because(LOCALHOST, settings)
    if reason is None:
        click.echo("using the server at localhost:6379", err=True)
        return settings.model_copy(update={"redis_url": LOCALHOST})
    raise NoServer(
        "no server found: none is named (--url, PERDURE_REDIS_URL, config/worker.toml), "
        f"`perdure up` is not running, and localhost:6379 {reason}. Start one: perdure up"
    )


#: Length of a generated run id: a text of this length is not a shortened id.
WHOLE = 16
#: Minimum length of a shortened id. A shorter text would match too many runs.
FEWEST = 3
#: Ids that the error names if several match.
SHOWN = 5


def known_id(client: ReadApi, text: str) -> str:
    """Return the full id of the run whose id begins with ``text``.

    Returns:
        The id. It is ``text`` itself if ``text`` is a full id, is too short or too long for a
        shortened id, or matches no run. It is also ``text`` if this user may not read runs.

    Raises:
        Failed: The ids of several runs begin with the text.
    """
    from perdure.worker.errors import DamagedRun, Forbidden, RunNotFound

    if not FEWEST <= len(text) < WHOLE:
        return text
    try:
        client.get(text)
    except RunNotFound:
        ids = client.ids_beginning(text)
    except (DamagedRun, Forbidden):  # a token may signal or stop a run that it may not read
        return text
    else:
        return text
    if len(ids) > 1:
        more = ", ..." if len(ids) > SHOWN else ""
        named = ", ".join(map(plain, ids[:SHOWN]))
        raise Failed(
            f"{len(ids)} run ids begin with {text!r}: {named}{more}; give more characters", USAGE
        )
    return ids[0] if ids else text
