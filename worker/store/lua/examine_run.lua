#!lua flags=no-writes,allow-oom
-- examine_run: whether the transitions can read a run; it changes nothing.
-- KEYS  as in reading.lua.
-- Returns ok | missing | damaged KEY or FIELD
--@ reading.lua
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end
if not k.lists[run.queue] then return { 'damaged', 'queue' } end -- nothing can be pushed there, and the sweep lets go of it
return { 'ok' }
