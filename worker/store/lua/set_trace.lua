#!lua flags=allow-oom
-- set_trace: record a trace for a run whose submitter traced nothing; the first one is kept.
--
-- KEYS  as in parts/run.lua
-- ARGV  nonce (of the submission that the round's claim found), trace (a traceparent)
-- Returns
--   ok TRACE      The run's trace.
--   stale         Another run has the id by now.
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- No transition depends on the trace.
--@ parts/run.lua
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.nonce ~= arg.nonce then return { 'stale' } end
if run.trace then return { 'ok', run.trace } end
call('HSET', k.run, 'trace', arg.trace)
return { 'ok', arg.trace }
