"""The protocol as a model: searched whole, broken on purpose, and compared with the real Lua
(docs/internals/model.md).
"""

from __future__ import annotations

from collections import Counter

import pytest

from perdure.worker.store import Store
from tests.model import budgets, descendants, generations
from tests.model.configurations import CONFIGURATIONS, Config
from tests.model.moves import MOVES
from tests.model.mutants import EQUIVALENT, MUTANTS, Mutant, search
from tests.model.replay import follow, walk
from tests.model.rules import Rules, names, without
from tests.model.search import Found, Search
from tests.model.telling import story
from tests.support.redis_servers import CrashableServer
from tests.support.runs import START

#: Small enough for every push.
QUICK = "forfeits"
#: Configurations whose mutants are followed on the real Lua at every push.
YOUNG = ("fetches", "stays", "endings", "handed on", "children", "says", "topics")
#: Walks on the real Lua in the slow suite, for each configuration, and moves of each.
WALKS = 8
LENGTH = 40


def explored(name: str) -> Found:
    """Search a configuration of the protocol as it is, which must hold."""
    found = Search(CONFIGURATIONS[name]).run()
    print(f"{name}: {found.states} states, {found.moves} moves")
    assert found.violation is None, (
        f"{found.violation}\n{story(CONFIGURATIONS[name], Rules(), found.start, found.trace)}"
    )
    return found


def walked(server: CrashableServer, prefix: str, config: Config, seed: int) -> Counter[str]:
    """Walk through the model on the real Lua; count how often each move was made."""
    store = Store(server.url, f"{prefix}s{seed}", now=START, outbox=config.outbox)
    try:
        return Counter(move[0] for move in walk(store, config, seed, LENGTH))
    finally:
        store.close()


def retraced(server: CrashableServer, prefix: str, mutant: Mutant) -> int:
    """Follow the trace that kills the mutant on the real Lua, which has the rule; return how many
    of its moves could be made.
    """
    config = CONFIGURATIONS[mutant.configuration]
    store = Store(server.url, prefix, now=START, outbox=config.outbox)
    try:
        return len(
            follow(store, config, search(mutant.rule, mutant.configuration), without(mutant.rule))
        )
    finally:
        store.close()


def descended(server: CrashableServer, prefix: str, rule: str) -> int:
    """Follow the trace that kills the mutant of a family on the real Lua, which has the rule;
    return how many of its moves could be made.
    """
    name, law = generations.MUTANTS[rule]
    shape = generations.SHAPES[name]
    found = generations.search(shape, generations.without(rule))
    assert found.violation is not None and found.violation.law == law
    store = Store(server.url, prefix, now=START)
    try:
        return descendants.follow(store, shape, found.trace)
    finally:
        store.close()


def families_walked(server: CrashableServer, prefix: str, name: str, walks: int) -> Counter[str]:
    """Walk a family on the real Lua; count how often each move was made."""
    made: Counter[str] = Counter()
    for seed in range(walks):
        store = Store(server.url, f"{prefix}s{seed}", now=START)
        try:
            moves = descendants.walk(store, generations.SHAPES[name], seed, LENGTH)
        finally:
            store.close()
        made += Counter(move[0] for move in moves)
    return made


def test_the_protocol_holds_and_every_state_can_settle_in_the_smallest_configuration() -> None:
    assert explored(QUICK).states > 1_000


@pytest.mark.parametrize("rule", ["resume_checks_step", "stop_now_holds_the_token"])
def test_without_the_rule_the_search_finds_a_trace(rule: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.rule == rule)
    found = search(rule, mutant.configuration)
    assert found.violation is not None and found.violation.law == mutant.law


@pytest.mark.parametrize(
    "name",
    [
        "stops",
        "fetches",
        "stays and fetches",
        "endings",
        "handed on",
        "children and stops",
        "says",
        "topics of runs that fail",
    ],
)
def test_a_walk_on_the_real_lua_goes_where_the_model_goes(
    name: str, server: CrashableServer, prefix: str
) -> None:
    assert walked(server, prefix, CONFIGURATIONS[name], 1).total() == LENGTH


@pytest.mark.parametrize(
    "mutant",
    [each for each in MUTANTS if each.configuration.startswith(YOUNG)],
    ids=lambda mutant: mutant.rule,
)
def test_what_breaks_a_law_without_the_rule_breaks_none_on_the_real_lua(
    mutant: Mutant, server: CrashableServer, prefix: str
) -> None:
    assert retraced(server, prefix, mutant) > 0


@pytest.mark.parametrize("rule", budgets.MUTANTS)
def test_a_tree_pays_wrongly_or_waits_in_vain_without_the_rule(rule: str) -> None:
    found = budgets.search(budgets.without(rule))
    assert found.violation is not None and found.violation.law == budgets.MUTANTS[rule]


def test_every_rule_of_a_tree_s_budget_has_a_mutant() -> None:
    assert sorted(budgets.MUTANTS) == sorted(budgets.names())


def test_every_rule_of_generations_has_a_mutant() -> None:
    assert sorted(generations.MUTANTS) == sorted(generations.names())


@pytest.mark.parametrize(
    "rule", [rule for rule, (name, _) in generations.MUTANTS.items() if name.startswith("gen")]
)
def test_generations_part_without_the_rule_and_not_on_the_real_lua(
    rule: str, server: CrashableServer, prefix: str
) -> None:
    assert descended(server, prefix, rule) > 0


@pytest.mark.parametrize("name", generations.SHAPES)
def test_a_walk_of_a_family_on_the_real_lua_goes_where_the_model_goes(
    name: str, server: CrashableServer, prefix: str
) -> None:
    assert families_walked(server, prefix, name, 1)


def test_every_rule_has_a_mutant_or_a_reason_why_it_has_none() -> None:
    assert sorted([*(mutant.rule for mutant in MUTANTS), *EQUIVALENT]) == sorted(names())


@pytest.mark.slow
def test_a_tree_pays_exactly_and_goes_on_when_more_is_added() -> None:
    found = budgets.search()
    assert found.violation is None, f"{found.violation}: {found.trace}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", generations.SHAPES)
def test_a_family_of_generations_or_of_two_groups_holds_and_can_settle(name: str) -> None:
    found = generations.search(generations.SHAPES[name])
    print(f"{name}: {found.states} states, {found.moves} moves")
    assert found.violation is None, f"{found.violation}: {found.trace}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [rule for rule, (name, _) in generations.MUTANTS.items() if name.startswith("two")]
)
def test_two_groups_part_without_the_rule_and_not_on_the_real_lua(
    rule: str, server: CrashableServer, prefix: str
) -> None:
    assert descended(server, prefix, rule) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_walks_of_families_on_the_real_lua_go_where_the_model_goes(
    server: CrashableServer, prefix: str
) -> None:
    made: Counter[str] = Counter()
    for place, name in enumerate(generations.SHAPES):
        made += families_walked(server, f"{prefix}f{place}", name, WALKS)
    print(f"{made.total()} moves on the real Lua: {dict(made)}")
    assert set(generations.NAMES) == set(made)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name != QUICK])
def test_the_protocol_holds_and_every_state_can_settle(name: str) -> None:
    assert explored(name).states > 100


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_mutant_is_killed_by_the_law_that_needs_the_rule(mutant: Mutant) -> None:
    found = search(mutant.rule, mutant.configuration)
    assert found.violation is not None, (
        f"without {mutant.rule} nothing is broken in {found.states} states"
    )
    assert found.violation.law == mutant.law, f"{found.violation}: another law than {mutant.law}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rule", EQUIVALENT)
def test_a_rule_that_is_argued_to_change_nothing_changes_nothing(rule: str) -> None:
    configuration = EQUIVALENT[rule]
    found = search(rule, configuration)
    assert found.violation is None, f"{found.violation}: {rule} is no second line of defence"
    assert found.states == Search(CONFIGURATIONS[configuration]).run().states


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutant",
    [each for each in MUTANTS if not each.configuration.startswith(YOUNG)],
    ids=lambda mutant: mutant.rule,
)
def test_every_such_trace_on_the_real_lua(
    mutant: Mutant, server: CrashableServer, prefix: str
) -> None:
    assert retraced(server, prefix, mutant) > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_walks_on_the_real_lua_go_where_the_model_goes(
    server: CrashableServer, prefix: str
) -> None:
    made: Counter[str] = Counter()
    for place, config in enumerate(CONFIGURATIONS.values()):
        for seed in range(WALKS):
            made += walked(server, f"{prefix}c{place}", config, seed)
    print(f"{made.total()} moves on the real Lua: {dict(made)}")
    missing = set(MOVES) - set(made)
    assert not missing, f"moves that no walk made: {missing}"
