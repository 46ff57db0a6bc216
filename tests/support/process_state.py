"""A block of this process that begins like a new process, and leaves no trace.

A command that runs in it sees the environment and the directory that it is given. It knows the
flows that a new process knows, and the flow modules that it imports are its own.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import click

from perdure.flows.commands.command import registered_commands
from perdure.flows.commands.controller import registered_controllers
from perdure.flows.controllers.model import stand_ins
from perdure.flows.core import secrets
from perdure.flows.core.names import registered_nodes
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.flows.rings.circular import _interfaces
from perdure.flows.rounds import registry
from perdure.flows.rounds.lifespans import registered_lifespans
from perdure.worker import settings

#: Registries of the names in flows, beside that of the flows.
NAMES = (
    registered_commands,
    registered_controllers,
    registered_lifespans,
    registered_nodes,
    _interfaces,
)
#: Where the modules of Python and of installed packages are.
INSTALLED = tuple({str(path) for path in sysconfig.get_paths().values()})
#: The search path of modules before a test has added to it.
SEARCH_PATH = tuple(path for path in sys.path if path)
BUILTIN_TASKS = "celery.app.builtins"
#: Signals for which a command may set a handler.
SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def _shipped(definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in definitions.items() if registry._is_shipped(each)}


#: Flows that come with Perdure. A module registers its flows only once, so it is imported here.
registry.registered()
SHIPPED = _shipped(registry._definitions)
#: The files of flows in YAML that have been read.
SHIPPED_FILES: dict[Path, Any] = {}


@contextmanager
def like_a_new_process(directory: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run the block with this working directory and this environment, as a new process would.

    Other threads see the same environment and directory meanwhile, but keep their flows.
    """
    with ExitStack() as parts:
        parts.enter_context(patch.dict(os.environ, environment, clear=True))
        parts.enter_context(contextlib.chdir(directory))
        parts.enter_context(patch.object(sys, "path", list(SEARCH_PATH)))
        for part in PARTS:
            parts.enter_context(part())
        yield


@contextmanager
def _own_celery() -> Iterator[None]:
    """Give the block no current Celery app, and forget the tasks and receivers that it adds."""
    if "celery" not in sys.modules:
        yield
        return
    from celery import _state, signals
    from celery.utils.dispatch import Signal

    own = [each for each in vars(signals).values() if isinstance(each, Signal)]
    receivers = [each.receivers[:] for each in own]
    # The finalizers that add tasks to each app: Celery's, and the finalizers of tasks that all apps
    # share.
    tasks = {each for each in _state._on_app_finalizers if each.__module__ == BUILTIN_TASKS}
    with (
        patch.object(_state, "default_app", None),
        patch.object(_state._tls, "current_app", None),
        patch.object(_state, "_on_app_finalizers", tasks),
    ):
        try:
            yield
        finally:
            for each, before in zip(own, receivers, strict=True):
                each.receivers[:] = before
                each.sender_receivers_cache.clear()


@contextmanager
def _own_modules() -> Iterator[None]:
    """Hide the modules that are not installed, so that the block imports its own."""
    importlib.invalidate_caches()
    hidden, thread, load_modules = _not_installed(), threading.get_ident(), registry.load_modules

    def load_unknown(modules: Iterable[str]) -> None:
        """Import the modules, but in another thread skip its earlier imports."""
        is_own = threading.get_ident() == thread
        load_modules(module for module in modules if is_own or module not in hidden)

    for name in hidden:
        del sys.modules[name]
    try:
        with patch.object(registry, "load_modules", load_unknown):
            yield
    finally:
        for name in _not_installed():
            del sys.modules[name]
        sys.modules.update(hidden)


def _not_installed() -> dict[str, ModuleType]:
    """Return the loaded modules that are not of Python, an installed package or Perdure."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if not _is_installed(name.partition(".")[0], getattr(module, "__file__", None))
    }


def _is_installed(package: str, file: str | None) -> bool:
    if package in ("__main__", "__mp_main__", "perdure"):
        return True
    return package != "tests" and (file is None or file.startswith(INSTALLED))


@contextmanager
def _own_flows() -> Iterator[None]:
    """Set up this thread with the flows that come with Perdure, and with settings that are read
    again.

    Other threads, such as that of a server, keep the flows that they have.
    """
    definitions, directories = dict(SHIPPED), Directories()
    directories._read = dict(SHIPPED_FILES)
    owns: list[tuple[Any, str, Any]] = [
        (registry, "_definitions", definitions),
        (sources, "_directories", directories),
        (registry, "_failures", {}),
        (stand_ins, "_openers", {}),
        (stand_ins, "_in_use", []),
        (secrets, "_looked_up", set()),
        *((names, "_things", _of_perdure(names._things)) for names in NAMES),
    ]
    before = [getattr(owner, name) for owner, name, _ in owns]
    for (owner, name, own), others in zip(owns, before, strict=True):
        setattr(owner, name, _ByThread(own, others))
    settings.current.cache_clear()
    try:
        yield
    finally:
        settings.current.cache_clear()
        for (owner, name, _), others in zip(owns, before, strict=True):
            setattr(owner, name, others)
        # The registrations of Perdure's own modules stay: they are imported once.
        for owner, name, own in owns:
            if name == "_things":
                getattr(owner, name).update(_of_perdure(own))
        SHIPPED.update(_shipped(definitions))
        SHIPPED_FILES.update(
            {path: flow for path, flow in directories._read.items() if flow.shipped}
        )


def _of_perdure(things: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: thing
        for name, thing in things.items()
        if str(getattr(thing, "__module__", "")).startswith("perdure.")
    }


class _ByThread:
    """A collection that is one thing for the thread that makes it, and another for all others."""

    def __init__(self, own: Any, others: Any) -> None:
        self._own, self._others, self._thread = own, others, threading.get_ident()

    def _one(self) -> Any:
        return self._own if threading.get_ident() == self._thread else self._others

    def __getattr__(self, name: str) -> Any:
        return getattr(self._one(), name)

    def __contains__(self, key: object) -> bool:
        return key in self._one()

    def __getitem__(self, key: Any) -> Any:
        return self._one()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._one()[key] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._one())

    def __len__(self) -> int:
        return len(self._one())


@contextmanager
def _own_logging() -> Iterator[None]:
    """Make warnings print on stderr, as in a process that sets up no logging."""
    root = logging.getLogger()
    ours = [root, *(logging.getLogger(name) for name in _loggers() if name.startswith("perdure"))]
    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in ours]
    root.handlers = []
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, handlers, level, propagates in before:
            logger.handlers, logger.propagate = handlers, propagates
            logger.setLevel(level)


def _loggers() -> list[str]:
    return list(logging.getLogger().manager.loggerDict)


@contextmanager
def _own_warnings() -> Iterator[None]:
    """Print warnings on stderr, but not of the kinds that Python hides."""
    hidden = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)

    def show(message: Any, kind: Any, file: str, line: int, *_: Any) -> None:
        sys.stderr.write(warnings.formatwarning(message, kind, file, line))

    with warnings.catch_warnings(), patch.object(warnings, "showwarning", show):
        warnings.resetwarnings()
        for category in hidden:
            warnings.simplefilter("ignore", category)
        yield


@contextmanager
def _own_signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _help_options() -> Iterator[None]:
    """Forget the help option of each command.

    click makes it once, with the names of the first context. A test that looked at a command
    without the group above it has left ``--help`` alone, without ``-h``.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("perdure.worker.cli."):
            for each in list(vars(module).values()):
                if isinstance(each, click.Command):
                    each._help_option = None
    yield


#: The state of a process, beside its environment, directory and search path.
PARTS = (
    _help_options,
    _own_celery,
    _own_flows,
    _own_modules,
    _own_logging,
    _own_warnings,
    _own_signals,
)
