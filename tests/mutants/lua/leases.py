"""Mutants of extend_leases.lua and forfeit_lease.lua."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "extend.any_phase", "extend_leases", "if phase ~= 'leased' or held ~= token or", "if held ~= token or",
        "a lease that was swept is not taken back", "test_heartbeat.py::test_a_lease_that_was_swept_is_lost_and_not_taken_back",
    ),
    Mutant(
        "extend.any_token", "extend_leases", "if phase ~= 'leased' or held ~= token or", "if phase ~= 'leased' or",
        "a zombie's beat keeps nobody's lease", "test_heartbeat.py::test_a_lease_that_was_swept_is_lost_and_not_taken_back",
    ),
    Mutant(
        "extend.by_time", "extend_leases", "if phase ~= 'leased' or held ~= token or",
        "if phase ~= 'leased' or held ~= token or number(call('HGET', key, 'lease_until')) <= now or",
        "a lease that lapsed but was not swept is still extended",
        "test_heartbeat.py::test_a_lease_that_lapsed_but_was_not_swept_is_still_extended",
    ),
    Mutant(
        "extend.types_unseen", "extend_leases", "if found ~= 'hash' or (due_type ~= 'zset' and due_type ~= 'none') then",
        "if found == 'none' then", "one run of a wrong type costs no neighbour its beat",
        "test_heartbeat.py::test_a_run_of_a_wrong_type_costs_its_neighbours_nothing",
    ),
    Mutant(
        "extend.garbled_grant", "extend_leases", "or not is_count(granted) or", "or",
        "a lease that does not read is damaged, not over",
        "test_damage.py::test_a_lease_length_that_does_not_read_is_told_and_not_written_over",
    ),
    Mutant(
        "extend.no_id", "extend_leases", "elseif not id or key_of(KEYS[1], id) ~= key or", "elseif",
        "a run without its id costs no neighbour its beat",
        "test_damage.py::test_a_damaged_run_does_not_cost_its_neighbours_their_heartbeat",
    ),
    Mutant(
        "extend.past_the_limit", "extend_leases", "if limit then extended = math.min(extended, number(limit)) end\n", "",
        "a lease is not extended past the round's own deadline",
        "test_heartbeat.py::test_a_lease_is_not_extended_past_the_rounds_own_deadline",
    ),
    Mutant(
        "extend.limit_unheard", "extend_leases", "if own and (not limit or", "if false and (not limit or",
        "a limit that only the worker knew binds the lease",
        "test_heartbeat.py::test_a_limit_that_only_the_worker_knew_binds_the_lease_from_the_next_beat_on",
    ),
    Mutant(
        "extend.limit_moves", "extend_leases", "(not limit or now + number(own) + number(granted) < number(limit))", "true",
        "the earlier limit holds", "test_heartbeat.py::test_a_limit_that_only_the_worker_knew_binds_the_lease_from_the_next_beat_on",
    ),
    Mutant(
        "extend.due_unmoved", "extend_leases", "      call('ZADD', KEYS[1], extended, id)\n", "", "a beat moves the due time",
        "test_heartbeat.py::test_a_beat_moves_lease_and_due_time_of_all_rounds_of_the_process",
    ),
    Mutant(
        "extend.lease_unmoved", "extend_leases", "'lease_until', whole(extended), 'beat_at'", "'beat_at'", "a beat moves the lease",
        "test_heartbeat.py::test_a_beat_moves_lease_and_due_time_of_all_rounds_of_the_process",
    ),
    Mutant(
        "extend.progress_wiped", "extend_leases",
        "if progress ~= '' then call",
        "if true then call",
        "no news is not no progress",
        "test_heartbeat.py::test_progress_travels_with_the_beat",
    ),
    Mutant(
        "extend.deaf_to_stops", "extend_leases", "if stop == 'stop_requested' then", "if false then",
        "a graceful stop is heard with the beat", "test_heartbeat.py::test_a_graceful_stop_is_heard_with_the_beat",
    ),
    Mutant(
        "extend.seen_again", "extend_leases",
        "if not seen then call",
        "if true then call",
        "a stop is seen once",
        "test_heartbeat.py::test_a_graceful_stop_is_heard_with_the_beat",
    ),
    Mutant(
        "forfeit.any_phase", "forfeit_lease", "local held = run.phase == 'leased' and run.epoch", "local held = run.epoch",
        "where nobody holds a lease there is none to forfeit",
        equivalent="claim_id, which the next line compares, is in the hash in phase leased only",
    ),
    Mutant(
        "forfeit.any_epoch", "forfeit_lease", "run.epoch == arg.epoch and run.step == arg.step", "run.step == arg.step",
        "a message of another epoch frees nothing", "test_forfeit.py::test_a_message_of_another_epoch_or_step_frees_nothing",
    ),
    Mutant(
        "forfeit.any_step", "forfeit_lease", "run.epoch == arg.epoch and run.step == arg.step", "run.epoch == arg.epoch",
        "a message of another step frees nothing", "test_forfeit.py::test_a_message_of_another_epoch_or_step_frees_nothing",
    ),
    Mutant(
        "forfeit.part_of_a_name", "forfeit_lease", "arg.process .. '.'", "arg.process", "the death of another process frees nothing",
        "test_forfeit.py::test_the_death_of_another_process_frees_nothing",
    ),
    Mutant(
        "forfeit.anybody", "forfeit_lease", "or string.sub(run.claim_id or '', 1, #owner) ~= owner then", "then",
        "the death of another process frees nothing", "test_forfeit.py::test_the_death_of_another_process_frees_nothing",
    ),
    Mutant(
        "forfeit.later_and_later", "forfeit_lease", "math.min(now, number(run.lease_until))", "now",
        "a forfeit repeated changes nothing", "test_forfeit.py::test_a_forfeit_repeated_changes_nothing_however_late",
    ),
    Mutant(
        "forfeit.may_be_spared", "forfeit_lease", "'lease_until', whole(over), 'spared', whole(over))", "'lease_until', whole(over))",
        "no silence spares a forfeited lease", "test_forfeit.py::test_no_silence_spares_a_forfeited_lease",
    ),
    Mutant(
        "forfeit.due_at_its_old_time", "forfeit_lease", "due_at(k, run, over)\n", "", "a forfeited lease is freed by the next sweep",
        "test_forfeit.py::test_a_forfeited_lease_is_freed_by_the_next_sweep_and_counted_as_a_loss",
    ),
)  # fmt: skip
