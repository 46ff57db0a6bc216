#!lua flags=allow-oom
-- requeue_paused: make runs due that wait for a flow which is no longer paused.
--
-- KEYS  1 due set   2.. run hashes
-- ARGV  flow
-- Returns one word per run, in order, or damaged KEY
--   due    The run waited for this flow, and is due now.
--   other  The run waits for something else, or does not wait.
--
-- Runs are only made due. The sweep pushes them, or makes them wait again if the flow is paused
-- again by then. If the caller dies, the sweep finds the remaining runs at their next due time.
--@ parts/run.lua
local k = { due = KEYS[1], lists = {} }
local now = clock()
local damaged = mistyped(k)
if damaged then return { 'damaged', damaged } end

local words = {}
for i = 2, #KEYS do
  local word = 'other'
  if call('TYPE', KEYS[i]).ok == 'hash' then
    local id, flow, phase, waiting_for = unpack(call('HMGET', KEYS[i], 'id', 'flow', 'phase', 'waiting_for'))
    if id and key_of(k.due, id) == KEYS[i] and flow == arg.flow and phase == 'waiting' and waiting_for == 'paused' then
      call('HSET', KEYS[i], 'waiting_until', whole(now))
      call('ZADD', k.due, 'XX', now, id)
      word = 'due'
    end
  end
  words[#words + 1] = word
end
return words
