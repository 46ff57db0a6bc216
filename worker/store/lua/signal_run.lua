#!lua
-- signal_run: put a signal into a run's mailbox, and wake the run if it waits for it.
--
-- KEYS  as in parts/run.lua
-- ARGV  name (of the signal), payload (JSON), [by] (the sender), [key] (the sender's own id of the
--       signal), [content] (digest of the payload, with a key), and what a mailbox holds unread at
--       most: most (signals of one name), names, bytes. The limit of names does not hold for a signal
--       that the run waits for.
-- Returns
--   ok NUMBER PHASE         The signal has this number among those of its name.
--   unmade NUMBER PHASE EPOCH STEP
--                           The same, and the run's wait is over: the caller brings its message
--                           (wake_run.lua). If it does not, the sweep asks for it.
--   finished PHASE          The run is completed.
--   conflict NUMBER         The key has this signal, with another payload.
--   full WHAT               The mailbox has as many unread signals, names or bytes as it may have.
--   missing                 There is no such run.
--   damaged KEY             A key or field is damaged: nothing is written.
--
-- A repeated signal with a key gets its first number. The newest 1,000 keys of a name are known.
-- Like a submission, a signal is refused by a server that is full.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
local KNOWN = 1000
local k = keys_of_one_run()
k.mailbox = mailbox_of(k)
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local mailbox, name = k.mailbox, arg.name
local known = arg.key and call('HGET', mailbox, name .. ':key:' .. arg.key)
if known then
  local place, content = match(known, '^(%d+) (%S+)$')
  if content ~= arg.content then return { 'conflict', place } end
  return { 'ok', place, run.phase }
end
if run.phase == 'completed' then return { 'finished', run.phase } end
local newest, taken, names, bytes, order = unpack(call('HMGET', mailbox, name .. ':last', name .. ':taken', 'names', 'bytes', 'order'))
local unread = number(newest) - number(taken)
local is_awaited = run.phase == 'parked' and find('\n' .. run.wait_for, '\n' .. name .. ' ', 1, true)
-- The order among all names, so that every attempt finds the same signal first.
order = format('%d', number(order) + 1)
local entry = concat({ order, whole(now), arg.by or '', arg.payload }, '\n')
if unread >= number(arg.most) then return { 'full', 'signals' } end
if unread == 0 and number(names) >= number(arg.names) and not is_awaited then return { 'full', 'names' } end
if number(bytes) + #entry > number(arg.bytes) then return { 'full', 'bytes' } end

local place = whole(number(newest) + 1)
if unread == 0 then names = format('%d', number(names) + 1) end
call('HSET', mailbox, 'order', order, 'names', names, 'bytes', format('%d', number(bytes) + #entry),
  name .. ':last', place, name .. ':' .. place, entry)
if arg.key then
  local old = name .. ':known:' .. (number(place) - KNOWN)
  local forgotten = call('HGET', mailbox, old)
  if forgotten then call('HDEL', mailbox, old, name .. ':key:' .. forgotten) end
  call('HSET', mailbox, name .. ':key:' .. arg.key, place .. ' ' .. arg.content, name .. ':known:' .. place, arg.key)
end
-- The run's field has the number of all its signals, so that a round knows from its claim whether new
-- ones came. The mailbox of an errored run does not expire with it: a client may not expire keys. So
-- the sweep removes it.
set(k, 'mailbox', order)
tally(k, run, 'moves:signalled', 1)
event(k, run, now, 'signalled', 'name', name, 'number', place, 'by', arg.by or '')
if run.phase ~= 'parked' or not is_over(k, run, now) then return { 'ok', place, run.phase } end
due_at(k, run, now)
return { 'unmade', place, run.phase, run.epoch, run.step }
