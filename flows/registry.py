"""The registry of flows by name.

Its sources are flows registered in this process, installed packages, YAML files, and the flows
shipped with Perdure.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

from perdure.flows.errors import InvalidFlow
from perdure.flows.flow import Flow
from perdure.flows.names import is_name, suggest
from perdure.flows.yaml_flows.directories import Directories
from perdure.flows.yaml_flows.errors import shown_path
from perdure.flows.yaml_flows.yaml_flow import YamlFlow

#: A class, an object that is copied, or a function that makes an object.
Source = type[Flow] | Flow | Callable[[], Flow]

ENTRY_POINTS = "perdure.flows"
_LIBRARY = "perdure.flows.library"

_sources: dict[str, Source] = {}
_directories = Directories()
_failures: dict[str, str] = {}
_C = TypeVar("_C", bound=type[Flow])
_S = TypeVar("_S", bound=Source)


class FlowNotFound(InvalidFlow, LookupError):
    """The error for a name under which no flow is registered, installed or shipped."""

    code = "flow-not-found"


@overload
def register(name: str) -> Callable[[_C], _C]: ...
@overload
def register(name: str, flow: _S) -> _S: ...
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
    return (lambda cls: _keep(name, cls)) if flow is None else _keep(name, flow)


def make(name: str) -> Flow:
    """Create a fresh object of the flow with this name, shared with no other caller.

    Raises:
        FlowNotFound: the name is unknown. The message names the nearest known one.
    """
    if name not in _sources:
        _load_files(shipped=False)
    if name not in _sources:
        _load_shipped_as(name)
    if name not in _sources:
        _load_all()
    if name not in _sources:
        raise FlowNotFound(not_found_text(name))
    return _made(name, _sources[name])


def not_found_text(name: str, announced: Iterable[str] = ()) -> str:
    """Return the text of the error for an unknown flow, with the nearest known name.

    Args:
        announced: names of flows that live workers run.
    """
    failed = "".join(f"; could not be loaded: {what} ({why})" for what, why in _failures.items())
    return f"no flow is named {name!r}; {suggest(name, {*_sources, *announced})}{failed}"


def registered() -> Mapping[str, Callable[[], Flow]]:
    """Return all flows by name, after loading every source. Call one to get a fresh flow object."""
    _load_all()
    return {name: partial(make, name) for name in sorted(_sources)}


def names() -> frozenset[str]:
    """Return the names that are registered so far. No source is loaded."""
    return frozenset(_sources)


def name_of(flow: type[Flow]) -> str | None:
    """Return the name under which a flow class is registered, or None."""
    return next((name for name, source in _sources.items() if source is flow), None)


def is_shipped(name: str) -> bool:
    """Return whether the flow of this name came with Perdure; False for an unknown name."""
    return name in _sources and _is_shipped(_sources[name])


def load_failures() -> Mapping[str, str]:
    """Return the flow modules and flow files that could not be loaded, with the reason of each."""
    return dict(_failures)


def add_directory(path: Path, shipped: bool = False) -> None:
    """Add a directory that is searched for flows written in YAML.

    It counts from the next ``make`` or ``registered`` on. It need not exist.

    Args:
        shipped: the flows came with Perdure, so that your own flow of the same name replaces one.
    """
    _directories.add(path, shipped)


def register_file(path: Path) -> YamlFlow:
    """Read a YAML file again, and register the flow in it at once.

    Raises:
        InvalidFlow: it cannot be registered; ``InvalidFlowFile`` if the file is not valid.
    """
    return _keep_file(path, again=True)


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
        InvalidFlow: a module cannot be imported. The message names it, and what to look at.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise InvalidFlow(
                f"flow module {module!r} cannot be imported: {_import_fault(module, error)}"
            ) from error


def _import_fault(module: str, error: Exception) -> str:
    """Return why a flow module cannot be imported, and what its author should look at."""
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


def _keep(name: str, source: Any) -> Any:
    other = _sources.get(name)
    if other is not None and other is not source and _origin(other) != _origin(source):
        if _is_shipped(source) and not _is_shipped(other):
            return source
        if _is_shipped(source) == _is_shipped(other):
            raise InvalidFlow(
                f"two flows are named {name!r}: {_described(other)} and "
                f"{_described(source)}; rename one"
            )
    if isinstance(source, Flow | type):
        _made(name, source)
    elif not callable(source):
        raise InvalidFlow(
            f"flow {name!r} is registered as {source!r}; expected a Flow class, "
            "a Flow object, or a function that makes one"
        )
    _sources[name] = source
    return source


def _made(name: str, source: Any) -> Flow:
    try:
        flow = (
            copy.copy(source)
            if not isinstance(source, type) and isinstance(source, Flow)
            else source()
        )
    except TypeError as error:
        raise InvalidFlow(
            f"flow {name!r} cannot be made from {_described(source)}: {error}; "
            "register a function that makes it"
        ) from error
    if not isinstance(flow, Flow):
        raise InvalidFlow(
            f"flow {name!r}: {_described(source)} gives a {type(flow).__name__}; expected a Flow"
        )
    flow.name = name
    plain = source is type(flow)
    if not (plain and source.is_checked()):
        flow.check_definition()
        if plain:
            source.mark_checked()
    return flow


def _load_shipped_as(name: str) -> None:
    """Import the one module of Perdure's own flows that has the name of a flow.

    A worker that plays one flow need not load all of them.
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
    _load_files(shipped=True)  # Files last: they refer to what modules register.
    _load_files(shipped=False)


@cache
def _entry_points(_path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """Return the flows that installed packages offer as entry points.

    Cached, since it reads the metadata of every package, the slowest step in this module.
    """
    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def _load_files(shipped: bool) -> None:
    for path in _directories.files(shipped):
        _try_load(f"file {shown_path(path)}", partial(_keep_file, path))


def _keep_file(path: Path, again: bool = False) -> YamlFlow:
    written = _directories.read(path, again)
    _keep(written.name, written)
    return written


def _load_entry(entry: importlib.metadata.EntryPoint) -> None:
    loaded = entry.load()
    # Otherwise it is a module, which has registered its flows on import.
    if isinstance(loaded, Flow) or callable(loaded):
        _keep(entry.name, loaded)


def _try_load(what: str, load: Callable[[], Any]) -> None:
    """Load flows from one module or file, and record the error if that fails.

    A package that fails must not hide other flows. ``make`` and ``load_failures`` report it.
    """
    try:
        load()
    except Exception as error:
        _failures[what] = f"{type(error).__name__}: {error}"
    else:
        _failures.pop(what, None)


def _is_shipped(source: Any) -> bool:
    if isinstance(source, YamlFlow):
        return source.shipped
    return str(getattr(source, "__module__", "")).startswith(f"{_LIBRARY}.")


def _origin(source: Any) -> object:
    """Return what identifies the definition of a flow: the file and name of its class, say.

    It is unchanged after a reload, or if the module also runs as a script.
    """
    if isinstance(source, YamlFlow):
        return source.path
    if isinstance(source, Flow):
        return id(source)
    module = getattr(source, "__module__", "")
    return getattr(sys.modules.get(module), "__file__", None) or module, getattr(
        source, "__qualname__", repr(source)
    )


def _described(source: Any) -> str:
    if isinstance(source, YamlFlow):
        return str(source)
    subject = type(source) if isinstance(source, Flow) else source
    return (
        f"{getattr(subject, '__module__', '?')}.{getattr(subject, '__qualname__', repr(subject))}"
    )
