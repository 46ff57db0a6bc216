"""Mutants of keep_trace.lua, and of what a loss tells those who trace."""

from tests.mutants.mutant import Mutant

# fmt: off
MUTANTS = (
    Mutant(
        "trace.last_wins", "keep_trace", "if run.trace then return { 'ok', run.trace } end\n", "",
        "the first trace stands", "test_trace.py::test_the_first_trace_stands_and_is_what_everybody_gets",
    ),
    Mutant(
        "trace.tells_what_came", "keep_trace", "if run.trace then return { 'ok', run.trace } end",
        "if run.trace then return { 'ok', arg.trace } end", "everybody gets the one that stands",
        "test_trace.py::test_the_trace_of_the_submitter_stands",
    ),
    Mutant(
        "trace.any_run", "keep_trace", "if run.nonce ~= arg.nonce then return { 'stale' } end\n", "",
        "a trace is of its run", "test_trace.py::test_a_worker_of_a_deleted_run_gives_no_trace_to_a_new_run_of_its_id",
    ),
    Mutant(
        "trace.makes_a_run", "keep_trace", "local run, refusal = read_run(k)\nif not run then return refusal end\n",
        "local run = table_of(call('HGETALL', k.run)) or { nonce = arg.nonce }\n", "what is gone stays gone",
        "test_trace.py::test_a_worker_of_a_deleted_run_gives_no_trace_to_a_new_run_of_its_id",
    ),
    Mutant(
        "sweep.lost_since_when", "sweep_due", "'claimed_at', run.claimed_at or ''", "'claimed_at', whole(now)",
        "a loss says when the attempt was claimed", "test_trace.py::test_a_loss_says_when_the_attempt_was_claimed",
    ),
)
