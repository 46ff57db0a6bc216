"""URLs of servers: their parts, their check, and their form for display or for other libraries.

The state server's URL begins with redis://, rediss:// or unix://, as in redis-py. A service of
Sentinels has a URL too. Most Python programs that accept such a URL use this form:

    redis+sentinel://user:password@host:port,host:port/MASTER/DATABASE

``rediss+sentinel://`` encrypts the connections to the state server and to the Sentinels. User and
password are the state server's. Those of the Sentinels are the arguments ``sentinel_username`` and
``sentinel_password``. After the ``?``, only these and redis-py's ``ssl_...`` arguments are
accepted.

An HTTP server's URL begins with http:// or https://. Those of brokers are in
``perdure.worker.broker_urls``.

A redacted URL is the address of a server without the secrets in its URL (``place_of``). No function
here opens a connection, and no error message contains a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

#: Schemes for a service of Sentinels, each with the scheme of the server behind them.
SENTINEL_SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
#: Schemes of a state server.
STATE_SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)

#: The state server's URL if the settings name none.
LOCALHOST = "redis://localhost:6379/0"
#: Default port of a Sentinel.
SENTINEL_PORT = 26379
SENTINEL_EXAMPLE = "redis+sentinel://host1:26379,host2:26379,host3:26379/mymaster/0"
#: The error text for a URL that ``is_torn``: the end of a sentence.
TORN = "its host or port cannot be parsed (in a password, write # as %23, / as %2F, ? as %3F)"


# Parts of any URL.


def scheme_of(url: str) -> str:
    """Return a URL's scheme, or ``""`` if it has none."""
    return urlsplit(url).scheme


def host_of(url: str) -> str | None:
    """Return a URL's host, or None if the URL has no host."""
    return urlsplit(url).hostname


def query_of(url: str) -> dict[str, str]:
    """Return a URL's query arguments by name. Arguments without a value are left out."""
    return dict(parse_qsl(urlsplit(url).query))


def is_sentinel(url: str) -> bool:
    """Return whether a URL has the scheme of a Sentinel service."""
    return url.partition("://")[0] in SENTINEL_SCHEMES


def is_http(url: str | None) -> bool:
    """Return whether a URL is that of an HTTP server, and not of a state server (Redis).

    None is not an HTTP server.
    """
    return url is not None and url.partition("://")[0].lower() in ("http", "https")


def hosts_of(url: str) -> list[str]:
    """Return the hosts in a Redis or broker URL, or ``localhost`` if the URL has no host.

    Raises:
        ValueError: The URL of a Sentinel service is malformed.
    """
    if is_sentinel(url):
        return [host for host, _ in parse_sentinels(url).sentinels]
    return [host_of(url) or "localhost"]


# Redacted URLs.


def is_torn(url: str) -> bool:
    """Return whether the host or port of a URL cannot be parsed.

    The usual cause is an unescaped ``#``, ``?`` or ``/`` in the password. The apparent port or path
    is then part of the password, and must not be shown.
    """
    if is_sentinel(url):
        return _is_torn_list(url)
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return True
    return bool(parts.netloc) and "@" in parts.path + parts.fragment


def place_of(url: str) -> str:
    """Return a server's URL without its secrets, so that it can be shown.

    User, password and all query arguments except the database are left out. If the URL cannot be
    parsed, the result is ``a malformed URL``.
    """
    if is_torn(url) or ("://" not in url and "@" in url):
        return "a malformed URL"
    if is_sentinel(url):
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{_host_list(url)}/{rest.partition('/')[2].partition('?')[0]}"
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    database = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name == "db"])
    return f"{parts.scheme}://{where}{parts.path}{'?' + database if database else ''}"


def user_of(url: str) -> str:
    """Return the user in a Redis URL.

    The result is ``default`` if the URL has no user, or cannot be parsed.

    Raises:
        ValueError: The URL of a Sentinel service is malformed.
    """
    if is_torn(url):
        return "default"
    if is_sentinel(url):
        return parse_sentinels(url).username or "default"
    return unquote(urlsplit(url).username or "") or query_of(url).get("username", "default")


# The state server.


def state_fault(url: str) -> str | None:
    """Return the fault of a state server's URL as a text. None if the form of the URL is right.

    The text repeats no part of the URL, because the URL may contain secrets.
    """
    if is_torn(url):
        return TORN
    if is_sentinel(url):
        try:
            parse_sentinels(url)
        except ValueError as error:
            return str(error)
        return None
    parts = urlsplit(url)
    database = parts.path.strip("/")
    if parts.scheme not in STATE_SCHEMES:
        return "it must begin with redis://, rediss://, unix:// or redis+sentinel://"
    if parts.scheme == "unix" and not parts.path:
        return "a unix URL needs the path of the socket: unix:///path/to/server.sock?db=0"
    if parts.scheme != "unix" and database and not database.isdecimal():
        return "the database after the host must be a number"
    if parts.scheme != "unix" and parts.port == 0:
        return "port 0 is not a port"
    return None


@dataclass(frozen=True)
class SentinelUrl:
    """The parts of the URL of a Sentinel service.

    The ``repr`` leaves out the passwords, but ``str`` returns the whole URL.

    Attributes:
        sentinels: Host and port of each Sentinel.
        master: The name of the master that the Sentinels monitor.
        encrypted: Whether the connections use TLS.
        username, password: Those of the state server.
        sentinel_username, sentinel_password: Those of the Sentinels.
    """

    sentinels: tuple[tuple[str, int], ...]
    master: str
    database: int = 0
    encrypted: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    #: Arguments for redis-py's encrypted connection, as texts.
    ssl: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the whole URL of the service, with its secrets."""
        hosts = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.sentinels)
        own = {
            "sentinel_username": self.sentinel_username,
            "sentinel_password": self.sentinel_password,
        }
        query = urlencode({**{name: value for name, value in own.items() if value}, **self.ssl})
        scheme = "rediss+sentinel" if self.encrypted else "redis+sentinel"
        arguments = f"?{query}" if query else ""
        return f"{scheme}://{self._user}{hosts}/{quote(self.master, '')}/{self.database}{arguments}"

    @property
    def kombu_url(self) -> str:
        """The service's URL in kombu's form, which has only the first Sentinel."""
        host, port = self.sentinels[0]
        arguments = "?" + urlencode(self.ssl) if self.ssl else ""
        return f"sentinel://{self._user}{_bracketed(host)}:{port}/{self.database}{arguments}"

    @property
    def _user(self) -> str:
        if self.password is None:
            return ""
        return f"{quote(self.username or '', '')}:{quote(self.password, '')}@"


def parse_sentinels(url: str) -> SentinelUrl:
    """Parse the URL of a service of Sentinels.

    Raises:
        ValueError: The URL is malformed. The message repeats no part of the URL, because the URL
            may contain secrets.
    """
    path, _, query = url.partition("://")[2].partition("/")[2].partition("?")
    master, _, database = path.strip("/").partition("/")
    if not master:
        raise ValueError(
            "the name of the master is missing after the Sentinels; expected for example "
            f"{SENTINEL_EXAMPLE}"
        )
    if database and not database.isdecimal():
        raise ValueError("the database, after the name of the master, should be a number")
    sentinels = _addresses(_host_list(url))
    arguments = dict(parse_qsl(query))
    ssl = {name: value for name, value in arguments.items() if name.startswith("ssl_")}
    if set(arguments) - set(ssl) - {"sentinel_username", "sentinel_password"}:
        raise ValueError(
            "unknown argument after the ?; expected sentinel_username, sentinel_password or ssl_..."
        )
    scheme = url.partition("://")[0]
    user, colon, password = _netloc(url).rpartition("@")[0].partition(":")
    return SentinelUrl(
        sentinels=sentinels,
        master=unquote(master),
        database=int(database or 0),
        encrypted=SENTINEL_SCHEMES[scheme] == "rediss",
        username=unquote(user) or None,
        password=unquote(password) if colon else None,
        sentinel_username=arguments.get("sentinel_username"),
        sentinel_password=arguments.get("sentinel_password"),
        ssl=ssl,
    )


# Helpers of the functions above.


def _netloc(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition("?")[0]


def _host_list(url: str) -> str:
    """Return a Sentinel URL's hosts and ports as text, without user and password."""
    return _netloc(url).rpartition("@")[2]


def _addresses(hosts: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports in ``host:port,host:port``.

    An address without a port gets the default port of Sentinels.

    Raises:
        ValueError: A part is not an address.
    """
    pairs = []
    for text in hosts.split(","):
        parts = urlsplit(f"//{text}")
        if not parts.hostname or parts.port == 0:  # `port` raises ValueError if it is not a number.
            raise ValueError("the host or port of a Sentinel cannot be parsed")
        pairs.append((parts.hostname, parts.port or SENTINEL_PORT))
    return tuple(pairs)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_torn_list(url: str) -> bool:
    """Return whether the hosts or ports of a Sentinel URL cannot be parsed (``is_torn``).

    ``urlsplit`` cannot decide this: it rejects any list of hosts, because it takes all but the
    first host for a port.
    """
    try:
        _addresses(_host_list(url))
    except ValueError:
        return True
    after_hosts = url.partition("://")[2].partition("/")[2]
    return "@" in after_hosts or "#" in url or "@" in url.partition("?")[2]
