-- Changes of phase that several transitions share. These functions write.

local function set(k, ...) call('HSET', k.run, ...) end

local function unset(k, ...) call('HDEL', k.run, ...) end

local function set_fields(k) in_parts('HSET', k.run, ARGV, fields, fields_end) end

local function event(k, run, now, type, ...)
  call('XADD', k.events, '*', 'type', type, 'at', whole(now), 'step', run.step, 'attempt', run.attempt or '0',
    'node', run.current_node, ...)
end

-- Set the phase, and move the run to the phase's index: ended runs by the time of their end, others
-- by their creation.
local function enter(k, run, phase, now)
  local from, to = PHASES[run.phase], PHASES[phase]
  if from ~= to then
    if from then call('ZREM', k[from], run.id) end
    call('ZADD', k[to], ENDED[phase] and now or number(run.created_at), run.id)
  end
  if from and from ~= 'live' then -- Time at rest does not count as the run's own time.
    set(k, 'idle', whole(number(run.idle) + math.max(0, now - number(run.updated_at))))
  end
  set(k, 'phase', phase, 'updated_at', whole(now))
  count_status(k, run, status_of(run, run.phase), status_of(run, phase))
  count_parked(k, run, phase)
  run.phase = phase
end

local function due_at(k, run, time)
  if run.deadline and run.phase ~= 'leased' then time = math.min(time or math.huge, number(run.deadline)) end
  if time and time < math.huge then call('ZADD', k.due, time, run.id) else call('ZREM', k.due, run.id) end
end

local function never_due(k, run) call('ZREM', k.due, run.id) end

local outbox = arg.outbox ~= nil -- The broker is another server, so the caller publishes `handed`.
local handed = {} -- flat: list, message

-- Push the round's message. The first push takes the list's next number and the far end of the
-- list. A repeated push keeps the number and takes the consuming end, so that a recovered run does
-- not wait behind the backlog. In the outbox each push goes to the far end and takes a new number,
-- and earlier copies may still be in line.
local function push(k, run, now)
  local place = number(run.number)
  local again = place > 0
  if outbox or not again then place = call('HINCRBY', k.queues, run.queue .. ':pushed', 1) end
  if outbox then
    handed[#handed + 1] = run.queue
    handed[#handed + 1] = run.message
  else
    call(again and 'RPUSH' or 'LPUSH', run.queue, run.message)
  end
  run.number = whole(place)
  if outbox and not again then set(k, 'first_number', run.number) end
  enter(k, run, 'queued', now)
  set(k, 'number', run.number, 'queued_at', whole(now))
  if run.looked == '1' then set(k, 'looked', '0') end
  if run.waiting_for then unset(k, 'waiting_for', 'waiting_until') end
  if run.handed_to then unset(k, 'handed_to') end
  due_at(k, run, now + number(run.grace))
end

local function wait(k, run, now, reason, delay)
  enter(k, run, 'waiting', now)
  set(k, 'waiting_for', reason, 'waiting_until', whole(now + delay))
  due_at(k, run, now + delay)
end

-- Store a new message. Each step and epoch begins with the first resend interval.
local function fresh_message(k, run, message)
  run.message, run.number, run.grace = message, '0', run.resend
  set(k, 'message', message, 'number', '0', 'grace', run.resend)
end

local function free_lease(k) unset(k, 'claim_id', 'owner', 'lease_until', 'round_until', 'claimed_at', 'progress', 'spared') end

local function forget_interrupt(k)
  unset(k, 'i_id', 'i_kind', 'i_status', 'i_node', 'i_reason', 'i_data', 'i_wait', 'i_until', 'i_by', 'i_default', 'i_answer')
end

-- Return whether the idempotency key belongs to this run. The field may be damaged, or the key may
-- be another run's by now.
local function has_key(k, run)
  return run.idem and call('TYPE', k.idem).ok == 'string' and match(call('GET', k.idem), '^%S+ (%S+)$') == run.id
end

local function expire_at(k, run, time)
  if run.mailbox then call('PEXPIREAT', mailbox_of(k), time) end
  for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PEXPIREAT', key, time) end
  if has_key(k, run) then call('PEXPIREAT', k.idem, time) end
end

local function persist(k, run)
  if run.mailbox then call('PERSIST', mailbox_of(k)) end
  for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PERSIST', key) end
  if has_key(k, run) then call('PERSIST', k.idem) end
end

-- Bytes and fields: hash-max-listpack-value of config/redis.conf, and the servers' default of
-- hash-max-listpack-entries.
local SHORT, FEW = 512, 512
-- Fields that are written again before they are read, when a run at rest goes on.
local PASSED = { number = true, first_number = true, grace = true, looked = true, queued_at = true, lease_granted = true }

-- Make the hash of a run at rest small, since it may rest for days. Its message is dropped, as
-- whatever continues the run brings a new one. Only an interrupt with a deadline needs the stored
-- one. A server stores a hash of short values in a third of the memory. It does not if the hash
-- ever had a long value, like a message. So all fields are deleted and written again
-- (docs/internals/decisions/0020-runs-at-rest.md). HDEL and not DEL, since a worker's ACL need not allow it
-- to delete keys.
local function rest_well(k, run)
  if not run.i_wait then set(k, 'message', '') end
  local flat, names, kept = call('HGETALL', k.run), {}, {}
  if #flat > 2 * FEW then return end
  for i = 1, #flat, 2 do
    local name, text = flat[i], flat[i + 1]
    if #text > SHORT then return end
    names[#names + 1] = name
    if not PASSED[name] then kept[#kept + 1], kept[#kept + 2] = name, text end
  end
  in_parts('HDEL', k.run, names, 1, #names)
  in_parts('HSET', k.run, kept, 1, #kept)
end

-- Return the key of the pending `on_end` calls: `ID EPOCH`, by the time at which the call is late.
-- It is not in KEYS, since most ends do not use it, and every round would have to send its name.
local function calls_of(due) return string.sub(due, 1, -#'due' - 1) .. 'endings' end

-- Record the pending `on_end` call in the same write as the end, until the call is made. The epoch
-- distinguishes this end from later ones. The run does not depend on this record. So a key of a
-- wrong type does not block the end of the run, but adds an event.
local function promise_call(k, run, now)
  if not run.on_end then return end
  local calls = calls_of(k.due)
  local kept = pcall('ZADD', calls, now, run.id .. ' ' .. run.epoch)
  if type(kept) == 'table' then event(k, run, now, 'call_not_kept', 'key', calls, 'error', kept.err) end
end

local function complete(k, run, now)
  promise_call(k, run, now)
  if run.unfinished then -- all cycles that it may have are used
    event(k, run, now, 'completed', 'unfinished', run.unfinished)
    tally(k, run, 'moves:unfinished', 1)
  else
    event(k, run, now, 'completed')
  end
  enter(k, run, 'completed', now)
  set(k, 'status', 'completed', 'stop_current_execution', 'none', 'ended_at', whole(now))
  never_due(k, run)
  rest_well(k, run)
  expire_at(k, run, now + number(run.retention))
end

local function fail(k, run, now, text, traceback)
  promise_call(k, run, now)
  event(k, run, now, 'errored', 'error', text, unpack(traceback and { 'traceback', traceback } or {}))
  enter(k, run, 'errored', now)
  set(k, 'status', 'error', 'stop_current_execution', 'none', 'error', text, 'ended_at', whole(now))
  never_due(k, run)
  rest_well(k, run)
  expire_at(k, run, now + number(run.retention))
end

-- Stop the run. `doubt` names the round in flight whose effects are uncertain ('' for none).
local function stop_here(k, run, now, doubt)
  promise_call(k, run, now)
  event(k, run, now, 'stopped', 'mode', run.stop_mode or '', 'by', run.stop_by or '', 'reason', run.stop_reason or '',
    'asked_at', run.stop_asked_at or '', 'in_doubt', doubt)
  enter(k, run, 'stopped', now)
  tally(k, run, run.stop_mode == 'now' and 'stops:now' or 'stops:graceful', 1)
  set(k, 'stop_current_execution', 'stopped', 'status', 'interrupted_after', 'interrupted_node', run.last_node or run.current_node,
    'interrupt_reason', 'stop_requested', 'stopped_at', whole(now), 'in_doubt', doubt)
  unset(k, 'interrupt_data', 'waiting_for', 'waiting_until')
  never_due(k, run)
  rest_well(k, run)
end

-- Write the open interrupt into the run's state and set its deadline. The run now waits for a
-- person.
local function pause(k, run, now)
  enter(k, run, 'interrupted', now)
  set(k, 'status', run.i_status, 'interrupted_node', run.i_node, 'interrupt_reason', run.i_reason)
  if run.i_data then set(k, 'interrupt_data', run.i_data) else unset(k, 'interrupt_data') end
  event(k, run, now, 'interrupted', 'interrupt', run.i_id, 'reason', run.i_reason, 'data', run.i_data or 'null')
  local answered_at = run.i_wait and now + number(run.i_wait)
  if answered_at then set(k, 'i_until', whole(answered_at)) end
  due_at(k, run, answered_at)
  rest_well(k, run)
end

-- Begin a new epoch with this message, and remove stop, error and interrupt from the run's state.
local function new_epoch(k, run, message)
  run.epoch, run.failures, run.losses = whole(number(run.epoch) + 1), '0', '0'
  fresh_message(k, run, message)
  set(k, 'epoch', run.epoch, 'failures', '0', 'losses', '0', 'status', 'running', 'stop_current_execution', 'none')
  unset(k, 'interrupted_node', 'interrupt_reason', 'interrupt_data', 'in_doubt', 'error', 'ended_at', 'quarantined',
    'stop_mode', 'stop_by', 'stop_reason', 'stop_asked_at', 'stop_seen_at', 'stopped_at')
end

-- Remove a deadline that has passed, since it would end the continued run again at once.
local function take_down_passed_deadline(k, run, now)
  if run.deadline and number(run.deadline) <= now then
    unset(k, 'deadline')
    run.deadline = nil
  end
end

-- Continue a resumed or retried run in its new epoch:
--   - An open interrupt without an answer is shown again, so that a stop and a resume do not skip
--     an approval. It needs the message of the epoch after this one, which its answer begins.
--   - A stopped round's token that is still held makes the run wait, so that never two workers are
--     in one step.
--   - A start time that is still to come makes the run wait.
--   - Otherwise the run is queued.
local function start_again(k, run, now, message, after, answered)
  local held = run.held_token and number(run.held_until) - now or 0
  local early = number(run.not_before) - now
  new_epoch(k, run, message)
  if run.i_id and not run.i_answer and not answered then
    fresh_message(k, run, after)
    pause(k, run, now)
  elseif held > 0 then
    wait(k, run, now, 'hold', held)
  elseif early > 0 then
    wait(k, run, now, 'start', early)
  else
    push(k, run, now)
  end
end
