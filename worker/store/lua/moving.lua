-- The moves that several transitions make. These write.

local function set(k, ...) call('HSET', k.run, ...) end

local function unset(k, ...) call('HDEL', k.run, ...) end

local function set_fields(k) in_parts('HSET', k.run, ARGV, fields, fields_end) end

local function event(k, run, now, type, ...)
  call('XADD', k.events, '*', 'type', type, 'at', whole(now), 'step', run.step, 'attempt', run.attempt or '0',
    'node', run.current_node, ...)
end

-- List the run where its phase belongs; ended runs by the time of their end, others by their creation.
local function enter(k, run, phase, now)
  local from, to = PHASES[run.phase], PHASES[phase]
  if from ~= to then
    if from then call('ZREM', k[from], run.id) end
    call('ZADD', k[to], ENDED[phase] and now or number(run.created_at), run.id)
  end
  if from and from ~= 'live' then -- it rested: that is no time that the run has gone on
    set(k, 'idle', whole(number(run.idle) + math.max(0, now - number(run.updated_at))))
  end
  set(k, 'phase', phase, 'updated_at', whole(now))
  count_status(k, run, status_of(run, run.phase), status_of(run, phase))
  run.phase = phase
end

local function due_at(k, run, time)
  if run.deadline and run.phase ~= 'leased' then time = math.min(time or math.huge, number(run.deadline)) end
  if time and time < math.huge then call('ZADD', k.due, time, run.id) else call('ZREM', k.due, run.id) end
end

local function never_due(k, run) call('ZREM', k.due, run.id) end

local outbox = arg.outbox ~= nil -- the broker is elsewhere: whoever called this script publishes what it handed over
local handed = {} -- flat: list, message

-- Give the round's message to the broker. The first push of a round takes the list's next number and its far end;
-- a push again keeps the number and takes the consuming end, so that a recovered run does not wait through the backlog.
-- In the outbox each push goes to the far end, and so takes a number of its own; what was pushed first may still be in line.
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

-- Resend pacing starts anew with every step and epoch.
local function fresh_message(k, run, message)
  run.message, run.number, run.grace = message, '0', run.resend
  set(k, 'message', message, 'number', '0', 'grace', run.resend)
end

local function free_lease(k) unset(k, 'claim_id', 'owner', 'lease_until', 'round_until', 'claimed_at', 'progress', 'spared') end

local function forget_interrupt(k)
  unset(k, 'i_id', 'i_kind', 'i_status', 'i_node', 'i_reason', 'i_data', 'i_wait', 'i_until', 'i_by', 'i_default', 'i_answer')
end

-- Whether the idempotency key is this run's: what its hash says of it may be damaged, or the key another run's by now.
local function has_key(k, run)
  return run.idem and call('TYPE', k.idem).ok == 'string' and match(call('GET', k.idem), '^%S+ (%S+)$') == run.id
end

local function expire_at(k, run, time)
  for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PEXPIREAT', key, time) end
  if has_key(k, run) then call('PEXPIREAT', k.idem, time) end
end

local function persist(k, run)
  for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PERSIST', key) end
  if has_key(k, run) then call('PERSIST', k.idem) end
end

local SHORT, FEW = 512, 512 -- bytes, fields: hash-max-listpack-value of config/redis.conf, and the servers' own hash-max-listpack-entries
-- What is written anew before anything reads it, when a run that rests goes on.
local PASSED = { number = true, first_number = true, grace = true, looked = true, queued_at = true, lease_granted = true }

-- The run rests, for days perhaps, and whoever wakes it brings a message; only an answer that comes by itself needs the stored one.
-- A server keeps a hash of short values in a third of the memory, but none that has ever had a long one, like a message: it is made anew
-- (docs/decisions/0020-runs-at-rest.md). By HDEL: whoever may play runs need not be allowed to delete keys.
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

-- Runs that have ended and whose caller is still to be called, as `ID EPOCH`, by the time from which the call is late. It is no key of KEYS:
-- most ends never touch it, and rounds that end nothing would send its name all the same.
local function calls_of(due) return string.sub(due, 1, -#'due' - 1) .. 'endings' end

-- Somebody asked to be called when the run ends: in the same write it is kept who is to be, until the call is out. The epoch tells this end
-- from those after it. Nothing reads it back into the run, so a key that takes no promise does not keep the run from its end; the log says so.
local function promise_call(k, run, now)
  if not run.on_end then return end
  local calls = calls_of(k.due)
  local kept = pcall('ZADD', calls, now, run.id .. ' ' .. run.epoch)
  if type(kept) == 'table' then event(k, run, now, 'call_not_kept', 'key', calls, 'error', kept.err) end
end

local function complete(k, run, now)
  promise_call(k, run, now)
  if run.unfinished then -- how many cycles it had, all that it might have
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

-- `doubt` names the round that was in flight and whose effects nobody can vouch for ('' for none).
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

-- Show the open interrupt in the run's state and arm its deadline; it waits for a person from now on.
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

-- Take stop, error and interrupt out of the state's view: the run goes on in a new epoch with this message.
local function new_epoch(k, run, message)
  run.epoch, run.failures, run.losses = whole(number(run.epoch) + 1), '0', '0'
  fresh_message(k, run, message)
  set(k, 'epoch', run.epoch, 'failures', '0', 'losses', '0', 'status', 'running', 'stop_current_execution', 'none')
  unset(k, 'interrupted_node', 'interrupt_reason', 'interrupt_data', 'in_doubt', 'error', 'ended_at', 'quarantined',
    'stop_mode', 'stop_by', 'stop_reason', 'stop_asked_at', 'stop_seen_at', 'stopped_at')
end

-- It would end a run again at once that somebody takes up.
local function take_down_passed_deadline(k, run, now)
  if run.deadline and number(run.deadline) <= now then
    unset(k, 'deadline')
    run.deadline = nil
  end
end

-- What a resumed or retried run does first in its new epoch: ask its open question again (nothing skips an approval), wait until
-- a stopped round's token is let go (nor are there ever two workers in one step) or its time has come, or be queued.
-- A question keeps the message of the epoch after this one: the one that will end it.
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
