-- The first part of nearly every transition of a run: what it reads, and the checks.
--
-- KEYS of a transition of one run (worker/store/keys.py describes what each holds):
--   1 run hash   2 memory list   3 event stream   4 artifacts hash
--   5 idempotency key (the run hash again for a run without one)
--   6 due set    7 queues hash   8..12 indexes: live interrupted stopped completed errored
--   13 paused flows   14.. the broker's lists
-- Replies are arrays whose first element is a word.
--@ parts/arguments.lua
local PHASES = { -- phase -> the index it is listed in
  queued = 'live', leased = 'live', waiting = 'live', parked = 'live', interrupted = 'interrupted',
  stopped = 'stopped', completed = 'completed', errored = 'errored',
}
local ENDED = { completed = true, errored = true }

local function keys_of_one_run()
  local k = {
    run = KEYS[1], memory = KEYS[2], events = KEYS[3], artifacts = KEYS[4], idem = KEYS[5], due = KEYS[6], queues = KEYS[7],
    live = KEYS[8], interrupted = KEYS[9], stopped = KEYS[10], completed = KEYS[11], errored = KEYS[12], paused = KEYS[13], lists = {},
  }
  for i = 14, #KEYS do k.lists[KEYS[i]] = true end
  return k
end

-- The hash of the signals that were sent to the run (parts/waits.lua). Few runs have one, so its name
-- is derived.
local function mailbox_of(k) return k.run .. ':mailbox' end

-- The stream of what the run's rounds have shown before their commits (show_text.lua). No id of a run
-- holds a slash.
local function live_text_of(k) return k.run .. ':text/' end

-- The hash of a group of child runs, and the names of a run's groups (parts/family.lua).
local function group_of(k, name) return k.run .. ':group/' .. name end
local function groups_of(run) return string.gmatch(run.groups or '', '%S+') end

-- The index of child runs beside an index of all other runs.
local function index_of_children(index) return index .. ':children' end

-- Return the first key of a wrong type. A transition need not check a key that it first reads by
-- pcall, nor a key that it does not use.
local function mistyped(k)
  local types = { run = 'hash', memory = 'list', events = 'stream', artifacts = 'hash', mailbox = 'hash', group = 'hash', due = 'zset', queues = 'hash', live = 'zset',
    interrupted = 'zset', stopped = 'zset', completed = 'zset', errored = 'zset', paused = 'hash' }
  for name, wanted in pairs(types) do
    if k[name] then
      local found = call('TYPE', k[name]).ok
      if found ~= 'none' and found ~= wanted then return k[name] end
    end
  end
  for list in pairs(k.lists) do
    local found = call('TYPE', list).ok
    if found ~= 'none' and found ~= 'list' then return list end
  end
end

-- Fields with counts and times. The first seven are required. The seventh to the 24th are times.
local REQUIRED, TIMES = 7, 24
local NUMBERS = { 'epoch', 'step', 'token', 'attempt', 'resend', 'retention', 'created_at',
  'updated_at', 'started_at', 'queued_at', 'not_before', 'waiting_until', 'wait_until', 'claimed_at', 'beat_at', 'lease_until', 'round_until',
  'held_until', 'deadline', 'i_until', 'stop_asked_at', 'stop_seen_at', 'stopped_at', 'ended_at',
  'failures', 'losses', 'number', 'first_number', 'grace', 'lease', 'lease_granted', 'round_timeout', 'i_wait', 'unknown', 'idle' }
local TEXTS = { 'id', 'flow', 'queue', 'message', 'current_node' }
-- Milliseconds: the first time that cannot be shown with a four-digit year.
local YEAR_10000 = '253402300800000'

-- Return the first control field that is missing or invalid.
local function malformed(k, run)
  local names, required = NUMBERS, REQUIRED
  -- Allocated in full, since a table that grows is allocated six times.
  local all, count = { unpack(names) }, 0
  for i = 1, #names do
    local text = run[names[i]]
    if text then
      local length = #text
      if length == 0 or length > 14 and (length > 15 or i >= required and i <= TIMES and text >= YEAR_10000) then return names[i] end
      count = count + 1
      all[count] = text
    elseif i <= required then
      return names[i]
    end
  end
  -- Checked together, since one by one takes ten times as long.
  if not find(concat(all, '', 1, count), '^%d*$') then
    for _, name in ipairs(names) do
      if run[name] and not is_count(run[name]) then return name end
    end
  end
  for i = 1, #TEXTS do
    if not run[TEXTS[i]] then return TEXTS[i] end
  end
  if k.run ~= key_of(k.due, run.id) then return 'id' end
  if not PHASES[run.phase or ''] then return 'phase' end
  if run.phase == 'interrupted' and not run.i_id then return 'i_id' end
  if run.phase == 'leased' and not run.lease_until then return 'lease_until' end
  if run.phase == 'leased' and not run.lease_granted then return 'lease_granted' end
  if run.i_id then
    for _, name in ipairs({ 'i_status', 'i_node', 'i_reason' }) do
      if not run[name] then return name end
    end
  end
end

-- Return whether a newer worker than the caller wrote the run. Such a run may look damaged without
-- being so.
local function newer(schema)
  return schema ~= arg.schema and arg.schema and is_count(schema) and number(schema) > number(arg.schema)
end

-- Return the refusal if no message can be pushed to this list. Otherwise return nil and the number
-- of messages pushed so far.
local function unpushable(k, list)
  if not k.lists[list] then return { 'unknown_queue', list } end
  local pushed = pcall('HGET', k.queues, list .. ':pushed')
  if pushed and (type(pushed) == 'table' or not is_count(pushed)) then return { 'damaged', k.queues .. ' ' .. list .. ':pushed' } end
  return nil, pushed
end

local function table_of(flat)
  if not flat[1] then return nil end
  -- These names allocate room for 64 fields, since a table that grows is allocated six times.
  local run = { id = nil, nonce = nil, flow = nil, schema = nil, goal = nil, inputs = nil, status = nil, phase = nil, epoch = nil,
    step = nil, token = nil, attempt = nil, resend = nil, retention = nil, created_at = nil, updated_at = nil, started_at = nil,
    queued_at = nil, failures = nil, losses = nil, number = nil, grace = nil, lease_granted = nil, queue = nil, task = nil, message = nil,
    current_node = nil, last_node = nil, last_token = nil, last_answer = nil, last_fetched = nil, cycles = nil, turns = nil, digest = nil }
  for i = 1, #flat, 2 do run[flat[i]] = flat[i + 1] end
  return run
end

-- Return whether the run is parked and does not say what for. A commit, which does not read these
-- fields, is refused by its token.
local function is_without_wait(run)
  return run.phase == 'parked' and not (run.wait and run.wait_for and run.wait_over)
end

-- Return the run as a table, or nil and the refusal. The types of the run's other keys are not
-- checked.
local function read_hash(k)
  local flat = pcall('HGETALL', k.run)
  if flat.err then return nil, { 'damaged', k.run } end
  local run = table_of(flat)
  if not run then return nil, { 'missing' } end
  local damaged = malformed(k, run) or is_without_wait(run) and 'wait'
  if damaged then return nil, { 'damaged', damaged } end
  return run, nil, flat
end

-- Return the run as `read_hash` does, after a check of the types of all keys.
local function read_run(k)
  local damaged = mistyped(k)
  if damaged then return nil, { 'damaged', damaged } end
  return read_hash(k)
end
