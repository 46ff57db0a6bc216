"""Mutants of arguments.lua and reading.lua, with which every transition begins."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "arguments.any_number", "arguments", "return text and #text <= 15 and find(text, '^%d+$') ~= nil end",
        "return text and tonumber(text) ~= nil end", "nan, inf, 0x10 and 1e3 are no counts",
        "test_damage.py::test_a_garbled_control_field_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "reading.numbers_too_long", "reading", "(length > 15 or i >= required", "(i >= required",
        "numbers that Lua does not count exactly are no counts",
        "test_damage.py::test_a_garbled_control_field_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "reading.types_of_lists_unseen", "reading", "if found ~= 'none' and found ~= 'list' then return list end", "",
        "a wrong type at a list is answered before any write",
        "test_damage.py::test_a_wrong_type_at_any_key_is_answered_before_any_write",
    ),
    Mutant(
        "reading.optional_counts_unseen", "reading", "if run[name] and not is_count(run[name]) then return name end", "",
        "a garbled count is answered before any write", "test_damage.py::test_a_garbled_control_field_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "reading.times_unseen", "reading",
        "'held_until', 'deadline', 'i_until',",
        "'held_until', 'held_until', 'i_until',",
        "a garbled deadline does not end the run as late",
        "test_damage.py::test_a_garbled_deadline_does_not_end_the_run_as_late",
    ),
    Mutant(
        "reading.names_unseen", "reading",
        "    if not run[TEXTS[i]] then return TEXTS[i] end\n",
        "",
        "a missing control field is answered before any write",
        "test_damage.py::test_a_missing_control_field_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "reading.any_phase", "reading", "if not PHASES[run.phase or ''] then return 'phase' end", "", "an unknown phase is damaged",
        "test_damage.py::test_an_unknown_phase_is_damaged",
    ),
    Mutant(
        "reading.question_without_id", "reading", "if run.phase == 'interrupted' and not run.i_id then return 'i_id' end", "",
        "nothing skips an approval", "test_damage.py::test_an_interrupt_that_lost_its_id_is_damaged_and_skips_no_approval",
    ),
    Mutant(
        "reading.question_without_words", "reading", "for _, name in ipairs({ 'i_status', 'i_node', 'i_reason' }) do",
        "for _, name in ipairs({}) do", "a question that cannot be asked again is damaged",
        "test_damage.py::test_a_question_that_cannot_be_asked_again_is_damaged_and_nothing_is_written",
    ),
    Mutant(
        "reading.push_count_unseen", "reading",
        "if pushed and (type(pushed) == 'table' or not is_count(pushed)) then return",
        "if false then return",
        "a garbled push count does not break a commit half-way",
        "test_damage.py::test_a_garbled_push_count_does_not_break_a_commit_half_way",
    ),
    Mutant(
        "reading.any_operation", "operations",
        "    if id == op then\n",
        "    if true then\n",
        "each operation has a reply of its own",
        "test_stop.py::test_now_may_follow_graceful",
    ),
)  # fmt: skip
