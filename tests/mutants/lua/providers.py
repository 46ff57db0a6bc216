"""Mutants of ask_provider.lua."""

from tests.mutants.mutant import Mutant

# fmt: off
MUTANTS = (
    Mutant(
        "provider.many_probes", "ask_provider",
        "  if lease > now then return { 'wait', whole(math.min(lease - now, number(arg.longest))) } end\n", "",
        "one request at a time probes", "test_providers.py::test_one_round_probes_and_the_others_wait_until_its_probe_has_been_answered",
    ),
    Mutant(
        "provider.anybody_opens", "ask_provider", "elseif closed and holder == arg.holder then", "elseif closed then",
        "only the probe opens a provider", "test_providers.py::test_one_round_probes_and_the_others_wait_until_its_probe_has_been_answered",
    ),
    Mutant(
        "provider.a_probe_for_ever", "ask_provider", "keep(at, waits, now + number(arg.lease), arg.holder)",
        "keep(at, waits, now + 1000 * number(arg.lease), arg.holder)", "a dead probe is followed by another",
        "test_providers.py::test_a_probe_whose_worker_died_is_followed_by_another",
    ),
)
