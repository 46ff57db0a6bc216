"""Mutants of commit_and_stay.lua: the commit that leases the run's next round to the same worker."""

from tests.mutants.mutant import Mutant

#: The tests of what is not plain, and of what a run that stays leaves.
GUARDS, WRITES, STAY = "test_stay_guards.py::test_", "test_stay_writes.py::test_", "test_stay.py::test_"
NOT_THE_CALLER_S = GUARDS + "a_round_that_is_not_the_caller_s_does_not_stay"
LOST_A_FIELD = GUARDS + "a_run_that_lost_a_control_field_does_not_stay"
GARBLED = GUARDS + "a_garbled_count_does_not_stay"
NO_LIMIT = GUARDS + "a_garbled_limit_does_not_stay"
SET_BACK = GUARDS + "what_the_commit_would_set_back_does_not_stay"
WRONG_TYPE = GUARDS + "a_key_of_a_wrong_type_is_left_to_the_commit"
AS_TOLD = STAY + "what_its_worker_knows_of_the_next_round_is_what_the_hash_says"
IN_ONE_WRITE = STAY + "the_round_is_committed_and_the_next_one_leased_in_one_write"
AGAIN = STAY + "a_commit_repeated_is_granted_the_same_again"
DEADLINE = WRITES + "the_next_round_ends_with_its_run_s_deadline_at_the_latest"

MADE = "if last_token == arg.token then -- made"
FENCE = "if token ~= arg.token or claim ~= arg.claim or step ~= arg.step or epoch ~= arg.epoch then return OTHER end"
PLAIN = "if failures ~= '0' or losses ~= '0' or last_error or grace ~= resend then return OTHER end"
KNOWN = (
    "if not flow or not node or round_timeout and not is_count(round_timeout) or deadline and not is_count(deadline) then return OTHER end"
)


def stays(name: str, old: str, new: str, rule: str, killed_by: str = "", equivalent: str = "") -> Mutant:
    """A mutant of this file."""
    return Mutant(f"stay.{name}", "commit_and_stay", old, new, rule, killed_by, equivalent)


READ = (
    stays("counts_missing", "if not text or text == '' or", "if text == '' or", "a missing count is damage", GARBLED),
    stays("counts_empty", "if not text or text == '' or", "if not text or", "an empty count is damage", GARBLED),
    stays("counts_too_long", " or #text > 14 then return OTHER end", " then return OTHER end", "Lua counts exactly to 2^53", GARBLED),
    stays("counts_of_anything", "if not find(concat(found, '', 1, COUNTS), '^%d+$') then return OTHER end", "", "x is no count", GARBLED),
    stays("any_phase", "if phase ~= 'leased' or not id", "if not id", "only a leased run's round is committed",
          GUARDS + "a_run_that_is_not_leased_does_not_stay"),
    stays("nameless", " or not id or ", " or ", "no script fails where a run lost its id", LOST_A_FIELD),
    stays("copied", " or k.run ~= key_of(k.due, id) then return OTHER end", " then return OTHER end",
          "what is under another key moves nothing of the run's", GUARDS + "a_copy_of_a_run_does_not_stay"),
    stays("any_end_of_the_round", "if round_until and not is_count(round_until) then return OTHER end\n", "",
          "no reply is not what it should be", NO_LIMIT),
    stays("run_of_any_type", "if found.err then return OTHER end\n", "", "a wrong type is answered before any write",
          equivalent="what is an error has no first count, and a missing count is answered alike"),
)  # fmt: skip

REPEATED = (
    stays("never_again", MADE, "if false then -- made", "a commit repeated is granted the same", AGAIN),
    stays("again_to_anybody", "  if claim ~= arg.next_claim then return OTHER end\n", "", "a lease that another took up is not granted",
          STAY + "a_commit_repeated_after_another_took_the_run_up_is_granted_nothing"),
    stays("claimed_anew", "granted(token, claimed_at, lease_until,", "granted(token, whole(now), lease_until,",
          "a commit repeated is granted the same", AGAIN),
    stays("another_end", "granted(token, claimed_at, lease_until,", "granted(token, claimed_at, whole(now + lease),",
          "a commit repeated is granted the same", AGAIN),
    stays("limit_untold", "number_in_line, round_until or nil)", "number_in_line)", "a commit repeated is granted the same",
          WRITES + "a_commit_repeated_is_told_the_limit_again"),
    stays("again_but_stopped", MADE, MADE.replace("if ", "if stop ~= 'stop_requested' and "),
          "what was made stands", WRITES + "a_commit_repeated_is_granted_whatever_was_asked_for_meanwhile"),
)  # fmt: skip

GUARDED = (
    stays("any_token", FENCE, FENCE.replace("token ~= arg.token or ", ""), "I3: only the newest token commits", NOT_THE_CALLER_S),
    stays("any_claim", FENCE, FENCE.replace("claim ~= arg.claim or ", ""), "only the lease's own claim commits", NOT_THE_CALLER_S),
    stays("any_step", FENCE, FENCE.replace("step ~= arg.step or ", ""), "only the round that was claimed is committed", NOT_THE_CALLER_S),
    stays("any_epoch", FENCE, FENCE.replace(" or epoch ~= arg.epoch", ""), "a round of an older epoch is not committed", NOT_THE_CALLER_S),
    stays("deaf_to_stops", "if stop == 'stop_requested' or ", "if ", "a stop asked meanwhile is honoured at the commit",
          GUARDS + "a_stop_that_was_asked_for_is_left_to_the_commit"),
    stays("answer_stays", " or interrupt or ", " or ", "I10: an answer is consumed by the commit",
          GUARDS + "an_answer_is_consumed_before_a_run_stays"),
    stays("hold_stays", " or held_token == arg.token then return OTHER end", " then return OTHER end", "the late commit lifts the hold",
          GUARDS + "a_token_that_is_held_does_not_stay"),
    stays("failures_go_on", PLAIN, PLAIN.replace("failures ~= '0' or ", ""), "the bounds start anew with every step", SET_BACK),
    stays("losses_go_on", PLAIN, PLAIN.replace("losses ~= '0' or ", ""), "the bounds start anew with every step", SET_BACK),
    stays("last_error_stays", PLAIN, PLAIN.replace("last_error or ", ""), "a round that is done has no error", SET_BACK),
    stays("grace_goes_on", PLAIN, PLAIN.replace(" or grace ~= resend", ""), "the grace starts anew with every step", SET_BACK),
    stays("of_no_flow", KNOWN, KNOWN.replace("not flow or ", ""), "a run that lost its flow is damaged",
          equivalent="a command without it is an error, and so is no flow that is not paused"),
    stays("at_no_node", KNOWN, KNOWN.replace("not node or ", ""), "a run that lost its node is damaged",
          equivalent="an event without it is an error, and is the first that would be written"),
    stays("any_round_timeout", KNOWN, KNOWN.replace("round_timeout and not is_count(round_timeout) or ", ""),
          "no script fails half-way", NO_LIMIT),
    stays("any_deadline", KNOWN, KNOWN.replace(" or deadline and not is_count(deadline)", ""), "no script fails half-way", NO_LIMIT),
    stays("of_a_paused_flow", "if pcall('HEXISTS', k.paused, flow) ~= 0 or type", "if type", "no round of a paused flow is leased",
          GUARDS + "a_run_of_a_paused_flow_is_left_to_the_commit"),
    stays("paused_of_any_type", "pcall('HEXISTS', k.paused, flow) ~= 0 or", "pcall('HEXISTS', k.paused, flow) == 1 or",
          "a pause that cannot be read is no leave", WRONG_TYPE),
    stays("due_of_any_type", " or type(pcall('ZCARD', k.due)) ~= 'number' then", " then", "no script fails half-way", WRONG_TYPE),
    stays("memory_of_any_type", "[k.memory] = 'list', ", "", "no script fails half-way", WRONG_TYPE),
    stays("artifacts_of_any_type", ", [k.artifacts] = 'hash' }", " }", "no script fails half-way",
          WRITES + "a_round_that_leaves_a_text_asks_for_the_type_of_what_keeps_it"),
    stays("types_unseen", "if held ~= wanted and held ~= 'none' then return OTHER end", "", "no script fails half-way", WRONG_TYPE),
    stays("events_of_any_type", " at) then return OTHER end", " at) then end", "a wrong type is answered before any write", WRONG_TYPE),
    stays("queues_of_any_type", "if counters.err then return OTHER end\n", "", "a wrong type is answered before any write",
          equivalent="what is an error has no second text, and a missing number is answered alike"),
    stays("no_number", "if number(place) == 0 or newest", "if newest", "a message that has been in line has a number",
          GUARDS + "into_a_line_without_a_number_no_run_stays"),
    stays("token_from_nowhere", " or newest < tonumber(token) then return OTHER end", " then return OTHER end", "I3: tokens grow",
          GUARDS + "a_counter_behind_the_run_s_own_token_grants_none"),
)  # fmt: skip

WRITTEN = (
    stays("progress_stays", "call('HDEL', k.run, 'progress', ", "call('HDEL', k.run, ", "progress is of one round", AS_TOLD),
    stays("spared_stays", "'progress', 'spared', ", "'progress', ", "each lease can be spared",
          WRITES + "the_lease_of_a_round_that_was_spared_can_be_spared_again"),
    stays("intent_stays", "'intent', 'intent_token',", "'intent_token',", "a round's intents go with it", AS_TOLD),
    stays("whose_intent_stays", "'intent', 'intent_token',", "'intent',", "a round's intents go with it", AS_TOLD),
    stays("intent_leaves_its_date", "'intent_at', 'intent_by', 'round", "'round", "when and by whom go with the intent", AS_TOLD),
    stays("limit_of_the_last_round", "'intent_by', 'round_until')", "'intent_by')", "a round's limit ends with it",
          WRITES + "a_limit_that_only_the_worker_knew_ends_with_the_round_that_stays"),
    stays("limit_of_the_last_round_told", "round_until = nil\n", "\n", "a round's limit ends with it",
          WRITES + "a_limit_that_only_the_worker_knew_ends_with_the_round_that_stays"),
    stays("results_stay", ", once = once or nil }", " }", "a round's results go with it", AS_TOLD),
    stays("logged_of_the_next", "log(k, { step = step,", "log(k, { step = whole(step + 1),", "I1: the log has every step", IN_ONE_WRITE),
    stays("unlimited", "if round_timeout or deadline then --", "if false then --", "a round's limit is its own",
          STAY + "the_round_s_own_limit_begins_anew"),
    stays("no_time_to_commit", "deadline or math.huge) + lease)", "deadline or math.huge))", "a round that notices its end can commit",
          STAY + "the_round_s_own_limit_begins_anew"),
    stays("beyond_the_deadline", "math.huge, deadline or math.huge)", "math.huge, math.huge)",
          "no round outlasts its run's deadline", DEADLINE),
    stays("until_the_deadline", "math.min(round_timeout and now + round_timeout or math.huge, ", "math.min(math.huge, ",
          "no round outlasts its own limit", DEADLINE),
    stays("limit_unwritten", "  call('HSET', k.run, 'round_until', round_until)\n", "", "a round's limit is its own", DEADLINE),
    stays("fields_cut", "in_parts('HSET', k.run, ARGV, fields + MOST_AT_ONCE, fields_end)\n", "",
          "all fields are written", STAY + "more_values_and_turns_than_luas_stack_holds_are_all_kept"),
    stays("fields_unwritten", ", unpack(ARGV, fields, math.min(fields + MOST_AT_ONCE - 1, fields_end)))", ")",
          "the fields are written", AS_TOLD),
    stays("same_token", "whole(newest + 1)", "token", "I3: each claim has a token of its own", IN_ONE_WRITE),
    stays("token_of_the_run", "whole(newest + 1)", "whole(token + 1)", "I3: tokens grow over all runs",
          WRITES + "a_token_is_newer_than_all_that_others_were_granted_meanwhile"),
    stays("short_lease", "whole(now + lease)\n", "whole(now + resend)\n", "a lease is as long as the claim asked",
          WRITES + "the_lease_is_as_long_as_the_one_before"),
    stays("same_step", "'step', whole(step + 1), ", "", "I1: each commit is a step", IN_ONE_WRITE),
    stays("last_node_unwritten", "'last_node', node, ", "", "what was done last is known", AS_TOLD),
    stays("attempts_go_on", "'attempt', '1', ", "", "attempts are of one round", WRITES + "the_attempts_of_the_next_round_begin_anew"),
    stays("stale_message", "'message', arg.message or '', ", "", "whoever takes the run up has its round's message", IN_ONE_WRITE),
    stays("never_a_message", "'message', arg.message or '', ", "'message', '', ", "a message that is written already is kept",
          STAY + "a_message_that_is_written_already_is_kept"),
    stays("number_of_another_line", "'number', place, ", "", "a message is as if it had been the next of its list",
          WRITES + "its_number_is_that_of_what_was_last_taken_from_its_list"),
    stays("updated_before", "'updated_at', at,", "", "the run's last move has its time", AS_TOLD),
    stays("claimed_before", "'claimed_at', at, ", "", "a round began when its predecessor ended", AS_TOLD),
    stays("token_unwritten", "'claimed_at', at, 'token', token,", "'claimed_at', at,", "I3: the old token commits no more", AS_TOLD),
    stays("claim_unwritten", "'claim_id', arg.next_claim, ", "", "the lease is the next claim's", IN_ONE_WRITE),
    stays("lease_of_the_last_round", "'lease_until', lease_until, 'last_token'", "'last_token'", "each lease begins anew", IN_ONE_WRITE),
    stays("forgets_its_token", "'last_token', arg.token, 'last_answer',", "'last_answer',",
          "I13: a commit repeated gets its first answer", AGAIN),
    stays("forgets_its_answer", "'last_answer',\n  'continued', ", "'last_step',\n  '', ",
          "I13: a commit repeated gets its first answer", AS_TOLD),
    stays("unpromised", "call('ZADD', k.due, lease_until, id)\n", "", "a leased run is due at its lease's end", IN_ONE_WRITE),
    stays("uncounted", "call('HSET', k.queues, 'token', token)\n", "", "I3: no other claim has its token",
          WRITES + "no_other_claim_has_its_token"),
    stays("limit_of_the_next_untold", "granted(token, at, lease_until, place, round_until)", "granted(token, at, lease_until, place)",
          "a worker knows its round's limit", DEADLINE),
)  # fmt: skip

MUTANTS = (*READ, *REPEATED, *GUARDED, *WRITTEN)
