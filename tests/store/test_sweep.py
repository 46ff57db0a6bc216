"""sweep_due: it re-enqueues overdue runs, and executes nothing."""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    GRACE,
    LEASE,
    RETENTION,
    START,
    advance,
    assert_lawful,
    at,
    claim,
    clock,
    commit_end,
    commit_next,
    due,
    due_in,
    events,
    everything,
    fail_round,
    hash_of,
    indexes,
    later,
    made,
    messages,
    new_run,
    pause_here,
    pause_next,
    phase,
    resume,
    stay,
    stop,
    sweep,
    sweep_after,
    take,
)


def test_what_is_not_due_is_not_looked_at(store: Store) -> None:
    new_run(store)
    claim(store)
    assert sweep_after(store, LEASE - 1) == []


def test_a_lapsed_lease_is_freed_and_fences_its_owner(store: Store) -> None:
    new_run(store)
    zombie = claim(store, owner="w1")
    assert sweep_after(store, LEASE) == [("r", "freed")]
    fields = hash_of(store)
    assert (fields["phase"], fields["losses"], fields["step"], fields["attempt"]) == (
        "queued",
        "1",
        "0",
        "1",
    )
    assert not {"owner", "claim_id", "lease_until", "progress"} & set(fields)
    assert (events(store)[-1]["type"], events(store)[-1]["owner"]) == ("lost", "w1")
    assert commit_next(store, zombie) == ("fenced", "")
    assert_lawful(store)


def test_first_loss_is_queued_at_once_later_ones_wait(store: Store) -> None:
    """One poison run and its restarts must not take the neighbours along."""
    new_run(store)
    words, delays = [], []
    for _ in range(4):
        claim(store)
        [(_, word)] = sweep_after(
            store, LEASE, max_losses=10, loss_delay=1_000, loss_delay_max=30_000
        )
        words.append(word)
        delays.append(due_in(store))
        if word == "delayed":
            assert phase(store) == "waiting" and messages(store) == []
            sweep_after(store, delays[-1])
    assert words == ["freed", "delayed", "delayed", "delayed"]
    assert delays[0] == GRACE
    assert [round(delay / delays[1]) for delay in delays[1:]] == [1, 2, 4]


@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.9])
def test_the_wait_after_a_loss_has_jitter_within_half_of_it(store: Store, jitter: float) -> None:
    new_run(store)
    claim(store)
    sweep_after(store, LEASE)
    claim(store)
    sweep_after(store, LEASE, jitter=jitter, loss_delay=1_000)
    assert 500 <= due_in(store) <= 1_500


def test_runs_lost_together_do_not_come_back_together(store: Store) -> None:
    for run_id in "abcdef":
        new_run(store, run_id)
        claim(store, run_id)
    sweep_after(store, LEASE)
    for run_id in "abcdef":
        claim(store, run_id)
    sweep_after(store, LEASE)
    assert len({due(store, run_id) for run_id in "abcdef"}) == 6


def test_the_wait_after_losses_is_bounded(store: Store) -> None:
    new_run(store)
    for _ in range(12):
        claim(store)
        sweep_after(store, LEASE, max_losses=99, loss_delay_max=5_000)
        sweep_after(store, 7_500)
    claim(store)
    sweep_after(store, LEASE, max_losses=99, loss_delay_max=5_000)
    assert due_in(store) <= 7_500


def test_over_max_losses_the_run_is_errored_and_the_error_says_why(store: Store) -> None:
    new_run(store)
    words = []
    for _ in range(3):
        claim(store, owner="w7")
        words += sweep_after(store, LEASE, max_losses=2, loss_delay=1)
        sweep_after(store, 5)
    assert [word for _, word in words] == ["freed", "delayed", "errored"]
    fields = hash_of(store)
    assert fields["status"] == "error" and due(store) is None and indexes(store) == ["errored"]
    for part in ("workers died", "step 0", "Controller", "3 times", "w7"):
        assert part in fields["error"]


def test_a_lapsed_lease_under_a_stop_is_stopped_not_queued(store: Store) -> None:
    new_run(store)
    claim(store)
    stop(store)
    assert sweep_after(store, LEASE) == [("r", "stopped")]
    assert (hash_of(store)["in_doubt"], messages(store)) == ("0/Controller/1", [])


def test_in_line_beyond_the_cursor_is_left_alone(store: Store) -> None:
    """A backlog is not a loss."""
    for run_id in ("a", "b", "c"):
        new_run(store, run_id)
    claim(store, "a")
    before = messages(store)
    for _ in range(10):
        words = sweep_after(store, 60_000)
        assert {word for run, word in words if run in "bc"} <= {"in_line"}
        assert not [event for run in "bc" for event in events(store, run, "resent")]
    assert [text for text in messages(store) if text[0] in "bc"] == before == ["b/0/0", "c/0/0"]


def test_in_line_too_far_to_search_is_left_alone(store: Store) -> None:
    """Its number says that it is in the queue, though its message lies beyond the searched part."""
    store.redis.lpush(store.keys.queue("controller"), *(["somebody's"] * 1_000))
    new_run(store)
    for _ in range(6):
        assert {word for _, word in sweep_after(store, 60_000)} <= {"in_line"}
    assert messages(store).count("r/0/0") == 1 and hash_of(store).get("looked") != "1"


def test_a_run_in_line_is_looked_at_again_after_the_time_it_has_waited(store: Store) -> None:
    new_run(store, "a")
    new_run(store, "b")
    claim(store, "a")
    looks = []
    for _ in range(4):
        advance(store, due_in(store, "b"))
        assert ("b", "in_line") in sweep(store)
        looks.append(clock(store) + due_in(store, "b") - START)
    assert looks == [2 * GRACE, 4 * GRACE, 8 * GRACE, 16 * GRACE]


def test_a_message_lost_from_a_list_that_goes_on_is_marked_then_resent(store: Store) -> None:
    for run_id in ("lost", "next", "waits"):
        new_run(store, run_id)
    assert take(store) == "lost/0/0"
    commit_end(store, claim(store, "next"))
    assert ("lost", "marked") in sweep_after(store, GRACE)
    assert messages(store) == ["waits/0/0"]
    assert ("lost", "resent") in sweep_after(store, GRACE)
    assert messages(store) == ["lost/0/0", "waits/0/0"], "at the consuming end"
    assert events(store, "lost")[-1]["type"] == "resent"


def test_a_message_lost_from_an_empty_list_is_marked_then_resent(store: Store) -> None:
    new_run(store)
    take(store)
    assert sweep_after(store, GRACE) == [("r", "marked")]
    assert messages(store) == []
    assert sweep_after(store, GRACE) == [("r", "resent")]
    assert messages(store) == ["r/0/0"]


@pytest.mark.parametrize("cursor", [0, 1], ids=["by its number", "by the search"])
def test_a_mark_is_taken_back_where_the_message_is_found_after_all(
    store: Store, cursor: int
) -> None:
    """A killed consumer gives back the messages that it had popped: a later loss is a new one."""
    new_run(store)
    text = take(store)
    assert sweep_after(store, GRACE) == [("r", "marked")] and text is not None
    store.redis.rpush(store.keys.queue("controller"), text)
    store.redis.hset(store.keys.queues, f"{store.keys.queue('controller')}:cursor", cursor)
    assert sweep_after(store, GRACE) == [("r", "in_line")]
    take(store)
    assert sweep_after(store, GRACE) == [("r", "marked")]


def test_one_grace_between_the_mark_and_the_push(store: Store) -> None:
    """The message may have been popped this instant."""
    new_run(store)
    take(store)
    sweep_after(store, GRACE)
    assert due(store) == START + 2 * GRACE
    assert sweep_after(store, GRACE - 1) == []
    granted = claim(store)
    assert commit_end(store, granted) == ("ok", "completed")
    assert sweep_after(store, 60_000) == [] and messages(store) == []


@pytest.mark.parametrize(("others", "factor"), [(1, 1), (256, 1), (257, 2)])
def test_the_grace_doubles_with_each_push_behind_a_line_too_long_to_search(
    store: Store, others: int, factor: int
) -> None:
    """docs/internals/decisions/0003: where the whole line is searched no copy can pile up, and the
    grace stays.
    """
    new_run(store)
    new_run(store, "ahead")
    commit_end(store, claim(store, "ahead"))
    graces = []
    for _ in range(4):
        store.redis.delete(store.keys.queue("controller"))
        store.redis.lpush(store.keys.queue("controller"), *(["somebody's"] * others))
        words: list[tuple[str, str]] = []
        while ("r", "resent") not in words:
            words = sweep_after(store, max(1, due_in(store)))
        graces.append(int(hash_of(store)["grace"]))
    assert graces == [GRACE * factor**pushes for pushes in (1, 2, 3, 4)]


def test_a_resent_message_behind_a_long_line_is_found_at_the_consuming_end(store: Store) -> None:
    new_run(store)
    new_run(store, "ahead")
    commit_end(store, claim(store, "ahead"))
    store.redis.delete(store.keys.queue("controller"))
    store.redis.lpush(store.keys.queue("controller"), *(["somebody's"] * 1_000))
    for _ in range(10):
        sweep_after(store, 60_000)
    assert messages(store).count("r/0/0") == 1


def test_a_message_pushed_again_is_not_pushed_a_third_time_while_it_lies_there(
    store: Store,
) -> None:
    new_run(store)
    take(store)
    sweep_after(store, GRACE)
    sweep_after(store, GRACE)
    for _ in range(5):
        sweep_after(store, 60_000)
    assert messages(store) == ["r/0/0"]


def test_the_grace_starts_anew_with_every_step(store: Store) -> None:
    new_run(store)
    store.redis.hset(store.keys.run("r"), "grace", 64_000)
    commit_next(store, claim(store))
    assert hash_of(store)["grace"] == str(GRACE) and due(store) == START + GRACE


def test_the_grace_starts_anew_with_every_epoch(store: Store) -> None:
    new_run(store)
    stop(store)
    store.redis.hset(store.keys.run("r"), "grace", 64_000)
    resume(store)
    assert due(store) == clock(store) + GRACE


def test_a_spared_lease_is_due_at_its_end_though_the_runs_deadline_comes_before(
    store: Store,
) -> None:
    new_run(store, deadline=LEASE + 1)
    claim(store)
    later(store, LEASE)
    assert sweep(store) == [("r", "spared")]
    assert due(store) == clock(store) + LEASE


def test_a_stale_stored_message_is_never_sent(store: Store) -> None:
    """Every write of epoch, step or node replaces the stored message; a lost one comes back as the
    new one.
    """
    new_run(store)
    pause_next(store, claim(store), "Executor")
    resume(store, "r1")
    stop(store, op="s1")
    resume(store, "r2")
    epoch, step = at(store)
    store.redis.delete(store.keys.queue("executor"))
    sweep_after(store, GRACE)
    sweep_after(store, GRACE)
    assert messages(store, "executor") == [f"r/{epoch}/{step}"] == ["r/2/1"]
    claim(store)


def test_a_waiting_run_is_woken_at_its_time(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), delay=1_000)
    assert sweep_after(store, 999) == []
    assert sweep_after(store, 1) == [("r", "woken")]
    fields = hash_of(store)
    assert (
        fields["phase"] == "queued"
        and messages(store) == ["r/0/0"]
        and not {"waiting_for", "waiting_until"} & set(fields)
    )
    assert_lawful(store)


def test_a_start_time_is_kept(store: Store) -> None:
    new_run(store, phase="waiting", delay=60_000)
    assert sweep_after(store, 59_999) == []
    assert sweep_after(store, 1) == [("r", "woken")]
    assert commit_next(store, claim(store)) == ("ok", "continued")


def test_an_interrupt_at_its_deadline_gets_the_default_answer(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait="30000", i_default='"no"')
    assert sweep_after(store, 29_999) == []
    assert sweep_after(store, 1) == [("r", "answered")]
    assert at(store) == (1, 0) and messages(store) == ["r/1/0"]
    assert claim(store).fields["i_answer"] == '"no"'
    assert_lawful(store)


def test_an_answer_that_came_after_the_deadlines_default_is_stale(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait="1000", i_default='"no"')
    seen = hash_of(store)
    sweep_after(store, 1_000)
    assert resume(store, epoch=0, interrupt=seen["i_id"], answer='"yes"') == ["stale"]
    assert claim(store).fields["i_answer"] == '"no"'


def test_a_lease_that_was_extended_is_not_taken_by_an_old_due_time(store: Store) -> None:
    """The due set is the promise, the hash is the truth."""
    new_run(store)
    sweep_after(store, 0)
    granted = claim(store)
    store.redis.zadd(store.keys.due, {"r": START})
    assert sweep_after(store, 100) == [("r", "in_line")]
    assert due(store) == START + LEASE
    assert commit_next(store, granted) == ("ok", "continued")


def test_a_wait_is_waited_out_though_the_run_is_looked_at_before(store: Store) -> None:
    new_run(store)
    fail_round(store, claim(store), delay=10_000)
    store.redis.zadd(store.keys.due, {"r": START})
    assert sweep(store) == [("r", "in_line")]
    assert due(store) == START + 10_000 and messages(store) == []


@pytest.mark.parametrize("wait", [None, "10000"])
def test_a_question_looked_at_before_its_deadline_is_not_answered(
    store: Store, wait: str | None
) -> None:
    new_run(store)
    pause_here(store, claim(store), **({} if wait is None else {"i_wait": wait}))
    store.redis.zadd(store.keys.due, {"r": START})
    assert sweep(store) == [("r", "in_line")]
    assert phase(store) == "interrupted" and due(store) == (
        None if wait is None else START + 10_000
    )


@pytest.mark.parametrize("after", [LEASE, 1_000 + LEASE])
def test_a_lease_that_lapsed_past_the_runs_deadline_ends_the_run(store: Store, after: int) -> None:
    """Within the lease that the round had to commit in, and beyond it, where the round has ignored
    its limit.
    """
    new_run(store, deadline=1_000)
    claim(store)
    assert sweep_after(store, after) == [("r", "errored")]
    assert "deadline" in hash_of(store)["error"] and messages(store) == []


def test_rounds_that_ignore_their_limit_are_bounded_as_failures_are(store: Store) -> None:
    new_run(store, fields={"round_timeout": "1000"})
    words = []
    for _ in range(3):
        token = claim(store).token
        for _ in range(6):
            advance(store, 1_000)
            store.rounds.extend([("r", token, "")])
        words += sweep(store, max_failures=3)
        sweep_after(store, 1_000)
    assert [word for _, word in words] == ["overran", "overran", "errored"]
    assert "longer than its limit" in hash_of(store)["error"]


def test_a_message_that_is_lost_again_gets_its_grace_again(store: Store) -> None:
    """It was marked and sent again; the copy may have been popped this instant as well."""
    new_run(store)
    for _ in range(2):
        take(store)
        assert sweep_after(store, GRACE) == [("r", "marked")]
        assert sweep_after(store, GRACE) == [("r", "resent")]


def test_a_question_asked_again_after_a_stop_is_answered_at_its_new_deadline(store: Store) -> None:
    new_run(store)
    pause_here(store, claim(store), i_wait="1000", i_default='"no"')
    stop(store)
    resume(store)
    assert sweep_after(store, 1_000) == [("r", "answered")]
    assert at(store) == (2, 0) and messages(store) == ["r/2/0"]
    claim(store)


def test_the_runs_deadline_ends_what_has_not_started(store: Store) -> None:
    new_run(store, deadline=5_000)
    assert sweep_after(store, 5_000) == [("r", "errored")]
    assert "deadline" in hash_of(store)["error"] and due(store) is None


def test_a_run_that_its_deadline_ends_in_a_backoff_waits_for_nothing(store: Store) -> None:
    new_run(store, deadline=500)
    fail_round(store, claim(store))
    assert hash_of(store)["waiting_for"] == "retry"
    assert sweep_after(store, 600) == [("r", "errored")]
    assert {"waiting_for", "waiting_until"}.isdisjoint(hash_of(store))


def test_a_round_in_flight_is_not_ended_by_the_runs_deadline_before_its_lease(store: Store) -> None:
    new_run(store, deadline=1_000)
    granted = claim(store)
    assert sweep_after(store, 1_000) == []
    assert commit_end(store, granted) == ("ok", "completed")


def test_ended_and_missing_runs_are_removed(store: Store) -> None:
    new_run(store, "done")
    commit_end(store, claim(store, "done"))
    new_run(store, "still")
    stop(store, run_id="still")
    store.redis.zadd(store.keys.due, {"done": START, "still": START, "nobody": START})
    assert sorted(sweep(store)) == [
        ("done", "removed"),
        ("nobody", "removed"),
        ("still", "removed"),
    ]
    assert store.redis.zcard(store.keys.due) == 0


def test_every_run_looked_at_is_moved_or_removed_so_that_none_hides_others(store: Store) -> None:
    for number in range(10):
        new_run(store, f"line{number}")
    new_run(store, "lapsed")
    claim(store, "lapsed")
    store.redis.zadd(store.keys.due, {"nobody": 1})
    advance(store, 10 * LEASE)
    seen: list[str] = []
    for _ in range(6):
        batch = sweep(store, batch=2)
        assert len(batch) <= 2
        seen += [run for run, _ in batch]
        for run, word in batch:
            moved = due(store, run)
            assert (
                (moved is None)
                if word == "removed"
                else (moved is not None and moved > clock(store))
            )
    assert len(seen) == len(set(seen)) == 12 and sweep(store, batch=2) == []


def test_the_sweep_executes_nothing_and_commits_nothing(store: Store) -> None:
    new_run(store)
    claim(store)
    for _ in range(6):
        sweep_after(store, 60_000, max_losses=1)
    assert (
        events(store, kind="committed") == []
        and at(store) == (0, 0)
        and store.reads.memory("r") == []
    )


def test_an_ended_run_leaves_its_index_when_its_keys_are_gone(store: Store) -> None:
    new_run(store, "done")
    commit_end(store, claim(store, "done"))
    new_run(store, "broken")
    fail_round(store, claim(store, "broken"), fatal=1)
    new_run(store, "still")
    stop(store, run_id="still")
    sweep_after(store, 10 * RETENTION)
    assert (indexes(store, "done"), indexes(store, "broken")) == (["completed"], ["errored"]), (
        "the server has not let them go yet"
    )
    for run_id in ("done", "broken"):
        store.redis.delete(store.keys.run(run_id))
    sweep(store)
    assert (indexes(store, "done"), indexes(store, "broken"), indexes(store, "still")) == (
        [],
        [],
        ["stopped"],
    )


def test_runs_that_are_kept_for_long_hide_no_others_whose_keys_are_gone(store: Store) -> None:
    """As many of the oldest are looked at as of any others in the same sweep."""
    for number in range(60):
        store.redis.set(store.keys.run(f"kept{number}"), "")
        store.redis.zadd(store.keys.index("completed"), {f"kept{number}": number})
    store.redis.zadd(store.keys.index("completed"), {"gone": 100})
    sweep(store)
    assert indexes(store, "gone") == ["completed"]
    sweep(store, jitter=0.5)
    assert indexes(store, "gone") == []


def test_no_sweep_storm_on_a_healthy_run(store: Store) -> None:
    new_run(store)
    for step in range(20):
        assert len(messages(store) + messages(store, "executor")) == 1
        granted = claim(store)
        sweep_after(store, 500)
        commit_next(store, granted, "Executor" if step % 2 == 0 else "Controller")
    pushed = store.redis.hmget(
        store.keys.queues,
        *(f"{store.keys.queue(role)}:pushed" for role in ("controller", "executor")),
    )
    assert sum(int(str(text)) for text in pushed) == 21 and events(store, kind="resent") == []


def test_an_empty_sweep_changes_nothing_but_its_time(store: Store) -> None:
    new_run(store)
    sweep(store)
    before = everything(store)
    assert sweep(store) == []
    assert everything(store) == before


def test_what_a_sweep_resends_puts_no_other_lost_message_in_line(store: Store) -> None:
    """Two messages lost at once: the first is pushed again in the same script in which the second
    is looked at.
    """
    for run_id in ("a", "b", "c"):
        new_run(store, run_id)
    store.redis.delete(store.keys.queue("controller"))
    sweep_after(store, GRACE)
    assert sorted(sweep_after(store, GRACE)) == [("a", "resent"), ("b", "resent"), ("c", "resent")]


def sleepers(store: Store, count: int, delay: int = 1) -> None:
    """Submit runs whose time to start comes in this number of milliseconds."""
    for n in range(count):
        new_run(
            store,
            f"s{delay}-{n}",
            phase="waiting",
            delay=delay,
            fields={"waiting_for": "start", "not_before": str(START + delay)},
        )


def test_a_lapsed_lease_comes_before_all_that_fell_due_earlier(store: Store) -> None:
    sleepers(store, 40)
    new_run(store)
    claim(store)
    report = sweep_after(store, LEASE, batch=5)
    assert len(report) == 5 and ("r", "freed") in report


def test_a_message_that_was_brought_is_taken_however_many_are_due(store: Store) -> None:
    """Of a run that waits for a retry, which is no lease: nothing else takes it out of the order of
    time.
    """
    new_run(store)
    stayed = stay(store, claim(store))
    assert stayed is not None and fail_round(store, stayed, delay=1) == ("ok", "waiting")
    sleepers(store, 1_200, delay=2)
    advance(store, 2)
    assert ("r", "unmade") in sweep(store, batch=5)
    later(store, 1)
    assert ("r", "woken") in sweep(store, batch=5, made={"r": made(store)})


def test_each_lapsed_lease_is_found_within_as_many_sweeps_as_pieces_of_what_is_due(
    store: Store,
) -> None:
    sleepers(store, 2_100)
    sleepers(store, 300, delay=LEASE + 1)
    for n in range(7):
        new_run(store, f"r{n}")
        claim(store, f"r{n}")
    advance(store, LEASE + 1)
    words = [
        word for _ in range(4) for run_id, word in sweep(store, batch=5) if run_id.startswith("r")
    ]
    assert words == ["freed"] * 7


def test_a_lease_that_has_just_lapsed_is_found_by_the_next_sweep_however_many_are_due(
    store: Store,
) -> None:
    """Sweeps of a busy worker are slow: a run that only the 30th finds waits for seconds."""
    sleepers(store, 3_600)
    new_run(store)
    claim(store)
    assert ("r", "freed") in sweep_after(store, LEASE, batch=5)


def test_a_queued_run_that_is_looked_at_before_its_time_is_marked_and_then_sent_again(
    store: Store,
) -> None:
    """A process that has seen another die has reason to: the graces of a message that is on its way
    are seconds.
    """
    sleepers(store, 40)
    new_run(store)
    take(store)
    new_run(store, "behind")
    claim(store, "behind")
    advance(store, 1)
    assert ("r", "marked") in sweep(store, batch=5, soon=["r"])
    assert ("r", "resent") in sweep(store, batch=5, soon=["r"])
    assert messages(store).count("r/0/0") == 1
    assert_lawful(store)


def test_to_look_before_its_time_moves_no_other_run(store: Store) -> None:
    new_run(store, "queued")
    for run_id in ("leased", "retries", "ended"):
        new_run(store, run_id)
    granted = {run_id: claim(store, run_id) for run_id in ("leased", "retries", "ended")}
    new_run(
        store,
        "sleeps",
        phase="waiting",
        delay=500,
        fields={"waiting_for": "start", "not_before": str(START + 500)},
    )
    fail_round(store, granted["retries"], delay=500)
    commit_end(store, granted["ended"])
    advance(store, 1)
    before = {
        run_id: (phase(store, run_id), due(store, run_id))
        for run_id in ("leased", "retries", "ended", "sleeps")
    }
    sweep(store, soon=[*before, "queued", "missing"])
    assert {run_id: (phase(store, run_id), due(store, run_id)) for run_id in before} == before
    assert messages(store) == ["queued/0/0"], "it is in line"


def test_what_is_not_leased_is_swept_while_leases_come_first(store: Store) -> None:
    """No run that was looked at stays where it hides others."""
    sleepers(store, 1_200)
    seen = 0
    advance(store, 2)
    while report := sweep(store, batch=25):
        assert {word for _, word in report} == {"woken"}
        seen += len(report)
    assert seen == 1_200


@pytest.mark.parametrize("kept", [0, 30], ids=["all gone", "some are kept for longer"])
def test_a_sweep_forgets_more_ended_runs_than_can_end_between_two(store: Store, kept: int) -> None:
    index = store.keys.index("completed")
    for n in range(kept):
        new_run(store, f"kept{n}")
        commit_end(store, claim(store, f"kept{n}"))
    store.redis.zadd(index, {f"gone{n}": START + n for n in range(900)})
    sweep_after(store, LEASE)
    left = store.redis.zrange(index, 0, -1)
    assert len([run_id for run_id in left if run_id.startswith("gone")]) == 0
    assert len([run_id for run_id in left if run_id.startswith("kept")]) == kept
