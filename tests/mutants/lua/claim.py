"""Mutants of claim_round.lua and claiming.lua."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "claim.not_repeatable", "claim_round", "run.phase == 'leased' and run.claim_id == arg.claim then", "false then",
        "a claim repeated with its id gets the same reply", "test_claim.py::test_a_claim_repeated_with_its_id_gets_the_same_reply",
    ),
    Mutant(
        "claim.anybody_repeats", "claim_round", " and run.claim_id == arg.claim then", " then",
        "a duplicate of a leased round is refused", "test_claim.py::test_a_duplicate_of_a_leased_round_is_refused",
    ),
    Mutant(
        "claim.repeat_of_any_phase", "claim_round", "run.phase == 'leased' and run.claim_id == arg.claim", "run.claim_id == arg.claim",
        "only a lease is granted again",
        equivalent=(
            "claim_id is in the hash in phase leased only: claim_round writes it with the phase, and whatever leaves the "
            "phase calls free_lease"
        ),
    ),
    Mutant(
        "claim.any_epoch", "claim_round", "run.epoch == arg.epoch and run.step == arg.step", "run.step == arg.step",
        "a message of another epoch is stale", "test_resume.py::test_a_message_of_the_old_epoch_is_stale_after_a_resume",
    ),
    Mutant(
        "claim.any_step", "claim_round", "run.epoch == arg.epoch and run.step == arg.step", "run.epoch == arg.epoch",
        "a message of another step is stale", "test_claim.py::test_another_epoch_or_step_is_stale",
    ),
    Mutant(
        "claim.after_the_end", "claim_round", "if ENDED[run.phase] or run.phase == 'stopped' then return",
        "if run.phase == 'stopped' then return", "an ended run is not claimed",
        "test_claim.py::test_a_message_of_an_errored_run_finds_it_finished",
    ),
    Mutant(
        "claim.after_a_stop", "claim_round", "if ENDED[run.phase] or run.phase == 'stopped' then return",
        "if ENDED[run.phase] then return", "I8: after an acknowledged stop no claim is granted",
        "test_stop.py::test_after_an_acknowledged_stop_no_claim_is_granted",
    ),
    Mutant(
        "claim.through_an_interrupt", "claim_round", "run.phase == 'interrupted' or run.phase == 'waiting'", "run.phase == 'waiting'",
        "nothing skips an approval", "test_claim.py::test_a_message_does_not_walk_through_an_interrupt",
    ),
    Mutant(
        "claim.through_a_backoff", "claim_round", "run.phase == 'interrupted' or run.phase == 'waiting'", "run.phase == 'interrupted'",
        "a duplicate does not walk through a backoff", "test_claim.py::test_a_duplicate_does_not_walk_through_a_backoff",
    ),
    Mutant(
        "claim.of_a_leased_run", "claim_round", "if run.phase == 'leased' then return { 'leased' } end\n", "",
        "I5: one live lease a run", "test_claim.py::test_a_duplicate_of_a_leased_round_is_refused",
    ),
    Mutant(
        "claim.by_time", "claim_round", "if run.phase == 'leased' then return { 'leased' } end",
        "if run.phase == 'leased' and number(run.lease_until) > now then return { 'leased' } end",
        "only the sweep and stop-now take a lease away", "test_claim.py::test_a_leased_run_is_refused_whatever_the_clock_says",
    ),
    Mutant(
        "claim.deaf_to_stops", "claim_round",
        "local stopping = run.stop_current_execution == 'stop_requested'",
        "local stopping = false",
        "a stop asked is honoured at the claim",
        "test_claim.py::test_a_stop_asked_is_honoured_at_the_claim",
    ),
    Mutant(
        "claim.of_a_paused_flow", "claim_round",
        "if not stopping and paused == 0 then",
        "if not stopping then",
        "no round of a paused flow is claimed",
        "test_paused.py::test_a_run_of_a_paused_flow_waits_without_lease_or_attempt",
    ),
    Mutant(
        "claim.newer_schema", "claiming",
        "return not newer(run.schema) and find(",
        "return find(",
        "a run that a newer worker wrote is for newer workers",
        "test_claim.py::test_a_run_of_a_newer_schema_is_offered_to_others_and_one_of_our_own_is_played",
    ),
    Mutant(
        "claim.same_schema", "reading",
        "schema ~= arg.schema and arg.schema and is_count(schema) and number(schema) > number(arg.schema)",
        "arg.schema and is_count(schema) and number(schema) >= number(arg.schema)",
        "a run of one's own schema is played",
        "test_claim.py::test_a_run_of_a_newer_schema_is_offered_to_others_and_one_of_our_own_is_played",
    ),
    Mutant(
        "claim.part_of_a_name", "claiming",
        "find(arg.known, ',' .. run.flow .. ',', 1, true)",
        "find(arg.known, run.flow, 1, true)",
        "a part of a known name is not a known flow",
        "test_claim.py::test_a_part_of_a_known_name_is_not_a_known_flow",
    ),
    Mutant(
        "claim.name_as_a_pattern", "claiming",
        "',' .. run.flow .. ',', 1, true)",
        "',' .. run.flow .. ',')",
        "a flow's name is no pattern",
        "test_claim.py::test_a_flows_name_is_not_read_as_a_pattern",
    ),
    Mutant(
        "claim.refused_at_one_pace", "claim_round", "2 ^ (refused - 1)", "1",
        "a run whose flow nobody knows is offered ever more seldom",
        "test_claim.py::test_the_wait_for_a_worker_that_knows_the_flow_doubles_up_to_its_bound_and_starts_anew",
    ),
    Mutant(
        "claim.refused_without_bound", "claim_round", "math.min(number(arg.back) * 2 ^ (refused - 1), number(arg.back_max))",
        "number(arg.back) * 2 ^ (refused - 1)", "the wait for a worker that knows the flow is bounded",
        "test_claim.py::test_the_wait_for_a_worker_that_knows_the_flow_doubles_up_to_its_bound_and_starts_anew",
    ),
    Mutant(
        "claim.refusals_for_ever", "claiming",
        "  if run.unknown and run.unknown ~= '0' then change('unknown', '0') end\n",
        "",
        "a claim that is granted begins the refusals anew",
        "test_claim.py::test_the_wait_for_a_worker_that_knows_the_flow_doubles_up_to_its_bound_and_starts_anew",
    ),
    Mutant(
        "claim.token_of_the_run_alone", "claiming",
        "whole(math.max(token, run.token) + 1)",
        "whole(run.token + 1)",
        "no token is used twice, also not by a run of the same id",
        "test_retention.py::test_a_zombie_of_a_deleted_run_cannot_commit_into_a_new_run_of_the_same_id",
    ),
    Mutant(
        "claim.token_of_the_counter_alone", "claiming",
        "whole(math.max(token, run.token) + 1)",
        "whole(token + 1)",
        "I3: tokens grow though the counter was lost",
        "test_claim.py::test_tokens_grow_though_their_counter_was_lost",
    ),
    Mutant(
        "claim.counter_stands", "claiming",
        "  counted[counts + 1], counted[counts + 2] = 'token', token\n",
        "  counted[counts + 1], counted[counts + 2] = 'other', token\n",
        "no token is used twice, also not by a run of the same id",
        "test_retention.py::test_a_zombie_of_a_deleted_run_cannot_commit_into_a_new_run_of_the_same_id",
    ),
    Mutant(
        "claim.same_token", "claiming",
        "whole(math.max(token, run.token) + 1)",
        "whole(math.max(token, run.token))",
        "I3: each claim has a token of its own",
        "test_claim.py::test_tokens_only_grow",
    ),
    Mutant(
        "claim.attempt_uncounted", "claiming",
        "whole(run.attempt + 1)",
        "whole(math.max(run.attempt, 1))",
        "attempts are counted",
        "test_claim.py::test_the_attempts_of_a_step_are_counted_and_never_restarted",
    ),
    Mutant(
        "claim.shorter_lease", "claiming",
        "math.max(run.lease or 0, arg.lease)",
        "tonumber(arg.lease)",
        "a flow may ask for a longer lease",
        "test_claim.py::test_a_flow_may_ask_for_a_longer_lease_than_the_workers",
    ),
    Mutant(
        "claim.no_lease_to_commit_in", "claiming",
        "whole(limit + lease)",
        "whole(limit)",
        "a round that notices its end can still commit it",
        "test_heartbeat.py::test_a_lease_is_not_extended_past_the_rounds_own_deadline",
    ),
    Mutant(
        "claim.past_the_deadline", "claiming",
        ", run.deadline or math.huge)",
        ", now + 1e9)",
        "a round ends with the run's deadline",
        "test_heartbeat.py::test_a_lease_is_not_extended_past_the_deadline_of_the_run",
    ),
    Mutant(
        "claim.no_promise", "claiming",
        "  call('ZADD', k.due, unpack(promises))\n",
        "",
        "a leased run is due at its lease's end",
        "test_claim.py::test_a_claim_takes_the_lease_and_a_greater_token",
    ),
    Mutant(
        "claim.cursor_back", "claiming",
        "if number(place) > cursor then",
        "if true then",
        "a cursor never goes back",
        "test_claim.py::test_a_claim_moves_the_cursor_of_its_list_forward_and_never_back",
    ),
    Mutant(
        "claim.cursor_stands", "claiming",
        "= run.queue .. ':cursor', place end",
        "= 'other', place end",
        "a claim moves its list's cursor",
        "test_claim.py::test_a_claim_moves_the_cursor_of_its_list_forward_and_never_back",
    ),
    Mutant(
        "claim.cursor_of_the_copy", "claiming",
        "run.first_number or run.number",
        "run.number",
        "a copy at the tail passes nobody",
        "test_outbox.py::test_the_first_message_of_a_run_that_was_sent_twice_takes_no_line_along",
    ),
)  # fmt: skip
