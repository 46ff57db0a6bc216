#!lua flags=allow-oom
-- forfeit_lease: the process that played a round is known to be dead, so its lease is over now and not at its end.
-- KEYS  as in reading.lua.
-- ARGV  epoch, step (what the round's message said), process (that died: every claim id of its rounds begins with it and a dot)
-- Returns ok | not_held (that process holds no lease of this round) | missing | damaged WHAT
-- It only moves times: the sweep, as ever, takes the lease away and counts the loss, and until then a commit is still good.
--@ reading.lua
--@ counting.lua
--@ moving.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end

-- A second delivery of the message that died in another process is refused a claim; its death must not cost the living one the lease.
local owner = arg.process .. '.'
local held = run.phase == 'leased' and run.epoch == arg.epoch and run.step == arg.step
if not held or string.sub(run.claim_id or '', 1, #owner) ~= owner then return { 'not_held' } end

local over = math.min(now, number(run.lease_until))
-- Marked as spared: a silence spares leases whose owner may be alive, and this one is not.
set(k, 'lease_until', whole(over), 'spared', whole(over))
due_at(k, run, over)
return { 'ok' }
