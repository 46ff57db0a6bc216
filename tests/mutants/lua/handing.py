"""Mutants of hand_on.lua, and of what the sweep and a push make of a message that was handed on."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "hand_on.any_phase", "hand_on", "if run.phase ~= 'waiting' or run.waiting_for ~= 'flow' then", "if run.phase ~= 'waiting' then",
        "only a run that waits for a worker with its flow is handed on",
        "test_hand_on.py::test_a_run_that_does_not_wait_for_a_worker_with_its_flow_is_left_alone",
    ),
    Mutant(
        "hand_on.any_role", "hand_on", " or string.sub(list, 1, #run.queue + 1) ~= run.queue .. '.' then", " then",
        "a message goes to a list of its own role", "test_hand_on.py::test_a_list_of_the_other_role_takes_no_message",
    ),
    Mutant(
        "hand_on.not_due", "hand_on", "due_at(k, run, now + number(run.grace))", "never_due(k, run)",
        "a run that was handed on is due", "test_hand_on.py::test_a_refused_message_is_handed_on_and_its_run_is_queued_at_once",
    ),
    Mutant(
        "hand_on.of_any_round", "sweep_due", "if epoch == run.epoch and step == run.step and string.sub(list,",
        "if list and string.sub(list,",
        "the next round is looked for in its own queue", "test_hand_on.py::test_the_next_round_is_not_looked_for_there",
    ),
    Mutant(
        "hand_on.blind_sweep", "sweep_due", "if consumed and not outbox then", "if false then",
        "a message in line where it was handed on is not sent again", "test_hand_on.py::test_in_line_there_it_is_not_sent_again",
    ),
    Mutant(
        "hand_on.dead_consumers", "sweep_due", "  return false\nend\n\nlocal function unmark",
        "  return true\nend\n\nlocal function unmark",
        "what no live worker consumes goes back to all",
        "test_hand_on.py::test_where_no_worker_of_the_list_lives_it_goes_back_to_the_queue_of_all",
    ),
    Mutant(
        "hand_on.silent_consumers", "sweep_due", "tonumber(beat) >= now - number(arg.alive)", "tonumber(beat) >= 0",
        "a silent worker is not taken for alive", "test_hand_on.py::test_a_worker_that_went_silent_is_not_taken_for_alive",
    ),
    Mutant(
        "hand_on.left_there", "sweep_due", "pcall('LREM', list, -1, run.message)", "pcall('LLEN', list)",
        "no copy lies where nobody takes it",
        "test_hand_on.py::test_where_no_worker_of_the_list_lives_it_goes_back_to_the_queue_of_all",
    ),
    Mutant(
        "hand_on.outlives_a_push", "moving", "  if run.handed_to then unset(k, 'handed_to') end\n", "",
        "a message that goes to all is no longer handed on", "test_hand_on.py::test_a_round_that_is_given_back_goes_to_all",
    ),
)  # fmt: skip
