"""Snapshots: the keys under a prefix with the form of what they hold, without what differs by run.

Every value is flattened to paths (``hash field.key[].key``) with the set of forms seen there. Ids,
numbers, digests and times are replaced, so that two sessions of the same script look alike.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import redis

#: A text of one of these forms is a word of the protocol and stays; longer ones are content.
_WORD = re.compile(r"[A-Za-z_][\w.:+@/{}-]{0,60}")
_HEX = re.compile(r"\b[0-9a-f]{16,64}\b")
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
#: 32 random bytes in URL-safe base64.
_SECRET = re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?")
_NUMBER = re.compile(r"(?<![A-Za-z\d])\d+(\.\d+)?(?![A-Za-z\d])")
#: A name that is a JSON list of more than one part; how many buckets there are depends on time.
_FIGURE = re.compile(r'\["(\w+)".*\]')

#: Paths of digests: of code, and of values.
_DIGEST = re.compile(r"(^|[ .])builds?(\.|$)|^committed before$")
#: Fields that hold sentences, some of them short.
PROSE = ("description", "error", "last_error", "traceback", "why")

Forms = dict[str, set[str]]


def _whole(name: str) -> re.Pattern[str]:
    """Return a pattern of a name that is not a part of a word: a host may be called ``vm``."""
    after = r"(?![A-Za-z\d])" if name[-1].isalnum() else ""
    return re.compile(rf"(?<![A-Za-z\d]){re.escape(name)}{after}")


class Snapshots:
    """What was seen under a prefix, added up over all looks at it.

    Args:
        client: a client of the server that decodes replies.
        prefix: the prefix of the keys.
        names: texts that differ by session, and what to write for each.
        left_out: a regular expression of paths to leave out.
    """

    def __init__(
        self, client: redis.Redis, prefix: str, names: Mapping[str, str], left_out: str
    ) -> None:
        self._client = client
        self._left_out = re.compile(left_out)
        self._prefix = prefix
        self._names = [(_whole(name), word) for name, word in {prefix: "PREFIX", **names}.items()]
        self._types: dict[str, str] = {}
        self._forms: dict[str, Forms] = defaultdict(lambda: defaultdict(set))

    def look(self) -> None:
        """Add what is there now."""
        for key in self._client.scan_iter(match=f"{self._prefix}*", count=1000):
            kind = str(self._client.type(key))
            name = self.plain(key)
            if kind == "none":
                continue
            assert self._types.setdefault(name, kind) == kind, f"{name} has two types"
            expires = self._client.pttl(key) != -1
            self._forms[name]["(expiry)"].add("expires" if expires else "stays")
            for path, value in self._contents(key, kind):
                for place, leaf in self.flattened(value, path):
                    if not self._left_out.search(place):
                        self._forms[name][place].add(leaf)

    def seen(self) -> dict[str, Any]:
        """Return each key's pattern with its type and the forms of its contents."""
        return {
            f"{name} ({kind})": {
                path: " | ".join(sorted(forms)) for path, forms in self._forms[name].items()
            }
            for name, kind in self._types.items()
        }

    def plain(self, text: str) -> str:
        """Return a text with session, ids and numbers replaced."""
        for name, word in self._names:
            text = name.sub(word, text)
        text = _SECRET.sub("SECRET", text)
        text = _HEX.sub("HEX", _UUID.sub("UUID", _TIME.sub("TIME", text)))
        return _NUMBER.sub("N", text)

    def flattened(self, value: Any, path: str) -> Iterator[tuple[str, str]]:
        """Yield the paths below a value with the forms of their leaves."""
        if isinstance(value, str):
            yield from self._flattened_text(value, path)
        elif isinstance(value, Mapping):
            if not value:
                yield path, "{}"
            for key, item in value.items():
                yield from self.flattened(item, f"{path}.{self.plain(key)}")
        elif isinstance(value, list):
            if not value:
                yield path, "[]"
            for item in value:
                yield from self.flattened(item, f"{path}[]")
        elif value is None or isinstance(value, bool):
            yield path, json.dumps(value)
        else:
            yield path, type(value).__name__

    def _flattened_text(self, text: str, path: str) -> Iterator[tuple[str, str]]:
        if path.endswith(".body"):
            text = base64.b64decode(text).decode()
        if text.startswith(("{", "[", '"')):
            try:
                value = json.loads(text)
            except ValueError:
                pass
            else:
                leaf = value if not isinstance(value, str) else self._form(value)
                if isinstance(leaf, str):
                    yield path, f'"{leaf}"'
                else:
                    yield from self.flattened(leaf, path)
                return
        if _DIGEST.search(path):
            yield path, "DIGEST"
            return
        prose = path.rpartition(".")[2].rpartition(" ")[2] in PROSE
        yield path, "text" if prose and text else self._form(text)

    def _form(self, text: str) -> str:
        if not text:
            return "empty"
        plain = self.plain(text)
        parts = plain.split(" ")
        if len(parts) == 2 and parts[0] == "HEX" and text.partition(" ")[2].startswith(("{", "[")):
            return "HEX JSON"
        if len(parts) <= 2 and all(_WORD.fullmatch(part) for part in parts):
            return plain
        if set(parts) <= {"N", "HEX", "ID-N", ""}:
            return plain
        return "text"

    def _contents(self, key: str, kind: str) -> Iterator[tuple[str, Any]]:
        client: Any = self._client
        if kind == "hash":
            for field, value in client.hgetall(key).items():
                yield self._field(field), value
        elif kind == "stream":
            for _, entry in client.xrange(key):
                for field, value in entry.items():
                    yield f"{entry.get('type')} {field}", value
        elif kind == "list":
            yield from (("item", value) for value in client.lrange(key, 0, -1))
        elif kind == "zset":
            yield from (("member", value) for value in client.zrange(key, 0, -1))
        elif kind == "set":
            yield from (("value", value) for value in client.smembers(key))
        else:
            yield "value", client.get(key)

    def _field(self, field: str) -> str:
        figure = _FIGURE.fullmatch(field)
        if figure:
            return f"[{figure[1]} and {len(json.loads(field)) - 1} labels]"
        return self.plain(field)
