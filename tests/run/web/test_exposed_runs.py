"""Which runs clients of MCP and of OpenAI's API see: the run knows it, with and without live
workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure import CircularFlow, Node, RoundContext, register
from perdure.flows.rounds import registry
from tests.support.in_process_server import Site, site_on
from tests.support.redis_servers import CrashableServer


class Says(CircularFlow):
    """Says a word."""

    topology = (Node("Controller", "end", role="controller"),)

    def end(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {self.early_exit_key: True, "answer": "a word"}


@register("shown_to_openai")
class Shown(Says):
    """Exposed to OpenAI's clients."""

    expose = ("openai",)


@register("shown_to_mcp")
class ShownToMcp(Says):
    """Exposed to MCP's clients."""

    expose = ("mcp",)


@register("shown_to_none")
class Hidden(Says):
    """Exposed to no other client."""


@pytest.fixture(scope="module")
def own_site(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as made:
        yield made


@pytest.fixture
def site(own_site: Site) -> Iterator[Site]:
    yield own_site
    own_site.clear()


def submitted(site: Site, flow: str) -> str:
    return site.client.submit(flow, "g", submitted_by="ann").id


def seen(site: Site, run_id: str) -> tuple[int, int]:
    """Return the status of OpenAI's API for reading a run, and then for cancelling it."""
    asking = site.asking(site.token("ann", "read", "stop"))
    read = asking.get(f"/v1/responses/{run_id}").status_code
    return read, asking.post(f"/v1/responses/{run_id}/cancel").status_code


@pytest.mark.parametrize("flow", ["shown_to_none", "shown_to_mcp"])
def test_a_run_that_is_not_exposed_stays_hidden_while_its_flow_is_not_known(
    site: Site, flow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(site, flow)
    assert seen(site, run_id) == (404, 404)
    monkeypatch.delitem(registry._definitions, flow)
    assert flow not in site.client.flows()
    assert seen(site, run_id) == (404, 404)
    assert not site.client.get(run_id).status.ended


def test_a_run_that_is_exposed_stays_visible_while_its_flow_is_not_known(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(site, "shown_to_openai")
    assert site.client.get(run_id).details["exposed"] == ["openai"]
    monkeypatch.delitem(registry._definitions, "shown_to_openai")
    assert seen(site, run_id) == (200, 200)


def test_a_flow_that_is_exposed_no_longer_hides_its_older_runs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(site, "shown_to_openai")
    monkeypatch.setitem(registry._definitions, "shown_to_openai", Hidden)
    assert seen(site, run_id) == (404, 404)


def test_a_run_of_an_earlier_release_is_seen_if_its_flow_is_known_and_exposed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted(site, "shown_to_openai")
    store = site.client._store
    assert store.redis.hdel(store.keys.run(run_id), "exposed") == 1
    assert seen(site, run_id) == (200, 200)
    monkeypatch.delitem(registry._definitions, "shown_to_openai")
    assert seen(site, run_id) == (404, 404)
