"""Addresses of HTTP servers, and templates of links to logs and traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from perdure.worker.urls import place_of


class HttpAddress(NamedTuple):
    """Address of an HTTP server.

    Attributes:
        api: URL of the server's API, without user and password.
        shown: The server's URL without user and password, for messages.
        login: User and password from the URL, for a proxy. None if the URL has none.
    """

    api: str
    shown: str
    login: tuple[str, str] | None


def parse_http(url: object, path: str) -> HttpAddress | None:
    """Parse the URL of an HTTP server.

    Args:
        path: The path of the API if the URL has no path.

    Returns:
        The server's address. None if ``url`` is not a text, is not an HTTP URL with a host, or has
        a query or a fragment.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        _ = parts and parts.port  # raises ValueError if it is not a number
    except ValueError:
        return None
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
    ):
        return None
    return HttpAddress(
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/') or path}",
        place_of(str(url)),
        None
        if parts.username is None
        else (unquote(parts.username), unquote(parts.password or "")),
    )


#: Fields in braces of ``log_url`` and ``trace_url``.
LINK_FIELDS = ("run_id", "trace_id")


def check_link(template: str) -> None:
    """Raise ValueError if ``template`` is not a valid template of a link.

    A valid template is an HTTP address with a fixed host, without spaces and control characters.
    Only ``{run_id}`` and ``{trace_id}`` may be in braces.
    """
    bare = template
    for name in LINK_FIELDS:
        bare = bare.replace(f"{{{name}}}", "")
    if "{" in bare or "}" in bare:
        raise ValueError(
            "only {run_id} and {trace_id} may be in braces; write %7B and %7D for other braces"
        )
    begin = template.partition("{")[0]
    try:
        parts = urlsplit(bare)
        # A value may not become a part of the host, so the path begins before the first value.
        is_fixed = "/" in begin.partition("://")[2] or begin == template
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and is_fixed
    except ValueError:
        is_address = False
    if not is_address or not template.isprintable() or " " in template:
        raise ValueError("expected an address such as https://logs.example.org/search?q={run_id}")


def filled_link(template: str, values: Mapping[str, str]) -> str:
    """Return a link: the template with the values of its fields, percent-encoded.

    A field without a value becomes an empty text.

    Args:
        values: The values of ``run_id`` and ``trace_id``, by name.
    """
    for name in LINK_FIELDS:
        template = template.replace(f"{{{name}}}", quote(values.get(name, ""), safe=""))
    return template
