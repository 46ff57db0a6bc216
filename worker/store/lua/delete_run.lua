#!lua flags=allow-oom
-- delete_run: remove a run that has ended (completed, errored or stopped), or that is so damaged that no transition moves it any
-- more, and its idempotency key.
-- KEYS  as in reading.lua; those of the run may hold anything.
-- ARGV  id (a damaged hash does not tell it), [schema] (the newest the caller reads)
-- Returns ok | live PHASE | newer SCHEMA (a newer worker wrote it, and only by that one's rules can it be said to be damaged) |
--         missing | damaged KEY (one that other runs share)
--@ reading.lua
--@ counting.lua
local k = keys_of_one_run()
local run = read_run(k) -- nil where no claim, commit, stop or resume reads it either
if run and not ENDED[run.phase] and run.phase ~= 'stopped' then return { 'live', run.phase } end
local schema = not run and call('TYPE', k.run).ok == 'hash' and call('HGET', k.run, 'schema')
if schema and newer(schema) then return { 'newer', schema } end
local counted = run
if not run and call('TYPE', k.run).ok == 'hash' then -- by what can be read of a damaged one
  local flow, phase, started_at = unpack(call('HMGET', k.run, 'flow', 'phase', 'started_at'))
  counted = { flow = flow or '', phase = phase or nil, started_at = started_at or nil }
end
local own = { k.run, k.memory, k.events, k.artifacts }
k.run, k.memory, k.events, k.artifacts = nil, nil, nil, nil
local damaged = mistyped(k)
if damaged then return { 'damaged', damaged } end
if call('EXISTS', unpack(own)) == 0 then return { 'missing' } end
local owner = call('TYPE', k.idem).ok == 'string' and match(call('GET', k.idem), '^%S+ (%S+)$')
-- First what a user may not have been granted: refused here, nothing is written.
call('DEL', unpack(own))
if counted then count_status(k, counted, status_of(counted, counted.phase)) end
if not owner or owner == arg.id then call('DEL', k.idem) end -- else it is another run's by now
-- A call that is still to be made goes with the run, as moving.lua names its key; what a damaged run leaves there, a sweep takes away.
if run and run.on_end then pcall('ZREM', string.sub(k.due, 1, -#'due' - 1) .. 'endings', run.id .. ' ' .. run.epoch) end
for _, index in ipairs({ k.due, k.live, k.interrupted, k.stopped, k.completed, k.errored }) do call('ZREM', index, arg.id) end
return { 'ok' }
