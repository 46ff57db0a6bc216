-- Part of commit_round: the fast path for a round that another one follows, the most frequent case.
-- It writes at once what the functions of parts/moves.lua would write one after the other. That is one
-- HDEL, one HSET, and no field that has its value already.

-- The first key of a wrong type that is written below. The events key is left out, as it is written
-- first and its result is checked.
if type(pcall('ZCARD', k.due)) ~= 'number' then return { 'damaged', k.due } end
if type(pcall('LLEN', queue)) ~= 'number' then return { 'damaged', queue } end
if rest < #ARGV or arg.forget then
  damaged = mistyped({ memory = k.memory, artifacts = k.artifacts, lists = {} })
  if damaged then return { 'damaged', damaged } end
end

local at, due = whole(now), now + run.resend
if run.deadline then due = math.min(due, run.deadline) end
forget_turns(k)
if not log(k, run, at) then return { 'damaged', k.events } end
call('HDEL', k.run, 'claim_id', 'owner', 'lease_until', 'round_until', 'claimed_at', 'progress', 'traceback', 'spared', 'last_error', 'intent',
  'intent_token', 'intent_at', 'intent_by')
if run.failures ~= '0' or run.losses ~= '0' then call('HSET', k.run, 'failures', '0', 'losses', '0') end
if run.grace ~= run.resend then call('HSET', k.run, 'grace', run.resend) end
local place = whole(tonumber(pushed or 0) + 1)
call('LPUSH', queue, arg.message)
local fetched, text, id = pop(k)
in_parts('HSET', k.run, ARGV, fields + MOST_AT_ONCE, fields_end)
call('HSET', k.run, 'phase', 'queued', 'step', whole(run.step + 1), 'last_node', run.current_node, 'attempt', '0', 'message', arg.message,
  'number', place, 'updated_at', at, 'queued_at', at, 'last_token', arg.token, 'last_answer', 'continued', 'last_fetched', id or '',
  unpack(ARGV, fields, math.min(fields + MOST_AT_ONCE - 1, fields_end)))
-- One command each writes what both runs need in the due set and in the queues hash.
local promises, counted = { due, run.id }, { queue .. ':pushed', place }
local answer = claimed(k, now, fetched, text, id, promises, counted)
promise(k, promises, counted)
return { 'ok', 'continued', answer }
