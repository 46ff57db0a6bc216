"""Mutants of commit_round.lua and continuing.lua."""

from tests.mutants.mutant import Mutant

FENCE = "if run.phase ~= 'leased' or run.token ~= arg.token or run.step ~= arg.step or run.epoch ~= arg.epoch then"

MUTANTS = (
    Mutant(
        "commit.types_unseen", "commit_round",
        "  damaged = mistyped(k)\n",
        "",
        "a wrong type is answered before any write",
        "test_damage.py::test_a_wrong_type_at_any_key_is_answered_before_any_write",
    ),
    Mutant(
        "commit.fields_unseen", "commit_round", "and malformed(k, run)\n", "and nil\n",
        "a garbled control field is answered before any write",
        "test_damage.py::test_a_garbled_control_field_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "commit.not_repeatable", "commit_round",
        "if run.last_token == arg.token then\n",
        "if false then\n",
        "I13: a commit repeated gets its first answer",
        "test_commit.py::test_a_commit_repeated_with_the_last_token_gets_the_last_answer",
    ),
    Mutant(
        "commit.forgets_its_token", "commit_round",
        "set(k, 'last_token', arg.token, 'last_answer', answer,",
        "set(k, 'last_answer', answer,",
        "I13: a commit repeated gets its first answer",
        "test_commit.py::test_a_commit_repeated_with_the_last_token_gets_the_last_answer",
    ),
    Mutant(
        "commit.hold_stays", "commit_round", "  call('HDEL', k.run, 'held_token', 'held_until')\n", "",
        "the late commit lifts the hold", "test_commit.py::test_the_late_commit_of_the_held_token_is_fenced_and_lifts_the_hold",
    ),
    Mutant(
        "commit.hold_waits_on", "commit_round",
        "run.waiting_for == 'hold' then",
        "false then",
        "the late commit ends the wait of a resumed run",
        "test_stop.py::test_the_late_commit_ends_the_wait_of_a_resumed_run",
    ),
    Mutant(
        "commit.hold_wakes_any_wait", "commit_round",
        "run.phase == 'waiting' and run.waiting_for == 'hold' then",
        "run.phase == 'waiting' then",
        "the late commit ends no other wait",
        "test_stop.py::test_the_late_commit_of_the_held_token_ends_no_other_wait",
    ),
    Mutant(
        "commit.any_phase", "commit_round", FENCE, FENCE.replace("run.phase ~= 'leased' or ", ""), "I4: a token swept away is fenced",
        "test_commit.py::test_a_token_swept_away_is_fenced_before_anybody_claims_again",
    ),
    Mutant(
        "commit.any_token", "commit_round", FENCE, FENCE.replace("run.token ~= arg.token or ", ""),
        "I4: only the newest token commits", "test_commit.py::test_a_token_that_was_not_granted_is_fenced",
    ),
    Mutant(
        "commit.any_step", "commit_round", FENCE, FENCE.replace("run.step ~= arg.step or ", ""), "I4: another step is fenced",
        "test_commit.py::test_another_epoch_or_step_is_fenced",
    ),
    Mutant(
        "commit.any_epoch", "commit_round", FENCE, FENCE.replace(" or run.epoch ~= arg.epoch", ""), "I4: another epoch is fenced",
        "test_commit.py::test_another_epoch_or_step_is_fenced",
    ),
    Mutant(
        "commit.by_time", "commit_round", FENCE,
        FENCE.replace("then", "or number(call('HGET', k.run, 'lease_until')) <= now then"),
        "a lease that lapsed but was not swept is still good",
        "test_commit.py::test_a_lease_that_lapsed_but_was_not_swept_is_still_good",
    ),
    Mutant(
        "commit.to_any_list", "commit_round", "local refusal, pushed = unpushable(k, queue)",
        "local refusal, pushed = nil, call('HGET', k.queues, queue .. ':pushed')",
        "a message goes to a list of the broker only",
        "test_commit.py::test_a_queue_that_is_no_list_of_the_broker_is_refused_before_any_write",
    ),
    Mutant(
        "commit.keeps_the_lease", "continuing",
        "call('HDEL', k.run, 'claim_id', 'owner', 'lease_until',",
        "call('HDEL', k.run,",
        "a lease ends with its round",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.memory_unwritten", "logging",
        "  in_parts('RPUSH', k.memory, ARGV, artifacts + 1, #ARGV)\n",
        "",
        "I2: a round's additions are kept",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.memory_cut", "arguments",
        "math.min(i + MOST_AT_ONCE - 1, last)",
        "math.min(i + MOST_AT_ONCE - 3, last)",
        "I2: all of a round's additions are kept",
        "test_commit.py::test_more_additions_and_values_than_luas_stack_holds_are_all_kept",
    ),
    Mutant(
        "commit.unlogged", "logging",
        "  local logged = pcall('XADD', k.events, '*', unpack(event))\n",
        "  local logged = ''\n",
        "I1: the log has every step",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.answer_stays", "commit_round",
        "  if run.i_id then forget_interrupt(k) end\n",
        "",
        "I10: an answer is consumed by the commit",
        "test_commit.py::test_an_answer_is_consumed_by_the_commit",
    ),
    Mutant(
        "commit.same_step", "continuing",
        "'step', whole(run.step + 1)",
        "'step', run.step",
        "I1: each commit is a step",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.attempts_go_on", "continuing",
        "'attempt', '0', 'message'",
        "'message'",
        "a new step starts at attempt one",
        "test_claim.py::test_a_new_step_starts_at_attempt_one",
    ),
    Mutant(
        "commit.failures_go_on", "continuing",
        "call('HSET', k.run, 'failures', '0', 'losses', '0')",
        "call('HSET', k.run, 'losses', '0')",
        "a commit resets the bound of failures",
        "test_commit.py::test_a_commit_resets_the_bounds",
    ),
    Mutant(
        "commit.losses_go_on", "continuing",
        "call('HSET', k.run, 'failures', '0', 'losses', '0')",
        "call('HSET', k.run, 'failures', '0')",
        "a commit resets the bound of losses",
        "test_commit.py::test_a_commit_resets_the_bounds",
    ),
    Mutant(
        "commit.old_question", "commit_round", "if paused then forget_interrupt(k) end\n", "",
        "a second question does not carry the first one's answer",
        "test_commit.py::test_a_second_question_of_the_same_round_does_not_carry_the_first_answer",
    ),
    Mutant(
        "commit.fields_unwritten", "continuing",
        "'last_fetched', id or '',\n    unpack(ARGV, fields, math.min(fields + MOST_AT_ONCE - 1, fields_end)))",
        "'last_fetched', id or '')",
        "I6: the state is written with the step",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.old_list", "commit_round",
        "  if ARGV[i] == 'queue' then queue = ARGV[i + 1] end\n",
        "",
        "the next round's message goes to the next node's list",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.stale_message", "continuing",
        "'message', arg.message,\n",
        "\n",
        "I6: every step has its own message",
        "test_commit.py::test_next_writes_state_memory_event_due_time_and_message_at_once",
    ),
    Mutant(
        "commit.one_question_for_ever", "commit_round", "run.i_id = run.epoch .. ':' .. run.step", "run.i_id = '0:0'",
        "another visit is another question", "test_commit.py::test_the_pause_comes_again_at_the_next_visit",
    ),
    Mutant(
        "commit.deaf_to_stops", "commit_round", "local stopping = run.stop_current_execution == 'stop_requested' and kind ~= 'end'",
        "local stopping = false", "a stop asked meanwhile beats every outcome but end",
        "test_commit.py::test_a_stop_asked_meanwhile_beats_every_outcome_but_end",
    ),
    Mutant(
        "commit.stopped_at_its_end", "commit_round", "'stop_requested' and kind ~= 'end'", "'stop_requested'", "an end beats a stop",
        "test_commit.py::test_an_end_beats_a_stop_asked_meanwhile",
    ),
    Mutant(
        "commit.doubts_what_is_done", "commit_round", "(done or arg.harmless) and", "arg.harmless and",
        "a committed round is not in doubt",
        "test_commit.py::test_the_result_of_the_round_that_a_graceful_stop_met_is_kept",
    ),
    Mutant(
        "commit.no_doubt", "commit_round", "(done or arg.harmless) and", "true and",
        "a round that a stop met unfinished is in doubt",
        "test_commit.py::test_a_round_that_a_stop_met_and_that_was_not_done_is_in_doubt",
    ),
    Mutant(
        "commit.doubts_the_harmless", "commit_round", "(done or arg.harmless) and", "done and",
        "an attempt that did nothing is not in doubt",
        "test_commit.py::test_an_attempt_that_did_nothing_which_may_not_be_repeated_is_not_in_doubt_after_a_stop",
    ),
    Mutant(
        "commit.one_failure_more", "commit_round", "failures >= number(arg.max_failures)", "failures > number(arg.max_failures)",
        "I16: failures are bounded", "test_commit.py::test_failures_over_the_bound_end_the_run_errored",
    ),
    Mutant(
        "commit.failures_uncounted", "commit_round", "set(k, 'failures', whole(failures), 'last_error', arg.error, ",
        "set(k, 'last_error', arg.error, ", "I16: failures are counted",
        "test_commit.py::test_failures_over_the_bound_end_the_run_errored",
    ),
    Mutant(
        "commit.fatal_tried_again", "commit_round", "if arg.fatal or spent", "if spent", "a fatal failure ends the run at once",
        "test_commit.py::test_a_fatal_failure_ends_the_run_at_once",
    ),
    Mutant(
        "commit.no_wait", "commit_round", "wait(k, run, now, 'retry', delay)", "wait(k, run, now, 'retry', 0)",
        "a failed round waits as long as it was told", "test_commit.py::test_a_failed_round_waits_and_keeps_its_step",
    ),
    Mutant(
        "commit.waits_counted", "commit_round", "  if counts then failures = failures + 1 end\n", "  failures = failures + 1\n",
        "I16: a wait for a provider is no failure", "test_commit.py::test_a_wait_for_a_provider_is_no_failure",
    ),
    Mutant(
        "commit.patience_of_any_step", "commit_round", "if epoch ~= run.epoch or step ~= run.step or not is_count(since) then",
        "if not is_count(since) then", "patience is of one step and epoch",
        "test_commit.py::test_patience_begins_anew_with_each_step_and_each_retry",
    ),
    Mutant(
        "commit.patience_without_end", "commit_round", "local spent = left and left <= 0", "local spent = false",
        "I16: patience ends", "test_commit.py::test_a_wait_for_a_provider_ends_with_its_patience",
    ),
    Mutant(
        "commit.wait_beyond_patience", "commit_round", "math.min(number(arg.delay), left or math.huge)", "number(arg.delay)",
        "the last attempt is made when the patience ends", "test_commit.py::test_a_wait_for_a_provider_ends_with_its_patience",
    ),
    Mutant(
        "commit.not_quarantined", "commit_round", "  set(k, 'quarantined', '1')\n", "", "a damaged run is told as such",
        "test_commit.py::test_a_damaged_run_is_quarantined_and_never_swept",
    ),
    Mutant(
        "commit.unpushed", "continuing",
        "  call('LPUSH', list, arg.message)\n",
        "",
        "I6: a commit and the next message are one effect",
        "test_push.py::test_commit_and_the_message_for_the_next_step_are_one_effect",
    ),
    Mutant(
        "commit.given_back_to_nobody", "commit_round", "  push(k, run, now)\n  answer = 'queued'", "  answer = 'queued'",
        "a round given back is queued",
        "test_commit.py::test_giving_back_counts_nothing_and_queues_the_same_round_at_the_consuming_end",
    ),
    Mutant(
        "commit.given_back_unmade", "commit_round", "elseif arg.own and run.message == '' then", "elseif false then",
        "a round that is given back is queued with its message", "test_unmade.py::test_a_round_that_is_given_back_brings_its_message",
    ),
    Mutant(
        "commit.given_back_with_any_message", "commit_round", "elseif arg.own and run.message == '' then", "elseif arg.own then",
        "a message that is there is not taken for another", "test_unmade.py::test_a_message_that_is_there_is_not_taken_for_another",
    ),
    Mutant(
        "commit.given_back_and_forgotten", "commit_round", "  set(k, 'message', arg.own)\n", "",
        "a round that is given back keeps its message", "test_unmade.py::test_a_round_that_is_given_back_brings_its_message",
    ),
)  # fmt: skip
