"""Mutants of the rules that keep a run from harm by what is damaged, newer, or of a history that was lost."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "commit.any_claim", "commit_round", "if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end\n", "",
        "a lease is its claim's: a token given out twice by a failover commits for one of the two",
        "test_two_histories.py::test_a_claim_of_the_history_that_was_lost_commits_nothing_though_its_token_is_anothers_too",
    ),
    Mutant(
        "extend.any_claim", "extend_leases", "or (named and claim ~= named) then", "then",
        "a lease is its claim's: nobody beats for a namesake",
        "test_two_histories.py::test_a_heartbeat_of_the_history_that_was_lost_extends_nobody_elses_lease",
    ),
    Mutant(
        "extend.stays_spared", "extend_leases", "if spared then call('HDEL', key, 'spared') end", "",
        "a beat ends a spare",
        "test_silence.py::test_a_beat_in_the_millisecond_of_the_sweep_that_spared_it_is_a_beat",
    ),
    Mutant(
        "resume.any_step", "resume_run", "or run.step ~= arg.step then return { 'stale' } end", "then return { 'stale' } end",
        "a resume names the step it saw", "test_resume.py::test_a_resume_of_a_step_that_was_committed_since_is_stale",
    ),
    Mutant(
        "retry.any_step", "retry_run", "or run.step ~= arg.step then return { 'stale' } end", "then return { 'stale' } end",
        "a retry names the step it saw", "test_retry.py::test_a_retry_of_a_step_that_was_committed_since_is_stale",
    ),
    Mutant(
        "claim.token_from_nowhere", "claiming",
        "  if tonumber(run.token) > newest + AHEAD then return nil, 'token' end\n",
        "",
        "a token from nowhere takes no other run's room",
        "test_harmless_damage.py::test_a_token_from_nowhere_takes_no_other_runs_room",
    ),
    Mutant(
        "moving.anothers_key_expires", "moving", "if has_key(k, run) then call('PEXPIREAT', k.idem, time) end",
        "if run.idem then call('PEXPIREAT', k.idem, time) end", "an end sets no expiry on another run's idempotency key",
        "test_harmless_damage.py::test_an_end_sets_no_expiry_on_an_idempotency_key_that_is_anothers",
    ),
    Mutant(
        "reading.lease_without_end", "reading",
        "  if run.phase == 'leased' and not run.lease_until then return 'lease_until' end\n",
        "",
        "a lease without its end is damaged",
        "test_harmless_damage.py::test_a_lease_without_its_end_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "quarantine.moved_since", "quarantine_run", "run.phase ~= 'queued' or run.epoch ~= arg.epoch or run.step ~= arg.step or", "",
        "a run that has moved since it was judged is let be", "test_quarantine.py::test_a_run_that_has_moved_since_is_let_be",
    ),
    Mutant(
        "quarantine.another_message", "quarantine_run", "or run.message ~= arg.message then", "then",
        "a run whose message is another by now is let be", "test_quarantine.py::test_a_run_that_has_moved_since_is_let_be",
    ),
    Mutant(
        "quarantine.unmarked", "quarantine_run", "set(k, 'quarantined', '1')\n", "",
        "a quarantined run is marked as one", "test_quarantine.py::test_a_queued_run_with_that_message_is_ended_and_named",
    ),
    Mutant(
        "delete.newer", "delete_run", "if schema and newer(schema) then", "if false then",
        "an older client removes no run that it cannot read",
        "test_versions.py::test_an_older_client_removes_no_run_whose_phase_it_does_not_know",
    ),
    Mutant(
        "sweep.drops_newer", "sweep_due", "if run and newer(run.schema) and", "if false and",
        "an older sweep lets go of no run that only a newer worker can read",
        "test_versions.py::test_an_older_sweep_lets_go_of_no_run_that_only_a_newer_worker_can_read",
    ),
    Mutant(
        "sweep.clock_back_unseen", "sweep_due", "if gap < -lease / 2 then", "if false then",
        "a clock that was ahead and is set back keeps no dead worker's lease",
        "test_silence.py::test_a_dead_workers_lease_lasts_no_longer_for_a_clock_that_was_ahead_and_is_set_back",
    ),
    Mutant(
        "sweep.lease_of_a_clock_ahead", "sweep_due", "math.min(number(run.lease_until), now + number(run.lease_granted))",
        "number(run.lease_until)", "a clock that was ahead and is set back keeps no dead worker's lease",
        "test_silence.py::test_a_dead_workers_lease_lasts_no_longer_for_a_clock_that_was_ahead_and_is_set_back",
    ),
)  # fmt: skip
