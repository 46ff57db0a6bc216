"""The output of ``kubectl kustomize`` for a directory, with the features that config/kubernetes/
needs: for machines without kubectl.

Anything that this does not know is an error, so that nothing is overlooked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]
KNOWN = {"apiVersion", "kind", "namespace", "resources", "components", "images", "patches"}
KINDS = {
    "kustomize.config.k8s.io/v1beta1": "Kustomization",
    "kustomize.config.k8s.io/v1alpha1": "Component",
}
#: Kinds that are in no namespace.
GLOBAL = ("Namespace",)


def build(directory: Path) -> list[Resource]:
    """Build the resources of a kustomization.

    Raises:
        FileNotFoundError: it names a missing file. ValueError: it holds an unknown field, or a name
            twice.
    """
    return _build(directory, [])


def _build(directory: Path, into: list[Resource]) -> list[Resource]:
    given = yaml.safe_load((directory / "kustomization.yaml").read_text("utf-8"))
    unknown = set(given) - KNOWN
    if unknown or KINDS[given["apiVersion"]] != given["kind"]:
        raise ValueError(f"{directory}: {unknown or given['kind']}")
    for name in given.get("resources", ()):
        path = directory / name
        into += (
            build(path)
            if path.is_dir()
            else [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]
        )
    for name in given.get("components", ()):
        _build(directory / name, into)
    for patch in given.get("patches", ()):
        _patch(patch, into)
    for each in into:
        if "namespace" in given and each["kind"] not in GLOBAL:
            each["metadata"]["namespace"] = given["namespace"]
        for image in given.get("images", ()):
            _rename(image, each)
    names = [(each["kind"], each["metadata"]["name"]) for each in into]
    if len(set(names)) != len(names):
        raise ValueError(f"{directory}: a name twice among {names}")
    return into


def _patch(patch: dict[str, Any], resources: list[Resource]) -> None:
    """Apply a patch; only ``remove`` is known."""
    target = patch["target"]
    hit = [
        each
        for each in resources
        if each["kind"] == target["kind"] and re.fullmatch(target["name"], each["metadata"]["name"])
    ]
    if not hit:
        raise ValueError(f"nothing to patch: {target}")
    for each in hit:
        for operation in yaml.safe_load(patch["patch"]):
            if operation["op"] != "remove":
                raise ValueError(f"unknown: {operation}")
            *way, last = operation["path"].strip("/").split("/")
            place = each
            for part in way:
                place = place[part]
            del place[last]


def _rename(image: dict[str, str], resource: Resource) -> None:
    for container in (
        resource.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
    ):
        if container["image"].partition(":")[0] == image["name"]:
            container["image"] = f"{image['newName']}:{image['newTag']}"
