"""URLs of a server that Sentinels watch over: ``redis+sentinel://user:password@host:port,host:port/MASTER/DATABASE``.

The spelling is the one that most Python programs that take such a URL share; ``rediss+sentinel://`` is encrypted, on the way to
the Sentinels as well. User and password are the server's; the Sentinels' own, where they have any, are the arguments
``sentinel_username`` and ``sentinel_password``. Beside those only redis-py's ``ssl_...`` may stand behind the ``?``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

#: Each scheme, and that of the server it leads to.
SCHEMES = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
#: Where a Sentinel listens when nothing else is said.
PORT = 26379
EXAMPLE = "redis+sentinel://host1:26379,host2:26379,host3:26379/mymaster/0"


@dataclass(frozen=True)
class SentinelUrl:
    """What such a URL says. Secrets are not shown."""

    sentinels: tuple[tuple[str, int], ...]
    master: str
    database: int = 0
    encrypted: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    #: redis-py's arguments of an encrypted connection, as texts.
    ssl: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """As a URL again, secrets and all."""
        user = f"{quote(self.username or '', '')}:{quote(self.password, '')}@" if self.password is not None else ""
        hosts = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.sentinels)
        own = {"sentinel_username": self.sentinel_username, "sentinel_password": self.sentinel_password}
        query = urlencode({**{name: value for name, value in own.items() if value}, **self.ssl})
        scheme = "rediss+sentinel" if self.encrypted else "redis+sentinel"
        return f"{scheme}://{user}{hosts}/{quote(self.master, '')}/{self.database}{'?' + query if query else ''}"

    @property
    def first(self) -> str:
        """Host and port of the first Sentinel, as a URL has them."""
        host, port = self.sentinels[0]
        return f"{_bracketed(host)}:{port}"


def is_sentinel(url: str) -> bool:
    """Whether a URL claims to be one of these."""
    return url.partition("://")[0] in SCHEMES


def hosts_of(url: str) -> str:
    """The part with the hosts, without user and password."""
    return _netloc(url).rpartition("@")[2]


def read(url: str) -> SentinelUrl:
    """What the URL says.

    Raises:
        ValueError: it is none of these, in words that repeat nothing of it.
    """
    path, _, query = url.partition("://")[2].partition("/")[2].partition("?")
    master, _, database = path.strip("/").partition("/")
    if not master:
        raise ValueError(f"the name of the master is missing behind the Sentinels: {EXAMPLE}")
    if database and not database.isdecimal():
        raise ValueError("the database, behind the name of the master, should be a number")
    sentinels = addresses(hosts_of(url))
    named = dict(parse_qsl(query))
    ssl = {name: value for name, value in named.items() if name.startswith("ssl_")}
    if set(named) - set(ssl) - {"sentinel_username", "sentinel_password"}:
        raise ValueError("an argument behind the ? is not known")
    scheme = url.partition("://")[0]
    user, colon, password = _netloc(url).rpartition("@")[0].partition(":")
    return SentinelUrl(
        sentinels=sentinels,
        master=unquote(master),
        database=int(database or 0),
        encrypted=SCHEMES[scheme] == "rediss",
        username=unquote(user) or None,
        password=unquote(password) if colon else None,
        sentinel_username=named.get("sentinel_username"),
        sentinel_password=named.get("sentinel_password"),
        ssl=ssl,
    )


def addresses(hosts: str) -> tuple[tuple[str, int], ...]:
    """``host:port,host:port`` read; raises ValueError where one is no address."""
    found = []
    for text in hosts.split(","):
        parts = urlsplit(f"//{text}")
        if not parts.hostname or parts.port == 0:  # `port` raises ValueError where it is no number
            raise ValueError("a Sentinel's host or port does not read")
        found.append((parts.hostname, parts.port or PORT))
    return tuple(found)


def kombus(urls: str, options: Mapping[str, object]) -> SentinelUrl:
    """The same of a broker as kombu spells it: ``sentinel://host;sentinel://host/DATABASE`` and its transport options.

    Raises:
        ValueError: these name no service.
    """
    parts = [urlsplit(url) for url in urls.split(";")]
    first, master = parts[0], options.get("master_name")
    if not isinstance(master, str) or any(part.scheme != "sentinel" for part in parts):
        raise ValueError("kombu's sentinel:// needs master_name in broker_transport_options")
    own = options.get("sentinel_kwargs")
    own = own if isinstance(own, Mapping) else {}
    return SentinelUrl(
        sentinels=tuple((part.hostname or "localhost", part.port or PORT) for part in parts),
        master=master,
        database=int(first.path.strip("/") or 0),
        username=unquote(first.username or "") or None,
        password=unquote(first.password) if first.password is not None else None,
        sentinel_username=own.get("username"),
        sentinel_password=own.get("password"),
    )


def identities(service: SentinelUrl) -> Sequence[tuple[str, ...]]:
    """What tells the service's database from others: any Sentinel knows one master of a name."""
    return [
        ("sentinel", "127.0.0.1" if host == "localhost" else host, str(port), service.master, str(service.database))
        for host, port in service.sentinels
    ]


def _netloc(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition("?")[0]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
