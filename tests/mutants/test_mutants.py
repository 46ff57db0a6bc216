"""The mutants of the Lua files are valid, and their names survive a new format."""

from __future__ import annotations

from collections import Counter

import pytest
import redis

from tests.mutants import catalog
from tests.mutants.execution import STORE
from tests.mutants.mutant import FILES
from tests.mutants.operators import Source, sources
from tests.mutants.syntax import LuaSyntaxError, tokens_of
from tests.support.redis_servers import CrashableServer

#: Returns the fault of a chunk, and keeps nothing of the chunk.
COMPILE = "local made, fault = loadstring(ARGV[1]) return made and '' or fault"


def test_every_lua_file_has_rules_and_test_files_that_guard_them() -> None:
    assert sorted(catalog.rules()) == sorted(FILES)
    named = {test for of_file in catalog.rules().values() for test in of_file}
    assert [test for test in named if not (STORE / test).exists()] == []
    assert all(rules for of_file in catalog.rules().values() for rules in of_file.values())


def test_every_mutant_has_a_name_and_a_fault_of_its_own() -> None:
    mutants = catalog.mutants()
    assert [name for name, count in Counter(m.name for m in mutants).items() if count > 1] == []
    assert [mutant.name for mutant in mutants if not mutant.diff()] == []
    assert {mutant.file for mutant in mutants} == set(FILES)


def test_every_equivalent_mutant_is_one_of_them() -> None:
    assert set(catalog.equivalent()) - {mutant.name for mutant in catalog.mutants()} == set()


def test_every_mutant_is_lua_that_the_server_takes(server: CrashableServer) -> None:
    """Code that does not compile is killed by anything."""
    with redis.Redis.from_url(server.url) as client:
        for file in FILES:
            assert fault(client, Source(file).text) == ""
        invalid = {m.name: fault(client, m.text) for m in catalog.mutants()}
    assert {name: text for name, text in invalid.items() if text} == {}


def fault(client: redis.Redis, text: str) -> str:
    """Return the compiler error of the server for a file; its head and its included parts are
    comments to it.
    """
    return client.eval(COMPILE, 0, text.replace("#!", "--", 1)).decode()  # type: ignore[union-attr]


def test_a_new_format_changes_no_name() -> None:
    for source in sources():
        head, _, rest = source.text.partition("\n")
        one_token_a_line = "\n".join(f"{token.text} -- x" for token in tokens_of(rest))
        again = Source(source.file, f"{head}\n{one_token_a_line}\n")
        assert [m.name for m in again.mutants()] == [m.name for m in source.mutants()]


def test_a_statement_that_changes_changes_no_name_of_another() -> None:
    source = Source("claim_round")
    old = "set(k, 'unknown', whole(refused))"
    changed = Source("claim_round", source.text.replace(old, "set(k, 'unknown', refused)"))
    gone = {m.name for m in source.mutants()} - {m.name for m in changed.mutants()}
    assert len(gone) == 1 and ":drop:" in gone.pop()


@pytest.mark.parametrize(
    ("lua", "operator", "mutated"),
    [
        ("call('ZADD', k, 1, 'x')", "drop", [""]),
        ("x = 20", "drop", [""]),
        ("if a then b() end", "never", ["if false then b() end"]),
        ("if a then b() end", "always", ["if true then b() end"]),
        ("x = a and b or c", "operand", ["x = c", "x = a and b", "x = b or c", "x = a or c"]),
        ("x = math.min(a, b)", "operand", ["x = math.min(b)", "x = math.min(a)"]),
        ("x = not a", "negate", ["x = a"]),
        ("x = a <= b", "compare", ["x = a < b"]),
        ("x = 19", "number", ["x = 20"]),
        ("x = ARGV[2]", "number", []),
        ("call('LPUSH', k)", "swap", ["call('RPUSH', k)"]),
        ("x = a + b - c", "swap", ["x = a + b + c", "x = a - b - c"]),
        ("unset(k, 'a', 'b')", "field", ["unset(k, 'b')", "unset(k, 'a')"]),
        ("call('HSET', k, 'a', 20, 'b', y)", "field", ["call('HSET', k, 'b', y)", "call('HSET', k, 'a', 20)"]),
        ("local x = { a = 20, b = nil }", "item", ["local x = { b = nil }"]),
        ("if a then return 'b' end return 'c'", "word", ["if a then return 'c' end return 'c'", "if a then return 'b' end return 'b'"]),
        ("#!lua\nx = 20", "flag", ["#!lua flags=allow-oom\nx = 20"]),
        ("#!lua flags=no-writes,allow-oom\nx = 20", "flag", ["#!lua flags=no-writes\nx = 20"]),
    ],
)  # fmt: skip
def test_an_operator(lua: str, operator: str, mutated: list[str]) -> None:
    made = [mutant for mutant in Source("x", lua).mutants() if f":{operator}:" in mutant.name]
    # An omission may leave a blank behind.
    found = [mutant.text.replace("{  ", "{ ").strip() for mutant in made]
    assert found == mutated


def test_a_sample_has_mutants_of_every_file_and_is_the_same_for_its_seed() -> None:
    mutants = catalog.mutants()
    chosen = catalog.sample(mutants, 60, 1)
    assert len(chosen) == 60 and {mutant.file for mutant in chosen} == set(FILES)
    assert chosen == catalog.sample(mutants, 60, 1) != catalog.sample(mutants, 60, 2)


@pytest.mark.parametrize("old", ["no_such_text()", "k.run"])
def test_a_fault_written_by_hand_whose_text_is_not_there_once_is_refused(old: str) -> None:
    with pytest.raises(catalog.RottenMutant):
        catalog.patched(Source("claim_round"), "x", old, "")


def test_what_the_parser_does_not_know_is_refused() -> None:
    with pytest.raises(LuaSyntaxError):
        Source("x", "local x = [[a]]")
