#!lua flags=allow-oom
-- offer_again: a flow is unpaused; those of these runs that wait for that are due now.
-- KEYS  1 due set   2.. run hashes
-- ARGV  flow
-- Returns a word a run, in order: due | other (it waits for something else, or does not wait); or damaged KEY
-- It only makes due: the sweep pushes, or holds them anew where the flow was paused again meanwhile. Runs that this never
-- hears of, because its caller died, the sweep finds when their time has come.
--@ reading.lua
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
