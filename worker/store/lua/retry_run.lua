#!lua flags=allow-oom
-- retry_run: retry an errored run at the step that failed.
--
-- KEYS  as in parts/run.lua
-- ARGV  op (operation id), epoch and step (as the caller read them), message (of the next epoch),
--       after (message of the epoch after that), [digest] (of the content from which the caller
--       made =field...), =field...
-- Returns
--   queued | waiting    The phase of the run now. Then, if there are any, the ids of the runs whose
--                       children the caller may look after at once.
--   interrupted         The interrupt that was open is shown again.
--   stale               The run has changed since the caller read it.
--   running PHASE       The run is not errored.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--   unknown_queue LIST  The run's queue is not one of ours: nothing is written.
--
-- A repeated operation gets its first reply. The error is kept in the events. Failures and losses
-- are counted from 0 again, attempts of the step are not.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
--@ parts/operations.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local repeated = reply_of(run, arg.op)
if repeated then return repeated end
local function reply(word, phase) return with_follow_ups(remember_reply(k, run, arg.op, { word, phase })) end
-- The messages are built for that epoch and step. The reply is not stored, since epochs and steps
-- only grow.
if run.epoch ~= arg.epoch or run.step ~= arg.step then return { 'stale' } end
if run.phase ~= 'errored' then return reply('running', run.phase) end
if arg.digest and run.digest ~= arg.digest then return reply('stale') end
refusal = unpushable(k, run.queue)
if refusal then return refusal end

event(k, run, now, 'retried', 'error', run.error or '')
persist(k, run)
take_up(k, run)
set_fields(k)
take_down_passed_deadline(k, run, now)
start_again(k, run, now, arg.message, arg.after)
return reply(run.phase)
