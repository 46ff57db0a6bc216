#!lua flags=allow-oom
-- sweep_due: examine the runs that are due, and requeue what is overdue. It executes no round.
--
-- KEYS  1 due set   2 queues hash   3..7 indexes as in parts/run.lua   8 paused flows
--       9.. the broker's lists, then the line of each list, in the same order
-- ARGV  prefix (of the run keys, which only the sweep may derive), batch, lease (the shortest in
--       use), max_losses, max_failures, loss_delay, loss_delay_max, jitter (0..1),
--       hold (wait of a run whose flow is paused),
--       [alive] (a worker whose last announcement is younger, in ms, counts as alive),
--       [every] (do nothing if the last sweep was less than this many ms ago),
--       [schema] (the newest that the caller reads),
--       [outbox], and with it [length:LIST] (messages on the broker; absent if it does not answer),
--       [made:ID] (EPOCH STEP MESSAGE of a run that was reported as unmade: it is examined now),
--       [soon:ID] (a queued run whose message may have died with a process: it is examined now)
-- Returns five flat lists
--   1. What became of each run, as ID WORD, or KEY damaged for a damaged key that the runs share:
--        resent    Its message is pushed again.
--        marked    Its message seems to be lost: it is pushed again after one more grace.
--        in_line   It has to wait longer.
--        freed     Its lease lapsed: it is queued again.
--        delayed   Its lease lapsed again: it waits before it is queued.
--        spared    Its lease lapsed in a silence: it is extended once.
--        overran   Its round exceeded its own limit: it is tried again.
--        woken     Its wait is over: it is queued.
--        answered  Its interrupt's deadline passed: it is queued with the default answer.
--        stopped   Its lease lapsed, and a stop was requested.
--        errored   It had too many losses or failures, or its deadline passed.
--        unmade QUEUE EPOCH STEP PHASE
--                  Its message is needed and was never built: the caller must bring it (made:ID).
--        removed   It no longer exists or has ended: it is removed from the due set.
--        damaged   It cannot be read: it is removed from the due set.
--   2. The messages that the caller must publish, as LIST MESSAGE. Empty without an outbox.
--   3. ID EPOCH (one text each) of ended runs whose `on_end` call the caller must make.
--   4. The ids of runs whose children the caller must look after (reconcile_children.lua).
--   5. In how many ms the next run is due, if one is, but at most a lease. Empty if another sweep
--      was too recent.
--
-- Every examined run is moved or removed, so that no run hides the ones behind it.
-- A silence is a time without sweeps. Leases may have lapsed then although their workers lived.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
--@ parts/recount.lua
local now = clock()
-- Every worker sweeps, so that any of them may die. One sweep per interval is enough for all of
-- them.
if arg.every then
  local last = redis.pcall('HGET', KEYS[2], 'swept_at')
  local since = type(last) == 'string' and is_count(last) and now - number(last) or -1
  if since >= 0 and since < number(arg.every) then return { {}, {}, {}, {}, {} } end
end
local base = { due = KEYS[1], queues = KEYS[2], live = KEYS[3], interrupted = KEYS[4], stopped = KEYS[5], completed = KEYS[6],
  errored = KEYS[7], paused = KEYS[8], lists = {} }
local line_of = {} -- list -> the runs that wait in this list, by the number of their message
local count = (#KEYS - 8) / 2
for i = 9, 8 + count do
  base.lists[KEYS[i]] = true
  line_of[KEYS[i]] = KEYS[i + count]
end
-- If a shared key is damaged, nothing is written. Otherwise every due run would lose its due time.
local damaged = mistyped(base)
for list, line in pairs(line_of) do
  local found = call('TYPE', line).ok
  damaged = damaged or (unpushable(base, list) or {})[2] or found ~= 'none' and found ~= 'zset' and line or nil
end
if damaged then return { { damaged, 'damaged' }, {}, {}, {}, {} } end
local lease, jitter = number(arg.lease), tonumber(arg.jitter)
-- Messages, from the consuming end, among which a run's own is searched: about 20 microseconds.
local SEARCHED = 256
local FORGOTTEN = 50 -- ended runs per index and piece: less than a microsecond each
-- Pieces at most, while at least a quarter of a piece is gone: 2,000 runs a second, more than can
-- end.
local PIECES = 20
local AHEAD = 10000 -- runs that are made due when the clock was set back: about a microsecond each
local PROMOTED = 1000 -- runs per list that leave their line in one sweep: about 7 microseconds each
-- Runs whose phase is read in one sweep if more are due than fit a batch: about a microsecond each.
local PEEKED = 1000
-- Runs that fell due last, whose phase is read as well, since a lease that has just lapsed is among
-- them.
local NEWEST = 250
-- Milliseconds after which the `on_end` call is late, if the process that ended the run has not
-- made it.
local CALLED = 5000
-- Milliseconds that the caller of one sweep gets for the call, before the caller of another gets
-- it.
local AGAIN = 25000
local CALLS = 25 -- calls at most that one sweep returns
-- Milliseconds until an unmade run is examined again, as the caller may have died before it built
-- the message.
local UNMADE = 1000

-- Silence: no worker swept for so long that leases may have lapsed under live workers (the server
-- or all sweepers stood still).
local swept_at, silent_from, silent_until, counted = unpack(call('HMGET', base.queues, 'swept_at', 'silent_from', 'silent_until', 'counted'))
-- Before the first sweep, or if its time is unreadable, all of the past counts as silence.
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
-- The clock was ahead and has been set back. Runs that are due more than a lease from now are made
-- due at once. Otherwise a dead worker's lease would last until then.
if gap < -lease / 2 then
  for _, id in ipairs(call('ZRANGEBYSCORE', base.due, '(' .. whole(now + lease), '+inf', 'LIMIT', 0, AHEAD)) do
    call('ZADD', base.due, 'XX', now, id)
  end
  local ahead = pcall('ZRANGEBYSCORE', calls_of(base.due), '(' .. whole(now + lease), '+inf', 'LIMIT', 0, AHEAD)
  for _, promised in ipairs(ahead) do call('ZADD', calls_of(base.due), 'XX', now, promised) end
  local late = pcall('ZRANGEBYSCORE', follow_ups_of(base.due), '(' .. whole(now + lease), '+inf', 'LIMIT', 0, AHEAD)
  for _, id in ipairs(late) do call('ZADD', follow_ups_of(base.due), 'XX', now, id) end
end

local function was_silent(time)
  return is_count(silent_from) and is_count(silent_until) and time >= number(silent_from) and time <= number(silent_until) + lease / 2
end

-- The lists' lengths before this sweep pushes anything, since its own pushes are not a line of
-- others.
local lengths = {}
for list in pairs(base.lists) do
  if outbox then lengths[list] = tonumber(arg['length:' .. list]) else lengths[list] = call('LLEN', list) end
end

-- Runs that the cursor has passed, or whose list is empty, but which are still queued, are examined
-- now. They do not wait for their due time.
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

-- Return whether the run needs a message that was never built (commit_and_continue.lua) and that the
-- caller has not brought. Lua builds no messages.
local function is_unmade(k, run, now)
  if run.message ~= '' then return false end
  local epoch, step, message = match(arg['made:' .. run.id] or '', '^(%d+) (%d+) (.+)$')
  -- The caller brought none, or the run has changed since then.
  if epoch ~= run.epoch or step ~= run.step then
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

-- Return the runs to examine: the ones that have been due longest. If more are due than fit a
-- batch, lapsed leases come first. Otherwise a dead worker's run would wait behind each wave of
-- sleeping runs. The search for leases continues where the last sweep ended, and includes the runs
-- that fell due last, among which new lapsed leases are. Sweeps may be a tenth of a second apart,
-- so that searching all runs takes seconds.
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
  -- The runs that are moved now will leave the set, so the next search begins that much earlier. If
  -- leases fill the batch, it begins at the same position again.
  if overdue > PEEKED then
    call('HSET', base.queues, 'peeked', whole(#first == batch and from or upto < overdue and math.max(0, upto - batch) or 0))
  end
  if upto < overdue or from > 0 then take_leased(call('ZRANGE', base.due, math.max(0, overdue - NEWEST), overdue - 1)) end
  for _, id in ipairs(oldest) do take(id) end
  return first
end

-- Words that are counted as metrics, since they are not routine.
local COUNTED = { resent = true, freed = true, delayed = true, overran = true, answered = true }
local report = {}
local function note(id, word)
  report[#report + 1] = id
  report[#report + 1] = word
end

local function keys_of(id)
  local run = arg.prefix .. ':run:' .. id
  return setmetatable({ run = run, memory = run .. ':memory', events = run .. ':events', artifacts = run .. ':artifacts', mailbox = run .. ':mailbox',
    idem = run },
    { __index = base })
end

-- The shared keys were checked above, and no other script writes meanwhile. So only the run's own
-- keys are checked.
local OWN = { memory = 'list', events = 'stream', artifacts = 'hash' }
local function has_mistyped(k)
  for name, wanted in pairs(OWN) do
    local found = call('TYPE', k[name]).ok
    if found ~= 'none' and found ~= wanted then return true end
  end
end

-- Only the sweep of a parked run reads its mailbox and its wait.
local function has_damaged_wait(k, run)
  if run.phase ~= 'parked' then return false end
  if is_without_wait(run) then return true end
  local found = call('TYPE', k.mailbox).ok
  return found ~= 'none' and found ~= 'hash'
end

local function too_late(k, run)
  fail(k, run, now, 'the deadline of the run passed before step ' .. run.step .. ' (node ' .. run.current_node .. ') was done')
  return 'errored'
end

local function sweep_leased(k, run, order)
  -- No lease is longer, unless the clock was ahead.
  local lease_until = math.min(number(run.lease_until), now + number(run.lease_granted))
  if lease_until > now then
    if lease_until < number(run.lease_until) then set(k, 'lease_until', whole(lease_until)) end
    due_at(k, run, lease_until)
    return 'in_line'
  end
  -- A round past its own limit is not a victim of the silence. Its worker sends heartbeats, which
  -- do not extend the lease beyond the limit.
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
    -- Its worker is alive, but the round ignored its limit. That is a failure of the round, not the
    -- loss of a worker.
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
  -- The first loss may be accidental. A run that loses more workers waits, so that it does not fail
  -- its neighbours as well.
  local delay = math.min(number(arg.loss_delay) * 2 ^ (losses - 2), number(arg.loss_delay_max))
  wait(k, run, now, 'loss', math.floor(delay * (0.5 + (jitter + order * 0.618) % 1)))
  return 'delayed'
end

-- Return the list that this round's message was moved to (redirect_round.lua), or nil.
local function handed_list(run)
  local epoch, step, list = match(run.handed_to or '', '^(%d+) (%d+) (.+)$')
  if epoch == run.epoch and step == run.step and string.sub(list, 1, #run.queue + 1) == run.queue .. '.' then return list end
end

-- Return whether a live worker's announcement says that it consumes this list. The announcements
-- are read only when needed, since few runs are moved to such a list.
local announced
local function is_consumed(list)
  if not announced then
    announced = {}
    local infos = pcall('HGETALL', arg.prefix .. ':workers:info')
    for i = 1, #infos, 2 do -- an error has no elements
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

-- Examine a queued run whose message was moved to workers that play its flow. If no such worker is
-- left, or the list has lost the message, push it to the queue of all workers.
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
  if outbox then -- The earlier copy may still be in line, so the next one waits twice as long.
    run.grace = whole(grace * 2)
    set(k, 'grace', run.grace)
  elseif not consumed then
    -- No worker would take it. An older ACL may refuse this, and the message is then left there.
    pcall('LREM', list, -1, run.message)
  end
  event(k, run, now, 'resent', 'number', run.number)
  push(k, run, now)
  return 'resent'
end

local function sweep_queued(k, run)
  local grace = math.max(number(run.grace), 1)
  local length = lengths[run.queue]
  if not length then -- the broker does not answer, so the message can be neither found nor sent
    due_at(k, run, now + grace)
    return 'in_line'
  end
  local list = handed_list(run)
  if list then return sweep_handed_on(k, run, list, grace) end
  if length > 0 and number(run.number) > number(call('HGET', k.queues, run.queue .. ':cursor')) then
    -- Examined again when the cursor has passed it (above). If the line does not move, it is
    -- examined ever more seldom.
    unmark(k, run)
    call('ZADD', line_of[run.queue], number(run.number), run.id)
    due_at(k, run, now + math.max(grace, run.queued_at and now - number(run.queued_at) or 0))
    return 'in_line'
  end
  -- A message that was pushed again is at the consuming end, regardless of its number.
  if not outbox and call('LPOS', run.queue, run.message, 'RANK', -1, 'MAXLEN', SEARCHED) then
    unmark(k, run)
    due_at(k, run, now + grace)
    return 'in_line'
  end
  if run.looked ~= '1' then
    set(k, 'looked', '1') -- It may have been popped just now: its claim gets one grace.
    due_at(k, run, now + grace)
    return 'marked'
  end
  -- If the whole list was searched, no copy can pile up. So the grace grows only for a longer list
  -- (docs/internals/decisions/0003-resend-pacing.md). In the outbox a copy has a number of its own, and is in
  -- line until the cursor has passed that.
  if length > SEARCHED and not outbox then grace = grace * 2 end
  run.grace = whole(grace)
  set(k, 'grace', run.grace)
  event(k, run, now, 'resent', 'number', run.number)
  push(k, run, now)
  return 'resent'
end

local function sweep_parked(k, run)
  if not is_over(k, run, now) then
    if waits_for_children(run) then make_follow_up(k, run, now, true) end
    due_parked(k, run, now, math.min(2 * number(run.look), LONGEST_LOOK))
    return 'in_line'
  end
  record_time_out(k, run, now)
  if is_unmade(k, run, now) then return 'unmade' end
  wake(k, run, now)
  return 'woken'
end

for order, id in ipairs(looked_at()) do
  local k = keys_of(id)
  local flat, word = pcall('HGETALL', k.run)
  local run = table_of(flat) -- an error has no first element
  if run and run.idem then k.idem = arg.prefix .. ':idem:' .. run.idem end
  if run and newer(run.schema) and (not PHASES[run.phase] or has_mistyped(k) or malformed(k, run) or not base.lists[run.queue]) then
    -- A newer worker wrote it, by whose rules it need not be damaged. It remains due, for workers
    -- that can read it.
    call('ZADD', base.due, now + lease, id)
    word = 'in_line'
  elseif not run or ENDED[run.phase] or run.phase == 'stopped' or not PHASES[run.phase] then
    call('ZREM', base.due, id)
    word = (not run and call('EXISTS', k.run) == 0 or run and PHASES[run.phase]) and 'removed' or 'damaged'
  elseif has_mistyped(k) or malformed(k, run) or not base.lists[run.queue] or has_damaged_wait(k, run) then
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
      -- A worker would refuse its message. The wait varies, so that a flow's runs do not all become
      -- due at once.
      wait(k, run, now, 'paused', math.floor(number(arg.hold) * (0.5 + (jitter + order * 0.618) % 1)))
      word = 'in_line'
    elseif is_unmade(k, run, now) then -- It waits for the retry of a failed round.
      word = 'unmade'
    else
      unset(k, 'held_token', 'held_until')
      push(k, run, now)
      word = 'woken'
    end
  elseif run.phase == 'parked' then
    word = sweep_parked(k, run)
  elseif not run.i_until or number(run.i_until) > now then
    due_at(k, run, run.i_until and number(run.i_until))
    word = 'in_line'
  else
    set(k, 'i_answer', run.i_default or 'null')
    event(k, run, now, 'resumed', 'answer', run.i_default or 'null', 'by', 'deadline')
    set(k, 'resumed_at', whole(now), 'resumed_by', 'deadline')
    new_epoch(k, run, run.message)
    -- It was continued with its parent, which brings no message.
    if run.message == '' then wait(k, run, now, 'start', 0) else push(k, run, now) end
    word = 'answered'
  end
  if COUNTED[word] then tally(k, run, 'moves:' .. word, 1) end
  if word == 'unmade' then word = concat({ word, run.queue, run.epoch, run.step, run.phase }, ' ') end
  note(id, word)
end

-- Remove ended runs whose keys have expired from their index. Each run has its own retention.
-- Usually the oldest expire first. Another position is checked too, so that runs with a longer
-- retention do not hide others.
for _, index in ipairs({ base.completed, base.errored, index_of_children(base.completed), index_of_children(base.errored) }) do
  local size = pcall('ZCARD', index) -- indexes of children may be of a wrong type
  local anywhere = math.floor(jitter * (tonumber(size) or 0))
  for _, first in ipairs(tonumber(size) and { 0, anywhere } or {}) do
    local place = first
    for _ = 1, PIECES do
      local ended, gone = call('ZRANGE', index, place, place + FORGOTTEN - 1), {}
      for _, id in ipairs(ended) do
        if call('EXISTS', arg.prefix .. ':run:' .. id) == 0 then gone[#gone + 1] = id end
      end
      in_parts('ZREM', index, gone, 1, #gone)
      for _, id in ipairs(gone) do call('PEXPIREAT', mailbox_of({ run = arg.prefix .. ':run:' .. id }), 1) end
      place = place + #ended - #gone
      if #gone < FORGOTTEN / 4 then break end
    end
  end
end

-- The process that ended these runs has not made the call, or did not report it. The caller makes
-- it now. Later another sweep's caller gets the same calls.
local calls = calls_of(base.due)
local late = pcall('ZRANGEBYSCORE', calls, '-inf', now - CALLED, 'LIMIT', 0, CALLS)
if late.err then
  if find(late.err, 'WRONGTYPE', 1, true) then note(calls, 'damaged') end
  late = {}
end
for _, promised in ipairs(late) do call('ZADD', calls, 'XX', now + AGAIN, promised) end
-- The same for the children of runs.
local follow_ups = follow_ups_of(base.due)
local undone = pcall('ZRANGEBYSCORE', follow_ups, '-inf', now, 'LIMIT', 0, CALLS)
if undone.err then
  if find(undone.err, 'WRONGTYPE', 1, true) then note(follow_ups, 'damaged') end
  undone = {}
end
for _, id in ipairs(undone) do call('ZADD', follow_ups, 'XX', now + FOLLOWED, id) end
local _, next_due = unpack(call('ZRANGE', base.due, 0, 0, 'WITHSCORES'))
local due_in = next_due and math.max(0, math.min(lease, tonumber(next_due) - now))
return { report, handed, late, undone, due_in and { whole(due_in) } or {} }
