"""The resources of config/kubernetes, by their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import kustomize
from tests.support.kustomize import Resource

ROOT = Path(__file__).parents[2]
HERE = ROOT / "config" / "kubernetes"


@pytest.fixture(scope="module")
def scaled() -> list[Resource]:
    return kustomize.build(HERE / "overlays/scaled")


def of_kind(resources: list[Resource], *kinds: str) -> dict[str, Resource]:
    """Return the resources of a kind, by name."""
    return {each["metadata"]["name"]: each for each in resources if each["kind"] in kinds}


def workloads(resources: list[Resource]) -> dict[str, Resource]:
    return of_kind(resources, "Deployment", "StatefulSet")


def pods(resources: list[Resource]) -> dict[str, Resource]:
    """Return the pod templates, by the name of the resource that makes pods of them."""
    return {name: each["spec"]["template"] for name, each in workloads(resources).items()}


def containers(resources: list[Resource]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, pod in pods(resources).items():
        for container in pod["spec"]["containers"]:
            yield name, container
