#!lua flags=allow-oom
-- ask_provider: who may send a request to a provider that is busy or away: one round at a time, for the whole fleet.
-- KEYS  1 queues hash
-- ARGV  what, name (of the provider: endpoint and model), holder (the attempt of a round that asks), and by what:
--         enter     the round is about to send a request; lease (how long its probe keeps others waiting)
--         refused   the provider was busy or away; [wait] (its own time), first, longest (waits between probes, where it says none)
--         answered  the provider has answered the probe: all may ask
--         left      the probe came to something else: the next one may be sent
-- Returns go | probe (go, and tell what it came to) | wait MS | ok | damaged KEY
-- The field provider:NAME is `NEXT WAITS LEASE HOLDER` while the provider is closed (the time of the next probe, how many have failed, until
-- when the one under way is waited for, whose it is), and empty where it is open. Losing it costs requests, and no run depends on it.
--@ arguments.lua
local key, field, now = KEYS[1], 'provider:' .. arg.name, clock()
local found = pcall('HGET', key, field)
if type(found) == 'table' then return { 'damaged', key } end
local at, waits, lease, holder = match(found or '', '^(%d+) (%d+) (%d+) (%S*)$')
local closed = at ~= nil and is_count(at) and is_count(waits) and is_count(lease)
at, waits, lease = number(at), number(waits), number(lease)
local function keep(next_at, failed, until_at, by)
  call('HSET', key, field, concat({ whole(next_at), whole(failed), whole(until_at), by }, ' '))
end

if arg.what == 'enter' then
  if not closed then return { 'go' } end
  if holder == arg.holder and lease > now then return { 'probe' } end
  if at > now then return { 'wait', whole(at - now) } end
  if lease > now then return { 'wait', whole(math.min(lease - now, number(arg.longest))) } end
  keep(at, waits, now + number(arg.lease), arg.holder)
  return { 'probe' }
elseif arg.what == 'refused' then
  if not closed then
    at, waits = now + number(arg.wait or arg.first), 1
    keep(at, waits, 0, '')
  elseif holder == arg.holder then
    waits, lease = waits + 1, 0
    at = now + (arg.wait and number(arg.wait) or math.min(number(arg.longest), number(arg.first) * 2 ^ math.min(waits - 1, 30)))
    keep(at, waits, 0, '')
  end
  return { 'wait', whole(math.max(at, lease, now + 1) - now) }
elseif closed and holder == arg.holder then
  if arg.what == 'answered' then call('HSET', key, field, '') else keep(now, waits, 0, '') end
end
return { 'ok' }
