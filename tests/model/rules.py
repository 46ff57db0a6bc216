"""The rules of the protocol, one name each: on in the protocol, and off, one at a time, in its
mutants (mutants.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """The checks of transitions and sweep before they act; the comment says where the rule is
    written down.
    """

    # claim_round
    claim_checks_epoch: bool = True
    claim_checks_step: bool = True
    claim_is_early_while_waiting: bool = (
        True  # PROTOCOL, claim: a duplicate walks through a backoff
    )
    claim_is_early_while_interrupted: bool = True
    claim_never_judges_time: bool = (
        True  # PROTOCOL, claim: a duplicate takes a lapsed lease uncounted
    )
    claim_knows_its_own: bool = True  # the same claim id, the same reply
    claim_stops_where_asked: bool = True
    claim_counts_attempts: bool = True
    tokens_from_one_counter: bool = True  # decision 4
    cursor_never_goes_back: bool = True  # PROTOCOL, claim
    cursor_by_the_first_number: bool = True  # decision 8.2
    paused_flows_are_held: bool = True  # decision 6
    paused_runs_send_nothing: bool = True  # decision 6
    unknown_flows_wait: bool = True
    # hand_on, decision 38
    hand_on_checks_phase: bool = True  # a run that has been claimed, stopped or ended meanwhile
    hand_on_is_due: bool = True  # the promise
    push_ends_the_hand_on: bool = True
    hand_on_is_of_its_round: bool = True  # nothing takes it down at a claim
    # commit_round
    commit_checks_token: bool = True
    commit_checks_phase: bool = True
    commit_checks_epoch: bool = True
    commit_checks_step: bool = True
    commit_is_remembered: bool = True
    commit_ignores_time: bool = (
        True  # PROTOCOL, commit: a lease that lapsed but was not swept is still good
    )
    late_commit_lifts_the_hold: bool = True
    stop_beats_outcomes: bool = True
    end_beats_stop: bool = True
    commit_consumes_the_answer: bool = True
    commit_stores_the_next_message: bool = (
        True  # PROTOCOL, rules for every script: a stale stored message is sent for ever
    )
    pause_stores_the_next_epochs_message: bool = True
    commit_resets_the_bounds: bool = True
    commit_pushes: bool = True  # I6
    push_is_due: bool = True  # the promise
    give_back_counts_nothing: bool = True
    failures_are_bounded: bool = True
    busy_counts_nothing: bool = True  # decision 33
    misfits_have_a_clock: bool = True  # decision 73
    patience_ends: bool = True
    patience_is_of_its_step: bool = True
    patience_is_of_its_epoch: bool = True
    waits_end_with_the_patience: bool = True
    # the commit fetches, decision 19
    fetch_compares_the_message: bool = True
    fetch_checks_phase: bool = True
    fetch_stops_where_asked: bool = True
    fetch_holds_paused_flows: bool = True
    fetch_leaves_unknown_flows: bool = True
    refused_commits_fetch_nothing: bool = True
    repeat_pops_nothing: bool = True
    fetch_is_remembered: bool = True
    repeat_checks_the_fetch_claim: bool = True
    # commit_and_stay, decision 26
    stay_checks_phase: bool = True
    stay_checks_token: bool = True  # and the claim, which is known by the token that it was granted
    stay_checks_epoch: bool = True
    stay_checks_step: bool = True
    stay_leaves_stops: bool = True  # to commit_round, like all that follows
    stay_leaves_answers: bool = True
    stay_leaves_holds: bool = True
    stay_leaves_failures: bool = True
    stay_leaves_losses: bool = True
    stay_leaves_errors: bool = True
    stay_leaves_longer_graces: bool = True
    stay_leaves_paused_flows: bool = True
    stay_leaves_lists_that_none_took_from: bool = True
    stay_is_remembered: bool = True
    repeat_checks_the_stay_claim: bool = True
    stay_takes_the_message_away: bool = True  # decision 29
    stay_takes_the_lists_number: bool = True
    stay_begins_the_attempts_anew: bool = True
    stay_makes_a_token: bool = True
    stay_leases_anew: bool = True
    stay_is_due_anew: bool = True
    stay_limits_the_next_round: bool = True
    stay_ends_the_spare: bool = True
    stay_ends_the_intent: bool = True
    stay_ends_the_results: bool = True
    # record_intent, record_once, and their further course
    intent_checks_phase: bool = True  # decision 17
    intent_checks_token: bool = True  # decision 17
    intent_checks_epoch: bool = True
    intent_checks_step: bool = True
    intent_stays_the_firsts: bool = (
        True  # decision 17: a second attempt takes back the effects of the first
    )
    intent_outlives_a_loss: bool = True
    intent_outlives_a_failure: bool = True
    intent_outlives_an_epoch: bool = True
    intent_ends_with_its_step: bool = True
    intent_is_taken_back_by_its_writer: bool = True  # decision 17
    first_result_stands: bool = True
    results_are_not_fenced: bool = True  # decision 17
    results_are_of_their_step: bool = True
    results_are_of_their_run: bool = True  # decision 17
    results_end_with_their_step: bool = True
    give_back_brings_the_message: bool = True  # commit_round, decision 29
    # extend_leases, forfeit_lease
    only_the_owner_beats: bool = True
    beats_end_at_the_limit: bool = True
    beat_tells_of_the_stop: bool = True
    beat_ends_the_spare: bool = True  # decision 11
    only_the_dead_process_forfeits: bool = True  # decision 9
    forfeit_is_marked: bool = True  # decision 9
    # request_stop
    stop_now_takes_the_lease: bool = True
    stop_now_holds_the_token: bool = (
        True  # PROTOCOL, request_stop: resume > two workers in one step
    )
    stop_leaves_the_due_set: bool = True
    stop_spares_what_has_ended: bool = True
    # resume_run, retry_run
    operations_are_remembered: bool = True  # PROTOCOL: stop, reply lost > resume > stop re-sent
    others_do_not_push_a_reply_out: bool = True  # PROTOCOL: also when others came in between
    refusals_are_remembered: bool = True  # decision 5
    resume_checks_epoch: bool = True  # PROTOCOL: a re-sent answer answers the next question
    resume_checks_step: bool = True  # decision 11
    resume_checks_the_interrupt: bool = True
    resume_asks_again: bool = True  # PROTOCOL, resume: stop > resume skips the approval
    asking_again_rearms: bool = True
    asking_again_stores_the_message_after: bool = True
    resume_waits_for_the_hold: bool = True
    resume_checks_phase: bool = True
    resume_completes_what_has_ended: bool = True  # decision 35
    more_cycles_take_the_end_away: bool = True  # decision 34
    new_epoch_resets_the_bounds: bool = True
    new_epoch_takes_the_stop_down: bool = True
    attempts_go_on: bool = True  # PROTOCOL, stored fields: never restarted
    retry_keeps_the_run: bool = True
    retry_takes_a_passed_deadline_down: bool = True
    start_waits_for_its_time: bool = True
    # park, signals, decision 45
    claim_is_early_while_parked: bool = True
    park_asks_whether_the_wait_is_over: bool = True  # look > signal > park: it waits for ever
    park_keeps_the_time_of_its_wait: bool = True  # a sleep that restarts with each resume
    park_rests: bool = True  # no message is kept for a run that may wait for weeks
    signal_wakes: bool = True  # due at once: its sender may die before it brings the message
    stay_leaves_signals: bool = True  # decision 47: say > stay: the next round never hears
    end_heeds_what_is_unread: bool = True  # decision 47
    heard_is_what_the_claim_knew: bool = True  # decision 47: look > say > commit: never received
    time_outs_are_recorded: bool = True  # time-out, death > the next attempt takes a signal
    time_outs_end_with_their_step: bool = True
    wake_checks_phase: bool = True
    wake_checks_epoch: bool = True
    wake_checks_step: bool = True
    wake_asks_whether_the_wait_is_over: bool = True
    commit_takes_what_its_round_saw: bool = True  # a signal that came meanwhile is gone unread
    commit_ends_the_wait: bool = True
    # renewals, decision 49
    renewal_leaves_signals: bool = True
    renewal_leaves_what_was_spent: bool = True
    renewal_goes_on_in_the_next_step: bool = True  # a message of the old generation begins the new
    # families, decision 46
    plan_makes_follow_up: bool = True  # the worker that parked dies before it starts a child
    drop_makes_follow_up: bool = True  # the losers of a race live on
    rest_makes_follow_up: bool = True  # the children of a stopped parent live on
    parent_goes_on_with_follow_up: bool = True
    end_makes_follow_up: bool = True  # with a limit of one, the second is never started
    late_stop_makes_follow_up: bool = True
    drop_walks: bool = True
    rest_walks: bool = True
    going_on_walks: bool = True
    late_stop_walks: bool = True
    follow_up_is_numbered: bool = True  # a walk that began earlier counts for a newer one
    end_wakes_the_parent: bool = True
    park_brings_its_message: bool = True  # of a run that stayed until it waits
    stop_with_the_tree_tells_nobody: bool = True
    taking_up_takes_the_end_back: bool = True
    going_on_takes_children_back: bool = True  # resume of a child > resume of its parent > stop
    taking_up_releases: bool = True  # a child is held back, and goes on
    held_children_make_room: bool = True
    walk_spares: bool = True  # stop of the parent alone > an older follow-up stops its children
    later_stop_reaches_the_children: bool = True
    stop_of_all_beats_one_alone: bool = True
    end_drops_what_was_not_joined: bool = True
    start_checks_phase: bool = True
    start_checks_group: bool = True
    start_checks_room: bool = True
    start_names_its_place: bool = True
    start_leaves_what_is_left: bool = True
    start_leaves_a_newer_walk: bool = True
    # topics
    submit_asks_for_the_topic: bool = True  # two live runs would answer to one name
    topic_gives_way: bool = True  # a run that was stopped and forgotten would hold it for ever
    taking_moves_what_waits: bool = True
    moved_signals_keep_their_order: bool = True
    waiting_signals_end: bool = True
    signals_go_to_the_holder: bool = True
    waiting_signals_are_known: bool = True  # sent again before the run is submitted
    holder_knows_its_keys: bool = True  # sent before the run is submitted, and again after it
    earlier_holders_know_their_keys: bool = True  # sent again when another run holds the topic
    taking_remembers_the_holder: bool = True
    giving_up_is_remembered: bool = True
    completed_runs_give_up: bool = True
    deleted_runs_give_up: bool = True
    taking_ends_the_expiry: bool = True
    errored_runs_end_their_topic: bool = True
    retries_keep_their_topic: bool = True
    topics_of_others_are_left_alone: bool = True
    # take_topic
    taking_checks_phase: bool = True
    taking_checks_token: bool = True
    round_asks_for_the_topic: bool = True
    holder_has_its_topic: bool = True  # every attempt of the node asks again
    # submit_run
    submit_knows_its_nonce: bool = True
    submit_never_overwrites: bool = True
    # sweep_due
    sweep_only_takes_lapsed_leases: bool = True
    sweep_moves_what_it_looks_at: bool = True  # PROTOCOL, sweep: none hides those behind it
    leases_are_swept_first: bool = True  # decision 40
    sweep_counts_losses: bool = True
    losses_are_bounded: bool = True
    later_losses_wait: bool = True  # PROTOCOL, sweep: one poison run and its restarts
    sweep_stops_where_asked: bool = True
    sweep_asks_for_the_message: bool = True  # decision 29
    made_is_of_the_round: bool = True  # decision 29
    sweep_marks_before_it_sends: bool = True
    sweep_looks_into_the_list: bool = True  # decision 3
    sweep_looks_where_it_was_handed_on: bool = True  # decision 38
    sweep_takes_back_from_the_dead: bool = True  # decision 38
    sweep_believes_the_cursor: bool = True
    lines_are_promoted: bool = True  # decision 8.1
    silent_broker_judges_nobody: bool = True  # decision 8.3
    silence_spares: bool = True  # PROTOCOL, sweep: a stall robs live workers
    silence_lasts_half_a_lease_more: bool = True  # PROTOCOL, sweep
    silence_spares_once: bool = True  # PROTOCOL, sweep: a calm period never frees the dead
    overran_is_a_failure: bool = True  # decision 7
    overran_is_not_spared: bool = True  # decision 7
    overdue_runs_end: bool = True
    waits_are_waited: bool = True
    default_begins_an_epoch: bool = True


def without(name: str) -> Rules:
    """Return the protocol without this rule."""
    return replace(Rules(), **{name: False})


def names() -> list[str]:
    return [field.name for field in fields(Rules)]
