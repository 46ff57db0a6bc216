"""config/kubernetes/: values that a cluster would refuse, or take and ignore, are found without
one.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from perdure.worker.cli.main import Commands
from perdure.worker.settings import load_settings
from perdure.worker.store.keys import ROLES, Keys
from tests.support import kustomize
from tests.support.kubernetes_resources import (
    HERE,
    ROOT,
    containers,
    of_kind,
    pods,
    scaled,
    workloads,
)
from tests.support.kustomize import Resource

__all__ = ["scaled"]

DEFINITIONS = Path(kustomize.__file__).parent / "keda"
OVERLAYS = ("overlays/example", "overlays/scaled")
#: The newest release that is known here, and the oldest whose pods can wait in preStop without a
#: shell.
RELEASES = ("newest", pytest.param("1.30", marks=pytest.mark.slow))
NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"


@pytest.fixture(params=OVERLAYS, scope="module")
def resources(request: pytest.FixtureRequest) -> list[Resource]:
    return kustomize.build(HERE / request.param)


def named(container: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the variables whose values are taken from elsewhere."""
    return [variable for variable in container.get("env", ()) if "valueFrom" in variable]


def chosen(resources: list[Resource], selector: dict[str, Any]) -> set[str]:
    """Return the workloads whose pods a selector chooses."""

    def fits(labels: dict[str, str]) -> bool:
        expressions = selector.get("matchExpressions", ())
        assert all(each["operator"] == "In" for each in expressions)
        wanted = selector.get("matchLabels", {}).items()
        return wanted <= labels.items() and all(
            labels.get(each["key"]) in each["values"] for each in expressions
        )

    return {name for name, pod in pods(resources).items() if fits(pod["metadata"]["labels"])}


def strict(schema: Any) -> Any:
    """Return the schema without unknown fields, as Kubernetes itself prunes or refuses them."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if (
        isinstance(made.get("properties"), dict)
        and "additionalProperties" not in made
        and not made.get("x-kubernetes-preserve-unknown-fields")
    ):
        made["additionalProperties"] = False
    return made


def keda_schemas() -> dict[str, Any]:
    definitions = [yaml.safe_load(path.read_text("utf-8")) for path in DEFINITIONS.glob("*.yaml")]
    found = {}
    for each in definitions:
        [version] = each["spec"]["versions"]
        schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"]["x-kubernetes-preserve-unknown-fields"] = True
        assert (each["spec"]["group"], version["name"]) == ("keda.sh", "v1alpha1")
        found[each["spec"]["names"]["kind"]] = strict(schema)
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_every_resource_keeps_the_schema_of_its_kind(scaled: list[Resource], release: str) -> None:
    import jsonschema
    import kubernetes_validate

    if release == "newest":
        release = kubernetes_validate.latest_version().rpartition(".")[0]
    theirs = keda_schemas()
    seen = set()
    for each in scaled:
        if each["apiVersion"] == "keda.sh/v1alpha1":
            jsonschema.Draft202012Validator(theirs[each["kind"]]).validate(each)
            seen.add(each["kind"])
        else:
            kubernetes_validate.validate(each, release, strict=True)
    assert seen == set(theirs)


def test_every_manifest_is_part_of_an_overlay(scaled: list[Resource]) -> None:
    written = [path for path in HERE.rglob("*.yaml") if path.name != "kustomization.yaml"]
    assert len(scaled) == sum(
        1 for path in written for each in yaml.safe_load_all(path.read_text("utf-8")) if each
    )


def test_what_a_pod_names_is_there(resources: list[Resource]) -> None:
    secrets = {
        name: {*each.get("stringData", {}), *each.get("data", {})}
        for name, each in of_kind(resources, "Secret").items()
    }
    for name, container in containers(resources):
        for source in container.get("envFrom", ()):
            assert source["configMapRef"]["name"] in of_kind(resources, "ConfigMap"), name
        for variable in named(container):
            key = variable["valueFrom"]["secretKeyRef"]
            assert key["key"] in secrets[key["name"]], name
        volumes = {each["name"] for each in pods(resources)[name]["spec"].get("volumes", ())}
        claims = {
            each["metadata"]["name"]
            for each in workloads(resources)[name]["spec"].get("volumeClaimTemplates", ())
        }
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes | claims, name
        ports = {port["name"] for port in container.get("ports", ())}
        probes = [
            container[kind]
            for kind in ("startupProbe", "readinessProbe", "livenessProbe")
            if kind in container
        ]
        assert {probe["httpGet"]["port"] for probe in probes if "httpGet" in probe} <= ports, name
    accounts = {pod["spec"].get("serviceAccountName") for pod in pods(resources).values()} - {None}
    assert accounts == set(of_kind(resources, "ServiceAccount"))


def test_every_selector_chooses_the_pods_it_is_for(resources: list[Resource]) -> None:
    every = set(workloads(resources))
    for name, each in workloads(resources).items():
        assert chosen(resources, each["spec"]["selector"]) == {name}
        for spread in each["spec"]["template"]["spec"].get("topologySpreadConstraints", ()):
            assert chosen(resources, spread["labelSelector"]) == {name}
    for name, each in of_kind(resources, "PodDisruptionBudget").items():
        assert chosen(resources, each["spec"]["selector"]) == {name}
        assert each["spec"]["maxUnavailable"] == 1, (
            "a budget that one pod cannot keep stops the draining of nodes"
        )
    for name, each in of_kind(resources, "Service").items():
        assert chosen(resources, {"matchLabels": each["spec"]["selector"]}) == {name}
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= _ports(resources, name)
    workers = {f"perdure-{role}" for role in ROLES}
    reached = {
        name: chosen(resources, each["spec"]["podSelector"])
        for name, each in of_kind(resources, "NetworkPolicy").items()
    }
    assert reached == {
        "perdure-workers": workers,
        "perdure-server": {"perdure-server"},
        "perdure-calls": every - {"perdure-valkey"},
        "perdure-valkey": {"perdure-valkey"},
    }
    for name in ("perdure-server", "perdure-valkey"):
        [rule] = of_kind(resources, "NetworkPolicy")[name]["spec"]["ingress"]
        assert {port["port"] for port in rule["ports"]} == _ports(resources, name)
    assert of_kind(resources, "NetworkPolicy")["perdure-workers"]["spec"].get("ingress") is None
    [theirs] = [each["podSelector"] for each in rule["from"] if "podSelector" in each]
    assert chosen(resources, theirs) == every - {"perdure-valkey"}


def _ports(resources: list[Resource], workload: str) -> set[str]:
    return {
        port["name"]
        for name, container in containers(resources)
        for port in container.get("ports", ())
        if name == workload
    }


def test_no_pod_has_more_rights_than_it_needs(resources: list[Resource]) -> None:
    assert (
        of_kind(resources, "Namespace")["perdure"]["metadata"]["labels"][
            "pod-security.kubernetes.io/enforce"
        ]
        == "restricted"
    )
    for name, pod in pods(resources).items():
        spec = pod["spec"]
        assert (
            spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
        ), name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        for container in spec["containers"]:
            rights = {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["securityContext"] == rights, name
            assert (
                container["resources"]["limits"]["memory"] and container["resources"]["requests"]
            ), name
    [uid] = re.findall(r"(?m)^USER (\d+)$", (ROOT / "Dockerfile").read_text("utf-8"))
    ours = [
        pod["spec"]["securityContext"]
        for pod in pods(resources).values()
        if pod["metadata"]["labels"][NAME] == "perdure"
    ]
    assert {context["runAsUser"] for context in ours} == {int(uid)} and len(ours) == 3


def test_the_settings_of_a_pod_are_known_and_no_service_adds_to_them(
    resources: list[Resource], monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = of_kind(resources, "Secret")
    for name, container in containers(resources):
        assert pods(resources)[name]["spec"]["enableServiceLinks"] is False, (
            "a Service named perdure-x would be a setting PERDURE_X_PORT"
        )
        for source in container.get("envFrom", ()):
            for key, value in of_kind(resources, "ConfigMap")[source["configMapRef"]["name"]][
                "data"
            ].items():
                monkeypatch.setenv(key, value)
        for variable in named(container):
            key = variable["valueFrom"]["secretKeyRef"]
            monkeypatch.setenv(variable["name"], secrets[key["name"]]["stringData"][key["key"]])
    settings = load_settings()
    assert settings.redis_url is not None and urlsplit(settings.redis_url).hostname in of_kind(
        resources, "Service"
    )
    assert settings.log_format == "json"


def test_every_command_of_a_pod_is_one_of_the_command_line(resources: list[Resource]) -> None:

    group = Commands("perdure")
    seen = set()
    for _, container in containers(resources):
        probes = [
            container[kind]["exec"]["command"]
            for kind in ("readinessProbe", "livenessProbe")
            if "exec" in container.get(kind, ())
        ]
        calls = [container["args"]] if "command" not in container else []
        for words in probes:
            calls += (
                [words[1:]]
                if words[0] == "perdure"
                else [words[2].partition(";")[0].split()[1:]]
                if words[0] == "sh"
                else []
            )
        for name, *arguments in calls:
            command = group.get_command(None, name)  # type: ignore[arg-type]
            assert command is not None, name
            command.make_context(name, list(arguments))  # understands them, or fails
            seen.add((name, *arguments))
    assert {("worker", "--role", role) for role in ROLES} <= seen and ("workers", "--alive") in seen


def test_controllers_and_executors_differ_in_their_role_alone(scaled: list[Resource]) -> None:
    for kind in ("Deployment", "PodDisruptionBudget"):
        one, other = (yaml.safe_dump(of_kind(scaled, kind)[f"perdure-{role}"]) for role in ROLES)
        assert one.replace("controller", "executor") == other


def test_workers_are_scaled_by_the_queue_they_take_from_and_by_their_rounds_in_flight(
    scaled: list[Resource],
) -> None:
    settings = of_kind(scaled, "ConfigMap")["perdure"]["data"]
    secret = of_kind(scaled, "Secret")["perdure-redis"]["stringData"]
    slots, url = int(settings["PERDURE_CONCURRENCY"]), urlsplit(secret["url"])
    assert (
        secret["address"]
        == f"{url.hostname}.{of_kind(scaled, 'Secret')['perdure-redis']['metadata']['namespace']}.svc:{url.port}"
    )
    [login] = of_kind(scaled, "TriggerAuthentication").values()
    assert {(each["name"], each["key"]) for each in login["spec"]["secretTargetRef"]} <= {
        ("perdure-redis", key) for key in secret
    }
    for role in ROLES:
        spec = of_kind(scaled, "ScaledObject")[f"perdure-{role}"]["spec"]
        target = workloads(scaled)[spec["scaleTargetRef"]["name"]]
        assert target["spec"]["template"]["metadata"]["labels"][COMPONENT] == role
        assert "replicas" not in target["spec"], "applied again, it would set back what KEDA chose"
        assert 1 <= spec["minReplicaCount"] < spec["maxReplicaCount"], (
            "with no worker at all nothing is swept"
        )
        waiting, all_waiting, flying = spec["triggers"]
        assert (
            waiting["type"] == "redis"
            and waiting["authenticationRef"]["name"] == login["metadata"]["name"]
        )
        assert waiting["metadata"] == {
            "listName": Keys(settings["PERDURE_PREFIX"]).queue(role),
            "listLength": str(slots),
            "databaseIndex": url.path.strip("/"),
        }
        assert (
            all_waiting["type"] == "prometheus"
            and float(all_waiting["metadata"]["threshold"]) == slots
        )
        assert all_waiting["metadata"]["query"] == f'max(perdure_queue_messages{{queue="{role}"}})'
        assert (
            flying["type"] == "prometheus"
            and float(flying["metadata"]["threshold"]) == 0.75 * slots
        )
        assert flying["metadata"]["query"] == f'max(perdure_rounds_in_flight{{role="{role}"}})'


def test_the_example_server_is_set_up_as_the_one_that_ships(resources: list[Resource]) -> None:
    [container] = pods(resources)["perdure-valkey"]["spec"]["containers"]
    words = container["args"]
    given = {
        name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }
    lines = [
        line.split(maxsplit=1)
        for line in (ROOT / "config" / "redis.conf").read_text("utf-8").splitlines()
        if line[:1] not in ("", "#")
    ]
    shipped = {name: value.strip('"') for name, value in lines}
    [mount] = container["volumeMounts"]
    here = {"dir": mount["mountPath"], "bind": "* -::*", "protected-mode": "no"}
    assert given == {**shipped, **here}
    assert (given["maxmemory"], container["resources"]["limits"]["memory"]) == ("2gb", "3Gi"), (
        "a container that is smaller is killed before its server is full"
    )
