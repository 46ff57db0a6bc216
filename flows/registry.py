"""Flows by name: those registered in this process, of installed packages, written in YAML, and those that ship."""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

from flows.base import Flow
from flows.definition import is_name, known
from flows.errors import InvalidFlow
from flows.written.directories import Directories
from flows.written.faults import shown_path
from flows.written.flow import WrittenFlow

#: A class, an object that is copied, or a function that makes one.
Source = type[Flow] | Flow | Callable[[], Flow]

ENTRY_POINTS = "holdfast.flows"
_LIBRARY = "flows.library"

_sources: dict[str, Source] = {}
_directories = Directories()
_failures: dict[str, str] = {}
_C = TypeVar("_C", bound=type[Flow])
_S = TypeVar("_S", bound=Source)


class FlowNotFound(InvalidFlow, LookupError):
    """No flow of this name is registered, installed or shipped."""


@overload
def register(name: str) -> Callable[[_C], _C]: ...
@overload
def register(name: str, flow: _S) -> _S: ...
def register(name: str, flow: Any = None) -> Any:
    """Register a flow: ``@register("name")`` on a class, or ``register("name", instance or function that makes one)``.

    Classes and instances are checked at once, functions when they are first used. A flow of one's own
    takes precedence over a shipped one of its name.

    Raises:
        InvalidFlow: the name or the definition will not do, or another flow has the name.
    """
    if not is_name(name):
        raise InvalidFlow(f"{name!r} cannot name a flow; expected letters, digits, '_', '.' or '-', at most 100")
    return (lambda cls: _keep(name, cls)) if flow is None else _keep(name, flow)


def make(name: str) -> Flow:
    """A fresh flow object, which nobody else holds; raises FlowNotFound, naming the nearest known one."""
    if name not in _sources:
        _load_files(shipped=False)
    if name not in _sources:
        _load_shipped_as(name)
    if name not in _sources:
        _load_all()
    if name not in _sources:
        failed = "".join(f"; could not be loaded: {what} ({why})" for what, why in _failures.items())
        raise FlowNotFound(f"no flow is named {name!r}; {known(name, _sources)}{failed}")
    return _made(name, _sources[name])


def registered() -> Mapping[str, Callable[[], Flow]]:
    """All flows by name, once everything that can be found is loaded; call one to get a fresh flow object."""
    _load_all()
    return {name: partial(make, name) for name in sorted(_sources)}


def name_of(flow: type[Flow]) -> str | None:
    """The name under which this class is registered; None where it is not."""
    return next((name for name, source in _sources.items() if source is flow), None)


def is_shipped(name: str) -> bool:
    """Return whether the flow of this name came with Holdfast; False where it is not known."""
    return name in _sources and _is_shipped(_sources[name])


def load_failures() -> Mapping[str, str]:
    """Installed or shipped modules, and files, that could not be loaded, and why."""
    return dict(_failures)


def add_directory(path: Path, shipped: bool = False) -> None:
    """Find flows written in YAML in this directory too, from the next ``make`` or ``registered`` on; it may be missing.

    Args:
        shipped: they came with Holdfast, so that a flow of one's own takes the place of one of them.
    """
    _directories.add(path, shipped)


def register_file(path: Path) -> WrittenFlow:
    """Register the flow written in a file, now; raises InvalidFlow, an ``InvalidFlowFile`` if it is the file that will not do."""
    return _keep_file(path, again=True)


def load_modules(modules: Iterable[str]) -> None:
    """Import modules that register flows; raises InvalidFlow naming the module that cannot be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InvalidFlow(f"flow module {module!r} cannot be imported: {error}; is it installed, and spelt right?") from error


def _keep(name: str, source: Any) -> Any:
    other = _sources.get(name)
    if other is not None and other is not source and _origin(other) != _origin(source):
        if _is_shipped(source) and not _is_shipped(other):
            return source
        if _is_shipped(source) == _is_shipped(other):
            raise InvalidFlow(f"two flows are named {name!r}: {_described(other)} and {_described(source)}; rename one")
    if isinstance(source, Flow | type):
        _made(name, source)
    elif not callable(source):
        raise InvalidFlow(f"flow {name!r} is registered as {source!r}; expected a class of flows, a flow, or a function that makes one")
    _sources[name] = source
    return source


def _made(name: str, source: Any) -> Flow:
    try:
        flow = copy.copy(source) if not isinstance(source, type) and isinstance(source, Flow) else source()
    except TypeError as error:
        raise InvalidFlow(f"flow {name!r} cannot be made from {_described(source)}: {error}; register a function that makes it") from error
    if not isinstance(flow, Flow):
        raise InvalidFlow(f"flow {name!r}: {_described(source)} gives a {type(flow).__name__}; expected a Flow")
    flow.name = name
    plain = source is type(flow)
    if not (plain and source.is_checked()):
        flow.check_definition()
        if plain:
            source.mark_checked()
    return flow


def _load_shipped_as(name: str) -> None:
    """Import the shipped module of this name alone: a worker that plays one flow need not load them all."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(f"{_LIBRARY}.{module}"):
        _try(f"{_LIBRARY}.{module}", partial(importlib.import_module, f"{_LIBRARY}.{module}"))


def _load_all() -> None:
    library = importlib.import_module(_LIBRARY)
    for found in pkgutil.iter_modules(library.__path__, f"{_LIBRARY}."):
        _try(found.name, partial(importlib.import_module, found.name))
    for entry in _entry_points(tuple(sys.path)):
        _try(f"entry point {entry.name} = {entry.value}", partial(_load_entry, entry))
    _load_files(shipped=True)  # after all modules: these register what files name
    _load_files(shipped=False)


@cache
def _entry_points(_path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """Those of the packages on the path: all their metadata is read, which takes longer than all else here."""
    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def _load_files(shipped: bool) -> None:
    for path in _directories.files(shipped):
        _try(f"file {shown_path(path)}", partial(_keep_file, path))


def _keep_file(path: Path, again: bool = False) -> WrittenFlow:
    written = _directories.read(path, again)
    _keep(written.name, written)
    return written


def _load_entry(entry: importlib.metadata.EntryPoint) -> None:
    loaded = entry.load()
    if isinstance(loaded, Flow) or callable(loaded):  # else a module, which has registered its flows itself
        _keep(entry.name, loaded)


def _try(what: str, load: Callable[[], Any]) -> None:
    """One package that cannot be loaded takes no other flow away; ``make`` and ``load_failures`` tell of it."""
    try:
        load()
    except Exception as error:
        _failures[what] = f"{type(error).__name__}: {error}"
    else:
        _failures.pop(what, None)


def _is_shipped(source: Any) -> bool:
    if isinstance(source, WrittenFlow):
        return source.shipped
    return str(getattr(source, "__module__", "")).startswith(f"{_LIBRARY}.")


def _origin(source: Any) -> object:
    """Where a class or function is written: the same after a reload, or when its module is also run as a script."""
    if isinstance(source, WrittenFlow):
        return source.path
    if isinstance(source, Flow):
        return id(source)
    module = getattr(source, "__module__", "")
    return getattr(sys.modules.get(module), "__file__", None) or module, getattr(source, "__qualname__", repr(source))


def _described(source: Any) -> str:
    if isinstance(source, WrittenFlow):
        return str(source)
    subject = type(source) if isinstance(source, Flow) else source
    return f"{getattr(subject, '__module__', '?')}.{getattr(subject, '__qualname__', repr(subject))}"
