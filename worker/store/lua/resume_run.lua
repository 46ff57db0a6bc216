#!lua flags=allow-oom
-- resume_run: go on with an interrupted run, giving the answer, or with a stopped one, or with one that has ended unfinished.
-- KEYS  as in reading.lua.
-- ARGV  op (operation id), epoch, step (those the caller saw), [interrupt] (id of the interrupt it answers), [answer] (JSON),
--       message (of the next epoch), after (of the epoch after that: a pause keeps the message that will end it),
--       [digest] (the one the caller saw, from whose content it made =field...), [data] (JSON for the event), =field...,
--       [by] (who asks for it), [more] (the run, whose last cycle is over, is given more of them by =field...)
-- Returns queued | waiting | interrupted | completed | stale | running | finished PHASE | missing | damaged KEY | unknown_queue LIST
-- A stopped run with an open interrupt waits for its answer again, deadline re-armed, unless the answer comes with this call.
-- A run that paused behind the round that ends it (the field `ending`) completes here: nothing is played again. One that has used up its
-- cycles (the field `unfinished`) has its answer taken back where it is given more, also once it has completed.
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
-- The messages are made for that step: one of a step that a round has committed meanwhile would be stale for ever.
-- Not remembered: epochs and steps only grow, so it stays stale.
if run.epoch ~= arg.epoch or run.step ~= arg.step then return { 'stale' } end
local goes_on = arg.more and run.unfinished
if arg.more and not goes_on then return reply('stale') end
if ENDED[run.phase] and not (goes_on and run.phase == 'completed') then return reply('finished', run.phase) end
if PHASES[run.phase] == 'live' then return reply('running') end
-- A round that came to nothing may have been charged to the budgets meanwhile, in the same step.
if arg.digest and run.digest ~= arg.digest then return reply('stale') end
refusal = unpushable(k, run.queue)
if refusal then return refusal end

local open = run.i_id and not run.i_answer
local answers = open and (run.phase == 'interrupted' or arg.answer)
if answers and arg.interrupt ~= run.i_id then return reply('stale') end

event(k, run, now, 'resumed', 'answer', arg.answer or 'null', 'data', arg.data or 'null', unpack(arg.by and { 'by', arg.by } or {}))
set(k, 'resumed_at', whole(now), 'resumed_by', arg.by or '')
if goes_on then
  if ENDED[run.phase] then persist(k, run) end
  if run.i_id then forget_interrupt(k) end
  unset(k, 'ending', 'unfinished', 'answer', 'output')
  run.i_id, run.ending, run.unfinished = nil, nil, nil
  take_down_passed_deadline(k, run, now)
end
set_fields(k)
if answers and run.ending then
  new_epoch(k, run, arg.message)
  forget_interrupt(k)
  unset(k, 'ending')
  complete(k, run, now)
  return reply(run.phase)
end
if answers and not goes_on then set(k, 'i_answer', arg.answer or 'null') end
if answers and not goes_on and arg.by then set(k, 'i_by', arg.by) end
start_again(k, run, now, arg.message, arg.after, answers)
return reply(run.phase)
