#!lua flags=allow-oom
-- keep_trace: a run whose submitter traced nothing gets the trace of the first worker that traces it.
-- KEYS  as in reading.lua.
-- ARGV  nonce (of the submission that the round's claim found), trace (a traceparent)
-- Returns ok TRACE (the one that stands: the first) | stale (another run is under the id by now) | missing | damaged WHAT
-- Nothing that a transition decides follows from it.
--@ reading.lua
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.nonce ~= arg.nonce then return { 'stale' } end
if run.trace then return { 'ok', run.trace } end
call('HSET', k.run, 'trace', arg.trace)
return { 'ok', arg.trace }
