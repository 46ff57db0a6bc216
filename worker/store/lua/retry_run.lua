#!lua flags=allow-oom
-- retry_run: take an errored run up again at the step that failed.
-- KEYS  as in reading.lua.
-- ARGV  op (operation id), epoch, step (those the caller saw), message (of the next epoch), after (of the epoch after that),
--       [digest] (the one the caller saw, from whose content it made =field...), =field...
-- Returns queued | waiting | interrupted (the question that was open is asked again) | stale | running PHASE (not errored) | missing | damaged KEY | unknown_queue LIST
-- The error stays in the events; the bounds start anew; the attempts of the step do not.
--@ reading.lua
--@ counting.lua
--@ moving.lua
--@ operations.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local repeated = reply_of(run, arg.op)
if repeated then return repeated end
local function reply(word, phase) return remember_reply(k, run, arg.op, { word, phase }) end
-- The messages are made for that step. Not remembered: epochs and steps only grow, so it stays stale.
if run.epoch ~= arg.epoch or run.step ~= arg.step then return { 'stale' } end
if run.phase ~= 'errored' then return reply('running', run.phase) end
if arg.digest and run.digest ~= arg.digest then return reply('stale') end
refusal = unpushable(k, run.queue)
if refusal then return refusal end

event(k, run, now, 'retried', 'error', run.error or '')
persist(k, run)
set_fields(k)
take_down_passed_deadline(k, run, now)
start_again(k, run, now, arg.message, arg.after)
return reply(run.phase)
