#!lua flags=allow-oom
-- redirect_round: move a run's message from a worker that does not play its flow, or whose code does
-- not fit the run, to workers that do.
--
-- KEYS  as in parts/run.lua; the last one is the list that only those workers consume
-- ARGV  list (that one), to (their names, for people), by (the worker that had it), [outbox]
-- Returns
--   ok [LIST MESSAGE]  The run is queued. With an outbox, the caller must publish this message.
--   other              The run does not wait for such a worker, or was moved already.
--   missing            There is no such run.
--   damaged WHAT       A key or field is damaged: nothing is written.
--
-- The run is due after a grace, as after each push. The sweep then searches that list for the
-- message. If no worker consumes the list any more, it moves the message back (sweep_due.lua).
-- docs/internals/decisions/0038-a-message-goes-to-a-worker-that-plays-its-flow.md
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local list = arg.list
if run.phase ~= 'waiting' or run.waiting_for ~= 'flow' and run.waiting_for ~= 'code' then return { 'other' } end
if not k.lists[list] or string.sub(list, 1, #run.queue + 1) ~= run.queue .. '.' then return { 'other' } end

-- The list may have a copy already, if a sweep took the message for lost.
if not outbox and not call('LPOS', list, run.message) then call('LPUSH', list, run.message) end
event(k, run, now, 'handed_on', 'to', arg.to, 'by', arg.by)
enter(k, run, 'queued', now)
-- It names the epoch and step, so a later claim need not delete it.
set(k, 'handed_to', concat({ run.epoch, run.step, list }, ' '), 'queued_at', whole(now), 'looked', '0', 'unknown', '0')
due_at(k, run, now + number(run.grace))
if outbox then return { 'ok', list, run.message } end
return { 'ok' }
