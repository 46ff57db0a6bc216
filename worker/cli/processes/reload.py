"""The worker of ``up --reload``: it is restarted when a file that defines flows changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import click

from perdure.worker.cli.exit_codes import Failed
from perdure.worker.cli.processes.child import ChildProcess, SupervisedChild

#: Maximum number of changed files that a message names.
MOST_NAMED = 3


class FlowSources:
    """The source files of a project's flows, with their modification times and sizes.

    They are the Python files of the flow modules and of their packages, and the flows in YAML. If a
    flow module is a file in the working directory, all Python files in that directory are source
    files too.

    Args:
        modules: The setting ``flow_modules``.
        directories: Directories with flows in YAML.
        path: Directories in which to search modules, after the working directory.
    """

    def __init__(
        self, modules: Iterable[str], directories: Iterable[Path], path: Sequence[str]
    ) -> None:
        self._modules = sorted({module.partition(".")[0] for module in modules})
        self._directories = list(directories)
        self._path = [os.getcwd(), *path]
        self._known = self._times()

    def changed(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last call.

        The first call compares with the time when the object was made.
        """
        before, self._known = self._known, self._times()
        return sorted(
            path
            for path in before.keys() | self._known.keys()
            if before.get(path) != self._known.get(path)
        )

    def _times(self) -> dict[Path, tuple[int, int]]:
        times: dict[Path, tuple[int, int]] = {}
        for path in self._files():
            try:
                status = path.stat()
            except OSError:  # It was removed meanwhile.
                continue
            times[path] = status.st_mtime_ns, status.st_size
        return times

    def _files(self) -> Iterator[Path]:
        for module in self._modules:
            spec = PathFinder.find_spec(module, self._path)
            if spec is None:
                continue
            for place in spec.submodule_search_locations or ():
                yield from Path(place).rglob("*.py")
            if spec.submodule_search_locations is None and spec.origin is not None:
                file = Path(spec.origin).resolve()
                yield file
                if file.parent == Path.cwd():
                    yield from file.parent.glob("*.py")
        for directory in self._directories:
            yield from directory.glob("*.yaml")
            yield from directory.glob("*.yml")


class ReloadedWorker(SupervisedChild):
    """A supervised worker that is also restarted when its flows change.

    The worker finishes its rounds in flight before such a restart. If the worker cannot run, it is
    started again only after the next change.
    """

    def __init__(self, child: ChildProcess, note: str, sources: FlowSources) -> None:
        super().__init__("worker", child, note)
        self._sources = sources
        self._waits_for_change = False

    def restart_if_ended(self) -> None:
        """Restart the worker if its flows changed or its process ended.

        This raises no Failed, unlike the method of the base class. The error is printed instead,
        and the worker is not started until a file changes.
        """
        changed = self._sources.changed()
        if changed:
            names = ", ".join(path.name for path in changed[:MOST_NAMED])
            more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
            click.echo(f"{names}{more} changed; restarting the worker", err=True)
            self.child.leave()
            self.child.restart()
            self._restarts.began()
            self._waits_for_change = False
        elif not self._waits_for_change:
            try:
                super().restart_if_ended()
            except Failed as error:
                self._waits_for_change = True
                click.echo(f"{error}. It is started again when a file changes", err=True)
