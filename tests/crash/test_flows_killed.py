"""Workflows, agents and graphs whose process is killed with SIGKILL at each of its points: nothing
happens twice unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Settings
from tests.support.mcp_servers import till_over_http
from tests.support.numbered_crash_points import MortalPlayer, Tale, tale_of
from tests.support.round_driver import Driver

Plays = Callable[..., MortalPlayer]
SLOW = pytest.mark.slow


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.write_text("")
    return path


@pytest.fixture
def plays(settings: Settings, ledger: Path) -> Iterator[Plays]:
    """Starts players of modules."""
    made: list[MortalPlayer] = []

    def start(modules: str, **environment: str) -> MortalPlayer:
        for module in modules.split(","):
            import_module(module)  # A submission checks its inputs by the flow.
        made.append(MortalPlayer(settings, ledger, modules, **environment))
        return made[-1]

    yield start
    for each in made:
        each.close()


def killed_at_each_point(
    tell: Callable[[int], Tale], each: int, check: Callable[[Tale, Tale], None]
) -> int:
    """Play a run in peace, then one for each Nth point, whose process dies there; how many died."""
    calm = tell(0)
    check(calm, calm)
    deaths = 0
    for point in range(1, calm.points + 1, each):
        tale = tell(point)
        # The threads of siblings pass their points in any order, and the last ones need not be
        # there.
        assert tale.at or point > calm.points - 5
        deaths += tale.at is not None
        check(tale, calm)
    return deaths


# Workflows

ONCE = {"part1", "part3", "pay"}
ALL = ["load", *(f"part{number}" for number in range(5)), "pay", "mail"]


def check_order(tale: Tale, calm: Tale) -> None:
    told = [f"{name} is done" for name in ALL]
    assert tale.run.answer == [*told[:-2], "yes", *told[-2:]], tale.at
    assert set(tale.effects) == set(ALL)
    for name, times in tale.effects.items():
        at_death = tale.happened[name]
        if name in ONCE or name in tale.stored:
            assert times == 1, (tale.at, name, "is stored, or asked about")
        else:
            assert times == 1 + at_death, (tale.at, name)
    in_doubt = {name for name in ONCE & tale.begun if name not in tale.stored}
    assert in_doubt <= set(tale.asked), (tale.at, "each that may have happened is asked about")
    assert not set(tale.asked) & (tale.stored | (set(ALL) - ONCE)), (tale.at, tale.asked)
    assert len(tale.asked) == len(set(tale.asked))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flow", ["killed_order", "killed_live_order"])
@pytest.mark.parametrize("each", [pytest.param(3, marks=SLOW), 9])
def test_a_workflow_is_killed_at_each_point(
    client: Client, driver: Driver, plays: Plays, flow: str, each: int
) -> None:
    player = plays("tests.support.example_flows.ledger_workflows")

    def knows(question: Any) -> tuple[str, Any]:
        return question.command, f"{question.command} is done"

    died_at = []

    def tell(point: int) -> Tale:
        tale = tale_of(client, driver, player, flow, point=point, knows=knows)
        died_at.append((tale.at, tale.stored))
        return tale

    deaths = killed_at_each_point(tell, each, check_order)
    print(f"{flow}: {deaths} kills")
    assert deaths > 60 // each
    halves = [at for at, stored in died_at if {"part0", "part1"} <= stored and not stored & {"pay"}]
    assert halves, "killed when two of five siblings were recorded"


# Agents and graphs


@dataclass(frozen=True)
class Case:
    """A flow, and its effects that may happen only once.

    Attributes:
        knows: of a command in doubt, its effect and its result.
        once: the effects that are not idempotent.
        holds: texts that the answers contain, if they need not be equal.
        at_once: requests to models that are in hand at the same time.
        each: of how many points the quick test dies at one, and the slow one. With 1 it dies at
            each.
    """

    module: str
    flow: str
    knows: Callable[[str, Mapping[str, Any]], tuple[str, Any]] | None = None
    once: frozenset[str] = frozenset()
    holds: tuple[str, ...] = ()
    at_once: int = 1
    each: tuple[int, int] = (9, 3)

    def check(self, tale: Tale, calm: Tale) -> None:
        if self.holds:
            assert all(text in str(tale.run.answer) for text in self.holds), tale.run.answer
        else:
            assert tale.run.answer == calm.run.answer, tale.at
        assert tale.effects.keys() == calm.effects.keys(), tale.at
        repeated = tale.effects - calm.effects
        assert repeated.total() <= tale.open, (tale.at, repeated, "nothing that is stored")
        assert not self.once & repeated.keys(), (tale.at, repeated, tale.asked)
        assert sum(is_request(name) * times for name, times in repeated.items()) <= self.at_once
        assert len(tale.asked) <= len(self.once), (tale.at, tale.asked)
        for name in ("tokens", "requests"):
            spent = [each.run.details.get("spent", {}).get(name) for each in (tale, calm)]
            assert spent[0] == spent[1], (tale.at, name, spent)


def is_request(name: str) -> bool:
    """Return whether an effect is a request to a model: its name ends with a number."""
    return name.rpartition(" ")[2].isdecimal() and not name.startswith(("pay", "part"))


def bought(command: str, args: Mapping[str, Any]) -> tuple[str, Any]:
    match command:
        case "pay":
            return f"pay {args['amount']}", f"paid {args['amount']}"
        case "price":
            return f"price of {args['animal']}", {"hen": "8", "cow": "120"}[args["animal"]]
    return f"buy {args['animal']}", f"bought one {args['animal']}"


def of_till(command: str, args: Mapping[str, Any]) -> tuple[str, Any]:
    return command, {"price": "8", "pay": "paid 12"}[command]


def of_node(command: str, args: Mapping[str, Any]) -> tuple[str, Any]:
    text = f"{command}: yes" if command in ("buy", "sell") else f"{command} is done"
    return command, {"log": [text]}


EXAMPLES = "tests.support.example_flows"
PYDANTIC, OPENAI = f"{EXAMPLES}.pydantic_agents", f"{EXAMPLES}.openai_agents"
TILLS, GRAPHS = f"{EXAMPLES}.mcp_agents", f"{EXAMPLES}.graphs"
BOTH = frozenset({"buy hen", "buy cow"})
TILL = ("8", "paid 12")
CASES = [
    # Structured output, two parallel tools, approval, ModelRetry, a sub-agent as a tool.
    Case(f"{EXAMPLES}.pydantic_dealer", "pydantic_dealer", each=(29, 3)),
    Case(PYDANTIC, "pydantic_trader", bought, frozenset({"buy hen"}), each=(15, 3)),
    Case(PYDANTIC, "pydantic_farmer", bought, BOTH),
    Case(TILLS, "pydantic_till_stdio", of_till, frozenset({"pay"}), TILL, each=(15, 5)),
    Case(TILLS, "pydantic_till_http", of_till, frozenset({"pay"}), TILL, each=(15, 3)),
    # Three parallel nodes, interrupts in two, one in a subgraph, 50 of Send, tools.
    Case(GRAPHS, "graph_strict_fan", of_node, frozenset({"a", "c", "last"})),
    Case(GRAPHS, "graph_asks", of_node, frozenset({"buy", "sell", "beside"})),
    Case(GRAPHS, "graph_outer"),
    Case(GRAPHS, "graph_many_idempotent", each=(61, 15)),
    Case(GRAPHS, "graph_jumps", each=(15, 3)),
    # Handoff there and back, approval of one of two, a guardrail, an output type, two tools.
    Case(OPENAI, "openai_there_and_back", each=(11, 3)),
    Case(
        OPENAI, "openai_shopper", bought, frozenset({"price of hen", "pay 12"}),
        each=(11, 3),
    ),
    Case(OPENAI, "openai_guarded", at_once=2, each=(1, 1)),
    Case(OPENAI, "openai_buyer", each=(9, 3)),
    Case(OPENAI, "openai_farmer", bought, BOTH),
    Case(TILLS, "openai_till_stdio", of_till, frozenset({"pay"}), TILL, each=(15, 5)),
    Case(TILLS, "openai_till_http", of_till, frozenset({"pay"}), TILL, each=(15, 3)),
]  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.flow)
@pytest.mark.parametrize("whole", [pytest.param(1, marks=SLOW), 0], ids=["more", "some"])
def test_an_agent_is_killed_at_each_point(
    client: Client, driver: Driver, plays: Plays, ledger: Path, case: Case, whole: int
) -> None:
    with till_over_http(ledger) as url:
        player = plays(case.module, TILL_URL=url)

        def knows(question: Any) -> tuple[str, Any]:
            assert case.knows is not None, f"{question.command} is idempotent"
            return case.knows(question.command, question.args or {})

        def tell(point: int) -> Tale:
            return tale_of(client, driver, player, case.flow, point=point, knows=knows)

        deaths = killed_at_each_point(tell, case.each[whole], case.check)
    print(f"{case.flow}: {deaths} kills")
    assert deaths > 1
