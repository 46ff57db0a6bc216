#!lua flags=allow-oom
-- put_note: keep a note in a namespace, in place of one with the same key.
--
-- KEYS  1 notes hash of the namespace   2 their order   3 index of namespaces
--       [4 run hash], if a round of this run writes
-- ARGV  namespace, key, note (JSON), most (notes of a namespace), [token] (of the round's claim),
--       [claim] (its id)
-- Returns
--   ok MS [KEY...]  The note is there since MS. The oldest notes, KEY..., had to make room for it.
--   fenced          The round no longer has its run's lease: nothing is written.
--   damaged KEY     A key is of a wrong type: nothing is written.
--
-- The same note put again keeps its time, so a round that is tried again changes nothing.
--@ parts/arguments.lua
--@ parts/notes.lua
local k, refusal = note_keys()
if not k then return refusal end

local at = call('ZSCORE', k.order, arg.key)
if at and call('HGET', k.notes, arg.key) == arg.note then return { 'ok', whole(at) } end
local newest = call('ZRANGE', k.order, -1, -1, 'WITHSCORES')
local now = clock()
-- Later than the newest, so that notes of one millisecond keep their order.
if newest[2] and tonumber(newest[2]) >= now then now = newest[2] + 1 end
call('HSET', k.notes, arg.key, arg.note)
call('ZADD', k.order, now, arg.key)
call('ZADD', k.index, 0, arg.namespace)
local answer = { 'ok', whole(now) }
local excess = call('ZCARD', k.order) - number(arg.most)
if excess > 0 then
  local oldest = call('ZRANGE', k.order, 0, excess - 1)
  in_parts('HDEL', k.notes, oldest, 1, #oldest)
  in_parts('ZREM', k.order, oldest, 1, #oldest)
  for _, key in ipairs(oldest) do answer[#answer + 1] = key end
end
return answer
