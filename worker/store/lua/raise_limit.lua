#!lua flags=allow-oom
-- raise_limit: add to the limits of a run's budgets, and let what waits for that go on.
--
-- KEYS  as in parts/run.lua
-- ARGV  op (operation id), add (lines NAME MILLIONTHS), [by] (the person), [child] (the descendant that
--       asked for it: then a completed run takes it too)
-- Returns
--   ok PHASE            The limits are raised. Then, if there are any, the ids of the runs whose
--                       children the caller may look after at once.
--   finished PHASE      The run is completed.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--
-- A repeated operation gets its first reply. The caller knows that the run has these budgets. A round
-- that is in progress sees the new limit when it is over. The run itself, and the descendant that asks
-- for the budget, go on as after an answer. Their messages are brought by a sweep, as Lua builds none.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
--@ parts/operations.lua
--@ parts/payers.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local repeated = reply_of(run, arg.op)
if repeated then return repeated end
if run.phase == 'completed' and not arg.child then return { 'finished', run.phase } end
local amounts = amounts_of(arg.add)
for i = 1, #amounts, 2 do
  if not is_amount(run['x:' .. amounts[i]] or '0') then return { 'damaged', 'x:' .. amounts[i] } end
end

-- Let a run go on that asks a person for more of this budget, and for nothing else.
local function answer(own, asker, payer, budget)
  if asker.phase ~= 'interrupted' or asker.i_kind ~= 'budget' or asker.i_payer ~= payer or asker.i_budget ~= budget then return end
  event(own, asker, now, 'resumed', 'answer', 'null', 'data', 'null', 'by', arg.by or '')
  set(own, 'resumed_at', whole(now), 'resumed_by', arg.by or '', 'i_answer', 'null')
  start_again(own, asker, now, '', '', true)
end

add_amounts(k.run, 'x:', amounts)
event(k, run, now, 'limits_raised', 'added', arg.add, 'by', arg.by or '')
for i = 1, #amounts, 2 do
  local asker_id = run['asks:' .. amounts[i]]
  local own = asker_id and keys_of_other(k, asker_id)
  local asker = own and read_run(own)
  if asker then answer(own, asker, run.id, amounts[i]) end
  answer(k, run, nil, amounts[i])
end
if run.groups and not AT_REST[run.phase] then
  set(k, 'funded', '1')
  make_follow_up(k, run, now, true)
end
return with_follow_ups(remember_reply(k, run, arg.op, { 'ok', run.phase }))
