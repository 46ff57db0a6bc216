"""Mutants of sweep_due.lua."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "sweep.shared_keys_unseen", "sweep_due", "local damaged = mistyped(base)", "local damaged = nil",
        "a sweep that finds a wrong type at a shared key drops no run",
        "test_damage.py::test_a_sweep_that_finds_a_wrong_type_at_a_shared_key_drops_no_run",
    ),
    Mutant(
        "sweep.leases_in_line", "sweep_due", "  local overdue = #oldest < batch and #oldest or call('ZCOUNT', base.due, '-inf', now)\n",
        "  local overdue = 0\n",
        "V1: a lapsed lease comes before all that fell due earlier",
        "test_sweep.py::test_a_lapsed_lease_comes_before_all_that_fell_due_earlier",
    ),
    Mutant(
        "sweep.brought_in_line", "sweep_due", "if call('ZSCORE', base.due, id) then take(id) end", "",
        "a message that was brought is taken", "test_sweep.py::test_a_message_that_was_brought_is_taken_however_many_are_due",
    ),
    Mutant(
        "sweep.newest_unseen", "sweep_due", "if upto < overdue or from > 0 then take_leased", "if false then take_leased",
        "a lease that has just lapsed is found by the next sweep",
        "test_sweep.py::test_a_lease_that_has_just_lapsed_is_found_by_the_next_sweep_however_many_are_due",
    ),
    Mutant(
        "sweep.soon_is_late", "sweep_due", " or match(name, '^soon:(.+)$')", "",
        "a run whose message may have died with a process is looked at now",
        "test_sweep.py::test_a_queued_run_that_is_looked_at_before_its_time_is_marked_and_then_sent_again",
    ),
    Mutant(
        "sweep.peeks_at_the_first", "sweep_due", "number(call('HGET', base.queues, 'peeked')) or 0", "0",
        "each lapsed lease is found within as many sweeps as pieces of what is due",
        "test_sweep.py::test_each_lapsed_lease_is_found_within_as_many_sweeps_as_pieces_of_what_is_due",
    ),
    Mutant(
        "sweep.never_silent", "sweep_due", "if gap > lease / 2 or gap < 0 then", "if gap < 0 then",
        "V5: a lease that lapsed in a silence is spared", "test_silence.py::test_a_lease_that_lapsed_in_a_silence_is_spared_once",
    ),
    Mutant(
        "sweep.silent_too_soon", "sweep_due", "if gap > lease / 2 or gap < 0 then", "if gap >= lease / 2 or gap < 0 then",
        "a gap of half a lease is no silence", "test_silence.py::test_a_gap_of_half_the_shortest_lease_is_no_silence",
    ),
    Mutant(
        "sweep.clock_set_back", "sweep_due", "if gap > lease / 2 or gap < 0 then", "if gap > lease / 2 then",
        "a clock set back is a silence", "test_silence.py::test_a_clock_set_back_is_a_silence",
    ),
    Mutant(
        "sweep.untimed", "sweep_due", "call('HSET', base.queues, 'swept_at', whole(now))\n", "",
        "V2: sweeps that follow each other are no silence", "test_silence.py::test_sweeps_that_follow_each_other_are_no_silence",
    ),
    Mutant(
        "sweep.silence_without_end", "sweep_due", "and time <= number(silent_until) + lease / 2\n", "\n",
        "V2: a lease that lapses later is freed", "test_silence.py::test_a_lease_that_lapses_later_after_the_silence_is_freed",
    ),
    Mutant(
        "sweep.silence_without_after", "sweep_due", "number(silent_until) + lease / 2", "number(silent_until)",
        "V5: a lease that lapses within half a lease after the silence is spared",
        "test_silence.py::test_a_lease_that_lapses_within_half_a_lease_after_the_silence_is_spared",
    ),
    Mutant(
        "sweep.silence_without_start", "sweep_due", "and time >= number(silent_from) and", "and",
        "a lease that lapsed before the silence is freed", "test_silence.py::test_a_lease_that_lapsed_before_the_silence_is_freed",
    ),
    Mutant(
        "sweep.spared_for_ever", "sweep_due", " and run.spared ~= run.lease_until and not overran then", " and not overran then",
        "V2: a round is spared once", "test_silence.py::test_a_spared_round_that_did_not_beat_is_not_spared_by_a_second_silence",
    ),
    Mutant(
        "sweep.overrun_spared", "sweep_due", " and run.spared ~= run.lease_until and not overran then",
        " and run.spared ~= run.lease_until then", "a round past its own limit is no victim of a silence",
        "test_silence.py::test_a_round_past_its_own_limit_is_not_spared_for_ever_though_its_worker_beats",
    ),
    Mutant(
        "sweep.line_counts_its_own", "sweep_due", "  local length = lengths[run.queue]\n",
        "  local length = call('LLEN', run.queue)\n", "what a sweep pushes puts no other in line",
        "test_sweep.py::test_what_a_sweep_resends_puts_no_other_lost_message_in_line",
    ),
    Mutant(
        "sweep.nobody_promoted", "sweep_due", "call('ZADD', base.due, 'XX', 'LT', now, ids[i]) end", "end",
        "a run that its line has passed is looked at now",
        "test_line.py::test_a_run_that_its_line_has_passed_is_found_within_two_graces",
    ),
    Mutant(
        "sweep.promoted_by_an_old_number", "sweep_due", "if phase == 'queued' and queue == list and place == ids[i + 1] then",
        "if phase == 'queued' and queue == list then", "a run that was queued anew is not taken for the one that was passed",
        "test_line.py::test_a_run_that_was_queued_anew_is_not_taken_for_the_one_that_was_passed",
    ),
    Mutant(
        "sweep.promoted_though_leased", "sweep_due", "if phase == 'queued' and queue == list and", "if queue == list and",
        "V5: a run that was claimed is not looked at for its line",
        "test_line.py::test_a_run_that_was_claimed_is_not_due_for_having_left_its_line",
    ),
    Mutant(
        "sweep.line_never_leaves", "sweep_due", "    in_parts('ZREM', line, seen, 1, #seen)\n", "",
        "a run that left its line leaves the set", "test_line.py::test_a_run_that_left_its_line_in_good_order_is_not_looked_at_for_it",
    ),
    Mutant(
        "sweep.robs", "sweep_due", "  if lease_until > now then\n", "  if false then\n", "V5: a lease that has not ended is not taken",
        "test_sweep.py::test_a_lease_that_was_extended_is_not_taken_by_an_old_due_time",
    ),
    Mutant(
        "sweep.lease_stays", "sweep_due", "  free_lease(k)\n  if stopping", "  if stopping",
        "I4: a freed lease fences its owner", "test_sweep.py::test_a_lapsed_lease_is_freed_and_fences_its_owner",
    ),
    Mutant(
        "sweep.deaf_to_stops", "sweep_due", "  if stopping then\n", "  if false then\n",
        "V3: a lapsed lease under a stop is stopped", "test_sweep.py::test_a_lapsed_lease_under_a_stop_is_stopped_not_queued",
    ),
    Mutant(
        "sweep.no_doubt", "sweep_due", "local doubt = run.step .. '/' .. run.current_node .. '/' .. run.attempt", "local doubt = ''",
        "what was in flight is in doubt", "test_sweep.py::test_a_lapsed_lease_under_a_stop_is_stopped_not_queued",
    ),
    Mutant(
        "sweep.overrun_is_a_loss", "sweep_due", "  if overran then\n", "  if false then\n",
        "a limit ignored is a failure, no loss of a worker",
        "test_heartbeat.py::test_a_round_that_ignores_its_limit_is_a_failure_and_no_loss_of_a_worker",
    ),
    Mutant(
        "sweep.overruns_unbounded", "sweep_due", "    if failures >= number(arg.max_failures) then", "    if false then",
        "I16: rounds that ignore their limit are bounded",
        "test_sweep.py::test_rounds_that_ignore_their_limit_are_bounded_as_failures_are",
    ),
    Mutant(
        "sweep.losses_unbounded", "sweep_due", "if losses > number(arg.max_losses) then", "if false then", "I16: losses are bounded",
        "test_sweep.py::test_over_max_losses_the_run_is_errored_and_the_error_says_why",
    ),
    Mutant(
        "sweep.one_loss_less", "sweep_due", "if losses > number(arg.max_losses) then", "if losses >= number(arg.max_losses) then",
        "as many losses as were allowed", "test_sweep.py::test_over_max_losses_the_run_is_errored_and_the_error_says_why",
    ),
    Mutant(
        "sweep.losses_uncounted", "sweep_due", "  set(k, 'losses', run.losses)\n", "", "I16: losses are counted",
        "test_sweep.py::test_over_max_losses_the_run_is_errored_and_the_error_says_why",
    ),
    Mutant(
        "sweep.late_but_freed", "sweep_due",
        "  if run.deadline and number(run.deadline) <= now then return too_late(k, run) end\n  if losses == 1 then",
        "  if losses == 1 then", "a run past its deadline is not played again",
        "test_sweep.py::test_a_lease_that_lapsed_past_the_runs_deadline_ends_the_run",
    ),
    Mutant(
        "sweep.late_but_tried_again", "sweep_due",
        "    if run.deadline and number(run.deadline) <= now then return too_late(k, run) end\n    if failures", "    if failures",
        "a run past its deadline is not played again", "test_sweep.py::test_a_lease_that_lapsed_past_the_runs_deadline_ends_the_run",
    ),
    Mutant(
        "sweep.first_loss_waits", "sweep_due", "if losses == 1 then", "if false then", "V1: the first loss is queued again at once",
        "test_sweep.py::test_first_loss_is_queued_at_once_later_ones_wait",
    ),
    Mutant(
        "sweep.no_loss_waits", "sweep_due", "if losses == 1 then", "if true then", "a poison run does not take its neighbours along",
        "test_sweep.py::test_first_loss_is_queued_at_once_later_ones_wait",
    ),
    Mutant(
        "sweep.loss_delay_unbounded", "sweep_due", "math.min(number(arg.loss_delay) * 2 ^ (losses - 2), number(arg.loss_delay_max))",
        "number(arg.loss_delay) * 2 ^ (losses - 2)", "the wait after losses is bounded",
        "test_sweep.py::test_the_wait_after_losses_is_bounded",
    ),
    Mutant(
        "sweep.loss_delay_stands", "sweep_due", "2 ^ (losses - 2)", "1", "the wait after losses doubles",
        "test_sweep.py::test_first_loss_is_queued_at_once_later_ones_wait",
    ),
    Mutant(
        "sweep.all_come_back_together", "sweep_due",
        "wait(k, run, now, 'loss', math.floor(delay * (0.5 + (jitter + order * 0.618) % 1)))",
        "wait(k, run, now, 'loss', math.floor(delay * (0.5 + jitter)))", "runs lost together do not come back together",
        "test_sweep.py::test_runs_lost_together_do_not_come_back_together",
    ),
    Mutant(
        "sweep.silent_broker", "sweep_due", "if not length then -- the broker", "if false then -- the broker",
        "a broker that does not answer makes no message lost",
        "test_outbox.py::test_a_broker_that_does_not_answer_makes_no_message_lost",
    ),
    Mutant(
        "sweep.backlog_is_a_loss", "sweep_due", "if length > 0 and number(run.number) >", "if false and number(run.number) >",
        "a backlog is not a loss", "test_sweep.py::test_in_line_too_far_to_search_is_left_alone",
    ),
    Mutant(
        "sweep.in_line_of_nobody", "sweep_due", "if length > 0 and number(run.number) >", "if number(run.number) >",
        "V1: a message lost from an empty list is sent again",
        "test_sweep.py::test_a_message_lost_from_an_empty_list_is_marked_then_resent",
    ),
    Mutant(
        "sweep.cursor_unseen", "sweep_due",
        "if length > 0 and number(run.number) > number(call('HGET', k.queues, run.queue .. ':cursor')) then",
        "if length > 0 then", "V1: a message that its line has passed is sent again",
        "test_sweep.py::test_a_message_lost_from_a_list_that_goes_on_is_marked_then_resent",
    ),
    Mutant(
        "sweep.line_unkept", "sweep_due", "    call('ZADD', line_of[run.queue], number(run.number), run.id)\n", "",
        "V1: a run that its line passes is found at once",
        "test_line.py::test_a_run_that_its_line_has_passed_is_found_within_two_graces",
    ),
    Mutant(
        "sweep.looks_at_one_pace", "sweep_due",
        "due_at(k, run, now + math.max(grace, run.queued_at and now - number(run.queued_at) or 0))", "due_at(k, run, now + grace)",
        "V4: who waits long is looked at seldom", "test_sweep.py::test_a_run_in_line_is_looked_at_again_after_the_time_it_has_waited",
    ),
    Mutant(
        "sweep.unsearched", "sweep_due", "if not outbox and call('LPOS'", "if false and call('LPOS'",
        "V4: a message that lies there is not pushed a third time",
        "test_line.py::test_a_message_pushed_again_is_looked_for_every_grace_and_never_doubled",
    ),
    Mutant(
        "sweep.searched_from_the_wrong_end", "sweep_due", "run.message, 'RANK', -1, 'MAXLEN', SEARCHED",
        "run.message, 'RANK', 1, 'MAXLEN', SEARCHED", "V4: a resent message is found at the consuming end",
        "test_sweep.py::test_a_resent_message_behind_a_long_line_is_found_at_the_consuming_end",
    ),
    Mutant(
        "sweep.mark_stays", "sweep_due", "  if run.looked == '1' then set(k, 'looked', '0') end\n", "", "one grace for each push",
        "test_sweep.py::test_a_mark_is_taken_back_where_the_message_is_found_after_all",
    ),
    Mutant(
        "sweep.unmarked", "sweep_due", "if run.looked ~= '1' then", "if false then", "one grace between the mark and the push",
        "test_sweep.py::test_a_message_lost_from_an_empty_list_is_marked_then_resent",
    ),
    Mutant(
        "sweep.grace_stands", "sweep_due", "if length > SEARCHED and not outbox then grace = grace * 2 end\n", "",
        "V4: behind a line too long to search the grace doubles",
        "test_sweep.py::test_the_grace_doubles_with_each_push_behind_a_line_too_long_to_search",
    ),
    Mutant(
        "sweep.grace_grows_in_the_outbox", "sweep_due", "if length > SEARCHED and not outbox then", "if length > SEARCHED then",
        "in the outbox the grace stays", "test_outbox.py::test_the_grace_stays_however_long_the_line",
    ),
    Mutant(
        "sweep.no_batch", "sweep_due", "  local batch = number(arg.batch)\n", "  local batch = 1e9\n", "a sweep looks at a batch",
        "test_sweep.py::test_every_run_looked_at_is_moved_or_removed_so_that_none_hides_others",
    ),
    Mutant(
        "sweep.ended_stay_due", "sweep_due", "    call('ZREM', base.due, id)\n    word = (not run", "    word = (not run",
        "ended and missing runs are removed", "test_sweep.py::test_ended_and_missing_runs_are_removed",
    ),
    Mutant(
        "sweep.damaged_stay_due", "sweep_due", "    call('ZREM', base.due, id)\n    word = 'damaged'", "    word = 'damaged'",
        "damage is not looked at again", "test_damage.py::test_damage_that_the_sweep_finds_is_told_and_not_looked_at_again",
    ),
    Mutant(
        "sweep.damaged_unseen", "sweep_due", "elseif has_mistyped(k) or malformed(k, run) or", "elseif has_mistyped(k) or",
        "what does not read is not moved", "test_damage.py::test_damage_that_the_sweep_finds_is_told_and_not_looked_at_again",
    ),
    Mutant(
        "sweep.one_wrong_type_hides_others", "sweep_due", "elseif has_mistyped(k) or malformed(k, run) or", "elseif malformed(k, run) or",
        "a wrong type at one run hides no other", "test_damage.py::test_a_wrong_type_at_one_run_hides_no_other_from_the_sweep",
    ),
    Mutant(
        "sweep.never_too_late", "sweep_due", "elseif run.deadline and number(run.deadline) <= now then", "elseif false then",
        "the run's deadline ends what has not started", "test_sweep.py::test_the_runs_deadline_ends_what_has_not_started",
    ),
    Mutant(
        "sweep.wakes_too_soon", "sweep_due",
        "if run.waiting_until and number(run.waiting_until) > now and not (run.waiting_for == 'hold' and not run.held_token) then",
        "if false then", "a wait is waited out", "test_sweep.py::test_a_wait_is_waited_out_though_the_run_is_looked_at_before",
    ),
    Mutant(
        "sweep.hold_outlives_its_token", "sweep_due", " and not (run.waiting_for == 'hold' and not run.held_token) then", " then",
        "the late commit ends the wait of a resumed run", "test_stop.py::test_the_late_commit_ends_the_wait_of_a_resumed_run",
    ),
    Mutant(
        "sweep.wakes_the_paused", "sweep_due",
        "elseif run.waiting_for == 'paused' and call('HEXISTS', k.paused, run.flow) == 1 then", "elseif false then",
        "no message is sent for a held run", "test_paused.py::test_while_a_flow_is_paused_no_message_is_sent_for_its_held_runs",
    ),
    Mutant(
        "sweep.hold_stays", "sweep_due",
        "      unset(k, 'held_token', 'held_until')\n",
        "",
        "a hold ends with its lease",
        "test_stop.py::test_a_resume_before_the_hold_ends_makes_the_run_wait",
    ),
    Mutant(
        "sweep.answers_too_soon", "sweep_due", "elseif not run.i_until or number(run.i_until) > now then",
        "elseif not run.i_until then", "nothing skips an approval",
        "test_sweep.py::test_a_question_looked_at_before_its_deadline_is_not_answered",
    ),
    Mutant(
        "sweep.answers_for_nobody", "sweep_due", "elseif not run.i_until or number(run.i_until) > now then",
        "elseif number(run.i_until) > now then", "nothing skips an approval: a question without a deadline waits for ever",
        "test_sweep.py::test_a_question_looked_at_before_its_deadline_is_not_answered",
    ),
    Mutant(
        "sweep.default_lost", "sweep_due", "    set(k, 'i_answer', run.i_default or 'null')\n", "",
        "the default answers at the deadline", "test_sweep.py::test_an_interrupt_at_its_deadline_gets_the_default_answer",
    ),
    Mutant(
        "sweep.answer_in_the_old_epoch", "sweep_due", "    new_epoch(k, run, run.message)\n", "",
        "an answer that came after the default is stale",
        "test_sweep.py::test_an_answer_that_came_after_the_deadlines_default_is_stale",
    ),
    Mutant(
        "sweep.index_keeps_the_gone", "sweep_due", "      in_parts('ZREM', index, gone, 1, #gone)\n", "",
        "an ended run leaves its index when its keys are gone",
        "test_sweep.py::test_an_ended_run_leaves_its_index_when_its_keys_are_gone",
    ),
    Mutant(
        "sweep.index_from_its_start_only", "sweep_due", "for _, first in ipairs({ 0, anywhere }) do",
        "for _, first in ipairs({ 0 }) do", "runs that are kept for long hide no others",
        "test_sweep.py::test_runs_that_are_kept_for_long_hide_no_others_whose_keys_are_gone",
    ),
    Mutant(
        "sweep.asks_for_nothing", "sweep_due", "if not stopping and is_unmade(k, run, now) then return 'unmade' end", "",
        "a run that stayed is queued with a message",
        "test_unmade.py::test_a_lapsed_lease_is_not_taken_away_until_the_message_is_there",
    ),
    Mutant(
        "sweep.asks_for_a_stopped_run", "sweep_due", "if not stopping and is_unmade(", "if is_unmade(", "a stop needs no message",
        "test_unmade.py::test_a_stop_needs_no_message",
    ),
    Mutant(
        "sweep.wakes_without_a_message", "sweep_due", "elseif is_unmade(k, run, now) then", "elseif false then",
        "a run that stayed, and whose round failed, is queued with a message",
        "test_unmade.py::test_a_round_that_failed_waits_and_is_asked_for_when_its_time_has_come",
    ),
    Mutant(
        "sweep.made_again", "sweep_due", "  if run.message ~= '' then return false end\n", "", "a message that is there needs no other",
        "test_sweep.py::test_a_lapsed_lease_is_freed_and_fences_its_owner",
    ),
    Mutant(
        "sweep.made_for_any_epoch", "sweep_due", "if epoch ~= run.epoch or step ~= run.step then", "if step ~= run.step then",
        "I6: a message is of its round", "test_unmade.py::test_a_message_of_another_round_is_not_taken",
    ),
    Mutant(
        "sweep.made_for_any_step", "sweep_due", "if epoch ~= run.epoch or step ~= run.step then", "if epoch ~= run.epoch then",
        "I6: a message is of its round", "test_unmade.py::test_a_message_of_another_round_is_not_taken",
    ),
    Mutant(
        "sweep.unmade_hides_others", "sweep_due", "    due_at(k, run, now + UNMADE)\n", "", "none hides those behind it",
        "test_unmade.py::test_none_hides_those_behind_it",
    ),
    Mutant(
        "sweep.made_and_forgotten", "sweep_due", "  set(k, 'message', message)\n", "", "what is brought is kept, to be sent again",
        "test_unmade.py::test_what_was_brought_is_sent_again_where_it_is_lost",
    ),
    Mutant(
        "sweep.made_too_late", "sweep_due", "    call('ZADD', base.due, 'XX', 'LT', now, id)\n    brought[", "    brought[",
        "a run whose message is brought is looked at now", "test_unmade.py::test_with_its_message_it_is_recovered_at_once",
    ),
    Mutant(
        "sweep.made_for_nobody", "sweep_due",
        "    call('ZADD', base.due, 'XX', 'LT', now, id)\n    brought[", "    call('ZADD', base.due, 'LT', now, id)\n    brought[",
        "what is gone is not due", "test_unmade.py::test_what_is_brought_for_a_run_that_is_gone_or_at_rest_does_nothing",
    ),
)  # fmt: skip
