#!lua flags=allow-oom
-- hand_on: a worker that does not play a run's flow hands the run's message on to workers that do.
-- KEYS  as in reading.lua; the last one is the list that only those workers consume
-- ARGV  list (that one), to (their names, for people), by (the worker that was refused), [outbox]
-- Returns ok | ok LIST MESSAGE (outbox: what the caller is to publish) | other (the run does not wait for such a worker) | missing |
--         damaged WHAT
-- Made twice, the second is `other`. The run is due after a grace, as after each push: the sweep looks for the message in that list, and
-- takes it back where no worker consumes the list any more (sweep_due.lua). docs/decisions/0038-a-message-goes-to-a-worker-that-plays-its-flow.md
--@ reading.lua
--@ counting.lua
--@ moving.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local list = arg.list
if run.phase ~= 'waiting' or run.waiting_for ~= 'flow' then return { 'other' } end
if not k.lists[list] or string.sub(list, 1, #run.queue + 1) ~= run.queue .. '.' then return { 'other' } end

-- A copy may have been left there, by a sweep that took the message for lost.
if not outbox and not call('LPOS', list, run.message) then call('LPUSH', list, run.message) end
event(k, run, now, 'handed_on', 'to', arg.to, 'by', arg.by)
enter(k, run, 'queued', now)
-- Of this round alone: a claim need not take it down.
set(k, 'handed_to', concat({ run.epoch, run.step, list }, ' '), 'queued_at', whole(now), 'looked', '0', 'unknown', '0')
unset(k, 'waiting_for', 'waiting_until')
due_at(k, run, now + number(run.grace))
if outbox then return { 'ok', list, run.message } end
return { 'ok' }
