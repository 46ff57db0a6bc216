"""All mutants of the Lua files."""

from tests.mutants.lua import (
    claim,
    commit,
    continuing,
    counting,
    fetching,
    leases,
    making,
    memory,
    moving,
    reading,
    recording,
    staying,
    steering,
    sweeping,
    tracing,
    trust,
)

MUTANTS = (
    *claim.MUTANTS,
    *commit.MUTANTS,
    *continuing.MUTANTS,
    *counting.MUTANTS,
    *fetching.MUTANTS,
    *leases.MUTANTS,
    *steering.MUTANTS,
    *making.MUTANTS,
    *sweeping.MUTANTS,
    *memory.MUTANTS,
    *moving.MUTANTS,
    *reading.MUTANTS,
    *recording.MUTANTS,
    *staying.MUTANTS,
    *tracing.MUTANTS,
    *trust.MUTANTS,
)
