#!lua flags=allow-oom
-- forget_notes: delete one note of a namespace, or all of them.
--
-- KEYS  as in put_note.lua
-- ARGV  namespace, [key] (without it: all), [token], [claim] as in put_note.lua
-- Returns
--   ok COUNT     The number of notes that are deleted.
--   fenced       The round no longer has its run's lease: nothing is deleted.
--   damaged KEY  A key is of a wrong type: nothing is deleted.
--@ parts/arguments.lua
--@ parts/notes.lua
local k, refusal = note_keys()
if not k then return refusal end

local count = arg.key and call('HEXISTS', k.notes, arg.key) or call('ZCARD', k.order)
if arg.key then
  call('HDEL', k.notes, arg.key)
  call('ZREM', k.order, arg.key)
else
  call('DEL', k.notes, k.order)
end
if call('EXISTS', k.notes) == 0 then call('ZREM', k.index, arg.namespace) end
return { 'ok', whole(count) }
