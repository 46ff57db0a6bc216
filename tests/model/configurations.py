"""The bounded configurations: each enables its own subject, and keeps the rest small.

Together they cover the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.model.moving import publish_all
from tests.model.rules import Rules
from tests.model.state import Family, World
from tests.model.topics import new_topic
from tests.model.transitions import submit

BOTH_STOPS = ("stop:graceful", "stop:now")


@dataclass(frozen=True)
class Config:
    """The things of the world, the possible events, and durations (in ticks)."""

    about: str
    # How much there is.
    runs: int = 1
    queues: int = 1
    steps: int = 2  # rounds until the run ends
    begins: int = 0  # the step at which a run begins; that of a fork is above 0
    epochs: int = 1  # how often it may be taken up again
    slots: int = 2  # worker processes in the middle of a round, zombies included
    clients: int = 0  # who have looked, or lost a reply, and not yet sent (again)
    longest: int = 2  # messages that a list holds; further ones are lost
    submissions: int = 2
    # Possible events.
    starts: tuple[str, ...] = ("queued",)
    kinds: tuple[str, ...] = ("next", "end")
    operations: tuple[str, ...] = ()
    late: tuple[str, ...] = ()  # operations that arrive long after the look they rest on
    mute: bool = False  # replies are lost, and requests sent again
    again: bool = False  # messages come twice, late, forged
    doubles: bool = False  # messages stand in their list twice
    fetches: bool = False  # commits fetch the next message, and claim its run
    stays: bool = False  # commits may be such that the run stays with its worker
    unheard: bool = False  # replies of prefetching or staying commits are lost; others may arrive
    beats: bool = False
    forfeits: bool = False
    hurries: bool = False  # where a process has died, queued runs are looked at before they are due
    intents: bool = False  # rounds carry out a command that is not idempotent, and record results
    ignorant: bool = False  # workers that do not know the flow
    hands_on: bool = False  # workers may forward messages to able workers, which come and go
    pauses: bool = False
    waits: tuple[
        tuple[str, int | None], ...
    ] = ()  # of each node, one behind the other: signal or sleep, and the ticks that it lasts
    waits_from: int = 0  # the first step whose node waits
    signals: int = 0  # that a run is sent at most
    heeds: bool = False  # rounds receive messages, and the run does not end before
    children: int = 0  # places of the group that the first node waits for
    join: str = "all"  # of their ends: all, settled, first
    limit: int = 2  # children that run at a time
    holds: bool = False  # bad ends are held back until a person has continued the child
    outlives: bool = False  # the group is started in the first step and joined in the second
    posts: int = (
        0  # signals to the topic, each with a key; with any, runs are submitted with the topic
    )
    listens: bool = False  # rounds take the topic for their run, as often as they like
    callers: int = 1  # callers that look after a family at a time, late ones included
    grown: bool = False  # the first round's message was sent again, in a line too long to be searched: it is looked at less often
    deletes: bool = False
    kept: int = 0  # the number of first runs that are never deleted, and exist from the start
    outbox: bool = False
    in_order: bool = (
        False  # outbox: published at once, and handed out again at the head; nothing overtakes
    )
    told: tuple[int | None, ...] = (
        None,
    )  # the queue lengths that the sweep gets from the broker: true, 0, or none
    forgetful: bool = (
        False  # workers that live miss their beats, so that a silence may cost them their leases
    )
    silence: bool = (
        False  # silence is distinguished from calm; without it, other sweepers always work
    )
    stalls: tuple[int, ...] = ()
    # How long things take.
    tick: int = 1_000  # ms of a tick on the real server
    unmade: int = 1  # until a run is looked at again whose message is to be made
    lease: int = 2
    grace: int = 1
    delay: int = 1  # after a failure or a loss
    hold: int = 2  # until a run of a paused flow is looked at
    start: int = 1
    answer_within: int = 1
    deadline: int | None = None
    round_timeout: int | None = None
    within: int | None = None  # since the first failure of a step, for which it is tried again
    # The bounds.
    max_failures: int = 2
    max_losses: int = 1
    batch: int = 100
    searched: int = 256
    oldest: int = 3  # how long a run has been queued is counted to here
    overdue: int = 0  # times that have passed are distinguished up to this age

    farthest: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Set ``farthest``, beyond which no due time lies."""
        object.__setattr__(
            self,
            "farthest",
            max(
                self.lease,
                self.oldest,
                2 * self.delay,
                self.hold,
                self.start,
                self.answer_within,
                *(ticks or 0 for _, ticks in self.waits),
            ),
        )

    def initial(self, rules: Rules) -> list[tuple[Any, ...]]:
        """Return the beginnings: every run submitted, in each way that it may be."""
        empty = (
            (None,) * self.runs,
            (),
            (),
            ((),) * self.queues,
            (),
            (0,) * self.queues,
            (frozenset(),) * self.queues,
            False,
            0,
            None,
            (),
            (),
            True,
            (),
            Family(children=("none",) * self.children) if self.children else None,
            new_topic(self.runs) if self.posts else None,
        )
        if self.deletes:
            world = World(empty, self, rules)
            for place in range(self.kept):
                submit(world, place, 1, "queued")
            return [world.frozen()]
        states = []
        for start in self.starts:
            world = World(empty, self, rules)
            for place in range(self.runs):
                submit(world, place, 1, start)
            for run in world.runs:
                if run is not None and self.grown:
                    run.grace = 2 * self.grace
            if self.in_order:
                publish_all(world)
            states.append(world.frozen())
        return states


ALL = (
    "next",
    "end",
    "pause_next",
    "pause_here",
    "pause_here_deadline",
    "failed",
    "fatal",
    "give_back",
)

#: The configurations that the slow suite explores, and that kill the mutants.
CONFIGURATIONS: dict[str, Config] = {
    "stops": Config(
        "both stops, resumes that arrive late, zombies, duplicates, forged messages",
        again=True,
        operations=(*BOTH_STOPS, "resume"),
        late=("resume",),
        clients=1,
    ),
    "replies": Config(
        "every reply lost, and every request sent again",
        steps=1,
        mute=True,
        operations=(*BOTH_STOPS, "resume"),
        clients=2,
        slots=1,
        kinds=("end",),
    ),
    "refusals": Config(
        "refused operations sent again when they would succeed",
        steps=1,
        slots=1,
        mute=True,
        operations=("stop:graceful", "resume", "retry"),
        clients=1,
        kinds=("end", "fatal"),
    ),
    "forks": Config(
        "runs that begin at a step above 0, in each way, with duplicates, stops and forged messages of the steps before",
        begins=1,
        steps=3,
        starts=("queued", "waiting", "interrupted"),
        slots=1,
        again=True,
        operations=(*BOTH_STOPS, "resume"),
        late=("resume",),
        clients=1,
    ),
    "questions": Config(
        "pauses at a boundary and inside a node, deadlines, answers that come late, stops of paused runs",
        starts=("queued", "interrupted"),
        slots=1,
        kinds=("next", "end", "pause_next", "pause_here", "pause_here_deadline"),
        epochs=2,
        operations=("stop:graceful", "resume", "resume:answer"),
        late=("resume:answer",),
        clients=1,
        answer_within=2,
    ),
    "endings": Config(
        "pauses behind the round that ends a run, runs that have used up their cycles and are given more, both late; stops between",
        slots=1,
        steps=2,
        kinds=("next", "end", "end_unfinished", "pause_end", "pause_unfinished"),
        epochs=2,
        operations=("stop:graceful", "stop:now", "resume", "resume:more"),
        late=("resume:more",),
        clients=1,
        deadline=3,
    ),
    "failures": Config(
        "failing rounds, lost workers, give-backs, retries that arrive late; the bounds of each",
        kinds=("next", "end", "failed", "fatal", "give_back"),
        operations=("retry", "stop:graceful"),
        late=("retry",),
        clients=1,
        max_losses=2,
        slots=1,
    ),
    "busy": Config(
        "rounds that wait for a provider, and their patience",
        kinds=("next", "end", "failed", "busy"),
        operations=("retry",),
        clients=1,
        slots=1,
        delay=2,
        within=3,
    ),
    "misfits": Config(
        "rounds whose code does not fit the run, and that are handed on to workers whose code does",
        kinds=("next", "end", "busy", "misfit"),
        operations=("stop:now", "resume"),
        clients=1,
        slots=1,
        hands_on=True,
        delay=2,
        within=3,
    ),
    "limits": Config(
        "the round's own limit and the run's deadline, beaten for or not",
        steps=1,
        kinds=("end", "failed", "pause_here"),
        operations=("retry", "resume"),
        beats=True,
        round_timeout=1,
        deadline=3,
        again=True,
        starts=("queued", "waiting"),
    ),
    "outbox": Config(
        "the broker elsewhere: published late, twice, never; lengths that are wrong or missing",
        outbox=True,
        again=True,
        operations=("stop:now", "resume"),
        told=(None, 0, -1),
        slots=1,
        steps=1,
        kinds=("end", "give_back"),
    ),
    "two runs": Config(
        "two runs in one line, lost messages, and a sweep that looks at one run a time",
        hurries=True,
        runs=2,
        steps=1,
        kinds=("end",),
        batch=1,
        longest=3,
        overdue=1,
    ),
    "in order": Config(
        "two runs, the broker elsewhere and in order: what a dead worker had comes again at the head",
        runs=2,
        steps=1,
        kinds=("end",),
        outbox=True,
        in_order=True,
        longest=4,
        slots=1,
        overdue=1,
    ),
    "two queues": Config(
        "rounds that take turns between two lists, each with its own cursor and line",
        runs=2,
        queues=2,
        steps=2,
        kinds=("next", "end"),
        slots=1,
        longest=2,
        oldest=2,
        overdue=1,
    ),
    "silence": Config(
        "stalls of the server and of all sweepers, workers that live and workers that died",
        steps=2,
        silence=True,
        stalls=(2, 3, 5),
        lease=4,
        beats=True,
        forfeits=True,
        overdue=10,
        slots=2,
        max_losses=1,
        round_timeout=None,
    ),
    "silence past a limit": Config(
        "a stall that ends in the middle of a round which is past its own limit",
        steps=1,
        silence=True,
        stalls=(3, 5),
        lease=4,
        beats=True,
        overdue=10,
        slots=1,
        round_timeout=1,
        kinds=("end", "failed"),
    ),
    "forfeits": Config(
        "processes that die with their parent watching, and those of other deliveries",
        forfeits=True,
        hurries=True,
        again=True,
        beats=True,
        operations=("stop:graceful",),
        max_losses=1,
    ),
    "intents": Config(
        "commands begun, lost, stopped, failed, taken back and tried again; results recorded by whoever has them",
        intents=True,
        kinds=("next", "end", "failed", "try_again"),
        operations=("stop:now", "resume", "retry"),
    ),
    "intents of the deleted": Config(
        "what workers of a deleted run write down when its id is another run's",
        intents=True,
        deletes=True,
        steps=1,
        kinds=("end", "try_again"),
        operations=("stop:now",),
    ),
    "paused": Config(
        "flows paused and unpaused, workers that do not know the flow, a first start that waits",
        pauses=True,
        ignorant=True,
        starts=("queued", "waiting"),
        start=2,
        operations=("stop:now", "resume"),
        kinds=("next", "end", "failed"),
    ),
    "handed on": Config(
        "workers that do not know the flow, and hand its messages on to workers that do, who come and go",
        ignorant=True,
        hands_on=True,
        operations=("stop:now", "resume"),
        kinds=("next", "end", "give_back"),
    ),
    "handed on and paused": Config(
        "the same while the flow is paused, rounds fail, and the run has a deadline",
        ignorant=True,
        hands_on=True,
        pauses=True,
        hold=1,
        deadline=3,
        slots=1,
        kinds=("next", "end", "failed"),
    ),
    "deleted": Config(
        "runs deleted and submitted again under their id, while old workers live",
        deletes=True,
        again=True,
        mute=True,
        clients=1,
        steps=1,
        kinds=("end", "give_back"),
        operations=("stop:now",),
    ),
    "fetches": Config(
        "commits that fetch the run's own next message: lost replies, both stops, late messages twice, rounds given back unbegun",
        fetches=True,
        unheard=True,
        doubles=True,
        operations=(*BOTH_STOPS, "resume"),
    ),
    "fetches of another": Config(
        "a commit of one run claims the other, which is swept, claimed by another, committed before the reply is asked for again",
        fetches=True,
        unheard=True,
        runs=2,
        steps=1,
        kinds=("end",),
        overdue=1,
    ),
    "fetches of the deleted": Config(
        "the same while one of them is deleted and submitted again under its id",
        fetches=True,
        unheard=True,
        deletes=True,
        kept=1,
        runs=2,
        steps=1,
        kinds=("end",),
        max_losses=0,
        longest=1,
    ),
    "fetches of the paused": Config(
        "commits that fetch runs of paused flows, and of flows that the worker does not know",
        fetches=True,
        pauses=True,
        ignorant=True,
        runs=2,
        steps=1,
        kinds=("end",),
        slots=1,
        max_losses=0,
        hold=1,
    ),
    "fetches from two queues": Config(
        "commits that fetch from two lists, the one first or the other",
        fetches=True,
        unheard=True,
        runs=2,
        queues=2,
        slots=1,
        max_losses=0,
    ),
    "fetches after any outcome": Config(
        "rounds that fail, pause or end, and fetch, and are resumed before the reply is asked for again",
        fetches=True,
        unheard=True,
        doubles=True,
        queues=2,
        slots=1,
        kinds=("next", "end", "failed", "fatal", "pause_next", "pause_here_deadline"),
        operations=("resume",),
        max_losses=0,
    ),
    "stays": Config(
        "a run that stays: lost replies, both stops, late messages twice, rounds given back unbegun",
        stays=True,
        unheard=True,
        doubles=True,
        operations=(*BOTH_STOPS, "resume"),
    ),
    "stays and fetches": Config(
        "a run that stays for several rounds, and commits that fetch, the repeat of a stay among them",
        stays=True,
        fetches=True,
        unheard=True,
        doubles=True,
        steps=3,
        operations=("stop:graceful",),
    ),
    "stays of two": Config(
        "two runs in one line, which stay, and whose commits fetch the other",
        stays=True,
        fetches=True,
        unheard=True,
        runs=2,
        max_losses=0,
        oldest=2,
    ),
    "stays from two queues": Config(
        "two runs, rounds that take turns between two lists, and a run that stays though its next round is of the other one",
        stays=True,
        runs=2,
        queues=2,
        steps=3,
        slots=1,
        max_losses=0,
        oldest=2,
    ),
    "stays after any outcome": Config(
        "rounds that fail, pause, are answered, lost, sent again or given back before one that is to stay",
        stays=True,
        grown=True,
        unheard=True,
        kinds=("next", "end", "failed", "pause_here", "pause_next", "give_back"),
        operations=("resume", "retry"),
        steps=3,
    ),
    "stays to the limit": Config(
        "the round's own limit and the run's deadline, beaten for or not, while the run stays",
        stays=True,
        unheard=True,
        beats=True,
        forfeits=True,
        round_timeout=2,
        deadline=2,
        kinds=("next", "end", "failed"),
        operations=("retry",),
        steps=3,
    ),
    "stays through silence": Config(
        "stalls of the server while a run stays, leases spared for them",
        stays=True,
        silence=True,
        stalls=(2, 3, 5),
        lease=4,
        beats=True,
        forfeits=True,
        overdue=10,
        slots=2,
        steps=3,
    ),
    "stays of the paused": Config(
        "runs that are to stay while their flow is paused",
        stays=True,
        unheard=True,
        pauses=True,
        steps=3,
        operations=("stop:graceful", "resume"),
    ),
    "stays of the deleted": Config(
        "runs that stay and are deleted, and submitted again under their id, before the reply is asked for again",
        stays=True,
        unheard=True,
        deletes=True,
        max_losses=0,
        operations=("stop:now",),
    ),
    "waits": Config(
        "signals to a node that waits twice, the first time not for long; deaths, both stops, resumes",
        waits=(("signal", 2), ("signal", None)),
        signals=2,
        operations=(*BOTH_STOPS, "resume"),
        slots=1,
    ),
    "sleeps": Config(
        "a node that sleeps, stopped and resumed meanwhile, messages twice and late, workers that come back",
        waits=(("sleep", 2),),
        again=True,
        operations=("stop:graceful", "resume"),
    ),
    "waits that fail": Config(
        "rounds that fail behind a wait, lost replies, a deadline, an end before the signal comes",
        waits=(("signal", 1),),
        signals=2,
        kinds=("end", "failed", "give_back"),
        operations=("retry",),
        mute=True,
        slots=1,
        steps=1,
        deadline=3,
    ),
    "waits behind a stay": Config(
        "a run that stays and then waits: its hash has no message",
        stays=True,
        fetches=True,
        waits=(("signal", 1),),
        waits_from=1,
        signals=1,
        slots=1,
        operations=("stop:graceful", "resume"),
    ),
    "says": Config(
        "words for a run that works and stays, and in the moment of its end; deaths, stops, resumes",
        heeds=True,
        stays=True,
        signals=2,
        steps=3,
        slots=1,
        kinds=("next", "end", "failed"),
        operations=("stop:graceful", "resume"),
    ),
    "renewals": Config(
        "a run that is renewed behind a wait: signals before, meanwhile and after, deaths, lost replies, stops, resumes",
        waits=(("signal", 1),),
        signals=2,
        kinds=("renew", "end"),
        operations=("stop:graceful", "resume"),
        mute=True,
        slots=1,
        max_losses=0,
    ),
    "children": Config(
        "a parent of two children; callers that are late, die, and send again; deaths",
        children=2,
        callers=2,
        waits=(("children", None),),
        kinds=("end", "failed"),
        max_losses=0,
        steps=1,
    ),
    "children one at a time": Config(
        "the same with a limit of one child, while the parent is stopped and resumed",
        children=2,
        limit=1,
        waits=(("children", None),),
        kinds=("end",),
        operations=("stop:graceful", "resume"),
        max_losses=0,
        slots=1,
        steps=1,
    ),
    "first of two children": Config(
        "a parent that goes on with the first success, whose other child is stopped",
        children=2,
        join="first",
        waits=(("children", None),),
        kinds=("next", "end"),
        operations=("stop:graceful",),
        max_losses=0,
        slots=1,
    ),
    "children and stops": Config(
        "both stops of the parent, its failure, resume and retry; children in a round while it is stopped",
        children=2,
        join="settled",
        waits=(("children", None),),
        kinds=("end", "fatal"),
        operations=("stop:graceful", "resume", "retry"),
        max_losses=0,
        slots=1,
        steps=1,
    ),
    "children that are held": Config(
        "a parent that waits until a person has mended its children, one of which runs at a time",
        children=2,
        limit=1,
        holds=True,
        waits=(("children", None),),
        kinds=("end", "fatal"),
        operations=("retry",),
        max_losses=0,
        slots=1,
        steps=1,
    ),
    "children that are started": Config(
        "a parent that starts its children in one step and joins them in the next",
        children=2,
        outlives=True,
        waits=(("children", None),),
        kinds=("next", "end"),
        operations=("stop:graceful",),
        max_losses=0,
        slots=1,
    ),
    "a parent stopped alone": Config(
        "stops of the parent that leave its children alone, and such as do not",
        children=1,
        waits=(("children", None),),
        kinds=("end",),
        operations=("stop:only", "stop:graceful", "resume"),
        max_losses=0,
        slots=1,
        steps=1,
    ),
    "children over another broker": Config(
        "a parent whose messages are published late, twice or never; callers that die; deaths",
        children=1,
        outbox=True,
        waits=(("children", None),),
        kinds=("end", "failed"),
        max_losses=0,
        slots=1,
        steps=1,
    ),
    "children behind a stay": Config(
        "a parent that stays and then waits for its children, so that its hash has no message",
        children=1,
        stays=True,
        fetches=True,
        waits=(("children", None),),
        waits_from=1,
        operations=("stop:graceful", "resume"),
        max_losses=0,
        slots=1,
    ),
    "topics": Config(
        "two runs that want one topic, signals sent before and after, twice; ends, stops, deletions",
        runs=2,
        posts=2,
        deletes=True,
        steps=1,
        epochs=0,
        slots=1,
        kinds=("end",),
        operations=("stop:graceful",),
        max_losses=0,
        oldest=1,
        longest=1,
    ),
    "topics of runs that fail": Config(
        "runs that hold a topic, or held it before another, and fail, are retried, and end",
        runs=2,
        posts=1,
        deletes=True,
        steps=1,
        slots=1,
        kinds=("end", "fatal"),
        operations=("retry",),
        max_losses=0,
        oldest=1,
        longest=1,
    ),
    "topics that rounds take": Config(
        "two runs that take one topic in their rounds, one of them at its submission too",
        runs=2,
        posts=1,
        listens=True,
        deletes=True,
        kept=1,
        steps=1,
        slots=1,
        kinds=("end", "fatal"),
        operations=("retry",),
        max_losses=0,
        oldest=1,
        longest=1,
    ),
    "topics that late rounds take": Config(
        "a run that is stopped, resumed, deleted and submitted anew, while workers go on in its rounds",
        posts=1,
        listens=True,
        deletes=True,
        steps=1,
        kinds=("end",),
        operations=("stop:now", "resume"),
        max_losses=0,
        oldest=1,
        longest=1,
    ),
    "stays with intents": Config(
        "commands begun and results recorded in rounds of a run that stays",
        stays=True,
        unheard=True,
        intents=True,
        kinds=("next", "end", "failed"),
        operations=("stop:now", "resume"),
        max_losses=0,
    ),
}

#: The same with more of everything, for `python -m tests.model --wide`: minutes, not seconds.
WIDE: dict[str, Config] = {
    name: replace(CONFIGURATIONS[name], **more)
    for name, more in {
        "stops": {"epochs": 2, "beats": True, "kinds": ("next", "end", "give_back")},
        "replies": {"slots": 2, "kinds": ("end", "give_back")},
        "questions": {
            "slots": 2,
            "operations": ("stop:graceful", "stop:now", "resume", "resume:answer"),
        },
        "failures": {"slots": 2, "again": True, "beats": True},
        "limits": {
            "steps": 2,
            "kinds": ("next", "end", "failed", "pause_here", "pause_here_deadline"),
        },
        "refusals": {"epochs": 2},
        "outbox": {"steps": 2, "kinds": ("next", "end", "give_back")},
        "two runs": {"overdue": 3, "oldest": 4, "queues": 1},
        "in order": {"slots": 2},
        "two queues": {"slots": 2},
        "silence": {"stalls": (1, 2, 3, 4, 5, 6), "steps": 3, "operations": ("stop:graceful",)},
        "intents": {
            "kinds": ("next", "end", "failed", "try_again", "give_back", "pause_here"),
            "operations": (*BOTH_STOPS, "resume:answer", "retry"),
        },
        "fetches": {"mute": True},
        "fetches of another": {"mute": True, "longest": 3},
        "fetches of the deleted": {"longest": 2, "max_losses": 1},
        "fetches of the paused": {"max_losses": 1, "hold": 2},
        "fetches from two queues": {"max_losses": 1},
        "fetches after any outcome": {
            "max_losses": 1,
            "beats": True,
            "operations": ("resume", "retry"),
        },
        "deleted": {"submissions": 3, "steps": 2, "kinds": ("next", "end", "give_back")},
    }.items()
}
