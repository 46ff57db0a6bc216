"""Trees of runs as people see them: listed, counted where they are wide, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from click.testing import CliRunner

from perdure import Client, InvalidInput, InvalidTransition, Run, RunNotFound, RunStatus, Settings
from perdure.worker.cli.main import perdure
from perdure.worker.client.remote import RemoteClient
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving

MODULES = ("tests.support.example_flows.child_runs",)


pytestmark = pytest.mark.settings(flow_modules=MODULES)


def wide(client: Client, driver: Driver) -> Run:
    """Return a parent that waits for one of 16 children; 12 have completed, and 3 failed."""
    children = [{}] * 12 + [{"fail": True}] * 3 + [{"wait": True}]
    run = client.submit("fan", "g", {"children": children, "options": {"wait": "settled"}})
    driver.play()
    return run


def command(settings: Settings, *arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and output."""
    environment = {
        "PERDURE_REDIS_URL": settings.redis_url,
        "PERDURE_PREFIX": settings.prefix,
        "PERDURE_FLOW_MODULES": ",".join(MODULES),
    }
    done = CliRunner().invoke(perdure, list(arguments), env=environment)
    return done.exit_code, done.output


def test_children_that_are_alike_are_counted_beyond_a_bound(client: Client, driver: Driver) -> None:
    tree = client.tree(wide(client, driver).id, width=2)
    listed = [child.status.value for child in tree.children]
    assert listed == ["completed"] * 2 + ["errored"] * 2 + ["running"]
    assert [(each.status, each.count) for each in tree.more] == [("completed", 10), ("errored", 1)]
    assert tree.not_read == 0


def test_a_tree_says_how_many_runs_it_has_not_read(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = wide(client, driver)
    monkeypatch.setattr("perdure.worker.operations.tree.MOST_READ", 5)
    tree = client.tree(run.id)
    assert (len(tree.children), tree.more, tree.not_read) == (5, [], 11)


def test_a_tree_over_http_is_the_same(client: Client, driver: Driver, settings: Settings) -> None:
    run = wide(client, driver)
    with serving(settings) as url, closing(RemoteClient(url)) as remote:
        assert remote.tree(run.id, width=3) == client.tree(run.id, width=3)
        assert [each.id for each in remote.runs(parent=run.id, status="errored")] == [
            each.id for each in client.runs(parent=run.id, status="errored")
        ]
        with pytest.raises(InvalidTransition, match=run.id):
            remote.delete(run.id, tree=True)
        client.request_stop(run.id)
        driver.play()
        remote.delete(run.id, tree=True)
    assert not client.runs(children=True).runs


def test_the_command_lists_a_wide_tree_in_a_few_lines(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = wide(client, driver)
    code, text = command(settings, "tree", run.id, "--width", "1")
    rows = [line.split("\t") for line in text.splitlines()]
    assert code == 0
    assert [(row[0].strip(), row[1]) for row in rows if "more" in row[0]] == [
        ("and 11 more", "completed"),
        ("and 2 more", "errored"),
    ]
    waits = {row[6]: row[5] for row in rows}
    assert (waits["g"], waits["item 15"], waits["item 0"]) == ("for its child runs", "for go", "")


def test_a_parent_shows_how_many_children_of_each_status_it_has(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = wide(client, driver)
    code, text = command(settings, "show", run.id)
    assert code == 0
    assert "children: 12 completed, 3 errored, 1 running; see perdure tree" in text
    assert client.tree(run.id, 1, 1).counts == {"completed": 12, "errored": 3, "running": 1}


def test_a_tree_of_wrong_size_is_refused(client: Client) -> None:
    for options in ({"depth": 0}, {"depth": 33}, {"width": 0}, {"width": True}):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            client.tree("r", **options)


def test_the_children_of_a_run_are_a_list_with_filters(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = wide(client, driver)
    first = client.runs(parent=run.id, limit=10)
    rest = client.runs(parent=run.id, limit=10, cursor=first.cursor)
    assert [each.goal for each in (*first, *rest)] == [f"item {place}" for place in range(16)]
    assert rest.cursor is None
    failed = client.runs(RunStatus.ERRORED, parent=run.id)
    assert [each.goal for each in failed] == ["item 12", "item 13", "item 14"]
    bounded = client.runs(RunStatus.ERRORED, parent=run.id, look=5)
    assert len(bounded) == 0 and bounded.cursor is not None and bounded.cursor.startswith("5:")
    code, text = command(settings, "list", "--parent", run.id, "--status", "errored")
    assert code == 0 and len(text.splitlines()) == 3
    with pytest.raises(RunNotFound):
        client.runs(parent="no-such-run")


def test_a_tree_with_a_live_run_is_not_deleted_and_the_run_is_named(
    client: Client, driver: Driver
) -> None:
    run = client.submit(
        "fan",
        "g",
        {"children": [{}, {"wait": True}], "options": {"wait": "any", "policy": "abandon"}},
    )
    driver.play()
    live = client.runs(RunStatus.RUNNING, children=True).runs
    assert client.get(run.id).status is RunStatus.COMPLETED
    with pytest.raises(InvalidTransition, match=live[0].id):
        client.delete(run.id, tree=True)
    assert len(client.children(run.id)) == 2


def stopped(client: Client, driver: Driver) -> Run:
    """Return a parent that was stopped with the child for which it waited."""
    run = wide(client, driver)
    client.request_stop(run.id)
    driver.play()
    return run


def deep(client: Client, driver: Driver) -> Run:
    """Play fifteen runs in four generations to their ends; return the first."""
    run = client.submit("nest", "grow", {"depth": 3})
    driver.play()
    return run


@pytest.mark.parametrize(("plant", "size"), [(stopped, 17), (deep, 15)])
def test_a_deleted_tree_leaves_no_key_and_no_entry(
    client: Client,
    driver: Driver,
    settings: Settings,
    plant: Callable[[Client, Driver], Run],
    size: int,
) -> None:
    run = plant(client, driver)
    ids = [each.id for _, each in client.tree(run.id, width=100).walk()]
    assert len(ids) == size
    code, text = command(settings, "delete", run.id, "--tree")
    assert (code, text) == (0, f"{run.id} is deleted with all runs below it\n")
    store = client._store
    for key in store.redis.scan_iter(f"{settings.prefix}:*", count=1000):
        assert not any(each in key for each in ids), key
        if store.redis.type(key) == "zset":
            entries = store.redis.zrange(key, 0, -1)
            assert not any(each in entry for each in ids for entry in entries), key
