-- Topics: names from outside, of an order for example, each of which one live run holds at a time.
-- The hash topic:NAME has these fields:
--   run, nonce        the run that holds the topic. If it has completed, or is there no more, no run
--                     holds it. An errored or stopped one holds it until another run takes it.
--   before            lines ID NONCE: the newest runs that held it before, the newest one first
--   waiting           lines NUMBER UNTIL BYTES NAME KEY CONTENT ('-' without a key): the signals that
--                     wait for a run to take the topic, in their order
--   waiting:NUMBER    of each, the lines AT BY PAYLOAD (BY may be several)
-- While a run holds the topic, no signal waits there. parts/moves.lua has what the end of a run does
-- to its topic.
local BEFORE = 8 -- runs that held it before, whose mailboxes are searched for a sender's key

-- Return the topic as a table, or nil and the refusal.
local function read_topic(k, name, now)
  local key = topic_of(k.due, name)
  local texts = pcall('HMGET', key, 'run', 'nonce', 'before', 'waiting')
  if texts.err then return nil, { 'damaged', key } end
  local topic = { key = key, run = texts[1], nonce = texts[2] or '', before = texts[3] or '', text = texts[4] or '', waiting = {}, bytes = 0, newest = 0, over = {} }
  for place, until_, bytes, name, sent, content in string.gmatch(topic.text, '(%d+) (%d+) (%d+) (%S+) (%S+) (%S+)') do
    topic.newest = number(place)
    if number(until_) <= now then
      topic.over[#topic.over + 1] = 'waiting:' .. place
    else
      topic.bytes = topic.bytes + number(bytes)
      topic.waiting[#topic.waiting + 1] = { place = place, until_ = until_, bytes = bytes, name = name, key = sent ~= '-' and sent or nil, content = content }
    end
  end
  return topic
end

-- Return the keys of the run that holds the topic, or nil. The second result is the refusal if that
-- run is damaged, so that this is in doubt.
local function holder_of(k, topic)
  if not topic.run then return nil end
  local run_keys = keys_of_other(k, topic.run)
  local texts = pcall('HMGET', run_keys.run, 'nonce', 'phase')
  if texts.err then return nil, { 'damaged', run_keys.run } end
  local nonce, phase = unpack(texts)
  if nonce ~= topic.nonce or phase == 'completed' then return nil end
  if not PHASES[phase] then return nil, { 'damaged', run_keys.run } end
  return run_keys, nil, phase
end

-- Return the lines of `before`, with the topic's holder as the newest, and without the run that takes
-- the topic, if it held it before.
local function with_holder(topic, taker)
  local lines = topic.run and { topic.run .. ' ' .. topic.nonce } or {}
  for line in string.gmatch(topic.before, '[^\n]+') do
    if line ~= taker then lines[#lines + 1] = line end
  end
  return concat(lines, '\n', 1, math.min(#lines, BEFORE))
end

-- Return the refusal if another live run holds the topic, or that is in doubt. An errored or stopped
-- run gives way.
local function taken_by_another(k, topic)
  local holder, refusal, phase = holder_of(k, topic)
  if refusal then return refusal end
  if holder and phase ~= 'errored' and phase ~= 'stopped' then return { 'taken', topic.run } end
end

-- Return each message that was said under this key to the topic's holder or an earlier holder: the run's
-- id and phase, its mailbox, the message's number and its content.
local function said_to(k, topic, key)
  local found = {}
  for id, nonce in string.gmatch((topic.run or '-') .. ' ' .. topic.nonce .. '\n' .. topic.before, '(%S+) (%S+)') do
    local other = keys_of_other(k, id)
    local own, phase = unpack(pcall('HMGET', other.run, 'nonce', 'phase')) -- an error has no elements
    if own == nonce then
      local place, content = known_signal(other.mailbox, 'say', key)
      if place then found[#found + 1] = { id = id, phase = phase, mailbox = other.mailbox, place = place, content = content } end
    end
  end
  return found
end

-- Return whether its run has taken a message, or will: an earlier holder that went on after a stop.
local function is_heard(said, topic)
  local goes_on = said.id ~= topic.run and not ENDED[said.phase] and said.phase ~= 'stopped'
  return goes_on or number(call('HGET', said.mailbox, 'say:taken')) >= number(said.place)
end

-- The run that takes the topic gets these messages, and no other run does: none has taken them yet.
-- Signals are read by their numbers, so each stays in its place, with an empty payload, which readers
-- leave out.
local function move_messages(messages)
  for _, said in ipairs(messages) do
    local head, payload = match(call('HGET', said.mailbox, 'say:' .. said.place) or '', '^(.*\n)([^\n]*)$')
    if head then
      call('HSET', said.mailbox, 'say:' .. said.place, head)
      call('HINCRBY', said.mailbox, 'bytes', -#payload)
    end
  end
end

-- The run follows the last holder of the topic if both are of one thread.
local function follow(k, run, topic)
  local id = match(with_holder(topic), '^(%S+)')
  if id and pcall('HGET', key_of(k.due, id), 'thread_id') == run.thread_id then set(k, 'follows', id) end
end

-- The run takes the topic. The signals that waited there come into its mailbox, in their order. The
-- limits of the mailbox do not hold for them, since their senders know that they are stored.
local function take_topic(k, run, now, topic)
  call('PERSIST', topic.key) -- first: a worker whose permissions are of an earlier version fails here, and has changed nothing
  k.mailbox = mailbox_of(k)
  for _, waiting in ipairs(topic.waiting) do
    local at, by, payload = match(call('HGET', topic.key, 'waiting:' .. waiting.place) or '', '^(%d+)\n(.*)\n([^\n]*)$') -- a sender may have line breaks, JSON has none
    -- It may have been sent to the run itself as well, under the same key.
    local _, content = known_signal(k.mailbox, waiting.name, waiting.key)
    if not content or content ~= waiting.content then
      put_signal(k, run, now, { name = waiting.name, payload = payload or 'null', at = at or whole(now), by = by, key = waiting.key, content = waiting.content })
    end
    topic.over[#topic.over + 1] = 'waiting:' .. waiting.place
  end
  set(k, 'topic', arg.topic)
  call('HSET', topic.key, 'run', run.id, 'nonce', run.nonce, 'before', with_holder(topic, run.id .. ' ' .. run.nonce))
  in_parts('HDEL', topic.key, { 'waiting', unpack(topic.over) }, 1, 1 + #topic.over)
end
