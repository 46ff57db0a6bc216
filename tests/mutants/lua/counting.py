"""Mutants of counting.lua, and of the places that count."""

from tests.mutants.mutant import Mutant

STATUS = "test_counting.py::test_a_run_is_counted_by_its_status"
DAMAGED = "test_counting.py::test_a_damaged_count_costs_no_run_anything"
RECOVERIES = "test_counting.py::test_recoveries_and_messages_sent_again_are_counted"
STOPS = "test_counting.py::test_stops_are_counted_by_their_mode_when_the_run_is_stopped"
DELETED = "test_counting.py::test_a_deleted_run_is_counted_no_more_and_has_ended_all_the_same"

MUTANTS = (
    Mutant("counting.damaged_count", "counting", "if is_count(known) and ", "if ", "no run fails for a figure", DAMAGED),
    Mutant(
        "counting.below_nothing",
        "counting",
        " and tonumber(known) + by >= 0 then",
        " then",
        "no count falls below nothing",
        "test_counting.py::test_no_count_falls_below_nothing",
    ),
    Mutant(
        "counting.flows_together",
        "counting",
        "what .. ':' .. run.flow",
        "what .. ':'",
        "each flow is counted apart",
        "test_counting.py::test_each_flow_is_counted_apart",
    ),
    Mutant(
        "counting.never_queued",
        "counting",
        "(run.started_at or phase == 'leased') and 'running' or 'queued'",
        "'running'",
        "a run that nobody has claimed is queued",
        STATUS,
    ),
    Mutant(
        "counting.queued_again",
        "counting",
        "(run.started_at or phase == 'leased')",
        "phase == 'leased'",
        "a run that has begun is not queued again",
        "test_counting.py::test_a_run_that_goes_on_is_counted_as_queued_only_where_it_has_never_run",
    ),
    Mutant(
        "counting.leased_unstarted",
        "counting",
        "(run.started_at or phase == 'leased')",
        "run.started_at",
        "a leased run has begun",
        "test_counting.py::test_a_run_whose_beginning_was_damaged_leaves_no_count_behind",
    ),
    Mutant("counting.ends_taken_back", "counting", "if from and not ENDED[from] then", "if from then", "totals never fall", DELETED),
    Mutant(
        "counting.kept_and_counted",
        "counting",
        "  if from == to then return end\n",
        "",
        "a run that keeps its status is not counted again",
        "test_counting.py::test_a_run_that_keeps_its_status_is_not_counted_again",
    ),
    Mutant(
        "counting.submitted_unsaid",
        "submit_run",
        "tally(k, run, 'moves:submitted', 1)\n",
        "",
        "submissions are counted",
        "test_counting.py::test_a_submission_sent_again_is_counted_once",
    ),
    Mutant(
        "counting.begun_unsaid",
        "claiming",
        "if not run.started_at then count_status(k, run, 'queued', 'running') end",
        "",
        "the first claim makes a queued run a running one",
        STATUS,
    ),
    Mutant(
        "counting.begun_each_round",
        "claiming",
        "if not run.started_at then count_status",
        "if true then count_status",
        "a run begins once",
        "test_counting.py::test_a_run_that_was_looked_at_meanwhile_begins_once",
    ),
    Mutant(
        "counting.started_unread",
        "commit_round",
        "'idem', 'started_at',",
        "'idem',",
        "a commit knows that its run has begun",
        STATUS,
    ),
    Mutant("counting.all_graceful", "moving", "run.stop_mode == 'now' and 'stops:now' or ", "", "stops are counted by their mode", STOPS),
    Mutant(
        "counting.no_recovery",
        "sweep_due",
        "if COUNTED[word] then tally",
        "if false then tally",
        "recoveries are counted",
        RECOVERIES,
    ),
    Mutant(
        "counting.all_of_a_sweep",
        "sweep_due",
        "if COUNTED[word] then tally",
        "if run then tally",
        "what is routine is not counted",
        RECOVERIES,
    ),
    Mutant(
        "counting.deleted_counted",
        "delete_run",
        "if counted then count_status",
        "if false then count_status",
        "a deleted run is counted no more",
        DELETED,
    ),
    Mutant(
        "counting.damaged_counted",
        "delete_run",
        "if not run and call('TYPE', k.run).ok == 'hash' then -- by",
        "if false then -- by",
        "a damaged run that is deleted is counted no more",
        "test_counting.py::test_a_damaged_run_that_is_deleted_is_counted_no_more",
    ),
    Mutant(
        "counting.deleted_of_any_type",
        "delete_run",
        "if not run and call('TYPE', k.run).ok == 'hash' then -- by",
        "if not run then -- by",
        "what is no hash is deleted too",
        "test_counting.py::test_what_is_no_hash_is_deleted_without_a_count",
    ),
)
