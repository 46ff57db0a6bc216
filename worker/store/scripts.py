"""The transitions as callable scripts: the Lua files of this package and of features."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from redis.exceptions import NoScriptError

from perdure.worker.features import features
from perdure.worker.store.wire import Wire, packed, told

#: One file per script. The head of the file is its contract.
TRANSITIONS = (
    "submit_run",
    "claim_round",
    "commit_round",
    "commit_and_continue",
    "record_intent",
    "record_result",
    "set_trace",
    "open_hook",
    "take_topic",
    "ask_provider",
    "extend_leases",
    "release_dead_lease",
    "request_stop",
    "resume_run",
    "retry_run",
    "signal_run",
    "signal_topic",
    "wake_run",
    "raise_limit",
    "start_children",
    "reconcile_children",
    "quarantine_run",
    "delete_run",
    "check_run",
    "read_fields",
    "list_entries",
    "requeue_paused",
    "redirect_round",
    "sweep_due",
    "show_text",
    *(script for feature in features() for script in feature.scripts),
)

#: Matches a line that includes a shared part.
PART = re.compile(r"^--@ ((?:parts/)?\w+\.lua)$", re.MULTILINE)

#: Matches the line with a script's positional arguments. Those in brackets are optional.
PLACES = re.compile(r"^-- PLACES (.+)$", re.MULTILINE)

#: The ARGV of a script.
Arguments = Sequence[str | bytes | int]


class Transition:
    """A Lua script that runs on the state server.

    EVALSHA is sent first. EVAL follows only if the server does not have the script, so a user needs
    no right to SCRIPT LOAD. For a script without writes, EVALSHA_RO and EVAL_RO are used, so that a
    user with read access can run it.

    Args:
        text: the whole Lua code, or a function that returns it. The function is called when the
            script is first used, because a command of the command line needs only one or two
            scripts.
    """

    def __init__(self, text: str | Callable[[], str]) -> None:
        self._text = text

    @cached_property
    def sha(self) -> str:
        """The SHA-1 by which the server knows the script."""
        return hashlib.sha1(self._code.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def _code(self) -> str:
        return self._text if isinstance(self._text, str) else self._text()

    @cached_property
    def _suffix(self) -> str:
        return "_RO" if "no-writes" in self._code.split("\n", 1)[0] else ""

    @cached_property
    def _by_digest(self) -> tuple[str, str]:
        return f"EVALSHA{self._suffix}", self.sha

    @cached_property
    def _in_full(self) -> tuple[str, str]:
        return f"EVAL{self._suffix}", self._code

    @cached_property
    def _places(self) -> list[str]:
        return [name.strip("[]") for name in _placed(self._code)]

    def arguments(
        self,
        named: Mapping[str, Any],
        fields: Mapping[str, str] | None = None,
        rest: Iterable[str] = (),
    ) -> list[str | bytes | int]:
        """Return the script's arguments (ARGV), in the order that it expects.

        The positional arguments are first. Pairs of name and value follow, then ``fields`` after
        ``=``, then ``rest`` after ``--``. The script reads them with parts/arguments.lua.

        Args:
            named: the arguments by name, both positional and others. A positional argument that is
                missing or None becomes an empty text. Another argument that is None is left out.
            fields: fields of the run's hash.
            rest: further texts.
        """
        others = dict(named)
        argv: list[str | bytes | int] = [
            "" if (value := others.pop(name, None)) is None else value for name in self._places
        ]
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
        """Run the script, and return its reply. An error reply is raised."""
        return told(self.exchange(wire, keys, args)[0])

    def exchange(
        self, wire: Wire, keys: Sequence[str], args: Arguments, *behind: Arguments
    ) -> list[Any]:
        """Run the script, then further commands.

        All are sent in one exchange over one connection. If the server does not have the script,
        everything is sent again with the script in full.

        Args:
            behind: the further commands.

        Returns:
            The replies in order. An error reply is returned in the list, not raised.
        """
        rest = b"".join(packed(command) for command in behind) if behind else b""
        for head in (self._by_digest, self._in_full):
            replies = wire.exchange(
                packed([*head, len(keys), *keys, *args]) + rest, 1 + len(behind)
            )
            if not isinstance(replies[0], NoScriptError):
                break
        return replies

    def exchange_all(
        self, wire: Wire, calls: Sequence[tuple[Sequence[str], Arguments]]
    ) -> list[Any]:
        """Run the script once for each call, in one exchange.

        Args:
            calls: keys and arguments of each call. There must be at least one.

        Returns:
            The replies in order. An error reply is returned in the list, not raised.
        """
        (keys, args), *others = calls
        behind: list[Arguments] = [
            (*self._by_digest, len(each), *each, *more) for each, more in others
        ]
        return self.exchange(wire, keys, args, *behind)

    def into(
        self, pipe: Any, keys: Sequence[str], args: Arguments = (), *, whole: bool = False
    ) -> None:
        """Add a call of the script to redis-py's pipeline.

        Args:
            whole: whether to send the script in full. If not, the server must have the script
                already.
        """
        pipe.execute_command(
            *(self._in_full if whole else self._by_digest), len(keys), *keys, *args
        )


@cache
def source(name: str) -> str:
    """Return a transition's whole Lua code, with shared parts.

    The code for rare cases is at the end of a script, because a server creates every local function
    before the point at which the script returns.
    """
    text = _whole(f"{name}.lua")
    return text.replace("--@ arguments\n", _read(_placed(text)), 1)


def _whole(name: str) -> str:
    """Return the text of a Lua file, with the text of each included file.

    Included files may include further files.

    Args:
        name: the name of the file, in this package or in the folder of a feature.
    """
    file = files("perdure.worker.store").joinpath("lua", name)
    if not file.is_file():
        file = next(place for each in folders() if (place := each.joinpath(name)).is_file())
    return PART.sub(lambda part: _whole(part[1]), file.read_text("utf-8"))


def folders() -> list[Traversable]:
    """Return the folders of the features that have Lua files."""
    return [
        files(f"perdure.worker.features.{feature.name}").joinpath("lua")
        for feature in features()
        if feature.scripts
    ]


def _placed(text: str) -> list[str]:
    """Return the names of a script's positional arguments.

    They are in its comment line ``PLACES``. The name of an optional argument is in brackets.
    """
    places = PLACES.search(text)
    return places[1].split() if places else []


def _read(names: Sequence[str]) -> str:
    """Return Lua code that reads positional arguments into a table."""
    values = (
        f"ARGV[{position}] ~= '' and ARGV[{position}] or nil"
        if "[" in name
        else f"ARGV[{position}]"
        for position, name in enumerate(names, 1)
    )
    pairs = (f"{name.strip('[]')} = {value}" for name, value in zip(names, values, strict=True))
    return f"local placed, arg = {len(names)}, {{ {', '.join(pairs)} }}\n"


def load() -> dict[str, Transition]:
    """Return all transitions by name. Their Lua code is read when they are first used."""
    return {name: Transition(partial(source, name)) for name in TRANSITIONS}
