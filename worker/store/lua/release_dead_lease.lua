#!lua flags=allow-oom
-- release_dead_lease: end the lease of a round now, since its process is known to be dead.
--
-- KEYS  as in parts/run.lua
-- ARGV  epoch and step (of the round's message), process (that died; the claim ids of its rounds
--       begin with it and a dot)
-- Returns
--   ok            The lease ends now.
--   not_held      That process has no lease of this round.
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- Only times change. The sweep takes the lease away and counts the loss. Until then it may commit.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end

-- A second delivery of the message may have died in another process, where its claim was refused.
-- That must not cost the living process its lease.
local owner = arg.process .. '.'
local held = run.phase == 'leased' and run.epoch == arg.epoch and run.step == arg.step
if not held or string.sub(run.claim_id or '', 1, #owner) ~= owner then return { 'not_held' } end

local over = math.min(now, number(run.lease_until))
-- Marked as spared: the sweep spares leases that lapsed in a silence, since their owner may be
-- alive. This owner is dead.
set(k, 'lease_until', whole(over), 'spared', whole(over))
due_at(k, run, over)
return { 'ok' }
