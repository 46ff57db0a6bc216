"""A real container runtime for tests: Podman with a separate store and image.

Two things of small virtual machines are evened out. Their root may lack CAP_SYS_RESOURCE, so the
limits of a container are low. They may have cgroups of both versions, which crun refuses, so each
call of Podman has a mount namespace without version 2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: The image of all tests: busybox and nothing else.
IMAGE = "localhost/perdure-test:1"
_WRAPPER = """#!/bin/sh
export CONTAINERS_CONF={directory}/containers.conf
exec unshare --mount /bin/sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null
exec {podman} --root {directory}/store --runroot {directory}/run --storage-driver vfs \\
  --cgroup-manager cgroupfs "$@"' podman "$@"
"""
_LIMITS = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""


class NoContainers(RuntimeError):
    """This machine cannot start containers."""


def podman_with_image(directory: Path) -> Path:
    """Make a directory with a program ``podman`` that has the image, to be put in front of PATH.

    Raises:
        NoContainers: Podman or busybox is not installed, or a container cannot be started.
    """
    podman, busybox = shutil.which("podman"), shutil.which("busybox")
    if podman is None or busybox is None or shutil.which("unshare") is None or os.getuid() != 0:
        raise NoContainers("expected root, podman, busybox (static) and unshare")
    programs = directory / "bin"
    programs.mkdir()
    (directory / "containers.conf").write_text(_LIMITS)
    wrapper = programs / "podman"
    wrapper.write_text(_WRAPPER.format(directory=directory, podman=podman))
    wrapper.chmod(0o755)
    root = directory / "root"
    for name in ("bin", "tmp", "workspace"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    for name in _output(busybox, "--list").split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    _output("sh", "-c", f"tar -C {root} -c . | {wrapper} import - {IMAGE}")
    _output(wrapper, "run", "--rm", "--network", "none", IMAGE, "/bin/true")
    return programs


@contextmanager
def podman_in_path() -> Iterator[Path]:
    """Put a Podman with the image in front of PATH. Skip the test if this machine has none."""
    # Podman refuses a path of more than 50 characters, which pytest's directories have.
    with tempfile.TemporaryDirectory(prefix="podman-", dir="/tmp") as directory:
        try:
            programs = podman_with_image(Path(directory))
        except NoContainers as error:
            pytest.skip(str(error))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
            yield programs


def containers(programs: Path) -> list[str]:
    """Return the names of all containers of the runtime in this directory."""
    return _output(programs / "podman", "ps", "--all", "--format", "{{.Names}}").split()


def _output(*line: str | Path) -> str:
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise NoContainers(f"{line[0]} cannot start containers here: {done.stderr.strip()}")
    return done.stdout
