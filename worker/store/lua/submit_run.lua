#!lua
-- submit_run: make a new run and push its first round, once per submission and idempotency key. A run
-- that takes a topic gets the signals that wait there into its mailbox.
--
-- KEYS  as in parts/run.lua; KEYS[5] is the idempotency key's; with [submitted_by], the last one is
--       the index of that submitter's runs
-- ARGV  [submitted_by], id, nonce (one per submission), [content] (digest of the submission, with
--       an idempotency key), [idempotency_key], phase (queued | waiting | interrupted), [delay]
--       (until the start of a waiting run), [deadline] (ms from now), [topic] (that the run takes),
--       [said] (the key of a message that may have been said to a run that held the topic before),
--       [said_content] (digest of its payload),
--       [step] (at which a fork begins; 0 by default), message, =field... After "--": the artifacts that the
--       run has from the beginning, as names and texts ([artifacts] is the number of both together), then the
--       turns of a fork
-- Returns
--   ok ID [WRITTEN]     The run is made. WRITTEN has the run's fields as one text (parts/grant.lua):
--                       the number of texts, then names and values. A repeated submission gets
--                       none.
--   existing ID         The idempotency key has this run, with the same content.
--   conflict ID         The idempotency key has this run, with other content.
--   exists ID           Another run has this id.
--   heard ID NUMBER     Run ID, which held the topic, has heard the message [said] under this number, or
--                       is live and will.
--   said_other ID       The key [said] belongs to another message, which was said to run ID.
--   taken ID            Another live run, ID, holds the topic.
--   damaged KEY         A key or field is damaged: nothing is written.
--   unknown_queue LIST  The run's queue is not one of ours: nothing is written.
--
-- The only transition without allow-oom: a full server refuses new work and keeps what it has.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/new_run.lua
--@ parts/mailbox.lua
--@ parts/topic.lua
local BETWEEN = '\31' -- explained in parts/grant.lua
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
for _, left_over in ipairs({ k.memory, k.events, k.artifacts, mailbox_of(k) }) do -- of a run whose hash is gone
  if call('EXISTS', left_over) == 1 then return { 'damaged', left_over } end
end

local topic
local moving = {} -- copies of the message that no run has taken
if arg.topic then
  local refusal
  topic, refusal = read_topic(k, arg.topic, now)
  if not topic then return refusal end
  if arg.said then
    moving = said_to(k, topic, arg.said)
    for _, said in ipairs(moving) do
      if arg.said_content and said.content ~= arg.said_content then return { 'said_other', said.id } end
      if is_heard(said, topic) then return { 'heard', said.id, said.place } end
    end
  end
  refusal = taken_by_another(k, topic)
  if refusal then return refusal end
end

local run = {}
for i = fields, fields_end, 2 do run[ARGV[i]] = ARGV[i + 1] end
local refusal = unpushable(k, run.queue)
if refusal then return refusal end

run.id, run.nonce, run.message, run.deadline = arg.id, arg.nonce, arg.message, arg.deadline and whole(now + number(arg.deadline))
run.step = arg.step
set_fields(k)
begin_run(k, run, now)
local artifacts = rest + (arg.artifacts or 0)
in_parts('HSET', k.artifacts, ARGV, rest + 1, artifacts)
in_parts('RPUSH', k.memory, ARGV, artifacts + 1, #ARGV)
if arg.content then
  call('SET', k.idem, arg.content .. ' ' .. arg.id)
  set(k, 'idem', arg.idempotency_key)
end
if topic then
  if run.thread_id then follow(k, run, topic) end
  take_topic(k, run, now, topic)
  move_messages(moving)
end
if submitted then
  -- Deleted runs are removed from their submitter's index here. Some of the oldest ids are checked,
  -- and some at another position, in case the oldest runs are kept for long. If most are deleted,
  -- each submission removes more ids than it adds.
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
