#!lua flags=allow-oom
-- quarantine_run: end a run whose stored message is none of its round: nobody could ever claim by it, and it would be sent for ever.
-- KEYS  as in reading.lua.
-- ARGV  epoch, step, message (what the caller read of the run and judged), error
-- Returns ok | moved (it is not queued with that message any more, or never was) | missing | damaged WHAT
-- The caller judges, for Lua never parses a message; what it judged is named, so that a run that has moved since is let be.
--@ reading.lua
--@ counting.lua
--@ moving.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
if run.phase ~= 'queued' or run.epoch ~= arg.epoch or run.step ~= arg.step or run.message ~= arg.message then return { 'moved' } end
fail(k, run, now, arg.error)
set(k, 'quarantined', '1')
return { 'ok' }
