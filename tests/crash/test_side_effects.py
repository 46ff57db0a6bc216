"""Honest side effects: killed anywhere between a command's intent and its commit, nothing outside
happens twice without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.domain.run import Run
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.named_crash_points import POINTS, POLICIES, Ledger, Player

#: Kills at each point under each policy, so that there are 200 in all.
TIMES = 10


@pytest.fixture
def player(settings: Settings) -> Iterator[Player]:
    made = Player(settings)
    yield made
    made.close()


def killed_once(client: Client, store: Store, player: Player, run: Run, point: str) -> Run:
    """Play the run, killed at the point, and go on with another process; return the run."""
    process, killed = player.play(run.id, point)
    assert killed, f"nobody died at {point}"
    dead = client.get(run.id)
    if point != "committed":
        assert dead.phase == "leased"
        assert store.rounds.release_dead_lease(
            run.id, epoch=0, step=dead.state.step, process=process
        ) == ["ok"]
        report = store.fleet.sweep(lease=4000, max_losses=10, jitter=0.5).report
        assert (run.id, "freed") in report, "its worker is known to be dead"
    assert player.play(run.id)[1] is False
    return client.get(run.id)


def one_kill(
    client: Client, store: Store, player: Player, ledger: Path, policy: str, point: str
) -> None:
    run = client.submit("mortal", "charge once", {"ledger": str(ledger), "policy": policy})
    after = killed_once(client, store, player, run, point)
    happened = Ledger(str(ledger)).count(run.id)
    doubted = point != "committed"
    observed = [turn["observation"] for turn in client.transcript(run.id)["history"]]
    told = [seen for seen in observed if isinstance(seen, dict) and "in_doubt" in seen]
    if policy == "ask" and doubted:
        assert after.status.value == "interrupted"
        asked = after.state.interrupt_data
        assert asked is not None and asked["in_doubt"]["command"] == "charge_ask"
        (waiting,) = client.inbox()
        began = datetime.fromisoformat(asked["in_doubt"]["began"])
        assert (waiting.key, waiting.began) == (
            asked["in_doubt"]["key"],
            began,
        ) and run.created_at <= began <= after.updated_at
        assert waiting.worker == asked["in_doubt"]["worker"] and waiting.worker, (
            "the one that was killed"
        )
        assert happened == (point in ("done", "committing")), (
            "while a person is asked, nothing is done"
        )
        client.resume(run.id, {"result": "charged"} if happened else "retry")
        player.play(run.id)
    assert len(told) == (policy == "tell" and doubted), observed
    assert ("found_out" in client.transcript(run.id)["run"]["values"]) == (
        policy == "reconcile" and doubted
    )
    final = client.get(run.id)
    assert (final.status.value, final.answer) == ("completed", "charged")
    assert Ledger(str(ledger)).count(run.id) == 1, f"{policy}, killed at {point}"


@pytest.mark.parametrize(
    "policy",
    ["tell", *(pytest.param(name, marks=pytest.mark.slow) for name in POLICIES if name != "tell")],
)
def test_killed_at_each_point_a_command_in_doubt_is_handled_by_its_policy(
    policy: str, client: Client, player: Player, settings: Settings, tmp_path: Path
) -> None:
    store = Store(str(settings.redis_url), settings.prefix)
    for point in POINTS:
        one_kill(client, store, player, tmp_path / "ledger", policy, point)
    store.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_200_kills_repeat_nothing_silently(
    client: Client, player: Player, settings: Settings, tmp_path: Path
) -> None:
    store = Store(str(settings.redis_url), settings.prefix)
    kills: Counter[str] = Counter()
    for _ in range(TIMES):
        for policy in POLICIES:
            for point in POINTS:
                one_kill(client, store, player, tmp_path / "ledger", policy, point)
                kills[policy] += 1
    store.close()
    assert kills.total() == 200
    print(f"{kills.total()} kills, 0 silent repeats: {dict(kills)}")
