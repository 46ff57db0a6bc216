"""The examples of docs/internals, followed step by step in a copy of the code.

The copy is imported by processes of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from perdure.worker.settings import Settings

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^```(python|diff|lua|toml) title=\"(.+?)\"\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
#: Uses the new operation by each client.
USE = """
import asyncio, json
from perdure import AsyncClient, Client, RemoteClient
from perdure.worker.client.tokens import Tokens
from perdure.worker.settings import current
from tests.support.threaded_server import serving

settings = current()
client = Client(settings=settings)
run_id = client.submit("countdown", "g").id
tokens = Tokens(client)
ann, bob = (tokens.create(name, ["submit", "read"]).text for name in ("ann", "bob"))
with serving(settings) as url:
    remote = RemoteClient(url, ann)
    own = remote.submit("countdown", "g").id
    ages = [client.age(run_id), asyncio.run(AsyncClient(settings=settings).age(run_id))]
    ages.append(remote.age(own))
    try:
        RemoteClient(url, bob).age(own)
        hidden = False
    except Exception as error:
        hidden = type(error).__name__ == "RunNotFound"
print(json.dumps({"run": run_id, "ages": ages, "hidden": hidden}))
"""


#: Pins runs by each client, and reads the pins from the metrics.
PIN = """
import asyncio, json
from perdure import AsyncClient, Client, RemoteClient
from perdure.worker.client.tokens import Tokens
from perdure.worker.metrics.exposition import exposition
from perdure.worker.settings import current
from tests.support.threaded_server import serving

settings = current()
client = Client(settings=settings)
ids = [client.submit("countdown", "g").id for _ in range(3)]
token = Tokens(client).create("ann", ["admin"]).text
client.pin(ids[0])
asyncio.run(AsyncClient(settings=settings).pin(ids[1]))
with serving(settings) as url:
    remote = RemoteClient(url, token)
    remote.pin(ids[2])
    lists = [client.pins(), asyncio.run(AsyncClient(settings=settings).pins()), remote.pins()]
counted = "perdure_pins 3.0" in exposition(client)[0].decode()
print(json.dumps({"ids": ids, "lists": lists, "counted": counted}))
"""


def copied(tmp_path: Path) -> Path:
    """Copy the packages, as a checkout has them."""
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("worker", "flows", "config", "tests", "perdure"):
        shutil.copytree(
            ROOT / name, root / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    return root


def follow(page: str, root: Path) -> list[str]:
    """Carry out the steps of a page, and return the changed files."""
    changed = []
    for kind, name, text in BLOCK.findall((ROOT / "docs/internals" / page).read_text("utf-8")):
        path = root / name
        old = path.read_text("utf-8") if path.exists() else ""
        if kind == "diff":
            lines = text.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] != "+")
            assert old.count(before) == 1, f"{name} has not once: {before}"
            new = old.replace(before, "".join(line[1:] for line in lines if line[0] != "-"))
        else:
            separator = "\n\n" if old and text[0] != " " else ""
            new = f"{old}{separator}{text}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(new, "utf-8")
        changed.append(name)
    return changed


def played(root: Path, settings: Settings, *arguments: str) -> str:
    """Run Python in the copy, and return its output."""
    command = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={
            "PYTHONPATH": str(root),
            "PERDURE_REDIS_URL": str(settings.redis_url),
            "PERDURE_PREFIX": settings.prefix,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert command.returncode == 0, command.stdout + command.stderr
    return command.stdout


#: Searches the model, and walks through it on the real Lua until a backoff is skipped.
WALK = """
from perdure.worker.settings import current
from perdure.worker.store import Store
from perdure.worker.store.runs import RunTransitions
from tests.model.configurations import CONFIGURATIONS
from tests.model.replay import walk
from tests.model.search import Search
from tests.support.runs import START

config, settings = CONFIGURATIONS["failures"], current()
found = Search(config).run()
assert found.violation is None, found.violation
call, replies = RunTransitions.skip_backoff, []
RunTransitions.skip_backoff = lambda *given, **named: replies.append(call(*given, **named)) or replies[-1]
for seed in range(200):
    store = Store(settings.redis_url, f"{settings.prefix}s{seed}", now=START, outbox=config.outbox)
    walk(store, config, seed, 40)
    store.close()
    if ["due"] in replies:
        break
print(found.states, replies.count(["due"]))
"""


def test_an_operation_is_added_as_the_page_says(tmp_path: Path, settings: Settings) -> None:
    root = copied(tmp_path)
    changed = follow("add-an-operation.md", root)
    assert len(changed) == 5
    use = json.loads(played(root, settings, "-c", USE))
    assert use["hidden"] and all(0 <= age < 60 for age in use["ages"]) and len(use["ages"]) == 3
    shown = played(root, settings, "-m", "perdure", "age", use["run"], "--json")
    assert json.loads(shown)["id"] == use["run"]


def test_a_transition_is_added_as_the_page_says(tmp_path: Path, settings: Settings) -> None:
    root = copied(tmp_path)
    assert len(set(follow("add-a-transition.md", root))) == 9
    states, skipped = map(int, played(root, settings, "-c", WALK).split())
    assert states > 1_000 and skipped > 0
    shutil.copy(ROOT / "pyproject.toml", root)
    tests = "tests/store/test_skip_backoff.py"
    played(root, settings, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)


def test_a_feature_is_added_as_the_page_says(tmp_path: Path, settings: Settings) -> None:
    root = copied(tmp_path)
    assert len(set(follow("add-a-feature.md", root))) == 8
    use = json.loads(played(root, settings, "-c", PIN))
    assert use["lists"] == [use["ids"][::-1]] * 3 and use["counted"]
    assert json.loads(played(root, settings, "-m", "perdure", "pins", "--json")) == use["ids"][::-1]
