#!lua flags=allow-oom
-- quarantine_run: end a queued run whose stored message is not of its round.
--
-- No claim could ever succeed by such a message, and the sweep would push it for ever.
--
-- KEYS  as in parts/run.lua
-- ARGV  epoch, step and message (as the caller read and validated them), error
-- Returns
--   ok            The run is errored and marked as quarantined.
--   moved         The run is not queued with this message, epoch and step (any more).
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- The caller validates, since Lua never parses a message. So it names what it validated.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
if run.phase ~= 'queued' or run.epoch ~= arg.epoch or run.step ~= arg.step or run.message ~= arg.message then return { 'moved' } end
fail(k, run, now, arg.error)
set(k, 'quarantined', '1')
return { 'ok' }
