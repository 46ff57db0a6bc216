"""Mutants of fetching.lua, and of what else a commit that fetches relies on."""

from tests.mutants.mutant import Mutant

UNCLAIMED = "test_fetch.py::test_what_cannot_be_claimed_is_handed_over_unclaimed_and_unchanged"

MUTANTS = (
    Mutant(
        "fetching.any_text", "fetching", "if run and run.message == text and", "if run and",
        "only the message that the hash stores is claimed",
        UNCLAIMED,
    ),
    Mutant("fetching.any_phase", "fetching", "run.phase == 'queued' and ", "", "I5: one live lease a run", UNCLAIMED),
    Mutant(
        "fetching.deaf_to_stops", "fetching", "run.stop_current_execution ~= 'stop_requested' and ", "",
        "a stop asked is honoured at the claim", UNCLAIMED,
    ),
    Mutant(
        "fetching.any_flow", "fetching",
        "'stop_requested' and plays(run)", "'stop_requested'", "nobody is given a flow it does not know", UNCLAIMED,
    ),
    Mutant(
        "fetching.of_a_paused_flow", "fetching", "    and pcall('HEXISTS', k.paused, run.flow) == 0 then", "    then",
        "no round of a paused flow is claimed", UNCLAIMED,
    ),
    Mutant(
        "fetching.token_from_nowhere", "fetching", "if token and newest then", "if newest then",
        "a token from nowhere takes no other run's room", UNCLAIMED,
    ),
    Mutant(
        "fetching.types_unseen", "fetching", "if token and newest then", "if token then", "no script fails half-way", UNCLAIMED,
    ),
    Mutant(
        "fetching.newest_first", "fetching", "pcall('RPOP', list)", "pcall('LPOP', list)", "first come, first served",
        "test_fetch.py::test_the_oldest_message_is_fetched_before_the_run_s_own",
    ),
    Mutant(
        "fetching.given_back", "commit_round", "if kind ~= 'give_back' then list, text, id = pop(k) end", "list, text, id = pop(k)",
        "a round that is given back fetches nothing", "test_fetch.py::test_a_round_that_is_given_back_fetches_nothing",
    ),
    Mutant(
        "fetching.unpromised", "commit_round", "if promises[1] then promise(k, promises, counted) end", "",
        "a leased run is due at its lease's end", "test_fetch.py::test_what_is_fetched_is_leased_as_a_claim_leases_it",
    ),
    Mutant(
        "fetching.promised_alone", "continuing", "text, id, promises, counted)\n", "text, id, promises, {})\n",
        "a claim moves its list's cursor", "test_fetch.py::test_the_oldest_message_is_fetched_before_the_run_s_own",
    ),
    Mutant(
        "fetching.forgets", "continuing", "'last_fetched', id or '',", "'last_fetched', '',",
        "a commit sent again brings the same claim", "test_fetch.py::test_a_commit_sent_again_brings_the_same_claim",
    ),
    Mutant(
        "fetching.forgets_at_the_end", "commit_round", "'last_fetched', id or '')", "'last_fetched', '')",
        "a commit sent again brings the same claim", "test_fetch.py::test_a_commit_sent_again_brings_the_same_claim",
    ),
    Mutant(
        "fetching.anothers_claim", "fetching", " or run.claim_id ~= arg.fetch_claim then", " then",
        "a claim that was taken away is not brought again",
        "test_fetch.py::test_a_claim_that_was_taken_away_meanwhile_is_not_brought_again",
    ),
    Mutant(
        "fetching.again_of_any_phase", "fetching", "run.phase ~= 'leased' or run.claim_id", "run.claim_id", "only a lease is granted again",
        equivalent="a claim id is in the hash in phase leased only: whatever leaves the phase takes it out",
    ),
    Mutant(
        "fetching.refused_and_popped", "commit_round", "damaged = unwritable(k, queue)", "damaged = nil",
        "no script fails half-way", "test_damage.py::test_a_wrong_type_at_any_key_is_answered_before_any_write",
    ),
)  # fmt: skip
