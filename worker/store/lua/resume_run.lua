#!lua flags=allow-oom
-- resume_run: continue an interrupted, a stopped, or an unfinished run.
--
-- KEYS  as in parts/run.lua
-- ARGV  op (operation id), epoch and step (as the caller read them), [interrupt] (id of the
--       interrupt that it answers), [answer] (JSON), message (of the next epoch), after (message of
--       the epoch after that, for a run that is interrupted again), [digest] (of the content from
--       which the caller made =field...), [data] (JSON for the event), =field..., [by] (the
--       person), [more] (=field... gives more cycles to a run that has used up its cycles)
-- Returns
--   queued | waiting | interrupted | completed   The phase of the run now. Then, if there are any,
--                       the ids of the runs whose children the caller may look after at once.
--   stale               The run changed after the caller read it, or has another open interrupt.
--   running             The run is queued, leased, waiting or parked, perhaps with a stop pending.
--   finished PHASE      The run has ended.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--   unknown_queue LIST  The run's queue is not one of ours: nothing is written.
--
-- A repeated operation gets its first reply. An answer names its interrupt, so that an old answer
-- never answers a new question.
-- A stopped run with an open interrupt waits for its answer again, with a new deadline, unless this
-- call answers it.
-- A run whose interrupt came after its last round (field `ending`) completes here. A run that has
-- used up its cycles (field `unfinished`) continues if it gets more, even if it has completed: its
-- answer is then removed.
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
-- The messages are built for that epoch and step. Another step's message would be stale for ever.
-- The reply is not stored, since epochs and steps only grow.
if run.epoch ~= arg.epoch or run.step ~= arg.step then return { 'stale' } end
local goes_on = arg.more and run.unfinished
if arg.more and not goes_on then return reply('stale') end
if ENDED[run.phase] and not (goes_on and run.phase == 'completed') then return reply('finished', run.phase) end
if PHASES[run.phase] == 'live' then return reply('running') end
-- A failed round may have charged the budgets meanwhile, within the same step.
if arg.digest and run.digest ~= arg.digest then return reply('stale') end
refusal = unpushable(k, run.queue)
if refusal then return refusal end

local open = run.i_id and not run.i_answer
local answers = open and (run.phase == 'interrupted' or arg.answer)
if answers and arg.interrupt ~= run.i_id then return reply('stale') end

event(k, run, now, 'resumed', 'answer', arg.answer or 'null', 'data', arg.data or 'null', unpack(arg.by and { 'by', arg.by } or {}))
set(k, 'resumed_at', whole(now), 'resumed_by', arg.by or '')
take_up(k, run)
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
