"""The registry of flows by name.

Its sources are flows registered in this process, installed packages, the flows shipped with
Perdure, and added sources: flows in files (``loading/sources.py``).
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import is_name, suggest
from perdure.flows.rounds.flow import Flow

#: A class, an object that is copied, or a function that makes an object.
Definition = type[Flow] | Flow | Callable[[], Flow]

ENTRY_POINTS = "perdure.flows"
_LIBRARY = "perdure.flows.library"

_definitions: dict[str, Definition] = {}
_sources: list[Source] = []
_failures: dict[str, str] = {}
_C = TypeVar("_C", bound=type[Flow])
_D = TypeVar("_D", bound=Definition)


class WrittenFlow(ABC):
    """The definition of a flow that a source has read. Each call makes a new flow object.

    Attributes:
        name: the name of the flow.
        shipped: whether the flow ships with Perdure.
    """

    name: str
    shipped: bool

    @property
    @abstractmethod
    def origin(self) -> object:
        """The identity of the flow's place of origin, such as its file.

        A definition may replace an earlier one of the same name and origin.
        """

    @abstractmethod
    def __call__(self) -> Flow:
        """Make a flow object."""


#: Yields the definitions of a source, shipped with Perdure or not: for each, a description for
#: people and a function that reads it.
Source = Callable[[bool], Iterable[tuple[str, Callable[[], WrittenFlow]]]]


class FlowNotFound(InvalidFlow, LookupError):
    """Raised when no flow of a name is registered, installed or shipped."""

    code = "flow-not-found"


@overload
def register(name: str) -> Callable[[_C], _C]: ...
@overload
def register(name: str, flow: _D) -> _D: ...
def register(name: str, flow: Any = None) -> Any:
    """Register a flow under a name.

    Use ``@register("name")`` on a class, or ``register("name", instance or function that makes
    one)``. Classes and instances are checked at once, functions on first use. Your own flow takes
    precedence over a shipped flow of the same name.

    Raises:
        InvalidFlow: the name or the definition is not valid, or another flow has the name.
    """
    if not is_name(name):
        raise InvalidFlow(
            f"{name!r} cannot name a flow; expected letters, digits, '_', '.' or '-', at most 100"
        )
    return (lambda cls: keep(name, cls)) if flow is None else keep(name, flow)


def make(name: str) -> Flow:
    """Create a fresh object of the flow with this name. No other caller shares it.

    Raises:
        FlowNotFound: the name is unknown. The message names the nearest known one.
    """
    if name not in _definitions:
        _load_sources(shipped=False)
    if name not in _definitions:
        _load_shipped_as(name)
    if name not in _definitions:
        _load_all()
    if name not in _definitions:
        raise FlowNotFound(not_found_text(name))
    return _made(name, _definitions[name])


def not_found_text(name: str, announced: Iterable[str] = ()) -> str:
    """Return the error text for an unknown flow name.

    The text suggests the nearest known name, and lists the modules and files that failed to load.

    Args:
        announced: names of flows that live workers run.
    """
    failed = "".join(f"; could not be loaded: {what} ({why})" for what, why in _failures.items())
    return f"no flow is named {name!r}; {suggest(name, {*_definitions, *announced})}{failed}"


def registered() -> Mapping[str, Callable[[], Flow]]:
    """Return, for each flow name, a function that makes a fresh object of the flow.

    Every source is loaded first.
    """
    _load_all()
    return {name: partial(make, name) for name in sorted(_definitions)}


def names() -> frozenset[str]:
    """Return the names that are registered so far. No source is loaded."""
    return frozenset(_definitions)


def name_of(flow: type[Flow]) -> str | None:
    """Return the name under which a flow class is registered.

    Returns:
        None if the class itself is not registered. An object of the class does not count.
    """
    return next((name for name, each in _definitions.items() if each is flow), None)


def is_shipped(name: str) -> bool:
    """Return whether the registered flow of this name ships with Perdure.

    No source is loaded. A name that is not registered yet gives False.
    """
    return name in _definitions and _is_shipped(_definitions[name])


def load_failures() -> Mapping[str, str]:
    """Return the reasons why flow modules and files failed to load, by module or file."""
    return dict(_failures)


def add_source(source: Source) -> None:
    """Add a source of flow definitions. A source that was added before is not added again.

    ``registered`` reads the source. ``make`` reads it if the name is not registered yet.
    """
    if source not in _sources:
        _sources.append(source)


#: Modules that an extra installs, each with the name of the extra.
EXTRAS = {
    "agents": "openai-agents",
    "pydantic_ai": "ai",
    "langgraph": "langgraph",
    "langchain_core": "langgraph",
}


def load_modules(modules: Iterable[str]) -> None:
    """Import modules that register flows.

    Raises:
        InvalidFlow: a module cannot be imported. The message names it, and the likely fault.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise InvalidFlow(
                f"flow module {module!r} cannot be imported: {_import_fault(module, error)}"
            ) from error


def _import_fault(module: str, error: Exception) -> str:
    """Return why a flow module cannot be imported, with advice for the author of the module."""
    if isinstance(error, ModuleNotFoundError) and error.name in (module, module.partition(".")[0]):
        name = f"; write {module[:-3]!r}, without .py" if module.endswith(".py") else ""
        return (
            f"{error}{name}; it is looked for in the working directory ({Path.cwd()}) and among "
            "the installed packages; check the directory, and the spelling of its name"
        )
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get(error.name or "")):
        return f"{error}; it needs the extra {extra!r}: pip install 'perdure[{extra}]'"
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename}, line {frame.lineno}"
    return f"{type(error).__name__}: {error} ({where}); PERDURE_DEBUG=1 shows the traceback"


def keep(name: str, definition: Any) -> Any:
    """Register a definition under a name, and return the definition.

    A user's flow replaces a shipped flow of the same name. A shipped flow does not replace a user's
    flow: it is returned without being registered.

    Raises:
        InvalidFlow: the definition is not valid, or another flow has the name.
    """
    other = _definitions.get(name)
    if other is not None and other is not definition and _origin(other) != _origin(definition):
        if _is_shipped(definition) and not _is_shipped(other):
            return definition
        if _is_shipped(definition) == _is_shipped(other):
            raise InvalidFlow(
                f"two flows are named {name!r}: {_described(other)} and "
                f"{_described(definition)}; rename one"
            )
    if isinstance(definition, Flow | type):
        _made(name, definition)
    elif not callable(definition):
        raise InvalidFlow(
            f"flow {name!r} is registered as {definition!r}; expected a Flow class, "
            "a Flow object, or a function that makes one"
        )
    _definitions[name] = definition
    return definition


def _made(name: str, definition: Any) -> Flow:
    try:
        flow = (
            copy.copy(definition)
            if not isinstance(definition, type) and isinstance(definition, Flow)
            else definition()
        )
    except TypeError as error:
        raise InvalidFlow(
            f"flow {name!r} cannot be made from {_described(definition)}: {error}; "
            "register a function that makes it"
        ) from error
    if not isinstance(flow, Flow):
        raise InvalidFlow(
            f"flow {name!r}: {_described(definition)} gives a {type(flow).__name__}; expected a "
            "Flow"
        )
    flow.name = name
    plain = definition is type(flow)
    if not (plain and definition.is_checked()):
        flow.check_definition()
        if plain:
            definition.mark_checked()
    return flow


def _load_shipped_as(name: str) -> None:
    """Import the module of the library that has the same name as the flow, if there is one.

    So a worker that runs one flow does not import all shipped flows. An error of the import is
    recorded, not raised (``_try_load``).
    """
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(f"{_LIBRARY}.{module}"):
        _try_load(f"{_LIBRARY}.{module}", partial(importlib.import_module, f"{_LIBRARY}.{module}"))


def _load_all() -> None:
    library = importlib.import_module(_LIBRARY)
    for module in pkgutil.iter_modules(library.__path__, f"{_LIBRARY}."):
        _try_load(module.name, partial(importlib.import_module, module.name))
    for entry in _entry_points(tuple(sys.path)):
        _try_load(f"entry point {entry.name} = {entry.value}", partial(_load_entry, entry))
    _load_sources(shipped=True)  # Files last: they refer to definitions that modules register.
    _load_sources(shipped=False)


@cache
def _entry_points(_path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """Return the entry points by which installed packages register flows.

    The result is cached for each ``sys.path``, because this reads the metadata of every package. It
    is the slowest step in this module.
    """
    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def _load_sources(shipped: bool) -> None:
    for source in _sources:
        for what, read in source(shipped):
            _try_load(what, partial(_keep_written, read))


def _keep_written(read: Callable[[], WrittenFlow]) -> None:
    written = read()
    keep(written.name, written)


def _load_entry(entry: importlib.metadata.EntryPoint) -> None:
    loaded = entry.load()
    # Otherwise it is a module, which has registered its flows on import.
    if isinstance(loaded, Flow) or callable(loaded):
        keep(entry.name, loaded)


def _try_load(what: str, load: Callable[[], Any]) -> None:
    """Call ``load`` for one module or file. Record an exception in ``_failures``.

    The exception is not raised, because a package that fails must not hide other flows. ``make``
    names it if a flow is unknown, and ``load_failures`` returns it. A later success removes it.

    Args:
        what: the module, file or entry point, for people.
    """
    try:
        load()
    except Exception as error:
        _failures[what] = f"{type(error).__name__}: {error}"
    else:
        _failures.pop(what, None)


def _is_shipped(definition: Any) -> bool:
    if isinstance(definition, WrittenFlow):
        return definition.shipped
    return str(getattr(definition, "__module__", "")).startswith(f"{_LIBRARY}.")


def _origin(definition: Any) -> object:
    """Return the identity of a flow's definition. Equal identities mean the same flow.

    For a class or a function, it is the file and the qualified name. A reload of the module does
    not change them, nor does running the module as a script. For a flow object, it is its ``id()``.
    """
    if isinstance(definition, WrittenFlow):
        return definition.origin
    if isinstance(definition, Flow):
        return id(definition)
    module = getattr(definition, "__module__", "")
    return getattr(sys.modules.get(module), "__file__", None) or module, getattr(
        definition, "__qualname__", repr(definition)
    )


def _described(definition: Any) -> str:
    if isinstance(definition, WrittenFlow):
        return str(definition)
    subject = type(definition) if isinstance(definition, Flow) else definition
    return (
        f"{getattr(subject, '__module__', '?')}.{getattr(subject, '__qualname__', repr(subject))}"
    )
