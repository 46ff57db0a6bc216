#!lua flags=allow-oom
-- wake_run: bring the message of a parked run whose wait is over, and queue the run.
--
-- KEYS  as in parts/run.lua
-- ARGV  epoch, step, message (of this epoch and step)
-- Returns
--   queued              The run is queued. With an outbox, LIST and MESSAGE follow, which the caller
--                       must publish.
--   moved PHASE         The run does not wait any more, or waits for something else.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--   unknown_queue LIST  The run's queue is not one of ours: nothing is written.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
local k = keys_of_one_run()
k.mailbox = mailbox_of(k)
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
if run.phase ~= 'parked' or run.epoch ~= arg.epoch or run.step ~= arg.step or not is_over(k, run, now) then return { 'moved', run.phase } end
refusal = unpushable(k, run.queue)
if refusal then return refusal end
record_time_out(k, run, now)
run.message = arg.message
wake(k, run, now)
return { 'queued', unpack(handed) }
