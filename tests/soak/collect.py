"""Collecting: the history of a soak, from the records of clients, rounds and nemesis, and from the
server's data at the end.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure import Client
from tests.soak.clients import Notebook
from tests.soak.cluster import PREFIX, Cluster
from tests.soak.history import Call, Child, Effect, End, Event, Family, Fault, History, Read
from tests.soak.workload import CHILD, CHILD_ROUNDS, CHILDREN, FAMILY, FAMILY_ROUNDS

#: A worker's log text for a commit that came too late.
TOO_LATE = "the result came too late and was refused"
#: Events after which a message was pushed once more.
PUSHED_AGAIN = ("resent", "lost", "given_back", "failed")
#: How many rounds a run of a flow has; of the others `Plan.rounds`.
ROUNDS_OF = {FAMILY: FAMILY_ROUNDS, CHILD: CHILD_ROUNDS}
#: The sets of runs that are not at rest, children's too.
AT_WORK = ("live", "live:children", "interrupted", "interrupted:children", "due")


@dataclass(frozen=True)
class Traffic:
    """The server's counts: first pushes by list, and repeated ones by reason; commits; late commits
    refused.
    """

    pushed: int
    again: dict[str, int]
    commits: int
    late: int

    @property
    def per_commit(self) -> float:
        return (self.pushed + sum(self.again.values())) / max(1, self.commits)


def collect(
    cluster: Cluster,
    client: Client,
    notebook: Notebook,
    faults: Sequence[Fault],
    asked: frozenset[str],
    rounds: int,
) -> History:
    """Collect the history; the server must answer."""
    children = _children(client)
    submitted = dict.fromkeys(call.run for call in notebook.calls if call.run)
    runs = [*submitted, *(child.run for child in children)]
    return History(
        calls=list(notebook.calls),
        reads=list(notebook.reads),
        events=[event for run in runs for event in _events(client, run)],
        effects=cluster.ledger.effects(),
        faults=list(faults),
        ends=[_end(client, run) for run in runs],
        asked_faults=asked,
        rounds=rounds,
        children=children,
        families=[family for run in submitted for family in _family(client, run)],
        left=left(client),
    )


def left(client: Client) -> dict[str, int]:
    """Return the size of each set of runs that are not at rest."""
    counts = client._store.lists.counts()
    follow_ups: Any = client._store.redis.zcard(client._store.keys.follow_ups)
    return {**{name: counts[name] for name in AT_WORK}, "follow_ups": follow_ups}


def traffic(cluster: Cluster, client: Client, history: History) -> Traffic:
    """Count the traffic of a history."""
    queues: Any = client._store.redis.hgetall(client._store.keys.queues)
    pushed = sum(int(count) for name, count in queues.items() if name.endswith(":pushed"))
    types = Counter(event.type for event in history.events)
    late = sum(
        cluster.log(place).read_text(errors="replace").count(TOO_LATE) for place in cluster.places
    )
    return Traffic(
        pushed,
        {name: types[name] for name in PUSHED_AGAIN if types[name]},
        types["committed"],
        late,
    )


def save(history: History, path: Path) -> Path:
    """Keep a history as JSON, to be judged again; where it is."""
    path.write_text(json.dumps(dataclasses.asdict(history), default=sorted) + "\n")
    return path


def load(path: Path) -> History:
    """Load a stored history."""
    kept = json.loads(path.read_text())
    kinds: dict[str, Any] = {
        "calls": Call,
        "reads": Read,
        "events": Event,
        "effects": Effect,
        "faults": Fault,
        "ends": End,
        "children": Child,
        "families": Family,
    }
    records: dict[str, Any] = {
        name: [kind(**each) for each in kept[name]] for name, kind in kinds.items()
    }
    return History(
        **records,
        asked_faults=frozenset(kept["asked_faults"]),
        rounds=kept["rounds"],
        left=kept["left"],
    )


def _events(client: Client, run: str) -> list[Event]:
    return [
        Event(
            run,
            event.type,
            event.at.timestamp(),
            event.step,
            event.attempt,
            {name: str(value) for name, value in event.data.items()},
        )
        for event in client.events(run, follow=False)
    ]


def _end(client: Client, run_id: str) -> End:
    run = client.get(run_id)
    seen = run.answer["seen"] if isinstance(run.answer, dict) else run.answer
    rounds = ROUNDS_OF.get(run.flow)
    return End(
        run_id, run.status.value, run.details["epoch"], run.state.step, seen, run.error, rounds
    )


def _family(client: Client, run_id: str) -> list[Family]:
    """Return the run as a parent; an empty list if its flow has no children."""
    run = client.get(run_id)
    if run.flow != FAMILY:
        return []
    told = run.answer or {}
    return [Family(run_id, CHILDREN, told.get("answers"), told.get("signal"), told.get("again"))]


def _children(client: Client) -> list[Child]:
    """Return all runs that have a parent, from the hashes of all runs."""
    server: Any = client._store.redis
    begin = f"{PREFIX}:run:"
    found = []
    for key in sorted(set(server.scan_iter(match=f"{begin}*", count=1000, _type="hash"))):
        run_id = key.removeprefix(begin)
        if ":" not in run_id:
            parent, group, place = server.hmget(key, "parent", "group", "place")
            if parent:
                found.append(Child(run_id, parent, group, int(place)))
    return found
