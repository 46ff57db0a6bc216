-- For commit_round alone: the commit of one round takes the next message too, and claims its run. Between a message that was popped and
-- its claim, a worker that dies loses the message; here there is nothing between them.
--
-- Only what is, byte for byte, the message that its run's hash stores is claimed: what stands in a list is a hint, and may be anybody's.
-- All else is handed over unclaimed, and its delivery is judged like any other. That the run cannot be claimed is no reason not to hand
-- over: the delivery's own claim says why, and moves what has to be moved.

-- Another run than the one that the transition is of: its keys, as far as claims touch them.
local function another(k, id)
  local run = key_of(k.due, id)
  return { run = run, memory = run .. ':memory', due = k.due, queues = k.queues }
end

-- Take the oldest message of the caller's lists: the list, the text, and the id of the run that it seems to be of. Nothing where there
-- is none.
local function pop(k)
  for list in string.gmatch(arg.fetch or '', '[^\n]+') do
    -- Where the user may not pop, by rights given before workers fetched, nothing is fetched: the commit stands, and must not fail for it.
    local text = k.lists[list] and pcall('RPOP', list)
    if type(text) == 'string' then
      -- Where Celery wrote the arguments for people to read; only a place to find the id, which is not relied on.
      local _, behind = find(text, '"argsrepr": "(\'', 1, true)
      return list, text, behind and match(text, '^[%w_.:@-]+', behind + 1)
    end
  end
end

-- What is still to be written for it is added to `promises` and `counted`, as `grant` does.
-- One text, with BETWEEN behind the list: message LIST TEXT, or where its round could be claimed for the caller: claimed LIST GRANT;
-- nothing where nothing was popped. The commit that popped it is written by now.
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

-- What this commit fetched when it was made: its reply may have been lost, and with it a claim. The claim's own id says whether it is
-- still meant.
local function fetched_before(k, now, id)
  if not arg.fetch or not id or id == '' then return nil end
  local own = another(k, id)
  local run, _, flat = read_hash(own)
  if not run or run.phase ~= 'leased' or run.claim_id ~= arg.fetch_claim then return nil end
  local newest, turns = turns_of(own)
  return newest and 'claimed ' .. run.queue .. BETWEEN .. told(now, run, flat, newest, turns)
end
