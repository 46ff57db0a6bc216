"""Session: a scripted life of some runs that writes everything the engine can write.

It plays in this process, one round after another, so its order is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from celery.canvas import Signature

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    RoundContext,
    RunStatus,
    command,
    register,
)
from perdure.worker.app import engine_of, make_app
from perdure.worker.client.tokens import SavedFilters, Tokens
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support import runs_in_every_status  # noqa: F401 -- registers flows
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.runs import (
    advance,
    claim,
    clock,
    commit,
    fail_round,
    hash_of,
    new_run,
    stay,
    stop,
    sweep,
)

#: The flows of ``rings`` and ``runs_in_every_status`` and those below.
MODULES = (
    "tests.support.example_flows.rings",
    "tests.support.runs_in_every_status",
    "tests.golden.session",
)
#: Called by the flow ``charging`` in the middle of its rounds.
LOOKS: list[Callable[[], None]] = []


def _look() -> None:
    for look in LOOKS:
        look()


@register("charging")
class Charging(ControllerExecutorFlow):
    """A flow that uses whatever a round can: it writes notes, values, spending and progress."""

    def decide(self, context: RoundContext) -> Command | Finish | Interrupt:
        context.once("price", lambda: 7)
        context.notes("golden:{submitted_by}").put("a fact", "golden")
        context.remember("seen", len(context.history))
        context.spend(tokens=10, money=0.01)
        context.tell(model="golden-1")
        _look()
        return Finish("charged") if len(context.history) else Command("charge", {"amount": 7})

    @command
    def charge(self, context: RoundContext, amount: int) -> str:
        """Charge once."""
        context.progress(1, 2, "charging")
        context.stream("charging")
        _look()
        return f"charged {amount}"


def quiet(settings: Settings) -> Settings:
    """Return settings with the flows of this session, and no heartbeat however slow it is."""
    times = {"heartbeat_seconds": 60.0, "lease_seconds": 300.0}
    return settings.model_copy(update={"flow_modules": MODULES, **times})


def play(settings: Settings, look: Callable[[], None]) -> None:
    """Play the whole script; ``look`` is called wherever something new has been written."""
    LOOKS.append(look)
    try:
        with (
            closing(engine_of(make_app(settings))) as engine,
            closing(Client(settings=settings)) as client,
        ):
            script(engine, client, look)
    finally:
        LOOKS.remove(look)


def rounds(engine: Runtime, client: Client, run_id: str, most: int = 20) -> None:
    """Play the rounds of a run until it waits, ends, or has played as many as ``most``."""
    for _ in range(most):
        run = client.get(run_id)
        if run.status not in (RunStatus.QUEUED, RunStatus.RUNNING) or run.phase == "waiting":
            return
        engine.rounds.run(run_id, run.details["epoch"], run.state.step)


def script(engine: Runtime, client: Client, look: Callable[[], None]) -> None:
    """Take runs through every transition."""
    told = dict(Signature("golden.told", queue=f"{engine.settings.prefix}.told"))
    sweeper = engine.new_sweeper("all", "threads", 4)
    sweeper.announce()
    look()

    client.submit(
        "charging",
        "a goal of several words",
        run_id="golden-1",
        idempotency_key="golden-key",
        interrupt_before=["Executor"],
        interrupt_after=["Controller"],
        max_rounds=9,
        deadline=3600,
        thread_id="golden-thread",
        labels={"team": "golden"},
        budgets={"tokens": 1000, "money": 1},
        retry={"max_attempts": 2},
        submitted_by="ann",
        on_end=told,
    )
    look()
    for _ in range(3):
        rounds(engine, client, "golden-1")
        look()
        if client.get("golden-1").status is RunStatus.INTERRUPTED:
            client.resume("golden-1")
            look()
    assert client.get("golden-1").answer == "charged", client.get("golden-1")
    engine.callbacks.make(
        "golden-1", client.get("golden-1").details["epoch"]
    )  # a sweep would, later
    look()

    client.submit("asker", "ask a person", {"deadline": 3600, "default": "no"}, run_id="golden-2")
    rounds(engine, client, "golden-2")
    look()
    client.resume("golden-2", answer={"may": True}, by="bob")
    look()
    rounds(engine, client, "golden-2")

    client.submit("wary", "tidy up", run_id="golden-3")
    rounds(engine, client, "golden-3")
    look()
    client.resume("golden-3", answer="approve")
    rounds(engine, client, "golden-3")

    client.submit("wordy", "a long result", run_id="golden-4")
    rounds(engine, client, "golden-4")
    look()

    client.submit("trouble", "retry and fail", {"times": 1}, run_id="golden-5")
    rounds(engine, client, "golden-5", 1)
    look()
    client.request_stop("golden-5", mode="now", reason="enough", requested_by="ann")
    look()
    client.submit("trouble", "fail", {"kind": "fatal"}, run_id="golden-6", on_end=told)
    rounds(engine, client, "golden-6")
    look()
    client.retry("golden-6")
    look()
    client.request_stop("golden-6")
    client.resume("golden-6")
    rounds(engine, client, "golden-6")
    client.delete("golden-6")
    look()

    client.submit("ledger", "later", {"rounds": 1}, run_id="golden-7", not_before=3600)
    look()
    client.submit("ledger", "unfinished", {"rounds": 9}, run_id="golden-8", max_rounds=1)
    rounds(engine, client, "golden-8")
    look()

    client.submit("ledger", "lost worker", {"rounds": 4}, run_id="golden-9")
    lose_its_worker(engine)
    look()

    client.pause_flow("ledger", reason="a pause", requested_by="ann")
    look()
    client.unpause_flow("ledger")
    engine.store.rounds.ask_provider(
        "refused", "golden.example", "golden-9", wait=1000, first=1000, longest=2000
    )
    look()
    engine.app.conf.broker_transport_options["guard_letters"](
        engine.store.keys.queue("controller"), '{"body": ""}', "not a round"
    )
    tokens = Tokens(client)
    tokens.create("ann", ["read"])
    tokens.signing_key()
    SavedFilters(client, "ann").save("mine", "status=queued")
    sweeper.sweep()
    engine.write_stats()
    look()


def lose_its_worker(engine: Runtime) -> None:
    """Claim the run, then sweep as if the lease were long over: the run is freed and sent again."""
    store = engine.store
    store.rounds.claim(
        "golden-9",
        epoch=0,
        step=0,
        claim="golden-claim",
        owner="golden-worker",
        lease=1,
        known=("ledger",),
        back=0,
    )
    _look()


def transitions(store: Store) -> Iterator[None]:
    """Yield after each transition that no round in this process makes; the clock is the test's."""
    new_run(store, "golden-21")
    granted = claim(store, "golden-21")
    yield
    store.rounds.extend([("golden-21", granted.token, '{"done": 1, "total": 2, "text": "half"}')])
    yield
    assert stay(store, granted) is not None
    yield
    store.rounds.extend([("golden-21", hash_of(store, "golden-21")["token"], "")])
    yield
    stop(store, "graceful", run_id="golden-21")
    store.rounds.extend([("golden-21", hash_of(store, "golden-21")["token"], "")])
    yield
    new_run(store, "golden-22")
    fail_round(store, claim(store, "golden-22"))
    yield
    new_run(store, "golden-23", fields={"deadline": str(clock(store) + 1000)})
    new_run(store, "golden-24")
    claim(store, "golden-24", owner="golden-worker")
    store.rounds.release_dead_lease("golden-24", epoch=0, step=0, process="golden-worker")
    yield
    new_run(store, "golden-25")
    commit(store, claim(store, "golden-25"), "damaged", error="damaged")
    yield
    for _ in range(3):
        advance(store, 60_000)
        sweep(store)
        yield
