-- Part of commit_round: the fast path for a round that another one follows, the most frequent case.
-- It writes at once what the functions of parts/moves.lua would write one after the other. That is one
-- HDEL, one HSET, and no field that has its value already.

-- Return whether the fast path applies: no stop, no used answer, no held token, and no outbox.
local function is_plain(run)
  return arg.kind == 'next' and arg.message and run.stop_current_execution ~= 'stop_requested' and not run.i_id and not arg.outbox
    and not arg.take and not arg.replies and not arg.charge and not arg.generation
    and run.held_token ~= arg.token
end

-- Return the fields that `continue` needs, as a table and as they were read, or nil if the key is
-- not a hash.
local COUNTS = 13 -- the first fields: counts and times that every leased run has
local function read_leased(k)
  local found = pcall('HMGET', k.run, 'epoch', 'step', 'token', 'attempt', 'resend', 'retention', 'created_at', 'failures', 'losses',
    'number', 'grace', 'lease_until', 'lease_granted', 'id', 'flow', 'phase', 'current_node', 'queue', 'message', 'claim_id', 'last_token',
    'deadline', 'held_token', 'stop_current_execution', 'i_id', 'once')
  if found.err then return nil end
  return { epoch = found[1] or nil, step = found[2] or nil, token = found[3] or nil, attempt = found[4] or nil, resend = found[5] or nil,
    retention = found[6] or nil, created_at = found[7] or nil, failures = found[8] or nil, losses = found[9] or nil,
    number = found[10] or nil, grace = found[11] or nil, lease_until = found[12] or nil, lease_granted = found[13] or nil,
    id = found[14] or nil, flow = found[15] or nil, phase = found[16] or nil, current_node = found[17] or nil, queue = found[18] or nil,
    message = found[19] or nil, claim_id = found[20] or nil, last_token = found[21] or nil, deadline = found[22] or nil,
    held_token = found[23] or nil, stop_current_execution = found[24] or nil, i_id = found[25] or nil, once = found[26] or nil }, found
end

-- Return whether `malformed` would accept this run. It takes a third of the time. False may also
-- mean that `malformed` must decide.
local function is_sound(k, run, found)
  for i = 1, COUNTS do
    local text = found[i]
    if not text or text == '' or #text > 14 then return false end
  end
  return find(concat(found, '', 1, COUNTS), '^%d+$') and run.phase == 'leased'
    and run.flow and run.queue and run.message and run.current_node
    and not run.deadline and k.run == key_of(k.due, run.id)
end

-- Return the first key of a wrong type that `continue` would write. The events key is left out, as
-- `continue` writes it first and checks the result.
local function unwritable(k, list)
  if type(pcall('ZCARD', k.due)) ~= 'number' then return k.due end
  if type(pcall('LLEN', list)) ~= 'number' then return list end
  if rest < #ARGV or arg.forget then return mistyped({ memory = k.memory, artifacts = k.artifacts, lists = {} }) end
end

local function continue(k, run, now, list, pushed)
  local at, due = whole(now), now + run.resend
  if run.deadline then due = math.min(due, run.deadline) end
  forget_turns(k)
  if not log(k, run, at) then return { 'damaged', k.events } end
  call('HDEL', k.run, 'claim_id', 'owner', 'lease_until', 'round_until', 'claimed_at', 'progress', 'traceback', 'spared', 'last_error', 'intent',
    'intent_token', 'intent_at', 'intent_by')
  if run.failures ~= '0' or run.losses ~= '0' then call('HSET', k.run, 'failures', '0', 'losses', '0') end
  if run.grace ~= run.resend then call('HSET', k.run, 'grace', run.resend) end
  local place = whole(pushed + 1)
  call('LPUSH', list, arg.message)
  local fetched, text, id = pop(k)
  in_parts('HSET', k.run, ARGV, fields + MOST_AT_ONCE, fields_end)
  call('HSET', k.run, 'phase', 'queued', 'step', whole(run.step + 1), 'last_node', run.current_node, 'attempt', '0', 'message', arg.message,
    'number', place, 'updated_at', at, 'queued_at', at, 'last_token', arg.token, 'last_answer', 'continued', 'last_fetched', id or '',
    unpack(ARGV, fields, math.min(fields + MOST_AT_ONCE - 1, fields_end)))
  -- One command each writes what both runs need in the due set and in the queues hash.
  local promises, counted = { due, run.id }, { list .. ':pushed', place }
  local answer = claimed(k, now, fetched, text, id, promises, counted)
  promise(k, promises, counted)
  return { 'ok', 'continued', answer }
end
