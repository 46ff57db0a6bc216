"""All trials by name. A number is the point of the composition design that the trial plays."""

from __future__ import annotations

from tests.trials import brokers, budgets, changing_code, hash_seeds, lists, mail, trees, workflows
from tests.trials.trial import Trial

TRIALS = {
    "families": Trial(
        "1: each child is started once and heard once, a worker killed every second",
        1_000, 4, trees.families,
    ),
    "starts": Trial(
        "4: children of a parent whose worker died before it started them run within 3.5 s (p99)",
        200, 3, trees.starts,
    ),
    "signals": Trial(
        "6: signals of many senders to many runs, each sent twice: none lost, none twice, in order",
        100_000, 2_000, mail.signals,
    ),
    "signals_renewing": Trial(
        "6: the same while the runs renew themselves every 100 rounds",
        100_000, 2_000, mail.signals_renewing,
    ),
    "topics": Trial(
        "7: signals to a topic from a minute before to a minute after its run is submitted: none lost, none twice",
        10_000, 400, mail.topics,
    ),
    "time_outs": Trial(
        "8: a signal and a time-out in the same millisecond: every attempt sees the same winner",
        10_000, 100, mail.time_outs,
    ),
    "at_once": Trial(
        "14: with max_concurrency 16 never 17 children live, and 14 on average",
        2_000, 240, trees.at_once,
    ),
    "stops": Trial(
        "17: a stop now of a tree of 1,111 runs: the last is stopped within 2 s",
        20, 1, trees.stops,
    ),
    "wide_stop": Trial(
        "17: a run with very many children is stopped, resumed and stopped with all of them",
        10_000, 300, trees.wide_stop,
    ),
    "stops_while_starting": Trial(
        "17: no child is started after the acknowledgement of a stop",
        10_000, 100, trees.stops_while_starting,
    ),
    "stop_and_resume": Trial(
        "18: a tree that is stopped and resumed again and again has the same answer",
        100, 10, trees.stop_and_resume,
    ),
    "held": Trial(
        "20: a failed child that is held back and retried: its parent completes, each child was played once",
        10_000, 200, trees.held,
    ),
    "says": Trial(
        "22: what is said to a run of many rounds a second is heard in its next controller round",
        1_000, 20, mail.says,
    ),
    "finishes": Trial(
        "22: what is said in the moment of the finish is heard or reported, never silent",
        10_000, 50, mail.finishes,
    ),
    "purse": Trial(
        "23: a tree's tokens are exact, a worker killed in every second request",
        20, 4, budgets.purse,
    ),
    "families_over_redis": Trial(
        "26: the first point with another Redis as the broker",
        300, 4, brokers.families_over_redis,
    ),
    "families_over_rabbit": Trial(
        "26: the first point with RabbitMQ as the broker",
        300, 4, brokers.families_over_rabbit,
    ),
    "signals_over_redis": Trial(
        "26: signals to many runs with another Redis as the broker",
        20_000, 2_000, brokers.signals_over_redis,
    ),
    "signals_over_rabbit": Trial(
        "26: signals to many runs with RabbitMQ as the broker",
        20_000, 2_000, brokers.signals_over_rabbit,
    ),
    "stops_over_rabbit": Trial(
        "26: the stop of a tree with RabbitMQ as the broker",
        5, 1, brokers.stops_over_rabbit,
    ),
    "join_over_rabbit": Trial(
        "26: a join completes though its broker was killed in the middle",
        1_000, 500, brokers.join_over_rabbit,
    ),
    "effects": Trial(
        "workflows: each effect of ten steps once, a worker killed every second",
        1_000, 300, workflows.effects,
    ),
    "rolling": Trial(
        "workflows, controllers and rings: a deployment back and forth, three versions at once, ends no run",
        300, 20, changing_code.rolling,
    ),
    "questions": Trial(
        "an answer counts, whatever rule, build and worker the run goes on with",
        1_000, 30, changing_code.questions,
    ),
    "readers": Trial(
        "lists, inbox and bulk signals beside runs that start and end: each entry once",
        10_000, 200, lists.readers,
    ),
    "takers": Trial(
        "steps at once that take signals: each signal to one step, while workers are killed",
        1_000, 60, lists.takers,
    ),
    "hash_seeds": Trial(
        "random programs come to the same, whatever hash seeds the processes have that play them",
        2_000, 6, hash_seeds.programs,
    ),
    "programs": Trial(
        "workflows: random programs come to the same answer and journal under random deaths",
        1_000, 10, workflows.programs,
    ),
}  # fmt: skip
