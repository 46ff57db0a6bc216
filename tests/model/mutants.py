"""The mutants: the protocol without one of its rules. Each breaks a law in its configuration, or is equivalent, and the text says why."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.configurations import CONFIGURATIONS
from tests.model.rules import without
from tests.model.search import Found, Search


@dataclass(frozen=True)
class Mutant:
    """A rule switched off, where its absence is felt, and the law that it breaks there."""

    rule: str
    configuration: str
    law: str


MUTANTS = [
    Mutant("claim_checks_epoch", "outbox", "I4"),
    Mutant("claim_checks_step", "outbox", "I4"),
    Mutant("claim_is_early_while_waiting", "limits", "V3"),
    Mutant("claim_is_early_while_interrupted", "limits", "I6"),
    Mutant("claim_never_judges_time", "forfeits", "I5"),
    Mutant("claim_knows_its_own", "replies", "I13"),
    Mutant("claim_counts_attempts", "stops", "I16"),
    Mutant("tokens_from_one_counter", "deleted", "I13"),
    Mutant("cursor_never_goes_back", "two runs", "I3"),
    Mutant("cursor_by_the_first_number", "in order", "V4"),
    Mutant("paused_flows_are_held", "paused", "V4"),
    Mutant("paused_runs_send_nothing", "paused", "V4"),
    Mutant("unknown_flows_wait", "paused", "I4"),
    Mutant("hand_on_checks_phase", "handed on", "I5"),
    Mutant("hand_on_is_due", "handed on", "V2"),
    Mutant("push_ends_the_hand_on", "handed on", "V4"),
    Mutant("hand_on_is_of_its_round", "handed on", "V4"),
    Mutant("sweep_looks_where_it_was_handed_on", "handed on", "V4"),
    Mutant("sweep_takes_back_from_the_dead", "handed on", "V1"),
    Mutant("commit_checks_token", "stops", "I4"),
    Mutant("commit_checks_phase", "stops", "I4"),
    Mutant("commit_is_remembered", "replies", "I13"),
    Mutant("commit_ignores_time", "stops", "I4"),
    Mutant("late_commit_lifts_the_hold", "stops", "V1"),
    Mutant("stop_beats_outcomes", "stops", "I9"),
    Mutant("end_beats_stop", "stops", "I9"),
    Mutant("commit_consumes_the_answer", "questions", "I10"),
    Mutant("commit_stores_the_next_message", "stops", "I6"),
    Mutant("pause_stores_the_next_epochs_message", "questions", "I6"),
    Mutant("commit_resets_the_bounds", "failures", "I16"),
    Mutant("push_is_due", "stops", "V2"),
    Mutant("give_back_counts_nothing", "failures", "I16"),
    Mutant("failures_are_bounded", "limits", "I16"),
    Mutant("busy_counts_nothing", "busy", "I16"),
    Mutant("patience_ends", "busy", "I16"),
    Mutant("patience_is_of_its_step", "busy", "I16"),
    Mutant("patience_is_of_its_epoch", "busy", "V1"),
    Mutant("waits_end_with_the_patience", "busy", "I16"),
    Mutant("fetch_compares_the_message", "fetches", "I4"),
    Mutant("fetch_checks_phase", "fetches", "I4"),
    Mutant("fetch_holds_paused_flows", "fetches of the paused", "V4"),
    Mutant("fetch_leaves_unknown_flows", "fetches of the paused", "I4"),
    Mutant("refused_commits_fetch_nothing", "fetches", "I13"),
    Mutant("repeat_pops_nothing", "fetches of another", "I13"),
    Mutant("fetch_is_remembered", "fetches", "I13"),
    Mutant("repeat_checks_the_fetch_claim", "fetches of another", "I13"),
    Mutant("stay_checks_phase", "stays", "I4"),
    Mutant("stay_checks_token", "stays of the deleted", "I4"),
    Mutant("stay_leaves_stops", "stays", "I9"),
    Mutant("stay_leaves_answers", "stays after any outcome", "I10"),
    Mutant("stay_leaves_losses", "stays", "I16"),
    Mutant("stay_leaves_errors", "stays after any outcome", "L3"),
    Mutant("stay_leaves_longer_graces", "stays after any outcome", "V1"),
    Mutant("stay_leaves_paused_flows", "stays of the paused", "V4"),
    Mutant("stay_leaves_lists_that_none_took_from", "stays from two queues", "V4"),
    Mutant("stay_is_remembered", "stays", "I13"),
    Mutant("repeat_checks_the_stay_claim", "stays and fetches", "I13"),
    Mutant("stay_takes_the_message_away", "stays", "I6"),
    Mutant("give_back_brings_the_message", "stays after any outcome", "I6"),
    Mutant("stay_takes_the_lists_number", "stays from two queues", "V4"),
    Mutant("stay_begins_the_attempts_anew", "stays", "I16"),
    Mutant("stay_makes_a_token", "stays", "I3"),
    Mutant("stay_leases_anew", "stays", "V2"),
    Mutant("stay_is_due_anew", "stays", "V2"),
    Mutant("stay_limits_the_next_round", "stays to the limit", "I16"),
    Mutant("stay_ends_the_spare", "stays through silence", "L3"),
    Mutant("stay_ends_the_intent", "stays with intents", "L1"),
    Mutant("stay_ends_the_results", "stays with intents", "L2"),
    Mutant("intent_checks_phase", "intents", "L1"),
    Mutant("intent_checks_token", "intents", "L1"),
    Mutant("intent_stays_the_firsts", "intents", "L1"),
    Mutant("intent_outlives_a_loss", "intents", "L1"),
    Mutant("intent_outlives_a_failure", "intents", "L1"),
    Mutant("intent_outlives_an_epoch", "intents", "L1"),
    Mutant("intent_ends_with_its_step", "intents", "L1"),
    Mutant("intent_is_taken_back_by_its_writer", "intents", "L1"),
    Mutant("first_result_stands", "intents", "L2"),
    Mutant("results_are_not_fenced", "intents", "L2"),
    Mutant("results_are_of_their_step", "intents", "L2"),
    Mutant("results_are_of_their_run", "intents of the deleted", "L2"),
    Mutant("results_end_with_their_step", "intents", "L2"),
    Mutant("only_the_owner_beats", "forfeits", "I5"),
    Mutant("beats_end_at_the_limit", "limits", "I16"),
    Mutant("beat_tells_of_the_stop", "forfeits", "I8"),
    Mutant("beat_ends_the_spare", "silence", "V5"),
    Mutant("only_the_dead_process_forfeits", "forfeits", "V5"),
    Mutant("forfeit_is_marked", "silence", "V5"),
    Mutant("stop_now_takes_the_lease", "stops", "I9"),
    Mutant("stop_now_holds_the_token", "stops", "I5"),
    Mutant("stop_leaves_the_due_set", "stops", "V2"),
    Mutant("stop_spares_what_has_ended", "stops", "I9"),
    Mutant("operations_are_remembered", "replies", "I13"),
    Mutant("others_do_not_push_a_reply_out", "replies", "I13"),
    Mutant("refusals_are_remembered", "refusals", "I13"),
    Mutant("resume_checks_epoch", "stops", "I10"),
    Mutant("resume_checks_step", "stops", "I6"),
    Mutant("resume_checks_the_interrupt", "questions", "I10"),
    Mutant("resume_asks_again", "questions", "I10"),
    Mutant("asking_again_rearms", "questions", "V2"),
    Mutant("asking_again_stores_the_message_after", "questions", "I6"),
    Mutant("resume_waits_for_the_hold", "stops", "I5"),
    Mutant("resume_checks_phase", "stops", "I5"),
    Mutant("resume_completes_what_has_ended", "endings", "L4"),
    Mutant("more_cycles_take_the_end_away", "endings", "L4"),
    Mutant("new_epoch_resets_the_bounds", "failures", "V1"),
    Mutant("new_epoch_takes_the_stop_down", "stops", "I8"),
    Mutant("attempts_go_on", "stops", "I16"),
    Mutant("retry_keeps_the_run", "failures", "I11"),
    Mutant("retry_takes_a_passed_deadline_down", "limits", "V3"),
    Mutant("start_waits_for_its_time", "paused", "V3"),
    Mutant("submit_knows_its_nonce", "deleted", "I13"),
    Mutant("submit_never_overwrites", "deleted", "I11"),
    Mutant("sweep_moves_what_it_looks_at", "two runs", "V1"),
    Mutant("sweep_counts_losses", "stops", "I16"),
    Mutant("losses_are_bounded", "forfeits", "I16"),
    Mutant("later_losses_wait", "failures", "I16"),
    Mutant("sweep_stops_where_asked", "stops", "I8"),
    Mutant("sweep_only_takes_lapsed_leases", "stays", "V5"),
    Mutant("sweep_asks_for_the_message", "stays", "I6"),
    Mutant("made_is_of_the_round", "stays after any outcome", "I6"),
    Mutant("sweep_marks_before_it_sends", "stops", "V4"),
    Mutant("sweep_looks_into_the_list", "stops", "V4"),
    Mutant("sweep_believes_the_cursor", "in order", "V4"),
    Mutant("lines_are_promoted", "two runs", "V1"),
    Mutant("leases_are_swept_first", "two runs", "V1"),
    Mutant("silent_broker_judges_nobody", "outbox", "V4"),
    Mutant("silence_spares", "silence", "V5"),
    Mutant("silence_lasts_half_a_lease_more", "silence", "V5"),
    Mutant("silence_spares_once", "silence", "V5"),
    Mutant("overran_is_a_failure", "limits", "I16"),
    Mutant("overran_is_not_spared", "silence past a limit", "V5"),
    Mutant("overdue_runs_end", "limits", "V1"),
    Mutant("default_begins_an_epoch", "questions", "I6"),
    Mutant("commit_pushes", "stops", "I6"),
    Mutant("claim_is_early_while_parked", "sleeps", "V4"),
    Mutant("park_asks_whether_the_wait_is_over", "waits", "C3"),
    Mutant("park_keeps_the_time_of_its_wait", "sleeps", "C6"),
    Mutant("park_rests", "sleeps", "C9"),
    Mutant("signal_wakes", "waits", "C3"),
    Mutant("time_outs_are_recorded", "sleeps", "C6"),
    Mutant("time_outs_end_with_their_step", "sleeps", "C6"),
    Mutant("wake_checks_phase", "waits", "C3"),
    Mutant("wake_checks_epoch", "waits", "I6"),
    Mutant("wake_checks_step", "waits", "I6"),
    Mutant("wake_asks_whether_the_wait_is_over", "waits", "C3"),
    Mutant("commit_takes_what_its_round_saw", "waits", "C5"),
    Mutant("commit_ends_the_wait", "sleeps", "C6"),
]

#: Rules without which nothing changes: where that is searched, and why it is so. A state in which they mattered would be news.
EQUIVALENT = {
    # A stop that is asked for and not yet carried out is only ever found on a leased run (law I8 says so of every state), and a
    # leased run is not claimed. The branch is a second line of defence.
    "claim_stops_where_asked": "forfeits",
    # The same where a commit fetches.
    "fetch_stops_where_asked": "fetches of another",
    # A token is granted for one epoch and one step; an epoch only begins where no lease is, and only the token's own commit moves the
    # step: the token tells both. The checks are kept for damaged state.
    "commit_checks_epoch": "forfeits",
    "commit_checks_step": "forfeits",
    # The same checks of the same fence.
    "intent_checks_epoch": "intents",
    "intent_checks_step": "intents",
    "stay_checks_epoch": "stays",
    "stay_checks_step": "stays",
    # A token is held where stop now has taken its lease; the run is leased again under another one, and no sooner than the hold is over.
    "stay_leaves_holds": "stays",
    # Whatever counts a failure of the step at hand keeps what it failed of, and both go with the round that is done.
    "stay_leaves_failures": "stays after any outcome",
    # A waiting run is due when its wait ends, or at its deadline, which ends it before the wait is asked for. The check
    # is kept for a due set that was written by hand, or restored from an older copy.
    "waits_are_waited": "paused",
}


def search(rule: str, configuration: str, most: int = 200_000) -> Found:
    """Search the protocol without ``rule``."""
    return Search(CONFIGURATIONS[configuration], without(rule), most).run()
