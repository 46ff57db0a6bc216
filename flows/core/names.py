"""Names in configuration, and registries of interfaces, nodes, commands and controllers.

The roles of workers are here, too, and the names of values that shipped flows store in a run.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar

from perdure.flows.core.errors import InvalidFlow

T = TypeVar("T")

#: Names of flows, nodes and commands. They appear in keys, in URLs and on command lines.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

#: The workers that take the rounds of a node: "controller" workers wait for models, "executor"
#: workers run tools.
Role = Literal["controller", "executor"]

#: The author of an answer that is the default, since there was none before the deadline.
DEADLINE = "deadline"
#: Name of a value that is set in a child run for one command (``flows.rings.parallel_calls``).
ONLY = "_only"
#: Name of the value with the positions of messages from people in the stored history.
REMARKS = "_remarks"
#: Name of the value with the numbers of the questions to which the run has not replied.
OPEN_ASKS = "_open_asks"
#: Name of the value that counts bad replies in a row. A retry of the run resets it to 0.
BAD_REPLIES = "_bad_replies"

#: Form of a topic, which is part of a key's name on the server. A topic that came over HTTP has its
#: submitter's name in front.
TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,199}")


def is_name(name: object) -> bool:
    """Return whether a flow, node or command may have this name."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def suggest(name: object, names: Iterable[str]) -> str:
    """Return the end of an unknown-name error: the nearest known name, and all names."""
    known_names = sorted(names)
    nearest = difflib.get_close_matches(str(name), known_names, n=1)
    suggestion = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"{suggestion}Known: {', '.join(known_names) or 'none'}"


class Names(Generic[T]):
    """A registry of things of one kind, by name.

    Args:
        kind: the kind in errors, such as ``interface``.
        homes: modules that register Perdure's own things of this kind. They are imported before a
            thing is registered or looked up, so that no user's thing takes one of their names.
    """

    def __init__(self, kind: str, *homes: str) -> None:
        self._kind, self._homes = kind, homes
        self._things: dict[str, T] = {}

    def keep(self, name: str, thing: T) -> T:
        """Register a thing of this kind under a name, and return the thing.

        A reloaded module may register its own things again.

        Raises:
            InvalidFlow: the name is not valid, or another thing has it.
        """
        if not is_name(name):
            raise InvalidFlow(
                f"{name!r} cannot name a {self._kind}; expected letters, digits, '_', "
                "'.' or '-', at most 100"
            )
        self._import_shipped()
        other = self._things.get(name)
        if other is not None and _origin(other) != _origin(thing):
            raise InvalidFlow(
                f"two {self._kind}s are named {name!r}: {_origin(other)} and "
                f"{_origin(thing)}; rename one"
            )
        self._things[name] = thing
        return thing

    def named(self, name: str) -> T:
        """Return the thing that is registered under a name.

        Raises:
            InvalidFlow: the name is unknown. The message names the nearest known one.
        """
        self._import_shipped()
        if name not in self._things:
            hint = (
                " (expected a registered name, never an import path)"
                if "." in name or ":" in name
                else ""
            )
            raise InvalidFlow(
                f"no {self._kind} is named {name!r}{hint}; {suggest(name, self._things)}"
            )
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        self._import_shipped()
        return name in self._things

    def _import_shipped(self) -> None:
        for home in self._homes:
            import_module(home)


def _origin(thing: Any) -> str:
    """Return the module and name of a function or class, which a reload does not change.

    For any other thing, return its ``repr``.
    """
    return (
        f"{thing.__module__}.{thing.__qualname__}"
        if hasattr(thing, "__qualname__")
        else repr(thing)
    )


_F = TypeVar("_F", bound=Callable[..., Any])

#: Functions of the ring's state and the context, as ``perdure.Node`` accepts them.
registered_nodes: Names[Callable[..., Any]] = Names(
    "node", "perdure.flows.rings.human", "perdure.flows.rings.memory"
)


def node(name: str) -> Callable[[_F], _F]:
    """Register a ring's node function for flows in YAML.

    The function gets the ring's state (a dict) and the ``RoundContext``.

    Raises:
        InvalidFlow: the name is not valid, or another function has it.
    """

    def keep(function: _F) -> _F:
        registered_nodes.keep(name, function)
        return function

    return keep
