#!lua flags=no-writes,allow-oom
-- check_run: check whether the transitions can read a run. It writes nothing.
--
-- KEYS  as in parts/run.lua
-- Returns
--   ok            The transitions can read the run.
--   missing       There is no such run.
--   damaged WHAT  This key or field is damaged.
--@ parts/run.lua
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end
-- Without a known queue the run cannot be pushed, and the sweep drops it.
if not k.lists[run.queue] then return { 'damaged', 'queue' } end
return { 'ok' }
