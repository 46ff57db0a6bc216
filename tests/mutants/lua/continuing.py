"""Mutants of continuing.lua and logging.lua: the commit that is followed by another round, beside those of commit.py."""

from tests.mutants.mutant import Mutant

TYPES = "test_damage.py::test_a_wrong_type_at_any_key_is_answered_before_any_write"
GARBLED = "test_damage.py::test_a_garbled_control_field_is_damaged_and_nothing_is_written"
AT_ONCE = "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once"

MUTANTS = (
    Mutant(
        "continuing.events_of_any_type", "logging", "if type(logged) == 'table' then return false end", "",
        "a wrong type is answered before any write", TYPES,
    ),
    Mutant(
        "continuing.due_of_any_type", "continuing", "if type(pcall('ZCARD', k.due)) ~= 'number' then return k.due end", "",
        "a wrong type is answered before any write", TYPES,
    ),
    Mutant(
        "continuing.list_of_any_type", "continuing", "if type(pcall('LLEN', list)) ~= 'number' then return list end", "",
        "a wrong type is answered before any write", TYPES,
    ),
    Mutant(
        "continuing.memory_of_any_type", "continuing", "return mistyped({ memory = k.memory,", "return mistyped({",
        "a wrong type is answered before any write",
        "test_damage.py::test_a_commit_that_keeps_a_text_asks_for_the_types_of_what_it_adds_to",
    ),
    Mutant(
        "continuing.artifacts_of_any_type", "continuing", "artifacts = k.artifacts, lists", "lists",
        "a wrong type is answered before any write",
        "test_damage.py::test_a_commit_that_keeps_a_text_asks_for_the_types_of_what_it_adds_to",
    ),
    Mutant(
        "continuing.deaf_to_stops", "continuing", "run.stop_current_execution ~= 'stop_requested' and ", "",
        "a stop asked meanwhile beats every outcome but end", "test_commit.py::test_a_stop_asked_meanwhile_beats_every_outcome_but_end",
    ),
    Mutant(
        "continuing.answer_stays", "continuing", "not run.i_id and ", "", "I10: an answer is consumed by the commit",
        "test_commit.py::test_an_answer_is_consumed_by_the_commit",
    ),
    Mutant(
        "continuing.outbox_pushes", "continuing", " and not arg.outbox\n", "\n", "in the outbox no transition touches a list",
        "test_outbox.py::test_no_transition_touches_a_list",
    ),
    Mutant(
        "continuing.hold_stays", "continuing", "    and run.held_token ~= arg.token\n", "", "the late commit lifts the hold",
        "test_stop.py::test_the_late_commit_ends_the_wait_of_a_resumed_run",
    ),
    Mutant(
        "continuing.without_promise", "continuing", "promises, counted = { due, run.id }, {", "promises, counted = { due, 'other' }, {",
        "V1: a queued run is due a grace ahead", AT_ONCE,
    ),
    Mutant(
        "continuing.deadline_unpromised", "continuing", "  if run.deadline then due = math.min(due, run.deadline) end\n", "",
        "a run with a deadline is due at it", "test_commit.py::test_after_a_commit_a_run_is_due_at_its_deadline_where_that_is_sooner",
    ),
    Mutant(
        "continuing.uncounted", "continuing", "{ list .. ':pushed', place }", "{ list .. ':other', place }",
        "each list counts what was pushed", "test_push.py::test_lists_count_apart",
    ),
    Mutant(
        "continuing.any_count", "continuing", "find(concat(found, '', 1, COUNTS), '^%d+$') and ", "",
        "a garbled control field is answered before any write", GARBLED,
    ),
    Mutant(
        "continuing.long_counts", "continuing", " or #text > 14 then return false end", " then return false end",
        "numbers that Lua does not count exactly are no counts", GARBLED,
    ),
    Mutant(
        "continuing.names_unseen", "continuing", "    and run.flow and run.queue and run.message and run.current_node\n", "",
        "a missing control field is answered before any write",
        "test_damage.py::test_a_missing_control_field_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "continuing.grace_goes_on", "continuing", "  if run.grace ~= run.resend then call('HSET', k.run, 'grace', run.resend) end\n", "",
        "the grace starts anew with every step", "test_sweep.py::test_the_grace_starts_anew_with_every_step",
    ),
    Mutant(
        "continuing.number_goes_on", "continuing", "'number', place, ", "", "the next step joins the end of the line",
        "test_push.py::test_lists_count_apart",
    ),
    Mutant(
        "continuing.to_the_consuming_end", "continuing", "call('LPUSH', list, arg.message)", "call('RPUSH', list, arg.message)",
        "first come, first served",
        "test_push.py::test_the_next_step_and_the_next_epoch_join_the_end_of_the_line",
    ),
    Mutant(
        "continuing.forgets_its_token", "continuing", "'last_token', arg.token, ", "", "I13: a commit repeated gets its first answer",
        "test_commit.py::test_a_commit_repeated_with_the_last_token_gets_the_last_answer",
    ),
    Mutant(
        "continuing.limit_of_the_last_round", "continuing", "'lease_until', 'round_until', 'claimed_at'", "'lease_until', 'claimed_at'",
        "a round's limit ends with it", "test_heartbeat.py::test_a_limit_that_only_the_worker_knew_ends_with_its_round",
    ),
    Mutant(
        "continuing.last_error_stays", "continuing", "'spared', 'last_error', ", "'spared', ", "a round that is done has no error",
        "test_commit.py::test_a_commit_resets_the_bounds",
    ),
)  # fmt: skip
