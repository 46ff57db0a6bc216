#!lua flags=allow-oom
-- delete_run: delete an ended, stopped or unreadable run, and its idempotency key.
--
-- KEYS  as in parts/run.lua; those of the run may be of any type
-- ARGV  id (a damaged hash may not have it), [schema] (the newest that the caller reads)
-- Returns
--   ok            The run is deleted.
--   live PHASE    The run has not ended, or its children are still to be stopped: nothing is deleted.
--   newer SCHEMA  A newer worker wrote the run. Only that worker can judge whether it is damaged.
--   missing       The run has no keys.
--   damaged KEY   A key that the runs share is of a wrong type: nothing is deleted.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
local k = keys_of_one_run()
local run = read_run(k) -- nil where no claim, commit, stop or resume reads it either
if run and not ENDED[run.phase] and run.phase ~= 'stopped' then return { 'live', run.phase } end
if run and run.groups and run.walk ~= run.walked then return { 'live', 'stopping its children' } end
local schema = not run and call('TYPE', k.run).ok == 'hash' and call('HGET', k.run, 'schema')
if schema and newer(schema) then return { 'newer', schema } end
local counted = run
if not run and call('TYPE', k.run).ok == 'hash' then -- by the readable fields of a damaged run
  local flow, phase, started_at = unpack(call('HMGET', k.run, 'flow', 'phase', 'started_at'))
  counted = { flow = flow or '', phase = phase or nil, started_at = started_at or nil }
end
-- The live text, also that which a worker of an earlier version has shown. Its name may be that of
-- a hash of another run.
local texts = { live_text_of(k) }
for _, old in ipairs({ k.run .. ':text', k.run .. '/text' }) do
  if call('TYPE', old).ok == 'stream' then texts[#texts + 1] = old end
end
local own = { k.run, k.memory, k.events, k.artifacts, mailbox_of(k) }
for group in groups_of(run or {}) do own[#own + 1] = group_of(k, group) end
k.run, k.memory, k.events, k.artifacts = nil, nil, nil, nil
local damaged = mistyped(k)
if damaged then return { 'damaged', damaged } end
if call('EXISTS', unpack(own)) == 0 then return { 'missing' } end
local owner = call('TYPE', k.idem).ok == 'string' and match(call('GET', k.idem), '^%S+ (%S+)$')
-- DEL comes first, since a user may lack the right to it. Refused here, nothing is written.
call('DEL', unpack(own))
call('DEL', unpack(texts))
if counted then
  count_status(k, counted, status_of(counted, counted.phase))
  count_parked(k, counted)
end
if run then give_topic_up(k, run, clock() + number(run.retention)) end
-- Otherwise it belongs to another run by now.
if not owner or owner == arg.id then call('DEL', k.idem) end
-- A pending `on_end` call is deleted with the run (parts/ends.lua names its key). For a damaged run,
-- the sweep removes it.
if run and run.on_end then pcall('ZREM', string.sub(k.due, 1, -#'due' - 1) .. 'endings', run.id .. ' ' .. run.epoch) end
-- The parent of a child that was stopped with it still waits for the child's end.
if run and run.parent then
  local parent_keys, parent, group = parent_of(k, run)
  if parent then record_end(parent_keys, parent, group, run.place, clock(), 'gone', false, '') end
end
call('ZREM', k.due, arg.id)
for _, index in ipairs({ k.live, k.interrupted, k.stopped, k.completed, k.errored }) do
  call('ZREM', index, arg.id)
  pcall('ZREM', index_of_children(index), arg.id)
end
return { 'ok' }
