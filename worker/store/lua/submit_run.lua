#!lua
-- submit_run: make a new run and hand its first round over, once for each submission and each idempotency key.
-- KEYS  as in reading.lua; KEYS[5] is the idempotency key's; with `submitted_by`, the last is the index of that submitter's runs.
-- ARGV  [submitted_by], id, nonce (one a submission), [content] (digest of what was submitted, with an idempotency key),
--       phase (queued | waiting | interrupted), [delay] (waiting: until its start), message, =field...
-- Returns ok ID [WRITTEN] (the run's fields, told as claiming.lua tells them: how many texts, then each behind its name; not where the
--         same submission had made it before) | existing ID (same key, same content) | conflict ID | exists ID | damaged KEY | unknown_queue LIST
-- The only transition without allow-oom: a full server refuses new work and keeps what it has.
--@ reading.lua
--@ counting.lua
--@ moving.lua
local BETWEEN = '\31' -- claiming.lua says why
local k = keys_of_one_run()
local now = clock()
local submitted = arg.submitted_by and KEYS[#KEYS]
if submitted then k.lists[submitted] = nil end
local damaged = mistyped(k)
if submitted and not damaged then
  local found = call('TYPE', submitted).ok
  if found ~= 'none' and found ~= 'zset' then damaged = submitted end
end
if damaged then return { 'damaged', damaged } end

if call('EXISTS', k.run) == 1 and call('HGET', k.run, 'nonce') == arg.nonce then return { 'ok', arg.id } end

if arg.content then
  local found = call('TYPE', k.idem).ok
  if found ~= 'none' and found ~= 'string' then return { 'damaged', k.idem } end
  local known = call('GET', k.idem)
  if known then
    local content, id = match(known, '^(%S+) (%S+)$')
    if not id then return { 'damaged', k.idem } end
    return { content == arg.content and 'existing' or 'conflict', id }
  end
end
if call('EXISTS', k.run) == 1 then return { 'exists', arg.id } end
for _, left_over in ipairs({ k.memory, k.events, k.artifacts }) do -- of a run whose hash is gone: not this run's history
  if call('EXISTS', left_over) == 1 then return { 'damaged', left_over } end
end

local run = {}
for i = fields, fields_end, 2 do run[ARGV[i]] = ARGV[i + 1] end
local refusal = unpushable(k, run.queue)
if refusal then return refusal end

run.id, run.created_at, run.deadline = arg.id, whole(now), arg.deadline and whole(now + number(arg.deadline))
set_fields(k)
set(k, 'id', arg.id, 'nonce', arg.nonce, 'created_at', run.created_at, 'epoch', '0', 'step', '0', 'token', '0', 'attempt', '0',
  'failures', '0', 'losses', '0', 'number', '0', 'grace', run.resend, 'message', arg.message)
if run.deadline then set(k, 'deadline', run.deadline) end
if arg.content then
  call('SET', k.idem, arg.content .. ' ' .. arg.id)
  set(k, 'idem', arg.idempotency_key)
end
if submitted then
  -- A run that is gone leaves the index of its submitter when others are submitted: of the oldest, and of some anywhere, should the oldest be
  -- kept for long. Each submission takes out more than it adds, once most are gone.
  for _, first in ipairs({ 0, now % math.max(1, call('ZCARD', submitted)) }) do
    for _, count in ipairs({ 5, 45 }) do
      local ids, gone = call('ZRANGE', submitted, first, first + count - 1), {}
      for _, id in ipairs(ids) do
        if call('EXISTS', key_of(k.due, id)) == 0 then gone[#gone + 1] = id end
      end
      in_parts('ZREM', submitted, gone, 1, #gone)
      if #gone < count / 2 then break end
    end
  end
  call('ZADD', submitted, run.created_at, arg.id)
end
run.step, run.message, run.number, run.grace = '0', arg.message, '0', run.resend
event(k, run, now, 'submitted', 'flow', run.flow)
tally(k, run, 'moves:submitted', 1)
if arg.delay then set(k, 'not_before', whole(now + number(arg.delay))) end
if arg.phase == 'queued' then
  push(k, run, now)
elseif arg.phase == 'waiting' then
  wait(k, run, now, 'start', number(arg.delay))
else
  pause(k, run, now)
end
local written = call('HGETALL', k.run)
return { 'ok', arg.id, #written .. BETWEEN .. concat(written, BETWEEN) }
