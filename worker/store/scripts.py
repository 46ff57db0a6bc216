"""The transitions: Lua files of this package, each with the parts that it shares with others, as a callable script."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from worker.store.wire import Wire, packed, told

#: One file a transition; the file's head is its contract.
TRANSITIONS = (
    "submit_run",
    "claim_round",
    "commit_round",
    "commit_and_stay",
    "record_intent",
    "record_once",
    "keep_trace",
    "ask_provider",
    "extend_leases",
    "forfeit_lease",
    "request_stop",
    "resume_run",
    "retry_run",
    "quarantine_run",
    "delete_run",
    "examine_run",
    "offer_again",
    "hand_on",
    "sweep_due",
)

#: A line of a script in whose place a part that several of them share is put.
PART = re.compile(r"^--@ (\w+\.lua)$", re.MULTILINE)

#: The arguments that a script takes by their place, in its head; those in brackets need not be given.
PLACES = re.compile(r"^-- PLACES (.+)$", re.MULTILINE)

#: ARGV of a script.
Arguments = Sequence[str | bytes | int]


class Transition:
    """A script of a server.

    It is sent in full where the server does not know it (EVALSHA, then EVAL): a user who may run scripts needs no SCRIPT LOAD.
    One that writes nothing is sent as such (EVALSHA_RO), so that a user who may only read can run it.
    """

    def __init__(self, text: str) -> None:
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        suffix = "_RO" if "no-writes" in text.split("\n", 1)[0] else ""
        self._by_digest, self._in_full = (f"EVALSHA{suffix}", self.sha), (f"EVAL{suffix}", text)
        self._places = [name.strip("[]") for name in _placed(text)]

    def arguments(
        self, named: Mapping[str, Any], fields: Mapping[str, str] | None = None, rest: Iterable[str] = ()
    ) -> list[str | bytes | int]:
        """ARGV as arguments.lua reads it: by place, then name and value pairs (None is left out), then what follows ``=``, and ``--``."""
        others = dict(named)
        argv: list[str | bytes | int] = ["" if (value := others.pop(name, None)) is None else value for name in self._places]
        for name, value in others.items():
            if value is not None:
                argv += [name, value]
        if fields:
            argv += ["=", 2 * len(fields)]
            for pair in fields.items():
                argv += pair
        items = list(rest)
        return [*argv, "--", *items] if items else argv

    def __call__(self, wire: Wire, keys: Sequence[str], args: Arguments) -> Any:
        """Run it."""
        return told(self.exchange(wire, keys, args)[0])

    def exchange(self, wire: Wire, keys: Sequence[str], args: Arguments, *behind: Sequence[str | int]) -> list[Any]:
        """Run it, and these commands behind it over the same connection; the answers, errors among them."""
        rest = b"".join(packed(words) for words in behind) if behind else b""
        for head in (self._by_digest, self._in_full):
            found = wire.exchange(packed([*head, len(keys), *keys, *args]) + rest, 1 + len(behind))
            if not isinstance(found[0], NoScriptError):
                break
        return found

    def into(self, pipe: Any, keys: Sequence[str], args: Arguments = (), *, whole: bool = False) -> None:
        """Put it into a pipeline; ``whole`` sends it in full, after which the server knows it."""
        pipe.execute_command(*(self._in_full if whole else self._by_digest), len(keys), *keys, *args)


@cache
def source(name: str) -> str:
    """The full text of transition ``name``, each part in its place: what is rare stands last, as a server makes all that it comes past."""
    text = _whole(f"{name}.lua")
    return text.replace("--@ arguments\n", _read(_placed(text)), 1)


def _whole(name: str) -> str:
    """The file's text, each part in its place; a part may have parts itself."""
    text = files("worker.store").joinpath("lua", name).read_text("utf-8")
    return PART.sub(lambda found: _whole(found[1]), text)


def _placed(text: str) -> list[str]:
    found = PLACES.search(text)
    return found[1].split() if found else []


def _read(names: Sequence[str]) -> str:
    """How the arguments by place are read, in Lua."""
    values = (f"ARGV[{place}] ~= '' and ARGV[{place}] or nil" if "[" in name else f"ARGV[{place}]" for place, name in enumerate(names, 1))
    pairs = (f"{name.strip('[]')} = {value}" for name, value in zip(names, values, strict=True))
    return f"local placed, arg = {len(names)}, {{ {', '.join(pairs)} }}\n"


def load() -> dict[str, Transition]:
    """All of them, by name."""
    return {name: Transition(source(name)) for name in TRANSITIONS}
