"""A sandbox of Docker or Podman: each command runs in a new container.

The sandbox calls the command line of Docker or Podman, so no library has to be installed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast, get_args

from perdure.flows.core.errors import InvalidFlow, RetryableError
from perdure.flows.executors.sandbox import SandboxCommand
from perdure.flows.executors.subprocesses import ProcessEnding, run_watched

logger = logging.getLogger("perdure.flow")

#: The programs whose command line is known.
Runtime = Literal["docker", "podman"]
#: Directory inside a container where the workspace is.
WORKSPACE = "/workspace"
#: Directory inside a container for temporary files.
TEMPORARY = "/tmp"  # noqa: S108 - it is the container's own
#: Beginning of the names of all containers.
NAMED = "perdure-"
#: Seconds for a call of the runtime that starts nothing. A busy daemon answers within a few.
CALL_SECONDS = 30.0
#: If a worker is lost, any later command on its machine removes the worker's containers that are
#: this many seconds over their time limit. A live worker removes its container at once.
GRACE_SECONDS = 60
#: Exit code of ``docker run`` and ``podman run`` if they could not start a container. The program
#: inside may end with it, too.
NOT_STARTED = 125
#: Beginnings of the variables that the runtime's own program sees. A proxy's address is not among
#: them, because Podman would pass it on, with its password.
_PASSED_ON = ("CONTAINER", "DOCKER_", "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "USER", "XDG_")

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,499}")
_MEMORY = re.compile(r"[1-9][0-9]{0,15}[bkmg]?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class ContainerFailed(RetryableError):
    """Raised when a command's container could not be started. The command had no effect."""

    code = "container-failed"


@dataclass(frozen=True)
class Container:
    """A sandbox that runs each command in a new container. The container is removed at its end.

    The container sees the workspace as ``/workspace`` and nothing else of the machine. Its other
    files are the image's, and only ``/tmp`` can be written. It has no network, no capabilities and
    no way to get more rights.

    Attributes:
        image: the image, which must be on the machine. It needs ``/bin/sh`` for ``run_shell``.
        runtime: ``docker`` or ``podman``.
        network: False for none, True for the runtime's default network, or a network's name.
        memory: the most memory, like ``512m`` or ``2g``. None for no limit.
        cpus: how many processors it may use. None for no limit.
        processes: the most processes and threads.
        temporary: the size of ``/tmp``, in memory, like ``64m``.
        read_only: whether the image's files cannot be written.
        user: the user inside, as ``UID:GID`` or a name of the image. None for the worker's own, so
            that files in the workspace are the worker's.
        environment: variables for each command.
        options: further arguments of ``docker run`` or ``podman run``. They can undo the rest.

    Raises:
        InvalidFlow: a value is not valid.
    """

    image: str
    runtime: Runtime = "docker"
    network: bool | str = False
    memory: str | None = "512m"
    cpus: float | None = None
    processes: int = 256
    temporary: str = "64m"
    read_only: bool = True
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            InvalidFlow: a value is not valid.
        """
        faults = [
            ("image", self.image, "the name of an image", _fits(_IMAGE, self.image)),
            ("runtime", self.runtime, "docker or podman", self.runtime in get_args(Runtime)),
            (
                "network",
                self.network,
                "true, false or the name of a network",
                isinstance(self.network, bool) or _fits(_NETWORK, self.network),
            ),
            (
                "memory",
                self.memory,
                "a size like 512m or 2g",
                self.memory is None or _fits(_MEMORY, self.memory),
            ),
            ("temporary", self.temporary, "a size like 64m", _fits(_MEMORY, self.temporary)),
            (
                "cpus",
                self.cpus,
                "a number above 0",
                self.cpus is None or _is_number(self.cpus),
            ),
            (
                "processes",
                self.processes,
                "a whole number above 0",
                isinstance(self.processes, int) and _is_number(self.processes),
            ),
            ("user", self.user, "UID:GID or a name", self.user is None or _fits(_USER, self.user)),
            (
                "environment",
                dict(self.environment),
                "texts by name",
                all(
                    _fits(_VARIABLE, name) and isinstance(value, str)
                    for name, value in self.environment.items()
                ),
            ),
        ]
        for name, value, expected, is_valid in faults:
            if not is_valid:
                raise InvalidFlow(f"Container: {name} is {value!r}; expected {expected}")

    @property
    def missing(self) -> str | None:
        """What this machine lacks to run the container, as a sentence. None if nothing is missing.

        It names the runtime's program, the runtime's daemon or the image. It is cached for the life
        of the process.
        """
        return _missing(self.runtime, shutil.which(self.runtime), self.image)

    def run(self, command: SandboxCommand) -> ProcessEnding:
        """Run a command in a new container. Return how it ended.

        The command's time limit includes the start of the container.

        Raises:
            RoundStopped: the round was cancelled; the container was removed.
            ContainerFailed: the container could not be started.
        """
        self._remove_leftovers(command.name)
        until = 0 if command.timeout is None else int(time.time() + command.timeout) + GRACE_SECONDS
        container = f"{NAMED}{command.name}-{until}"
        ending: ProcessEnding | None = None
        with tempfile.TemporaryDirectory(prefix="perdure-") as directory:
            id_file = Path(directory) / "id"
            try:
                ending = run_watched(
                    self.command_line(command, container, id_file),
                    Path(directory),
                    _own_environment(),
                    mark=f"PERDURE_CONTAINER_{command.name}",
                    timeout=command.timeout,
                    cancelled=command.cancelled,
                    head_bytes=command.head_bytes,
                    tail_bytes=command.tail_bytes,
                    data=command.input,
                )
            finally:
                # The program of the runtime is dead, but its container is a process of the daemon.
                # A container that ended by itself is removed by the runtime (--rm).
                if ending is None or ending.exit is None:
                    self._remove([container])
            if ending.exit == NOT_STARTED and not _has_content(id_file):
                raise ContainerFailed(
                    f"{self.runtime} could not start a container of image {self.image!r}: "
                    f"{(ending.head + ending.tail).strip()[:1000]}. To see it: "
                    f"{self.runtime} run --rm {self.image} true"
                )
        return ending

    def kill(self, name: str) -> None:
        """Remove a lost worker's container, if it ran on this machine.

        ``name`` is ``SandboxCommand.name``. If the runtime does not answer, this is logged.
        """
        try:
            self._remove_leftovers(name)
        except ContainerFailed as error:
            logger.warning("%s", error)

    def command_line(self, command: SandboxCommand, container: str, id_file: Path) -> list[str]:
        """Return the command line that starts a new container.

        Args:
            container: the name of the container.
            id_file: a file that the runtime creates together with the container.
        """
        program, *arguments = command.arguments
        user = f"{os.getuid()}:{os.getgid()}" if self.user is None else self.user
        network = "none" if self.network is False else self.network
        variables = {"HOME": TEMPORARY, **self.environment, **command.environment}
        line = [self.runtime, "run", "--rm", "--name", container, "--cidfile", str(id_file)]
        line += ["--pull", "never", "--log-driver", "none", "--stop-signal", "KILL"]
        line += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", user]
        line += [] if network is True else ["--network", network]
        line += ["--pids-limit", str(self.processes)]
        line += [] if self.memory is None else ["--memory", self.memory]
        line += [] if self.memory is None else ["--memory-swap", self.memory]
        line += [] if self.cpus is None else ["--cpus", f"{self.cpus:g}"]
        line += ["--read-only"] if self.read_only else []
        line += ["--tmpfs", f"{TEMPORARY}:rw,nosuid,nodev,size={self.temporary}"]
        line += ["--mount", f"type=bind,source={_mountable(command.directory)},target={WORKSPACE}"]
        line += ["--workdir", WORKSPACE, "--entrypoint", program]
        line += [] if command.input is None else ["--interactive"]
        for name, value in variables.items():
            line += ["--env", f"{name}={value}"]
        if self.runtime == "podman":
            line += ["--http-proxy=false"]
            if self.user is None and os.getuid() != 0:
                line += ["--userns", "keep-id"]
        return [*line, *self.options, self.image, *arguments]

    def _remove_leftovers(self, name: str) -> None:
        """Remove the containers left by earlier attempts of a command, and all overdue containers.

        Args:
            name: the ``name`` of the ``SandboxCommand``.

        Raises:
            ContainerFailed: the runtime does not answer.
        """
        own, now = f"{NAMED}{name}-", time.time()
        listed = self._call("ps", "--all", "--filter", f"name={NAMED}", "--format", "{{.Names}}")
        if listed.returncode:
            raise ContainerFailed(f"{self.runtime} does not answer: {_said(listed)}")
        left = [
            container
            for container in listed.stdout.split()
            if container.startswith(own) or 0 < _until(container) < now
        ]
        if left:
            self._remove(left)

    def _remove(self, containers: Sequence[str]) -> None:
        removed = self._call("rm", "--force", "--volumes", *containers)
        if removed.returncode and "no such container" not in _said(removed).lower():
            logger.warning(
                "containers may still run: %s; remove them: %s rm --force %s",
                _said(removed),
                self.runtime,
                " ".join(containers),
            )

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _call(self.runtime, *arguments)


@lru_cache(maxsize=64)
def container_named(text: str) -> Container:
    """Return the container for ``docker:IMAGE`` or ``podman:IMAGE``.

    Raises:
        InvalidFlow: ``text`` has another form.
    """
    runtime, _, image = text.partition(":")
    if runtime not in get_args(Runtime) or not image:
        raise InvalidFlow(f"sandbox is {text!r}; expected docker:IMAGE or podman:IMAGE")
    return Container(image, cast(Runtime, runtime))


def _call(runtime: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [runtime, *arguments]
    try:
        return subprocess.run(
            line,
            env=_own_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=CALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(line, NOT_STARTED, "", str(error))


@lru_cache(maxsize=64)
def _missing(runtime: str, program: str | None, image: str) -> str | None:
    if program is None:
        return f"it runs commands in containers, and {runtime} is not installed here"
    found = _call(program, "image", "inspect", "--format", "{{.Id}}", image)
    if not found.returncode:
        return None
    listed = _call(program, "ps", "--quiet")
    if listed.returncode:
        return f"it runs commands in containers, and {runtime} does not work: {_said(listed)}"
    return (
        f"it runs commands in containers of image {image!r}, which is not on this machine "
        f"({runtime} pull {image})"
    )


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}


def _mountable(directory: Path) -> Path:
    if "," in str(directory) or '"' in str(directory):
        raise InvalidFlow(
            f"the workspace {directory} cannot be mounted in a container; "
            "choose a path without commas and quotation marks"
        )
    return directory


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


def _until(container: str) -> int:
    """Return the Unix time (seconds) after which a container is overdue, as its name says.

    Returns:
        0 if the container has no time limit, or is not one of ours.
    """
    last = container.removeprefix(NAMED).rpartition("-")[2]
    return int(last) if container.startswith(NAMED) and last.isdecimal() else 0


def _said(ended: subprocess.CompletedProcess[str]) -> str:
    return " ".join((ended.stderr or ended.stdout).split())[:500]


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_number(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    )
