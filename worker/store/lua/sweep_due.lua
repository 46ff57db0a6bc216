#!lua flags=allow-oom
-- sweep_due: look at runs whose time has come, and re-enqueue what is overdue. It never executes anything.
-- KEYS  1 due set   2 queues hash   3..7 indexes as in reading.lua   8 paused flows   9.. the broker's lists, then as many lines, in their order
-- ARGV  prefix (of the run keys, which only the sweep may derive), batch, lease (the shortest in use), max_losses, max_failures,
--       loss_delay, loss_delay_max, jitter (0..1), hold (until a run of a paused flow is looked at again),
--       [alive] (a worker that announced itself within so many ms is taken for alive),
--       [every] (nothing is done where a sweep was made within so many ms), [schema] (the newest the caller reads), [outbox], and with it [length:LIST] (messages that the broker holds; absent where it does not answer),
--       [made:ID] (EPOCH STEP MESSAGE: of a run that the caller was told is unmade; it is looked at now)
--       [soon:ID] (of a queued run whose message may have died with a process; it is looked at now)
-- Returns what became of the runs looked at, what the caller is to publish (LIST MESSAGE, only in the outbox), and of which ended runs the
--         caller is to make the call that nobody has made (ID EPOCH, in one text). The first is a flat list ID WORD (or KEY damaged, for a shared key that is not what it should be): resent | marked | in_line | freed (lease lapsed, queued again) | delayed (again, and waits) |
--         spared | overran (past its own limit, tried again) | woken | answered | stopped | errored | removed | damaged |
--         unmade (its message is to be sent and was never made, as it stayed: nothing is done until somebody brings it)
-- Every run looked at is moved or removed, so that none hides those behind it.
--@ reading.lua
--@ counting.lua
--@ moving.lua
--@ recounting.lua
local now = clock()
-- Every worker sweeps, so that any of them may die; but one look in so many milliseconds is enough for all.
if arg.every then
  local last = redis.pcall('HGET', KEYS[2], 'swept_at')
  local since = type(last) == 'string' and is_count(last) and now - number(last) or -1
  if since >= 0 and since < number(arg.every) then return { {}, {}, {} } end
end
local base = { due = KEYS[1], queues = KEYS[2], live = KEYS[3], interrupted = KEYS[4], stopped = KEYS[5], completed = KEYS[6],
  errored = KEYS[7], paused = KEYS[8], lists = {} }
local line_of = {} -- list -> the runs seen in line there, by their number
local count = (#KEYS - 8) / 2
for i = 9, 8 + count do
  base.lists[KEYS[i]] = true
  line_of[KEYS[i]] = KEYS[i + count]
end
-- A shared key overwritten by hand must not cost every due run its promise: nothing is touched.
local damaged = mistyped(base)
for list, line in pairs(line_of) do
  local found = call('TYPE', line).ok
  damaged = damaged or (unpushable(base, list) or {})[2] or found ~= 'none' and found ~= 'zset' and line or nil
end
if damaged then return { { damaged, 'damaged' }, {}, {} } end
local lease, jitter = number(arg.lease), tonumber(arg.jitter)
local SEARCHED = 256 -- messages at the consuming end among which a resent one is looked for; about 20 microseconds
local FORGOTTEN = 50 -- ended runs an index that are looked at in one sweep; under a microsecond each
local PIECES = 20 -- and so many times as many while a quarter of them is gone: 2,000 a second, more than runs can end
local AHEAD = 10000 -- runs that are looked at when the clock was set back; about a microsecond each
local PROMOTED = 1000 -- runs a list that leave their line in one sweep; about 7 microseconds each
local PEEKED = 1000 -- runs whose phase is asked for in one sweep where more are due than it looks at; about a microsecond each
local NEWEST = 250 -- runs that fell due last and whose phase is asked for as well, since a lease that has just lapsed is one of them
local CALLED = 5000 -- ms in which whoever ended a run has called, or is late
local AGAIN = 25000 -- ms more for a sweep that was told to call, before another is told
local CALLS = 25 -- that one sweep is told of
local UNMADE = 1000 -- ms until a run is looked at again whose message is to be made; whoever was told may have died

-- Silence: nobody swept for so long that leases may have lapsed under live workers (the server or all sweepers stood still).
local swept_at, silent_from, silent_until, counted = unpack(call('HMGET', base.queues, 'swept_at', 'silent_from', 'silent_until', 'counted'))
-- Before the first sweep ever, and where its time does not read, nobody swept: all of the past was silent.
local gap = now - number(swept_at)
if gap > lease / 2 or gap < 0 then
  silent_from, silent_until = whole(math.min(now, number(swept_at))), whole(now)
  call('HSET', base.queues, 'silent_from', silent_from, 'silent_until', silent_until)
end
call('HSET', base.queues, 'swept_at', whole(now))
if not counted then
  recount(base, arg.prefix)
  call('HSET', base.queues, 'counted', whole(now))
end
-- The clock was ahead and has been set back: what it put off is looked at now, or a dead worker's lease would last until then.
if gap < -lease / 2 then
  for _, id in ipairs(call('ZRANGEBYSCORE', base.due, '(' .. whole(now + lease), '+inf', 'LIMIT', 0, AHEAD)) do
    call('ZADD', base.due, 'XX', now, id)
  end
  local ahead = pcall('ZRANGEBYSCORE', calls_of(base.due), '(' .. whole(now + lease), '+inf', 'LIMIT', 0, AHEAD)
  for _, promised in ipairs(ahead) do call('ZADD', calls_of(base.due), 'XX', now, promised) end
end

local function was_silent(time)
  return is_count(silent_from) and is_count(silent_until) and time >= number(silent_from) and time <= number(silent_until) + lease / 2
end

-- How long the lines were before this sweep pushed anything: what it pushes itself is no line that others stand in.
local lengths = {}
for list in pairs(base.lists) do
  if outbox then lengths[list] = tonumber(arg['length:' .. list]) else lengths[list] = call('LLEN', list) end
end

-- The cursor passed them, or nothing is left in their line: whoever of them still waits is looked at now, not when its time has come.
for list, line in pairs(line_of) do
  if lengths[list] then
    local passed = lengths[list] == 0 and '+inf' or whole(number(call('HGET', base.queues, list .. ':cursor')))
    local ids = call('ZRANGEBYSCORE', line, '-inf', passed, 'WITHSCORES', 'LIMIT', 0, PROMOTED)
    local seen = {}
    for i = 1, #ids, 2 do
      seen[#seen + 1] = ids[i]
      local phase, queue, place = unpack(pcall('HMGET', arg.prefix .. ':run:' .. ids[i], 'phase', 'queue', 'number'))
      if phase == 'queued' and queue == list and place == ids[i + 1] then call('ZADD', base.due, 'XX', 'LT', now, ids[i]) end
    end
    in_parts('ZREM', line, seen, 1, #seen)
  end
end

-- Lua makes no message. Whether one is wanted that a run which stayed does not have (commit_and_stay.lua), nor brings the caller.
local function is_unmade(k, run, now)
  if run.message ~= '' then return false end
  local epoch, step, message = match(arg['made:' .. run.id] or '', '^(%d+) (%d+) (.+)$')
  if epoch ~= run.epoch or step ~= run.step then -- none, or it has gone on since the caller was told
    due_at(k, run, now + UNMADE)
    return true
  end
  run.message = message
  set(k, 'message', message)
  return false
end
local brought = {}
for name in pairs(arg) do
  local id = match(name, '^made:(.+)$') or match(name, '^soon:(.+)$')
  if id then
    call('ZADD', base.due, 'XX', 'LT', now, id)
    brought[#brought + 1] = id
  end
end

-- What is looked at: the oldest that are due; but where there are more than a batch, lapsed leases come before all others, or a dead worker's
-- run would wait behind each wave of sleepers. The next leases are looked for where the last call ended, and among those that fell due last:
-- there is a lease that lapsed since the last call. Calls may be a tenth of a second apart, so that to go through all takes seconds.
local function looked_at()
  local batch = number(arg.batch)
  local oldest = call('ZRANGEBYSCORE', base.due, '-inf', now, 'LIMIT', 0, batch)
  local overdue = #oldest < batch and #oldest or call('ZCOUNT', base.due, '-inf', now)
  if overdue <= batch then return oldest end
  local first, taken = {}, {}
  local function take(id)
    if #first < batch and not taken[id] then first[#first + 1], taken[id] = id, true end
  end
  for _, id in ipairs(brought) do
    if call('ZSCORE', base.due, id) then take(id) end
  end
  local from = overdue > PEEKED and number(call('HGET', base.queues, 'peeked')) or 0
  if from >= overdue then from = 0 end
  local upto = math.min(from + PEEKED, overdue)
  local function take_leased(ids)
    for _, id in ipairs(ids) do
      if pcall('HGET', arg.prefix .. ':run:' .. id, 'phase') == 'leased' then take(id) end
    end
  end
  take_leased(call('ZRANGE', base.due, from, upto - 1))
  -- As many as are moved now stand before the others no more. Where leases fill the batch, the same are looked at again.
  if overdue > PEEKED then
    call('HSET', base.queues, 'peeked', whole(#first == batch and from or upto < overdue and math.max(0, upto - batch) or 0))
  end
  if upto < overdue or from > 0 then take_leased(call('ZRANGE', base.due, math.max(0, overdue - NEWEST), overdue - 1)) end
  for _, id in ipairs(oldest) do take(id) end
  return first
end

-- What is no routine, and is counted by its word.
local COUNTED = { resent = true, freed = true, delayed = true, overran = true, answered = true }
local report = {}
local function note(id, word)
  report[#report + 1] = id
  report[#report + 1] = word
end

local function keys_of(id)
  local run = arg.prefix .. ':run:' .. id
  return setmetatable({ run = run, memory = run .. ':memory', events = run .. ':events', artifacts = run .. ':artifacts', idem = run },
    { __index = base })
end

-- What all runs share was looked at above, and nobody else writes meanwhile: of each there are only its own keys to look at.
local OWN = { memory = 'list', events = 'stream', artifacts = 'hash' }
local function has_mistyped(k)
  for name, wanted in pairs(OWN) do
    local found = call('TYPE', k[name]).ok
    if found ~= 'none' and found ~= wanted then return true end
  end
end

local function too_late(k, run)
  fail(k, run, now, 'the deadline of the run passed before step ' .. run.step .. ' (node ' .. run.current_node .. ') was done')
  return 'errored'
end

local function sweep_leased(k, run, order)
  local lease_until = math.min(number(run.lease_until), now + number(run.lease_granted)) -- no lease is longer, but by a clock that was ahead
  if lease_until > now then
    if lease_until < number(run.lease_until) then set(k, 'lease_until', whole(lease_until)) end
    due_at(k, run, lease_until)
    return 'in_line'
  end
  -- A round past its own limit is no victim of the silence: its worker beats, and the lease stays where the limit is.
  local overran = run.round_until and number(run.round_until) <= now
  if was_silent(lease_until) and run.spared ~= run.lease_until and not overran then
    local spared = whole(now + number(run.lease_granted))
    set(k, 'lease_until', spared, 'spared', spared)
    due_at(k, run, now + number(run.lease_granted))
    return 'spared'
  end
  local stopping = run.stop_current_execution == 'stop_requested'
  if not stopping and is_unmade(k, run, now) then return 'unmade' end
  local doubt = run.step .. '/' .. run.current_node .. '/' .. run.attempt
  free_lease(k)
  if stopping then
    stop_here(k, run, now, doubt)
    return 'stopped'
  end
  if overran then
    -- Its worker lives: the round ignored its limit. That is a failure of the round, not the loss of a worker.
    local failures = number(run.failures) + 1
    local text = 'run ' .. run.id .. ', step ' .. run.step .. ', node ' .. run.current_node ..
      ': the round took longer than its limit and did not look at context.cancelled'
    set(k, 'failures', whole(failures), 'last_error', text)
    if run.deadline and number(run.deadline) <= now then return too_late(k, run) end
    if failures >= number(arg.max_failures) then
      fail(k, run, now, text)
      return 'errored'
    end
    event(k, run, now, 'failed', 'error', text, 'retry_in', arg.loss_delay)
    wait(k, run, now, 'retry', number(arg.loss_delay))
    return 'overran'
  end
  local losses = number(run.losses) + 1
  run.losses = whole(losses)
  set(k, 'losses', run.losses)
  event(k, run, now, 'lost', 'owner', run.owner or '', 'losses', run.losses, 'claimed_at', run.claimed_at or '')
  if losses > number(arg.max_losses) then
    fail(k, run, now, 'workers died or went silent under step ' .. run.step .. ' (node ' .. run.current_node .. ') ' .. run.losses ..
      ' times in a row; last one: ' .. (run.owner or 'unknown') .. '. Look at what this round does to its worker, then retry the run')
    return 'errored'
  end
  if run.deadline and number(run.deadline) <= now then return too_late(k, run) end
  if losses == 1 then
    push(k, run, now)
    return 'freed'
  end
  -- The first loss may be anybody's; a run that keeps losing workers waits, so that it does not take its neighbours along.
  local delay = math.min(number(arg.loss_delay) * 2 ^ (losses - 2), number(arg.loss_delay_max))
  wait(k, run, now, 'loss', math.floor(delay * (0.5 + (jitter + order * 0.618) % 1)))
  return 'delayed'
end

-- The list that the message of this very round was handed on to (hand_on.lua).
local function handed_list(run)
  local epoch, step, list = match(run.handed_to or '', '^(%d+) (%d+) (.+)$')
  if epoch == run.epoch and step == run.step and string.sub(list, 1, #run.queue + 1) == run.queue .. '.' then return list end
end

-- Whether a worker that lives says that it consumes this list. Read where it is asked for: hardly any run was handed on.
local announced
local function is_consumed(list)
  if not announced then
    announced = {}
    local infos = pcall('HGETALL', arg.prefix .. ':workers:info')
    for i = 1, #infos, 2 do -- nothing of what is no hash
      local beat = pcall('ZSCORE', arg.prefix .. ':workers', infos[i])
      if type(beat) == 'string' and tonumber(beat) >= now - number(arg.alive) then announced[#announced + 1] = infos[i + 1] end
    end
  end
  for _, info in ipairs(announced) do
    if find(info, '"' .. list .. '"', 1, true) then return true end
  end
  return false
end

local function unmark(k, run)
  if run.looked == '1' then set(k, 'looked', '0') end
end

-- Workers that play its flow have its message; where they do not, or none of them is left, it goes to the queue of all.
local function sweep_handed_on(k, run, list, grace)
  local consumed = is_consumed(list)
  if consumed and not outbox then
    local waiting = pcall('LLEN', list)
    local long = type(waiting) == 'number' and waiting > SEARCHED
    if long or type(pcall('LPOS', list, run.message, 'MAXLEN', SEARCHED)) == 'number' then
      unmark(k, run)
      due_at(k, run, now + (long and math.max(grace, run.queued_at and now - number(run.queued_at) or 0) or grace))
      return 'in_line'
    end
  end
  if consumed and run.looked ~= '1' then
    set(k, 'looked', '1')
    due_at(k, run, now + grace)
    return 'marked'
  end
  if outbox then -- what was published there may be in line still: the next copy waits twice as long
    run.grace = whole(grace * 2)
    set(k, 'grace', run.grace)
  elseif not consumed then
    pcall('LREM', list, -1, run.message) -- nobody would take it; an older access list refuses, and then it is left to lie there
  end
  event(k, run, now, 'resent', 'number', run.number)
  push(k, run, now)
  return 'resent'
end

local function sweep_queued(k, run)
  local grace = math.max(number(run.grace), 1)
  local length = lengths[run.queue]
  if not length then -- the broker does not answer: nothing can be said of the message, and none could be sent
    due_at(k, run, now + grace)
    return 'in_line'
  end
  local list = handed_list(run)
  if list then return sweep_handed_on(k, run, list, grace) end
  if length > 0 and number(run.number) > number(call('HGET', k.queues, run.queue .. ':cursor')) then
    -- Looked at again when the cursor has passed it (above), and, should the line stand still, ever more seldom.
    unmark(k, run)
    call('ZADD', line_of[run.queue], number(run.number), run.id)
    due_at(k, run, now + math.max(grace, run.queued_at and now - number(run.queued_at) or 0))
    return 'in_line'
  end
  -- A message pushed again stands at the consuming end, where its number says nothing.
  if not outbox and call('LPOS', run.queue, run.message, 'RANK', -1, 'MAXLEN', SEARCHED) then
    unmark(k, run)
    due_at(k, run, now + grace)
    return 'in_line'
  end
  if run.looked ~= '1' then
    set(k, 'looked', '1') -- it may have been popped this instant: one grace for its claim
    due_at(k, run, now + grace)
    return 'marked'
  end
  -- Where the whole line was searched no copy can pile up, so only a longer one makes the grace grow
  -- (docs/decisions/0003-resend-pacing.md). In the outbox a copy has a number of its own, and is in line until that has passed.
  if length > SEARCHED and not outbox then grace = grace * 2 end
  run.grace = whole(grace)
  set(k, 'grace', run.grace)
  event(k, run, now, 'resent', 'number', run.number)
  push(k, run, now)
  return 'resent'
end

for order, id in ipairs(looked_at()) do
  local k = keys_of(id)
  local flat, word = pcall('HGETALL', k.run)
  local run = table_of(flat) -- nothing of what is no hash: an error has no first element
  if run and run.idem then k.idem = arg.prefix .. ':idem:' .. run.idem end
  if run and newer(run.schema) and (not PHASES[run.phase] or has_mistyped(k) or malformed(k, run) or not base.lists[run.queue]) then
    -- By the rules of the newer worker that wrote it, it need not be damaged: it stays due, for those who can read it.
    call('ZADD', base.due, now + lease, id)
    word = 'in_line'
  elseif not run or ENDED[run.phase] or run.phase == 'stopped' or not PHASES[run.phase] then
    call('ZREM', base.due, id)
    word = (not run and call('EXISTS', k.run) == 0 or run and PHASES[run.phase]) and 'removed' or 'damaged'
  elseif has_mistyped(k) or malformed(k, run) or not base.lists[run.queue] then
    call('ZREM', base.due, id)
    word = 'damaged'
  elseif run.phase == 'leased' then
    word = sweep_leased(k, run, order)
  elseif run.deadline and number(run.deadline) <= now then
    word = too_late(k, run)
  elseif run.phase == 'queued' then
    word = sweep_queued(k, run)
  elseif run.phase == 'waiting' then
    if run.waiting_until and number(run.waiting_until) > now and not (run.waiting_for == 'hold' and not run.held_token) then
      due_at(k, run, number(run.waiting_until))
      word = 'in_line'
    elseif run.waiting_for == 'paused' and call('HEXISTS', k.paused, run.flow) == 1 then
      -- A message for it would only be given back; spread, so that a flow's runs do not come all at once.
      wait(k, run, now, 'paused', math.floor(number(arg.hold) * (0.5 + (jitter + order * 0.618) % 1)))
      word = 'in_line'
    elseif is_unmade(k, run, now) then -- it waits for the retry of a round that failed
      word = 'unmade'
    else
      unset(k, 'held_token', 'held_until')
      push(k, run, now)
      word = 'woken'
    end
  elseif not run.i_until or number(run.i_until) > now then
    due_at(k, run, run.i_until and number(run.i_until))
    word = 'in_line'
  else
    set(k, 'i_answer', run.i_default or 'null')
    event(k, run, now, 'resumed', 'answer', run.i_default or 'null', 'by', 'deadline')
    set(k, 'resumed_at', whole(now), 'resumed_by', 'deadline')
    new_epoch(k, run, run.message)
    push(k, run, now)
    word = 'answered'
  end
  if COUNTED[word] then tally(k, run, 'moves:' .. word, 1) end
  note(id, word)
end

-- An ended run leaves its index when its keys are gone; each run says itself how long they are kept. Mostly the oldest go first;
-- some anywhere else are looked at too, so that those which are kept for longer hide nobody.
for _, index in ipairs({ base.completed, base.errored }) do
  local anywhere = math.floor(jitter * call('ZCARD', index))
  for _, first in ipairs({ 0, anywhere }) do
    local place = first
    for _ = 1, PIECES do
      local ended, gone = call('ZRANGE', index, place, place + FORGOTTEN - 1), {}
      for _, id in ipairs(ended) do
        if call('EXISTS', arg.prefix .. ':run:' .. id) == 0 then gone[#gone + 1] = id end
      end
      in_parts('ZREM', index, gone, 1, #gone)
      place = place + #ended - #gone
      if #gone < FORGOTTEN / 4 then break end
    end
  end
end

-- Whoever ended these has not called, or not said so: the caller does. Others are told of the same when it has had its time.
local calls = calls_of(base.due)
local late = pcall('ZRANGEBYSCORE', calls, '-inf', now - CALLED, 'LIMIT', 0, CALLS)
if late.err then
  if find(late.err, 'WRONGTYPE', 1, true) then note(calls, 'damaged') end
  late = {}
end
for _, promised in ipairs(late) do call('ZADD', calls, 'XX', now + AGAIN, promised) end
return { report, handed, late }
