"""docker-compose.yml and the Dockerfile: the rights of images and services."""

from __future__ import annotations

import re

from tests.support.command_line import ROOT
from tests.support.docker_compose import DOCKERFILE, SERVICES, instruction, seconds

WORKERS = ("controller", "executor")


def test_the_image_starts_the_worker_without_a_shell_and_without_root() -> None:
    assert instruction("ENTRYPOINT") == ["perdure"] and instruction("CMD") == ["worker"]
    users = re.findall(r"(?m)^USER (\S+)$", DOCKERFILE)
    assert users and users[-1] not in ("root", "0")
    assert re.findall(r"(?m)^STOPSIGNAL (\S+)$", DOCKERFILE) == ["SIGTERM"]
    assert len(re.findall(r"(?m)^FROM ", DOCKERFILE)) == 2
    assert all(SERVICES[name]["init"] for name in (*WORKERS, "server"))
    assert all(
        "container_name" not in SERVICES[name] and "ports" not in SERVICES[name] for name in WORKERS
    ), "--scale needs that"
    assert all(seconds(service["stop_grace_period"]) >= 10 for service in SERVICES.values())


def test_what_the_image_is_built_from_reaches_the_builder() -> None:
    copied = {
        word
        for line in re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", DOCKERFILE)
        for word in line.split()
    }
    kept = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    assert copied == kept and all((ROOT / name).exists() for name in copied)


def test_a_service_of_a_profile_needs_none_that_is_not_in_it() -> None:
    for name, service in SERVICES.items():
        for profile in service.get("profiles", [None]):
            for needed in service.get("depends_on", ()):
                assert profile in SERVICES[needed].get("profiles", [profile]), (
                    f"{name} in {profile}"
                )


def test_what_runs_beside_the_workers_is_reached_from_this_machine_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == 3 and all(port.startswith("127.0.0.1:") for port in published)
