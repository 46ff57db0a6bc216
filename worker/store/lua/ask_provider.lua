#!lua flags=allow-oom
-- ask_provider: limit requests to a provider that is busy or down to one round of all workers.
--
-- KEYS  1 queues hash
-- ARGV  what, name (of the provider: endpoint and model), holder (a round's attempt), by what:
--         enter     the round wants to send a request; lease (how long its probe blocks others)
--         refused   the provider was busy or down; [wait] (the time that it asked for), first and
--                   longest (waits between probes, used without [wait])
--         answered  the provider answered the probe: all rounds may send
--         left      the probe had another result: the next round may probe
-- Returns
--   go            The round may send its request.
--   probe         The round may send its request, and must report the result.
--   wait MS       The round must wait.
--   ok            The report is recorded.
--   damaged KEY   The key is of a wrong type.
--
-- The field provider:NAME is empty while the provider is open. Otherwise it is `NEXT WAITS LEASE
-- HOLDER`: the time of the next probe, the number of failed probes, and the end and the holder of
-- the current probe's lease. No run depends on this field. Losing it costs requests only.
--@ parts/arguments.lua
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
