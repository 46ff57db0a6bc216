"""The keys of a run in the store: no id of a run is the key of another one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from perdure.worker.features import NAMES
from perdure.worker.ids import RUN_ID
from perdure.worker.operations.validation import is_run_id
from perdure.worker.store import scripts
from perdure.worker.store.keys import PARTS_OF_RUN, Keys

#: Ids that end like keys, also like keys of earlier versions.
IDS = st.lists(
    st.sampled_from([*PARTS_OF_RUN.values(), ":text", ":group", "a", "b", ":", "text"]),
    min_size=1,
    max_size=4,
).map("".join)
#: Names of groups are free but for white space.
GROUPS = st.lists(
    st.sampled_from([*PARTS_OF_RUN.values(), "/", ":", "a", "text", "group"]), max_size=4
).map("".join)


def keys_of(run_id: str, group: str) -> set[str]:
    keys = Keys("p")
    own = (keys.run, keys.memory, keys.events, keys.artifacts, keys.mailbox, keys.live_text)
    return {*(name(run_id) for name in own), keys.group(run_id, group)}


@given(IDS, GROUPS, IDS, GROUPS)
@example("a", "text", "a:group", "g")
def test_two_runs_share_no_key(first: str, of_first: str, second: str, of_second: str) -> None:
    if first != second and is_run_id(first) and is_run_id(second):
        assert keys_of(first, of_first).isdisjoint(keys_of(second, of_second))


def test_the_table_has_the_keys_of_a_run() -> None:
    keys, run = Keys("p"), Keys("p").run("r")
    methods = {name: getattr(keys, name) for name in PARTS_OF_RUN}
    group = methods.pop("group")
    assert {name: method("r") for name, method in methods.items()} == {
        name: run + part for name, part in PARTS_OF_RUN.items() if name != "group"
    }
    assert group("r", "g") == f"{run}{PARTS_OF_RUN['group']}g"


def derived() -> Iterator[tuple[str, str]]:
    """Yield each name of a key that a Lua file derives from that of a run's hash."""
    for folder in (files("perdure.worker.store").joinpath("lua"), *scripts.folders()):
        for file in Path(str(folder)).rglob("*.lua"):
            for part in re.findall(r"\b(?:run|key)\b *\.\. *'([:/][^']*)'", file.read_text()):
                yield file.name, part


def test_scripts_derive_no_key_that_is_not_in_the_table() -> None:
    found = set(derived())
    assert {part for _, part in found if part in PARTS_OF_RUN.values()} == set(
        PARTS_OF_RUN.values()
    )
    # delete_run also deletes live text under its earlier names, if it is a stream.
    others = {entry for entry in found if entry[1] not in PARTS_OF_RUN.values()}
    assert others == {("delete_run.lua", ":text"), ("delete_run.lua", "/text")}


def test_ids_that_ended_like_live_text_stay_readable() -> None:
    assert is_run_id("doc:text") and RUN_ID.fullmatch("doc:text")


def test_no_feature_has_the_name_of_a_key_of_the_kernel() -> None:
    kernel = set(re.findall(r"{self.prefix}:(\w+)", inspect.getsource(Keys)))
    assert {"run", "metrics", "tokens", "topic"} <= kernel and not kernel & set(NAMES)
