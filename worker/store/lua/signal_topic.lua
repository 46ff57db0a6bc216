#!lua
-- signal_topic: put a signal into the mailbox of the run that holds a topic, and wake that run if it
-- waits for it. If no run holds the topic, the signal waits until a run takes it.
--
-- KEYS  the topic's five times, then from the sixth on as in parts/run.lua
-- ARGV  topic, name (of the signal), payload (JSON), [by] (the sender), [key] (the sender's own id of
--       the signal), [content] (digest of the payload, with a key), most, names and bytes as in
--       signal_run.lua, keep (ms for which the signal waits), and what may wait at most for a run:
--       most_waiting (signals) and bytes_waiting
-- Returns
--   ok ID NUMBER PHASE      Run ID has the signal, under this number among those of its name.
--   unmade ID NUMBER PHASE EPOCH STEP TASK QUEUE
--                           The same, and the run's wait is over: the caller brings its message
--                           (wake_run.lua). If it does not, the sweep asks for it.
--   waiting NUMBER          The signal waits for a run, under this number among those that wait.
--   conflict ID NUMBER      The key has this signal, with another payload; ID is '' if it waits.
--   full ID WHAT            Run ID has as many unread signals, names or bytes as it may have; or, if
--                           ID is '', as many signals or bytes wait as may wait.
--   damaged KEY             A key or field is damaged: nothing is written.
--
-- A repeated signal with a key gets its first number, also if it waited at first, or if the run that
-- has it held the topic before. Like a submission, a signal is refused by a server that is full.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/mailbox.lua
--@ parts/receive.lua
--@ parts/topic.lua
local shared = keys_of_one_run()
local now = clock()
shared.run, shared.memory, shared.events, shared.artifacts, shared.idem = nil, nil, nil, nil, nil
local damaged = mistyped(shared)
if damaged then return { 'damaged', damaged } end
local topic, refusal = read_topic(shared, arg.topic, now)
if not topic then return refusal end
local k, run
k, refusal = holder_of(shared, topic)
if refusal then return refusal end
if k then
  run, refusal = read_run(k)
  if not run then return refusal end
end

-- The key may be known where the topic's holder is, in the room of the topic, or where it was.
local function known(id, mailbox)
  local place, content = known_signal(mailbox, arg.name, arg.key)
  if not place then return nil end
  if content ~= arg.content then return { 'conflict', id, place } end
  return { 'ok', id, place, call('HGET', key_of(shared.due, id), 'phase') }
end
if arg.key then
  for _, waiting in ipairs(topic.waiting) do
    if waiting.name == arg.name and waiting.key == arg.key then
      if waiting.content ~= arg.content then return { 'conflict', '', waiting.place } end
      return { 'waiting', waiting.place }
    end
  end
  for id, nonce in string.gmatch((topic.run or '-') .. ' ' .. topic.nonce .. '\n' .. topic.before, '(%S+) (%S+)') do
    local other = keys_of_other(shared, id)
    local same = pcall('HGET', other.run, 'nonce') == nonce
    local reply = same and known(id, other.mailbox)
    if reply then return reply end
  end
end

if k then
  local reply = receive(k, run, now)
  table.insert(reply, 2, run.id)
  return reply
end

local entry = concat({ whole(now), arg.by or '', arg.payload }, '\n')
if #topic.waiting >= number(arg.most_waiting) then return { 'full', '', 'signals' } end
if topic.bytes + #entry > number(arg.bytes_waiting) then return { 'full', '', 'bytes' } end
local place, ends = whole(topic.newest + 1), whole(now + number(arg.keep))
local lines = {}
for _, waiting in ipairs(topic.waiting) do
  lines[#lines + 1] = concat({ waiting.place, waiting.until_, waiting.bytes, waiting.name, waiting.key or '-', waiting.content }, ' ')
end
lines[#lines + 1] = concat({ place, ends, whole(#entry), arg.name, arg.key or '-', arg.content or '-' }, ' ')
local is_new = call('EXISTS', topic.key) == 0
in_parts('HDEL', topic.key, topic.over, 1, #topic.over)
call('HSET', topic.key, 'waiting', concat(lines, '\n'), 'waiting:' .. place, entry)
-- A holder that is there no more, or that an earlier version completed, left its topic without an end.
if topic.run then
  call('HSET', topic.key, 'before', with_holder(topic))
  call('HDEL', topic.key, 'run', 'nonce')
  is_new = true
end
if is_new then call('PEXPIREAT', topic.key, ends) else call('PEXPIREAT', topic.key, ends, 'GT') end
return { 'waiting', place }
