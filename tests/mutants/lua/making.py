"""Mutants of submit_run.lua, delete_run.lua and offer_again.lua."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "submit.not_repeatable", "submit_run",
        "call('EXISTS', k.run) == 1 and call('HGET', k.run, 'nonce') == arg.nonce then", "false then",
        "a submit repeated with its nonce gets its first reply",
        "test_submit.py::test_a_submit_repeated_with_its_nonce_changes_nothing",
    ),
    Mutant(
        "submit.submitter_keeps_the_gone", "submit_run", "      in_parts('ZREM', submitted, gone, 1, #gone)\n", "",
        "a run that is gone leaves the index of its submitter",
        "test_submitted.py::test_runs_that_are_gone_leave_the_list_when_others_are_submitted",
    ),
    Mutant(
        "submit.submitter_loses_what_is_there", "submit_run", "if call('EXISTS', key_of(k.due, id)) == 0 then", "if id then",
        "a run that is there stays in the index of its submitter",
        "test_submitted.py::test_runs_that_are_gone_leave_the_list_when_others_are_submitted",
    ),
    Mutant(
        "submit.any_nonce", "submit_run", " and call('HGET', k.run, 'nonce') == arg.nonce then", " then",
        "a run id in use is refused to another submission", "test_submit.py::test_a_run_id_in_use_is_refused_to_another_submission",
    ),
    Mutant(
        "submit.over_another_run", "submit_run", "if call('EXISTS', k.run) == 1 then return { 'exists', arg.id } end\n", "",
        "I11: no run is overwritten", "test_submit.py::test_a_run_id_in_use_is_refused_to_another_submission",
    ),
    Mutant(
        "submit.key_ignored", "submit_run", "  if known then\n", "  if false then\n", "I11: one idempotency key, one run",
        "test_submit.py::test_the_same_key_with_the_same_content_gets_the_same_run",
    ),
    Mutant(
        "submit.any_content", "submit_run", "content == arg.content and 'existing' or 'conflict'", "'existing'",
        "the same key with other content is a conflict", "test_submit.py::test_the_same_key_with_other_content_is_a_conflict",
    ),
    Mutant(
        "submit.key_unkept", "submit_run", "  call('SET', k.idem, arg.content .. ' ' .. arg.id)\n", "",
        "I11: one idempotency key, one run", "test_submit.py::test_the_same_key_with_the_same_content_gets_the_same_run",
    ),
    Mutant(
        "submit.key_of_nobody", "submit_run", "  set(k, 'idem', arg.idempotency_key)\n", "",
        "an idempotency key holds as long as its run", "test_retention.py::test_an_errored_run_expires_with_all_its_keys_at_one_time",
    ),
    Mutant(
        "submit.inherits", "submit_run", "if call('EXISTS', left_over) == 1 then return { 'damaged', left_over } end", "",
        "a new run does not inherit what is left of another",
        "test_damage.py::test_a_submit_onto_what_is_left_of_another_run_does_not_inherit_it",
    ),
    Mutant(
        "submit.to_any_list", "submit_run", "local refusal = unpushable(k, run.queue)", "local refusal = nil",
        "a message goes to a list of the broker only", "test_submit.py::test_a_queue_that_is_no_list_of_the_broker_is_refused",
    ),
    Mutant(
        "submit.no_deadline", "submit_run", "if run.deadline then set(k, 'deadline', run.deadline) end\n", "",
        "a run's deadline is kept", "test_sweep.py::test_the_runs_deadline_ends_what_has_not_started",
    ),
    Mutant(
        "submit.starts_at_any_time", "submit_run", "if arg.delay then set(k, 'not_before', whole(now + number(arg.delay))) end\n", "",
        "a start time is kept over a stop", "test_resume.py::test_resume_waits_for_the_start_time_that_was_asked_for",
    ),
    Mutant(
        "submit.unpushed", "submit_run", "if arg.phase == 'queued' then\n  push(k, run, now)",
        "if arg.phase == 'queued' then\n  enter(k, run, 'queued', now)", "I11: an acknowledged submit has its message",
        "test_submit.py::test_an_acknowledged_submit_has_its_hash_its_message_and_its_promise",
    ),
    Mutant(
        "delete.of_a_live_run", "delete_run",
        "if run and not ENDED[run.phase] and run.phase ~= 'stopped' then return { 'live', run.phase } end\n", "",
        "a live run is not deleted", "test_retention.py::test_delete_of_a_live_run_is_refused",
    ),
    Mutant(
        "delete.not_stopped", "delete_run", "not ENDED[run.phase] and run.phase ~= 'stopped' then", "not ENDED[run.phase] then",
        "a stopped run can be deleted", "test_retention.py::test_delete_removes_an_ended_run_altogether",
    ),
    Mutant(
        "delete.shared_key_damaged", "delete_run", "local damaged = mistyped(k)\n", "local damaged = nil\n",
        "a wrong type of a shared key is answered before any write",
        "test_damage.py::test_a_wrong_type_at_any_key_is_answered_before_any_write",
    ),
    Mutant(
        "delete.leaves_its_index", "delete_run", "do call('ZREM', index, arg.id) end", "do end",
        "a deleted run is listed nowhere", "test_retention.py::test_delete_removes_an_ended_run_altogether",
    ),
    Mutant(
        "delete.key_of_another", "delete_run",
        "if not owner or owner == arg.id then call",
        "if true then call",
        "a key that another run has by now stays",
        "test_retention.py::test_delete_leaves_an_idempotency_key_that_another_run_has_by_now",
    ),
    Mutant(
        "delete.key_stays", "delete_run", "then call('DEL', k.idem) end", "then end", "an idempotency key goes with its run",
        "test_retention.py::test_an_idempotency_key_holds_as_long_as_its_run",
    ),
    Mutant(
        "offer.any_flow", "offer_again", "and flow == arg.flow and phase", "and phase",
        "a run of another flow stays paused", "test_paused.py::test_a_run_of_another_paused_flow_is_not_offered",
    ),
    Mutant(
        "offer.any_phase", "offer_again", "and phase == 'waiting' and waiting_for == 'paused' then",
        "and waiting_for == 'paused' then", "a run that does not wait is not moved",
        equivalent=(
            "waiting_for is in the hash in phase waiting only: push and stop_here take it out, and what waits is ended by "
            "the sweep, which takes it out of the due set, where ZADD XX leaves it"
        ),
    ),
    Mutant(
        "offer.any_wait", "offer_again", "and waiting_for == 'paused' then", "then",
        "a run that waits for something else is not moved",
        "test_paused.py::test_unpausing_moves_no_run_that_waits_for_something_else",
    ),
    Mutant(
        "offer.due_later", "offer_again", "call('ZADD', k.due, 'XX', now, id)", "", "an unpaused run is due at once",
        "test_paused.py::test_unpausing_makes_the_held_runs_due_at_once",
    ),
    Mutant(
        "offer.waits_on", "offer_again", "call('HSET', KEYS[i], 'waiting_until', whole(now))\n", "",
        "an unpaused run is woken by the next sweep", "test_paused.py::test_unpausing_makes_the_held_runs_due_at_once",
    ),
)  # fmt: skip
