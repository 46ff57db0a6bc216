"""Mutants of what people ask for: request_stop.lua, resume_run.lua, retry_run.lua."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "stop.not_repeatable", "request_stop", "if repeated then return repeated end", "",
        "a stop re-sent after a resume does not stop the resumed run",
        "test_stop.py::test_a_stop_resent_after_a_resume_does_not_stop_the_resumed_run",
    ),
    Mutant(
        "stop.after_the_end", "request_stop", "if ENDED[run.phase] or run.phase == 'stopped' then return reply",
        "if run.phase == 'stopped' then return reply", "I9: a run that has ended answers finished",
        "test_stop.py::test_a_run_that_has_ended_answers_finished_with_its_status",
    ),
    Mutant(
        "stop.again", "request_stop", "if ENDED[run.phase] or run.phase == 'stopped' then return reply",
        "if ENDED[run.phase] then return reply", "graceful never softens now", "test_stop.py::test_graceful_never_softens_now",
    ),
    Mutant(
        "stop.never_now", "request_stop", "(arg.mode == 'now' and run.stop_mode == 'graceful')", "false", "now may follow graceful",
        "test_stop.py::test_now_may_follow_graceful",
    ),
    Mutant(
        "stop.last_one_asked", "request_stop", "if first or (arg.mode == 'now' and run.stop_mode == 'graceful') then", "if true then",
        "a second graceful stop keeps who asked first", "test_stop.py::test_a_second_graceful_stop_keeps_who_asked_first",
    ),
    Mutant(
        "stop.asked_anew", "request_stop", "first and whole(now) or run.stop_asked_at", "whole(now)",
        "a stop was asked when it was first asked", "test_stop.py::test_now_may_follow_graceful",
    ),
    Mutant(
        "stop.queued_is_asked", "request_stop", "if run.phase ~= 'leased' then",
        "if run.phase ~= 'leased' and run.phase ~= 'queued' then", "a run that nobody holds is stopped inside the request",
        "test_stop.py::test_a_run_that_nobody_holds_is_stopped_inside_the_request",
    ),
    Mutant(
        "stop.graceful_fences", "request_stop", "if arg.mode == 'graceful' then\n  if first", "if false then\n  if first",
        "a graceful stop lets the round finish", "test_stop.py::test_graceful_asks_a_round_in_flight_and_lets_it_finish",
    ),
    Mutant(
        "stop.now_is_graceful", "request_stop", "if arg.mode == 'graceful' then\n  if first", "if true then\n  if first",
        "I8: after stop now nothing is committed",
        "test_stop.py::test_now_fences_the_round_and_the_run_is_stopped_when_the_call_returns",
    ),
    Mutant(
        "stop.told_twice", "request_stop", "if first then event(", "if true then event(", "one stop is one event",
        "test_stop.py::test_a_second_graceful_stop_keeps_who_asked_first",
    ),
    Mutant(
        "stop.holds_nothing", "request_stop", "set(k, 'held_token', run.token, 'held_until', run.lease_until)\n", "",
        "I5: a resume before the hold ends waits", "test_stop.py::test_a_resume_before_the_hold_ends_makes_the_run_wait",
    ),
    Mutant(
        "stop.keeps_the_lease", "request_stop", "free_lease(k)\nstop_here", "stop_here", "I8: the lease is fenced in the request",
        "test_stop.py::test_now_fences_the_round_and_the_run_is_stopped_when_the_call_returns",
    ),
    Mutant(
        "stop.no_doubt", "request_stop", "stop_here(k, run, now, run.step .. '/' .. run.current_node .. '/' .. run.attempt)",
        "stop_here(k, run, now, '')", "what was in flight is in doubt",
        "test_stop.py::test_now_fences_the_round_and_the_run_is_stopped_when_the_call_returns",
    ),
    Mutant(
        "resume.not_repeatable", "resume_run", "if repeated then return repeated end", "",
        "a resent answer does not answer the next question", "test_resume.py::test_a_resent_answer_does_not_answer_the_next_question",
    ),
    Mutant(
        "resume.any_epoch", "resume_run", "if run.epoch ~= arg.epoch or run.step", "if run.step",
        "another epoch than the one seen is stale", "test_resume.py::test_another_epoch_than_the_one_seen_answers_stale",
    ),
    Mutant(
        "resume.after_the_end", "resume_run",
        "if ENDED[run.phase] and not (goes_on and run.phase == 'completed') then return reply('finished', run.phase) end\n", "",
        "I7: an ended run is not resumed", "test_resume.py::test_an_ended_run_is_not_resumed",
    ),
    Mutant(
        "resume.more_of_any_run", "resume_run", "if arg.more and not goes_on then return reply('stale') end\n", "",
        "only a run that used up its cycles is given more", "test_endings.py::test_only_a_run_that_used_up_its_cycles_is_given_more",
    ),
    Mutant(
        "resume.ended_still_expires", "resume_run", "  if ENDED[run.phase] then persist(k, run) end\n", "",
        "I11: a run that goes on is kept",
        "test_endings.py::test_a_run_that_used_up_its_cycles_goes_on_in_a_new_epoch_when_it_is_given_more",
    ),
    Mutant(
        "resume.end_stays", "resume_run", "  unset(k, 'ending', 'unfinished', 'answer', 'output')\n", "",
        "L4: a run that goes on has no end",
        "test_endings.py::test_a_run_that_used_up_its_cycles_goes_on_in_a_new_epoch_when_it_is_given_more",
    ),
    Mutant(
        "resume.more_is_late_at_once", "resume_run", "  take_down_passed_deadline(k, run, now)\n", "",
        "a deadline that has passed is taken down where more cycles are given",
        "test_endings.py::test_a_deadline_that_has_passed_does_not_end_a_run_that_is_given_more",
    ),
    Mutant(
        "resume.plays_the_end_again", "resume_run", "if answers and run.ending then", "if false then",
        "L4: the round that ends a run is played once",
        "test_endings.py::test_a_run_that_paused_at_its_end_completes_when_it_is_resumed",
    ),
    Mutant(
        "resume.end_unmarked", "resume_run", "  unset(k, 'ending')\n  complete", "  complete", "a completed run is at its end no longer",
        "test_endings.py::test_a_run_that_paused_at_its_end_completes_when_it_is_resumed",
    ),
    Mutant(
        "moving.unfinished_uncounted", "moving", "    tally(k, run, 'moves:unfinished', 1)\n", "",
        "runs that used up their cycles are counted",
        "test_endings.py::test_a_run_that_used_up_its_cycles_is_counted_and_told",
    ),
    Mutant(
        "resume.of_a_running_run", "resume_run", "if PHASES[run.phase] == 'live' then return reply('running') end\n", "",
        "a run that still runs is not resumed", "test_resume.py::test_a_run_that_still_runs_is_not_resumed",
    ),
    Mutant(
        "resume.any_question", "resume_run", "if answers and arg.interrupt ~= run.i_id then return reply('stale') end\n", "",
        "an answer to another question is stale", "test_resume.py::test_an_answer_to_another_question_is_stale",
    ),
    Mutant(
        "resume.asks_what_is_answered", "resume_run", "local open = run.i_id and not run.i_answer", "local open = run.i_id",
        "an answer given before a stop stands", "test_resume.py::test_an_answer_given_before_a_stop_is_not_given_again",
    ),
    Mutant(
        "resume.answers_unasked", "resume_run", "open and (run.phase == 'interrupted' or arg.answer)", "open",
        "a stopped run's open question is asked again",
        "test_resume.py::test_a_stopped_run_with_an_open_interrupt_asks_again_deadline_rearmed",
    ),
    Mutant(
        "resume.answer_lost", "resume_run", "if answers and not goes_on then set(k, 'i_answer', arg.answer or 'null') end\n", "",
        "an answer reaches the round", "test_resume.py::test_an_answer_takes_the_run_into_the_next_epoch",
    ),
    Mutant(
        "resume.fields_lost", "resume_run", "set_fields(k)\n", "",
        "what a resume raises is raised", "test_resume.py::test_a_resume_writes_the_fields_given_with_it_and_tells_of_them",
    ),
    Mutant(
        "resume.any_content", "resume_run", "if arg.digest and run.digest ~= arg.digest then return reply('stale') end\n", "",
        "fields are written over the content that they were made from",
        "test_resume.py::test_fields_made_from_other_content_than_is_there_are_refused_as_stale",
    ),
    Mutant(
        "resume.untold", "resume_run", "'data', arg.data or 'null', unpack", "'data', 'null', unpack",
        "who looks later sees what was raised", "test_resume.py::test_a_resume_writes_the_fields_given_with_it_and_tells_of_them",
    ),
    Mutant(
        "resume.unpushable", "resume_run", "refusal = unpushable(k, run.queue)", "refusal = nil",
        "a list whose count does not read is answered before any write",
        "test_damage.py::test_a_garbled_push_count_does_not_break_a_resume_or_a_retry_half_way",
    ),
    Mutant(
        "retry.not_repeatable", "retry_run", "if repeated then return repeated end", "",
        "a retry refused and re-sent does not start a run that errored later",
        "test_retry.py::test_a_retry_refused_as_running_and_resent_does_not_start_a_run_that_errored_later",
    ),
    Mutant(
        "retry.any_epoch", "retry_run", "if run.epoch ~= arg.epoch or run.step", "if run.step",
        "another epoch than the one seen is stale", "test_retry.py::test_another_epoch_than_the_one_seen_answers_stale",
    ),
    Mutant(
        "retry.of_any_run", "retry_run", "if run.phase ~= 'errored' then return reply('running', run.phase) end\n", "",
        "only an errored run is retried", "test_retry.py::test_only_an_errored_run_is_retried",
    ),
    Mutant(
        "retry.unpushable", "retry_run", "refusal = unpushable(k, run.queue)", "refusal = nil",
        "a list whose count does not read is answered before any write",
        "test_damage.py::test_a_garbled_push_count_does_not_break_a_resume_or_a_retry_half_way",
    ),
    Mutant(
        "retry.still_expires", "retry_run", "persist(k, run)\n", "", "I11: a retried run is kept",
        "test_retry.py::test_a_retry_keeps_the_keys_again",
    ),
    Mutant(
        "retry.late_at_once", "moving",
        "    unset(k, 'deadline')\n    run.deadline = nil\n",
        "",
        "a deadline that has passed is taken down by the retry",
        "test_retry.py::test_a_deadline_that_has_passed_is_taken_down_by_the_retry",
    ),
    Mutant(
        "retry.any_deadline", "moving", "if run.deadline and number(run.deadline) <= now then", "if run.deadline then",
        "a deadline to come stands", "test_retry.py::test_a_deadline_that_is_still_to_come_stands",
    ),
)  # fmt: skip
