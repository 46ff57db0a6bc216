-- Changes of phase that several transitions share. These functions write.

local function set(k, ...) call('HSET', k.run, ...) end

local function unset(k, ...) call('HDEL', k.run, ...) end

local function set_fields(k) in_parts('HSET', k.run, ARGV, fields, fields_end) end

local function event(k, run, now, type, ...)
  call('XADD', k.events, '*', 'type', type, 'at', whole(now), 'step', run.step, 'attempt', run.attempt or '0',
    'node', run.current_node, ...)
end

-- Change the index of a phase. Child runs have indexes of their own, so that lists of other runs stay
-- short. If such a key is of a wrong type, doctor reports it: the run does not depend on it.
local function list_of(k, run, command, name, ...)
  if run.parent then return pcall(command, index_of_children(k[name]), ...) end
  call(command, k[name], ...)
end

-- Parked runs have the status running, and are counted beside it. `phase` is nil for a deleted run.
local function count_parked(k, run, phase)
  if (run.phase == 'parked') ~= (phase == 'parked') then tally(k, run, 'runs:parked', phase == 'parked' and 1 or -1) end
end

-- Set the phase, and move the run to the phase's index: ended runs by the time of their end, others
-- by their creation.
local function enter(k, run, phase, now)
  local from, to = PHASES[run.phase], PHASES[phase]
  if from ~= to then
    if from then list_of(k, run, 'ZREM', from, run.id) end
    list_of(k, run, 'ZADD', to, ENDED[phase] and now or number(run.created_at), run.id)
  end
  if from and from ~= 'live' then -- Time at rest does not count as the run's own time.
    set(k, 'idle', whole(number(run.idle) + math.max(0, now - number(run.updated_at))))
  end
  set(k, 'phase', phase, 'updated_at', whole(now))
  if run.waiting_for and phase ~= 'waiting' then unset(k, 'waiting_for', 'waiting_until') end
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
  unset(k, 'i_id', 'i_kind', 'i_status', 'i_node', 'i_reason', 'i_data', 'i_wait', 'i_until', 'i_by', 'i_default', 'i_answer', 'i_budget', 'i_payer')
end

-- Return the keys of another run.
local function keys_of_other(k, id)
  local run = key_of(k.due, id)
  return setmetatable({ run = run, memory = run .. ':memory', events = run .. ':events', artifacts = run .. ':artifacts', mailbox = run .. ':mailbox' },
    { __index = k })
end

-- Return the key of a topic (parts/topic.lua). Few runs have one, so it is not in KEYS.
local function topic_of(due, name) return string.sub(due, 1, -#'due' - 1) .. 'topic:' .. name end

-- Return the key of the topic that the run holds, or nil. It may be another run's by now.
local function held_topic(k, run)
  if not run.topic then return nil end
  local topic = topic_of(k.due, run.topic)
  local id, nonce = unpack(pcall('HMGET', topic, 'run', 'nonce')) -- an error has no elements
  return id == run.id and nonce == run.nonce and topic or nil
end

-- The run holds its topic no more. Until `time`, the topic knows that the run held it: a signal that
-- is sent again under its key is then found in the run's mailbox.
local function give_topic_up(k, run, time)
  local topic = held_topic(k, run)
  if not topic then return end
  local before = call('HGET', topic, 'before') or ''
  call('HSET', topic, 'before', run.id .. ' ' .. run.nonce .. (before ~= '' and '\n' .. before or ''))
  call('HDEL', topic, 'run', 'nonce')
  call('PEXPIREAT', topic, time)
end

-- Return whether the idempotency key belongs to this run. The field may be damaged, or the key may
-- be another run's by now.
local function has_key(k, run)
  return run.idem and call('TYPE', k.idem).ok == 'string' and match(call('GET', k.idem), '^%S+ (%S+)$') == run.id
end

local function expire_at(k, run, time)
  if run.mailbox then call('PEXPIREAT', mailbox_of(k), time) end
  for group in groups_of(run) do call('PEXPIREAT', group_of(k, group), time) end
  call('PEXPIREAT', live_text_of(k), time, 'LT') -- it expires by itself, but not later than its run
  for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PEXPIREAT', key, time) end
  if has_key(k, run) then call('PEXPIREAT', k.idem, time) end
  local topic = held_topic(k, run)
  if topic then call('PEXPIREAT', topic, time) end
end

local function persist(k, run)
  if run.mailbox then call('PERSIST', mailbox_of(k)) end
  for group in groups_of(run) do call('PERSIST', group_of(k, group)) end
  for _, key in ipairs({ k.run, k.memory, k.events, k.artifacts }) do call('PERSIST', key) end
  if has_key(k, run) then call('PERSIST', k.idem) end
  local topic = held_topic(k, run)
  if topic then call('PERSIST', topic) end
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
