"""Mutants of record_intent.lua and record_once.lua, of what becomes of both in a commit, and of artifacts."""

from tests.mutants.mutant import Mutant

FENCE = "if run.phase ~= 'leased' or run.token ~= arg.token or run.step ~= arg.step or run.epoch ~= arg.epoch then"
DAMAGED = "test_damage.py::test_a_wrong_type_at_any_key_is_answered_before_any_write"
WRITES = "if run.intent ~= arg.key then set(k, 'intent', arg.key, 'intent_token', arg.token) end"
TAKEN_BACK = "test_intent.py::test_the_attempt_that_wrote_it_down_takes_it_back"
NOT_TAKEN_BACK = "test_intent.py::test_no_later_attempt_takes_back_what_the_first_may_have_done"

MUTANTS = (
    Mutant(
        "intent.any_phase", "record_intent", FENCE, FENCE.replace("run.phase ~= 'leased' or ", ""),
        "L1: a lease that was taken away lets nobody begin",
        "test_intent.py::test_a_lease_that_was_swept_away_lets_nobody_begin",
    ),
    Mutant(
        "intent.any_token", "record_intent", FENCE, FENCE.replace("run.token ~= arg.token or ", ""),
        "L1: a worker that lost its round may begin nothing",
        "test_intent.py::test_a_worker_that_lost_its_round_begins_nothing_by_its_token_alone",
    ),
    Mutant(
        "intent.any_step", "record_intent", FENCE, FENCE.replace("run.step ~= arg.step or ", ""), "an intent is of its step",
        "test_intent.py::test_another_epoch_or_step_may_begin_nothing",
    ),
    Mutant(
        "intent.any_epoch", "record_intent", FENCE, FENCE.replace(" or run.epoch ~= arg.epoch", ""), "an intent is of its epoch",
        "test_intent.py::test_another_epoch_or_step_may_begin_nothing",
    ),
    Mutant(
        "intent.any_claim", "record_intent", "if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end\n", "",
        "a lease is its claim's", "test_intent.py::test_a_token_granted_twice_lets_only_the_claim_begin_that_holds_the_lease",
    ),
    Mutant(
        "intent.claim_needed", "record_intent", "if arg.claim and run.claim_id", "if run.claim_id",
        "a worker that names no claim is judged by its token",
        "test_intent.py::test_whoever_names_no_claim_begins_by_the_token_alone",
    ),
    Mutant(
        "intent.not_after_a_stop", "record_intent", "local run, refusal = read_run(k)\nif not run then return refusal end\n",
        "local run, refusal = read_run(k)\nif not run then return refusal end\nif run.stop_mode then return { 'fenced' } end\n",
        "after a graceful stop the round in flight may begin",
        "test_intent.py::test_after_a_graceful_stop_the_round_in_flight_may_begin",
    ),
    Mutant(
        "intent.unwritten", "record_intent",
        "  call('HSET', k.run, 'intent', arg.key, 'intent_token', arg.token, 'intent_at', whole(clock()), 'intent_by', run.owner or '')\n",
        "",
        "L1: no silent repeat",
        "test_intent.py::test_whatever_ends_an_attempt_the_next_one_finds_its_intent",
    ),
    Mutant(
        "intent.of_the_second", "record_intent",
        "if run.intent ~= arg.key then\n", "if true then\n",
        "L1: the second attempt cannot take back what the first may have done",
        "test_intent.py::test_no_later_attempt_takes_back_what_the_first_may_have_done",
    ),
    Mutant(
        "intent.of_nobody", "record_intent", "'intent', arg.key, 'intent_token', arg.token,", "'intent', arg.key,",
        "a command that did nothing is not in doubt", TAKEN_BACK,
    ),
    Mutant(
        "intent.undated", "record_intent", ", 'intent_at', whole(clock())", "", "people see when it was begun",
        "test_intent.py::test_an_intent_says_when_and_by_which_worker_it_was_written",
    ),
    Mutant(
        "intent.unsigned", "record_intent", ", 'intent_by', run.owner or ''", "", "people see which worker began it",
        "test_intent.py::test_an_intent_says_when_and_by_which_worker_it_was_written",
    ),
    Mutant(
        "intent.of_any_run", "record_intent", "local run, refusal = read_run(k)\nif not run then return refusal end\n",
        "local run = table_of(call('HGETALL', k.run)) or {}\n", "a wrong type is answered before any write", DAMAGED,
    ),
    Mutant(
        "commit.intent_stays", "continuing",
        "'last_error', 'intent',\n    'intent_token', 'intent_at', 'intent_by')",
        "'last_error')",
        "a round that is done leaves no intent",
        "test_intent.py::test_a_round_that_is_done_leaves_no_intent",
    ),
    Mutant(
        "continue.intent_leaves_its_date", "continuing", ", 'intent_at', 'intent_by')", ")", "when and by whom go with the intent",
        "test_intent.py::test_a_round_that_is_done_leaves_no_intent",
    ),
    Mutant(
        "commit.intent_leaves_its_date", "commit_round", "'last_error', 'intent', 'intent_token', 'intent_at', 'intent_by')",
        "'last_error', 'intent', 'intent_token')", "when and by whom go with the intent",
        "test_intent.py::test_a_round_that_is_done_leaves_no_intent",
    ),
    Mutant(
        "commit.taken_back_but_its_date", "commit_round", "unset(k, 'intent', 'intent_token', 'intent_at', 'intent_by') else",
        "unset(k, 'intent', 'intent_token') else", "when and by whom go with the intent", TAKEN_BACK,
    ),
    Mutant(
        "commit.takes_nothing_back", "commit_round",
        "if arg.intent == '' then unset(k, 'intent', 'intent_token', 'intent_at', 'intent_by') else",
        "if arg.intent ~= '' then",
        "a command that did nothing is not in doubt",
        "test_intent.py::test_the_attempt_that_wrote_it_down_takes_it_back",
    ),
    Mutant(
        "commit.intent_ends_with_the_attempt", "commit_round",
        "elseif arg.intent and run.intent_token == arg.token then",
        "else\n  unset(k, 'intent', 'intent_token')\nend\nif arg.intent and run.intent_token == arg.token then",
        "L1: an intent outlives its attempt",
        "test_intent.py::test_whatever_ends_an_attempt_the_next_one_finds_its_intent",
    ),
    Mutant(
        "commit.anybody_takes_it_back", "commit_round",
        "elseif arg.intent and run.intent_token == arg.token then",
        "elseif arg.intent then",
        "L1: the second attempt cannot take back what the first may have done",
        "test_intent.py::test_no_later_attempt_takes_back_what_the_first_may_have_done",
    ),
    Mutant(
        "commit.takes_all_back", "commit_round",
        "if arg.intent == '' then unset",
        "if true then unset",
        "an attempt takes back its own and leaves what stood before",
        "test_journal.py::test_an_attempt_takes_back_its_own_and_leaves_what_stood_before",
    ),
    Mutant(
        "commit.results_stay", "logging",
        "    for name in string.gmatch(run.once, '[^\\n]+') do call('HDEL', k.run, 'o:' .. name) end\n",
        "",
        "a round that is done leaves no results",
        "test_once.py::test_a_round_that_is_done_leaves_no_results_and_takes_none",
    ),
    Mutant(
        "commit.names_stay", "logging",
        "    call('HDEL', k.run, 'once')\n",
        "",
        "a round that is done leaves no names of results",
        "test_once.py::test_a_round_that_is_done_leaves_no_results_and_takes_none",
    ),
    Mutant(
        "commit.artifacts_unwritten", "logging",
        "  in_parts('HSET', k.artifacts, ARGV, rest + 1, artifacts)\n",
        "",
        "a round that is done keeps its artifacts",
        "test_artifacts.py::test_a_round_that_is_done_keeps_its_artifacts_whole",
    ),
    Mutant(
        "commit.artifacts_in_the_hash", "logging",
        "  in_parts('HSET', k.artifacts, ARGV, rest",
        "  in_parts('HSET', k.run, ARGV, rest",
        "a claim does not read artifacts",
        "test_artifacts.py::test_a_claim_does_not_read_them",
    ),
    Mutant(
        "once.last_wins", "record_once", "if run[field] then return { 'ok', run[field] } end\n", "",
        "L2: the first of a name stands", "test_once.py::test_the_first_of_a_name_stands_and_is_what_everybody_gets",
    ),
    Mutant(
        "once.tells_what_came", "record_once", "if run[field] then return { 'ok', run[field] } end",
        "if run[field] then return { 'ok', arg.value } end", "L2: every attempt is told the one that stands",
        "test_once.py::test_of_two_workers_in_a_step_the_first_to_record_is_believed_by_both",
    ),
    Mutant(
        "once.any_step", "record_once", "if run.nonce ~= arg.nonce or run.step ~= arg.step then", "if run.nonce ~= arg.nonce then",
        "a result is of its step", "test_once.py::test_a_round_that_is_done_leaves_no_results_and_takes_none",
    ),
    Mutant(
        "once.any_run", "record_once", "if run.nonce ~= arg.nonce or run.step ~= arg.step then", "if run.step ~= arg.step then",
        "a result is of its run", "test_once.py::test_a_worker_of_a_deleted_run_records_nothing_in_a_new_run_of_its_id",
    ),
    Mutant(
        "once.fenced", "record_once", "if run.nonce ~= arg.nonce or run.step ~= arg.step then",
        "if run.phase ~= 'leased' or run.nonce ~= arg.nonce or run.step ~= arg.step then",
        "what a worker did that lost its round is recorded",
        "test_once.py::test_what_a_worker_did_that_lost_its_round_is_recorded",
    ),
    Mutant(
        "once.not_after_an_end", "record_once", "if run.nonce ~= arg.nonce or run.step ~= arg.step then",
        "if ENDED[run.phase] or run.nonce ~= arg.nonce or run.step ~= arg.step then",
        "what was done is recorded also where the run has been ended",
        "test_once.py::test_what_was_done_is_recorded_also_where_the_run_has_been_ended",
    ),
    Mutant(
        "once.one_too_many", "record_once", "if #names >= MOST", "if #names > MOST", "results of a step are bounded",
        "test_once.py::test_a_step_records_64_results_and_says_when_it_is_full",
    ),
    Mutant(
        "once.names_forgotten", "record_once", "names[#names + 1] = arg.name\n", "names = { arg.name }\n",
        "a round that is done leaves no results", "test_once.py::test_a_round_that_is_done_leaves_no_results_and_takes_none",
    ),
    Mutant(
        "once.of_any_run", "record_once", "local run, refusal = read_run(k)\nif not run then return refusal end\n",
        "local run = table_of(call('HGETALL', k.run)) or {}\n", "a wrong type is answered before any write", DAMAGED,
    ),
    Mutant(
        "submit.inherits_artifacts", "submit_run", "{ k.memory, k.events, k.artifacts }) do -- of", "{ k.memory, k.events }) do -- of",
        "a new run does not inherit what is left of another",
        "test_artifacts.py::test_a_new_run_does_not_inherit_what_is_left_of_another",
    ),
    Mutant(
        "moving.artifacts_outlive_their_run", "moving", "k.events, k.artifacts }) do call('PEXPIREAT'",
        "k.events }) do call('PEXPIREAT'", "an ended run expires with all its keys",
        "test_artifacts.py::test_they_expire_with_their_run_and_are_kept_again_by_a_retry",
    ),
    Mutant(
        "moving.artifacts_expire_after_a_retry", "moving", "k.events, k.artifacts }) do call('PERSIST'",
        "k.events }) do call('PERSIST'", "a retried run keeps its artifacts",
        "test_artifacts.py::test_they_expire_with_their_run_and_are_kept_again_by_a_retry",
    ),
    Mutant(
        "sweep.artifacts_outlive_their_run", "sweep_due", "artifacts = run .. ':artifacts', idem = run }", "artifacts = run, idem = run }",
        "a run that the sweep ends expires with all its keys", "test_artifacts.py::test_a_sweep_that_ends_a_run_lets_them_expire",
    ),
    Mutant(
        "delete.leaves_artifacts", "delete_run", "local own = { k.run, k.memory, k.events, k.artifacts }",
        "local own = { k.run, k.memory, k.events }", "a deleted run takes its artifacts along",
        "test_artifacts.py::test_a_deleted_run_takes_them_along",
    ),
    Mutant(
        "reading.artifacts_of_any_type", "reading", "events = 'stream', artifacts = 'hash', due", "events = 'stream', due",
        "a wrong type is answered before any write", DAMAGED,
    ),
)  # fmt: skip
