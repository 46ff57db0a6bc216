-- The part with which every transition begins (worker/store/scripts.py): arguments, reads and checks.
--
-- KEYS of a transition of one run (worker/store/keys.py says what lives in each):
--   1 run hash   2 memory list   3 event stream   4 artifacts hash   5 idempotency key (the run hash again where there is none)
--   6 due set    7 queues hash   8..12 indexes: live interrupted stopped completed errored
--   13 paused flows   14.. the broker's lists
-- ARGV: first, in their order, the arguments that the script's line PLACES names, for these are sent for each round and a name is an
--   argument more ("" for one in brackets that is not given); then name, value pairs. After "=" and their number come names and values
--   to write into the run's hash as they are; after "--" a plain list. `now` (ms) stands in for the server's clock in tests; durations are
--   in ms.
--
-- Answers are arrays whose first element is a word. Scripts read and check everything first and write last: a server
-- undoes nothing of a script that fails half-way.

-- A third less time than by name. pcall is for what may be refused: a read of a key of a wrong type.
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local format, match, find, concat = string.format, string.match, string.find, table.concat

--@ arguments
local fields, fields_end = 1, 0 -- where they stand in ARGV
local rest -- and behind what the list stands
do
  local i, name = placed + 1, ARGV[placed + 1]
  while name and name ~= '=' and name ~= '--' do
    arg[name] = ARGV[i + 1]
    i = i + 2
    name = ARGV[i]
  end
  if name == '=' then
    fields = i + 2
    fields_end = fields + ARGV[i + 1] - 1
    i = fields_end + 1
  end
  rest = i
end

-- Lua's unpack is bounded by its stack (about 8,000); a run may hold more values than that.
local MOST_AT_ONCE = 200

-- What stands in `words` from `first` to `last`.
local function in_parts(command, key, words, first, last)
  for i = first, last, MOST_AT_ONCE do call(command, key, unpack(words, i, math.min(i + MOST_AT_ONCE - 1, last))) end
end

local PHASES = { -- phase -> the index it is listed in
  queued = 'live', leased = 'live', waiting = 'live', interrupted = 'interrupted',
  stopped = 'stopped', completed = 'completed', errored = 'errored',
}
local ENDED = { completed = true, errored = true }

local function clock()
  if arg.now then return tonumber(arg.now) end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local written, text_of_it -- a script writes the same time in many places
local function whole(number)
  if number ~= written then written, text_of_it = number, format('%d', number) end
  return text_of_it
end

-- Lua reads nan, inf, 0x10 and 1e3 as numbers, and counts exactly only to 2^53: none of these is a count or a time.
local function is_count(text) return text and #text <= 15 and find(text, '^%d+$') ~= nil end

local function number(text) return is_count(text) and tonumber(text) or 0 end

local function keys_of_one_run()
  local k = {
    run = KEYS[1], memory = KEYS[2], events = KEYS[3], artifacts = KEYS[4], idem = KEYS[5], due = KEYS[6], queues = KEYS[7],
    live = KEYS[8], interrupted = KEYS[9], stopped = KEYS[10], completed = KEYS[11], errored = KEYS[12], paused = KEYS[13], lists = {},
  }
  for i = 14, #KEYS do k.lists[KEYS[i]] = true end
  return k
end

-- The first key whose type is not the expected one. A transition need not ask of a key that it reads by pcall before it writes, nor of
-- one that it leaves alone.
local function mistyped(k)
  local types = { run = 'hash', memory = 'list', events = 'stream', artifacts = 'hash', due = 'zset', queues = 'hash', live = 'zset',
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

-- Counts and times. The first seven a run must have; from the seventh to the 23rd they are times.
local REQUIRED, TIMES = 7, 23
local NUMBERS = { 'epoch', 'step', 'token', 'attempt', 'resend', 'retention', 'created_at',
  'updated_at', 'started_at', 'queued_at', 'not_before', 'waiting_until', 'claimed_at', 'beat_at', 'lease_until', 'round_until',
  'held_until', 'deadline', 'i_until', 'stop_asked_at', 'stop_seen_at', 'stopped_at', 'ended_at',
  'failures', 'losses', 'number', 'first_number', 'grace', 'lease', 'lease_granted', 'round_timeout', 'i_wait', 'unknown', 'idle' }
local TEXTS = { 'id', 'flow', 'queue', 'message', 'current_node' }
local YEAR_10000 = '253402300800000' -- ms; no clock goes there, and nobody can read such a time

-- The key that belongs to a run of this id: whatever is under another one is a copy, and would move the other's due time and index.
local function key_of(due, id) return string.sub(due, 1, -#'due' - 1) .. 'run:' .. id end

-- The first control field that is missing or not what it should be.
local function malformed(k, run)
  local names, required = NUMBERS, REQUIRED
  local all, count = { unpack(names) }, 0 -- of this size from the start: a table that grows is made anew six times
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
  if not find(concat(all, '', 1, count), '^%d*$') then -- looked at together: one by one takes ten times as long
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

-- Whether a newer worker than the caller wrote the run: what is strange in it need not be damage.
local function newer(schema)
  return schema ~= arg.schema and arg.schema and is_count(schema) and number(schema) > number(arg.schema)
end

-- Why no message can be pushed to this list, as an answer; nil where one can, and how many have been.
local function unpushable(k, list)
  if not k.lists[list] then return { 'unknown_queue', list } end
  local pushed = pcall('HGET', k.queues, list .. ':pushed')
  if pushed and (type(pushed) == 'table' or not is_count(pushed)) then return { 'damaged', k.queues .. ' ' .. list .. ':pushed' } end
  return nil, pushed
end

local function table_of(flat)
  if not flat[1] then return nil end
  -- With room for 64 from the start, for which it takes half as many names: a table that grows is made anew six times.
  local run = { id = nil, nonce = nil, flow = nil, schema = nil, goal = nil, inputs = nil, status = nil, phase = nil, epoch = nil,
    step = nil, token = nil, attempt = nil, resend = nil, retention = nil, created_at = nil, updated_at = nil, started_at = nil,
    queued_at = nil, failures = nil, losses = nil, number = nil, grace = nil, lease_granted = nil, queue = nil, task = nil, message = nil,
    current_node = nil, last_node = nil, last_token = nil, last_answer = nil, last_fetched = nil, cycles = nil, turns = nil, digest = nil }
  for i = 1, #flat, 2 do run[flat[i]] = flat[i + 1] end
  return run
end

-- The run as a table, or nil and the answer that says why not. Its other keys may be of any type.
local function read_hash(k)
  local flat = pcall('HGETALL', k.run)
  if flat.err then return nil, { 'damaged', k.run } end
  local run = table_of(flat)
  if not run then return nil, { 'missing' } end
  local damaged = malformed(k, run)
  if damaged then return nil, { 'damaged', damaged } end
  return run, nil, flat
end

-- The same, where no key is of a wrong type.
local function read_run(k)
  local damaged = mistyped(k)
  if damaged then return nil, { 'damaged', damaged } end
  return read_hash(k)
end
