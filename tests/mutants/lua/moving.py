"""Mutants of moving.lua and operations.lua."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "moving.fifteen_replies", "operations",
        "local KEPT_OPERATIONS = 16",
        "local KEPT_OPERATIONS = 15",
        "the last sixteen operations are remembered",
        "test_resume.py::test_the_last_sixteen_operations_are_remembered",
    ),
    Mutant(
        "moving.fields_cut", "continuing",
        "  in_parts('HSET', k.run, ARGV, fields + MOST_AT_ONCE, fields_end)\n",
        "",
        "all fields are kept",
        "test_commit.py::test_more_additions_and_values_than_luas_stack_holds_are_all_kept",
    ),
    Mutant(
        "moving.fields_at_once", "arguments",
        "for i = first, last, MOST_AT_ONCE do call(command, key, unpack(words, i, math.min(i + MOST_AT_ONCE - 1, last))) end",
        "if first <= last then call(command, key, unpack(words, first, last)) end",
        "a run may hold more values than Lua's stack",
        "test_commit.py::test_more_additions_and_values_than_luas_stack_holds_are_all_kept",
    ),
    Mutant(
        "moving.message_at_rest", "moving", "  if not run.i_wait then set(k, 'message', '') end\n", "",
        "a run at rest has no message stored", "test_at_rest.py::test_a_run_at_rest_has_no_message_stored",
    ),
    Mutant(
        "moving.no_message_to_answer_by", "moving", "  if not run.i_wait then set(k, 'message', '') end", "  set(k, 'message', '')",
        "a question that answers itself keeps the message that goes on with it",
        "test_at_rest.py::test_a_question_that_answers_itself_keeps_the_message_that_goes_on_with_it",
    ),
    Mutant(
        "moving.not_anew", "moving", "  in_parts('HDEL', k.run, names, 1, #names)\n", "", "a run at rest takes less memory",
        "test_at_rest.py::test_a_run_at_rest_takes_less_memory",
    ),
    Mutant(
        "moving.rest_cut", "moving", "in_parts('HSET', k.run, kept, 1, #kept)", "call('HSET', k.run, unpack(kept, 1, 100))",
        "a run at rest keeps all that is its own", "test_at_rest.py::test_a_run_at_rest_keeps_all_that_is_its_own",
    ),
    Mutant(
        "moving.passed_kept", "moving", "if not PASSED[name] then ", "if true then ",
        "a run at rest keeps nothing that has passed",
        "test_at_rest.py::test_a_run_at_rest_keeps_nothing_that_is_written_anew_when_it_goes_on",
    ),
    Mutant(
        "moving.listed_twice", "moving", "if from then call('ZREM', k[from], run.id) end", "", "a run is listed once",
        "test_commit.py::test_end_completes_the_run_and_ends_its_promise",
    ),
    Mutant(
        "moving.rest_uncounted", "moving", "set(k, 'idle', whole(number(run.idle) + math.max(0, now - number(run.updated_at))))", "",
        "time at rest is no time that a run has gone on", "test_rest.py::test_the_time_at_rest_is_counted_when_the_run_goes_on",
    ),
    Mutant(
        "moving.last_rest_only", "moving", "whole(number(run.idle) + math.max(", "whole(math.max(", "rests are added up",
        "test_rest.py::test_rests_that_follow_each_other_are_added_up",
    ),
    Mutant(
        "moving.always_at_rest", "moving", "if from and from ~= 'live' then", "if from then", "a run on its way is not at rest",
        "test_rest.py::test_a_run_on_its_way_is_not_at_rest",
    ),
    Mutant(
        "moving.listed_by_creation", "moving", "ENDED[phase] and now or number(run.created_at)", "number(run.created_at)",
        "ended runs are listed by the time of their end", "test_retention.py::test_ended_runs_are_listed_by_the_time_of_their_end",
    ),
    Mutant(
        "moving.deadline_unpromised", "moving", "if run.deadline and run.phase ~= 'leased' then", "if false then",
        "a run with a deadline is due at it", "test_submit.py::test_a_run_with_a_deadline_is_due_at_it_where_that_is_sooner",
    ),
    Mutant(
        "moving.deadline_ends_leases", "moving", "if run.deadline and run.phase ~= 'leased' then", "if run.deadline then",
        "V5: a round in flight is not ended by the run's deadline before its lease",
        "test_sweep.py::test_a_spared_lease_is_due_at_its_end_though_the_runs_deadline_comes_before",
    ),
    Mutant(
        "moving.due_for_ever", "moving", "call('ZADD', k.due, time, run.id) else call('ZREM', k.due, run.id) end",
        "call('ZADD', k.due, time, run.id) end", "a pause without a deadline is not due",
        "test_commit.py::test_a_pause_without_a_deadline_is_not_due",
    ),
    Mutant(
        "moving.stopped_stays_due", "moving", "local function never_due(k, run) call('ZREM', k.due, run.id) end",
        "local function never_due(k, run) end", "what has ended is not due",
        "test_stop.py::test_a_run_that_nobody_holds_is_stopped_inside_the_request",
    ),
    Mutant(
        "moving.again_takes_a_number", "moving", "if outbox or not again then place =", "if true then place =",
        "a resent message keeps its number", "test_push.py::test_a_resent_message_keeps_its_number",
    ),
    Mutant(
        "moving.outbox_keeps_its_number", "moving", "if outbox or not again then place =", "if not again then place =",
        "in the outbox each push takes a number of its own", "test_outbox.py::test_each_push_takes_a_number_of_its_own",
    ),
    Mutant(
        "moving.again_to_the_far_end", "moving", "call(again and 'RPUSH' or 'LPUSH'", "call('LPUSH'",
        "a recovered run does not wait through the backlog", "test_push.py::test_a_recovered_run_does_not_wait_through_the_backlog",
    ),
    Mutant(
        "moving.first_to_the_consuming_end", "moving", "call(again and 'RPUSH' or 'LPUSH'", "call('RPUSH'",
        "first come, first served", "test_push.py::test_each_first_push_takes_the_lists_next_number_and_the_end_of_the_line",
    ),
    Mutant(
        "moving.outbox_pushes", "moving", "  if outbox then\n    handed", "  if false then\n    handed",
        "in the outbox no transition touches a list", "test_outbox.py::test_no_transition_touches_a_list",
    ),
    Mutant(
        "moving.first_number_moves", "moving", "if outbox and not again then set(k, 'first_number', run.number) end",
        "if outbox then set(k, 'first_number', run.number) end", "a copy at the tail passes nobody",
        "test_outbox.py::test_the_first_message_of_a_run_that_was_sent_twice_takes_no_line_along",
    ),
    Mutant(
        "moving.mark_stays", "moving", "  if run.looked == '1' then set(k, 'looked', '0') end\n", "",
        "one grace for each push", "test_sweep.py::test_a_message_that_is_lost_again_gets_its_grace_again",
    ),
    Mutant(
        "moving.wait_stays", "moving",
        "  if run.waiting_for then unset(k, 'waiting_for', 'waiting_until') end\n",
        "",
        "what is queued does not wait",
        "test_sweep.py::test_a_waiting_run_is_woken_at_its_time",
    ),
    Mutant(
        "moving.queued_without_promise", "moving", "  due_at(k, run, now + number(run.grace))\n", "",
        "V1: a queued run is due a grace ahead",
        "test_submit.py::test_an_acknowledged_submit_has_its_hash_its_message_and_its_promise",
    ),
    Mutant(
        "moving.waits_without_promise", "moving",
        "  set(k, 'waiting_for', reason, 'waiting_until', whole(now + delay))\n  due_at(k, run, now + delay)\n",
        "  set(k, 'waiting_for', reason, 'waiting_until', whole(now + delay))\n", "V1: a waiting run is due at its time",
        "test_commit.py::test_a_failed_round_waits_and_keeps_its_step",
    ),
    Mutant(
        "moving.grace_goes_on", "moving", "run.message, run.number, run.grace = message, '0', run.resend",
        "run.message, run.number = message, '0'", "the grace starts anew with every step",
        "test_sweep.py::test_the_grace_starts_anew_with_every_epoch",
    ),
    Mutant(
        "moving.number_goes_on", "moving", "run.message, run.number, run.grace = message, '0', run.resend",
        "run.message, run.grace = message, run.resend", "the next step joins the end of the line",
        "test_push.py::test_the_step_after_an_answer_joins_the_end_of_the_line",
    ),
    Mutant(
        "moving.limit_of_the_last_round", "moving", "'lease_until', 'round_until', 'claimed_at'", "'lease_until', 'claimed_at'",
        "a round's limit ends with it", "test_heartbeat.py::test_a_limit_that_only_the_worker_knew_ends_with_its_attempt",
    ),
    Mutant(
        "moving.claim_of_the_last_round", "moving", "'claim_id', 'owner', 'lease_until', 'round_until'",
        "'owner', 'lease_until', 'round_until'", "a claim id is there in phase leased only",
        "test_sweep.py::test_a_lapsed_lease_is_freed_and_fences_its_owner",
    ),
    Mutant(
        "moving.answer_stays", "moving", "'i_default', 'i_answer')", "'i_default')", "I10: an answer is consumed by the commit",
        "test_commit.py::test_an_answer_is_consumed_by_the_commit",
    ),
    Mutant(
        "moving.question_stays", "moving",
        "unset(k, 'i_id', 'i_kind',",
        "unset(k, 'i_kind',",
        "a question is closed by the commit",
        "test_commit.py::test_an_answer_is_consumed_by_the_commit",
    ),
    Mutant(
        "moving.key_outlives_its_run", "moving", "  if has_key(k, run) then call('PEXPIREAT', k.idem, time) end\n", "",
        "an idempotency key holds as long as its run",
        "test_commit.py::test_an_ending_sets_one_absolute_expiry_on_all_keys_of_the_run",
    ),
    Mutant(
        "moving.history_outlives_its_run", "moving",
        "for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PEXPIREAT', key, time) end",
        "call('PEXPIREAT', k.run, time)", "an ended run expires with all its keys",
        "test_commit.py::test_an_ending_sets_one_absolute_expiry_on_all_keys_of_the_run",
    ),
    Mutant(
        "moving.key_expires_after_a_retry", "moving", "  if has_key(k, run) then call('PERSIST', k.idem) end\n", "",
        "I11: a retried run keeps its key", "test_retry.py::test_a_retry_keeps_the_keys_again",
    ),
    Mutant(
        "moving.memory_expires_after_a_retry", "moving",
        "for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PERSIST', key) end",
        "call('PERSIST', k.run)",
        "a retried run keeps its memory", "test_retention.py::test_a_retry_keeps_the_run_and_its_next_end_counts_from_then",
    ),
    Mutant(
        "moving.completed_never_expires", "moving",
        (
            "'stop_current_execution', 'none', 'ended_at', whole(now))\n  never_due(k, run)\n  rest_well(k, run)\n  "
            "expire_at(k, run, now + number(run.retention))"
        ),
        "'stop_current_execution', 'none', 'ended_at', whole(now))\n  never_due(k, run)", "a completed run is kept for its retention",
        "test_commit.py::test_an_ending_sets_one_absolute_expiry_on_all_keys_of_the_run",
    ),
    Mutant(
        "moving.errored_never_expires", "moving",
        (
            "'error', text, 'ended_at', whole(now))\n  never_due(k, run)\n  rest_well(k, run)\n  "
            "expire_at(k, run, now + number(run.retention))"
        ),
        "'error', text, 'ended_at', whole(now))\n  never_due(k, run)", "an errored run is kept for its retention",
        "test_retention.py::test_an_errored_run_expires_with_all_its_keys_at_one_time",
    ),
    Mutant(
        "moving.completed_but_asked_to_stop", "moving", "'status', 'completed', 'stop_current_execution', 'none',",
        "'status', 'completed',", "an end beats a stop", "test_commit.py::test_an_end_beats_a_stop_asked_meanwhile",
    ),
    Mutant(
        "moving.errored_but_asked_to_stop", "moving", "'status', 'error', 'stop_current_execution', 'none',", "'status', 'error',",
        "an errored run's stop is over",
        equivalent=(
            "no run is errored under a stop that was asked for: commit_round and sweep_due stop it before they could, and "
            "nobody asks a stop of a run that is not leased without stopping it"
        ),
    ),
    Mutant(
        "moving.stopped_but_asks", "moving",
        "unset(k, 'interrupt_data', 'waiting_for', 'waiting_until')",
        "unset(k, 'interrupt_data')",
        "a stopped run does not wait",
        "test_stop.py::test_a_stopped_run_does_not_tell_what_it_waited_for",
    ),
    Mutant(
        "moving.deadline_not_armed", "moving", "  due_at(k, run, answered_at)\n", "  due_at(k, run, nil)\n",
        "a pause with a deadline is due at it", "test_commit.py::test_a_pause_with_a_deadline_is_due_at_it",
    ),
    Mutant(
        "moving.deadline_not_kept", "moving", "  if answered_at then set(k, 'i_until', whole(answered_at)) end\n", "",
        "an interrupt at its deadline gets the default answer",
        "test_sweep.py::test_an_interrupt_at_its_deadline_gets_the_default_answer",
    ),
    Mutant(
        "moving.data_of_the_last_question", "moving",
        " else unset(k, 'interrupt_data') end",
        " end",
        "a question shows its own data only",
        equivalent=("interrupt_data is gone before any pause: new_epoch takes it out whenever a run goes on, and stop_here when "
            "it does not"),
    ),
    Mutant(
        "moving.same_epoch", "moving", "run.epoch, run.failures, run.losses = whole(number(run.epoch) + 1)",
        "run.epoch, run.failures, run.losses = whole(number(run.epoch))", "a resume begins an epoch",
        "test_resume.py::test_an_answer_takes_the_run_into_the_next_epoch",
    ),
    Mutant(
        "moving.failures_go_on", "moving", "set(k, 'epoch', run.epoch, 'failures', '0', 'losses', '0',",
        "set(k, 'epoch', run.epoch, 'losses', '0',", "a resume resets the bound of failures",
        "test_resume.py::test_resume_resets_the_bounds",
    ),
    Mutant(
        "moving.losses_go_on", "moving", "set(k, 'epoch', run.epoch, 'failures', '0', 'losses', '0',",
        "set(k, 'epoch', run.epoch, 'failures', '0',", "a resume resets the bound of losses",
        "test_resume.py::test_resume_resets_the_bounds",
    ),
    Mutant(
        "moving.stop_goes_on", "moving", "'status', 'running', 'stop_current_execution', 'none')", "'status', 'running')",
        "a resume takes the stop down", "test_resume.py::test_resume_takes_the_stop_down",
    ),
    Mutant(
        "moving.stop_seen_before", "moving", "'stop_asked_at', 'stop_seen_at', 'stopped_at')", "'stop_asked_at', 'stopped_at')",
        "each stop is seen anew", "test_resume.py::test_a_stop_after_a_resume_is_seen_anew",
    ),
    Mutant(
        "moving.old_error_stays", "moving", "'in_doubt', 'error', 'ended_at', 'quarantined',",
        "'in_doubt', 'ended_at', 'quarantined',", "the error leaves the state",
        "test_retry.py::test_the_error_goes_to_the_history_and_leaves_the_state",
    ),
    Mutant(
        "moving.question_skipped", "moving", "if run.i_id and not run.i_answer and not answered then", "if false then",
        "nothing skips an approval", "test_resume.py::test_a_stopped_run_with_an_open_interrupt_asks_again_deadline_rearmed",
    ),
    Mutant(
        "moving.asks_what_is_answered", "moving", "if run.i_id and not run.i_answer and not answered then",
        "if run.i_id and not answered then", "an answer given before a stop stands",
        "test_resume.py::test_a_stopped_run_that_was_answered_before_goes_on",
    ),
    Mutant(
        "moving.answer_unheard", "moving", "if run.i_id and not run.i_answer and not answered then",
        "if run.i_id and not run.i_answer then", "an answer ends the pause",
        "test_resume.py::test_an_answer_takes_the_run_into_the_next_epoch",
    ),
    Mutant(
        "moving.message_of_the_pause", "moving", "    fresh_message(k, run, after)\n", "",
        "a pause keeps the message that will end it",
        "test_sweep.py::test_a_question_asked_again_after_a_stop_is_answered_at_its_new_deadline",
    ),
    Mutant(
        "moving.hold_ignored", "moving", "elseif held > 0 then", "elseif false then", "I5: no two workers in one step",
        "test_stop.py::test_a_resume_before_the_hold_ends_makes_the_run_wait",
    ),
    Mutant(
        "moving.start_ignored", "moving", "elseif early > 0 then", "elseif false then", "a start time is kept over a stop",
        "test_resume.py::test_resume_waits_for_the_start_time_that_was_asked_for",
    ),
    Mutant(
        "moving.replies_forgotten", "operations",
        "  set(k, 'ops', table.concat(lines",
        "  set(k, 'opz', table.concat(lines",
        "I13: an operation is done once",
        "test_stop.py::test_a_stop_repeated_gets_its_first_reply_and_changes_nothing",
    ),
)  # fmt: skip
