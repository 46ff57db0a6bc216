"""The server and Prometheus of docker-compose.yml, without Docker: their exact commands and checks,
as processes of this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from perdure.worker.settings import Settings
from tests.support import kustomize
from tests.support.command_line import ROOT
from tests.support.docker_compose import COMPOSE, SERVICES, Container, program
from tests.support.ports import free_port
from tests.support.redis_servers import until

pytestmark = pytest.mark.slow


def get(url: str, token: str = "") -> tuple[int, str]:
    """Return the status and body of an answer; 0 without an answer."""
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def has_one_result(url: str) -> bool:
    """Return whether a query of Prometheus has one result.

    It refuses queries for a while after its start.
    """
    status, text = get(url)
    return status == 200 and len(json.loads(text)["data"]["result"]) == 1


def exec_in(container: Container, *words: str) -> str:
    """Run ``docker compose exec`` and a command; return its output."""
    done = subprocess.run(
        program(list(words)),
        cwd=container.directory,
        env=container.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def running(
    name: str, directory: Path, settings: Settings, **elsewhere: str
) -> Iterator[Container]:
    assert settings.redis_url is not None
    started = Container(name, directory, settings.redis_url, settings.prefix, elsewhere)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "my_flows.py").touch()
    return tmp_path


@contextmanager
def server_at(port: int, directory: Path, settings: Settings) -> Iterator[Container]:
    """Start the server with its command.

    A container has a separate network, so there it may listen on all addresses, and always at one
    port.
    """
    command = SERVICES["server"]["command"]
    assert command == ["server", "--host", "0.0.0.0"] and SERVICES["server"]["ports"] == [
        "127.0.0.1:8787:8787"
    ]
    with running(
        "server",
        directory,
        settings,
        **{"0.0.0.0": f"127.0.0.1\0--port\0{port}", "8787": str(port)},
    ) as started:
        yield started


def test_the_server_waits_for_its_first_token_and_then_lets_in_who_has_it(
    directory: Path, settings: Settings
) -> None:
    with running("server", directory, settings) as refused:
        assert refused.process.wait(30) == 2, "the restart policy tries it again"
        assert "perdure token create" in refused.log.read_text("utf-8")
    with running("controller", directory, settings) as controller:
        token = exec_in(controller, "perdure", "token", "create", "me", "--scope", "admin")
    port = free_port()
    with server_at(port, directory, settings) as server:
        until(server.healthy, "a healthy server")
        assert get(f"http://127.0.0.1:{port}/api/v1/runs")[0] == 401
        assert get(f"http://127.0.0.1:{port}/api/v1/runs", token)[0] == 200
        assert get(f"http://127.0.0.1:{port}/api/v1/ready")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert not server.healthy()


def test_prometheus_scrapes_the_server_and_knows_what_keda_will_ask_it(
    directory: Path, settings: Settings
) -> None:
    binary = shutil.which("prometheus")
    if binary is None and "CI" not in os.environ:
        pytest.skip("this machine has no prometheus")
    port, own_port, service = free_port(), free_port(), SERVICES["prometheus"]
    with running("controller", directory, settings) as controller:
        secret = directory / "secret"
        for scope in ("admin", "read"):
            secret.write_text(
                exec_in(
                    controller,
                    "perdure",
                    "token",
                    "create",
                    f"prometheus-{scope}",
                    "--scope",
                    scope,
                )
            )
    mounts = dict(volume.split(":")[:2][::-1] for volume in service["volumes"])
    assert (
        service["secrets"] == list(COMPOSE["secrets"]) == ["prometheus_token"]
        and mounts["/etc/prometheus"] == "./config/prometheus"
    )
    mounted = directory / "prometheus"
    shutil.copytree(ROOT / mounts["/etc/prometheus"], mounted)
    configuration = (mounted / "prometheus.yml").read_text("utf-8")
    for there, here in (
        ("server:8787", f"127.0.0.1:{port}"),
        ("/run/secrets/prometheus_token", str(secret)),
        ("15s", "1s"),
    ):
        assert there in configuration
        configuration = configuration.replace(there, here)
    (mounted / "prometheus.yml").write_text(configuration)
    words = [
        word.replace("/etc/prometheus", str(mounted)).replace("=/prometheus", f"={directory}/data")
        for word in service["command"]
    ]
    command = [str(binary), *words, f"--web.listen-address=127.0.0.1:{own_port}"]
    with server_at(port, directory, settings) as server:
        until(server.healthy, "a healthy server")
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as prometheus:
            try:
                check = service["healthcheck"]["test"][-1].replace(":9090", f":{own_port}")
                until(lambda: get(check)[0] == 200, "a healthy Prometheus")
                for query in ('up{job="perdure"} == 1', *keda_queries()):
                    url = f"http://127.0.0.1:{own_port}/api/v1/query?query={quote(query)}"
                    until(partial(has_one_result, url), f"an answer to {query}")
                rules = json.loads(get(f"http://127.0.0.1:{own_port}/api/v1/rules")[1])["data"][
                    "groups"
                ]
                assert [group["name"] for group in rules] == ["perdure"]
                prometheus.terminate()
                assert prometheus.wait(30) == 0
            finally:
                prometheus.kill()


def keda_queries() -> list[str]:
    """Return the queries to Prometheus by which config/kubernetes/ scales."""
    scalers = [
        each
        for each in kustomize.build(ROOT / "config/kubernetes/overlays/scaled")
        if each["kind"] == "ScaledObject"
    ]
    return [
        trigger["metadata"]["query"]
        for each in scalers
        for trigger in each["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    ]
