-- Part of commit_round: the commit of one round also pops the next message and claims its run.
--
-- A worker that dies between a pop and its claim loses the message. In one script there is no such
-- moment.
--
-- A message is claimed only if it equals, byte for byte, the message in its run's hash. A message
-- in a list is only a hint, and anyone may have written it. Any other message is returned without a
-- claim. The caller validates it like any delivery, and its own claim reports why the run cannot be
-- claimed.

-- Return the keys of another run, as far as a claim uses them.
local function another(k, id)
  local run = key_of(k.due, id)
  return { run = run, memory = run .. ':memory', due = k.due, queues = k.queues }
end

-- Pop the oldest message of the caller's lists. Return the list, the text, and the id of the run
-- that it seems to be of. Return nothing if the lists are empty.
local function pop(k)
  for list in string.gmatch(arg.fetch or '', '[^\n]+') do
    -- An ACL written for an older version may refuse the pop. Nothing is prefetched then, and the
    -- commit must not fail because of it.
    local text = k.lists[list] and pcall('RPOP', list)
    if type(text) == 'string' then
      -- Celery writes the arguments for people here. The id is only a guess, and is checked below.
      local _, behind = find(text, '"argsrepr": "(\'', 1, true)
      return list, text, behind and match(text, '^[%w_.:@-]+', behind + 1)
    end
  end
end

-- Claim the message that was popped, if possible, and add the writes to `promises` and `counted`,
-- as `grant` does. The caller has written its commit already. Return one text: `message LIST`,
-- BETWEEN and the message's text, or `claimed LIST`, BETWEEN and the GRANT. Return nil if nothing
-- was popped.
local function claimed(k, now, list, text, id, promises, counted)
  if not list then return nil end
  local own = id and another(k, id)
  local run, flat, _
  if id then run, _, flat = read_hash(own) end
  if run and run.message == text and run.phase == 'queued' and run.stop_current_execution ~= 'stop_requested' and plays(run)
    and pcall('HEXISTS', k.paused, run.flow) == 0 then
    local token, cursor = counters(own, run)
    local newest, turns = turns_of(own)
    if token and newest then
      return 'claimed ' .. list .. BETWEEN .. grant(own, run, flat, now, arg.fetch_claim, token, cursor, newest, turns, promises, counted)
    end
  end
  return 'message ' .. list .. BETWEEN .. text
end
