"""Places: where a server is, without the secrets that its URL may hold."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from worker.sentinel_url import addresses, hosts_of, is_sentinel, read

#: What is wrong with a URL that ``is_torn``.
TORN = "its host or port does not read (in a password, write # as %23, / as %2F, ? as %3F)"


def is_torn(url: str) -> bool:
    """Whether a password with a ``#``, ``?`` or ``/`` in it has ended the host too early; what seems port or path is part of it then."""
    if is_sentinel(url):
        return _is_torn_list(url)
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError where it is no number
    except ValueError:
        return True
    return bool(parts.netloc) and "@" in parts.path + parts.fragment


def place_of(url: str) -> str:
    """The URL without user, password and every query argument but the database."""
    if is_torn(url) or ("://" not in url and "@" in url):
        return "a URL that does not read"
    if is_sentinel(url):
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{hosts_of(url)}/{rest.partition('/')[2].partition('?')[0]}"
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    database = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name == "db"])
    return f"{parts.scheme}://{where}{parts.path}{'?' + database if database else ''}"


def user_of(url: str) -> str:
    """The user that the URL logs in as; ``default`` where it names none."""
    if is_torn(url):
        return "default"
    if is_sentinel(url):
        return read(url).username or "default"
    parts = urlsplit(url)
    return unquote(parts.username or "") or dict(parse_qsl(parts.query)).get("username", "default")


def _is_torn_list(url: str) -> bool:
    """The same of a list of Sentinels, which ``urlsplit`` takes for a port that is no number."""
    try:
        addresses(hosts_of(url))
    except ValueError:
        return True
    behind = url.partition("://")[2].partition("/")[2]
    return "@" in behind or "#" in url or "@" in url.partition("?")[2]
