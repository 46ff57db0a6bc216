"""Mutants of what a script may do on a full server."""

from tests.mutants.mutant import Mutant

OUT_OF_MEMORY = "test_oom.py::test_a_full_server_refuses_new_work_and_lets_running_work_beat_stop_and_end"

MUTANTS = (
    *(
        Mutant(
            f"{file}.refused_when_full", file, "#!lua flags=allow-oom\n", "#!lua\n",
            "under maxmemory running work can still beat, stop and end", OUT_OF_MEMORY,
        )
        for file in (
            "claim_round", "commit_round", "extend_leases", "forfeit_lease",
            "request_stop", "resume_run", "retry_run", "delete_run", "sweep_due", "record_intent", "record_once",
        )
    ),
    Mutant(
        "submit_run.taken_when_full", "submit_run", "#!lua\n", "#!lua flags=allow-oom\n", "a full server refuses new work",
        OUT_OF_MEMORY,
    ),
)  # fmt: skip
