-- Fourth shared part, for commit_round alone: the commit of one round takes the next message too, and claims its run. Between a message
-- that was popped and its claim, a worker that dies loses the message; here there is nothing between them.
--
-- Only what is, byte for byte, the message that its run's hash stores is claimed: what stands in a list is a hint, and may be anybody's.
-- All else is handed over unclaimed, and its delivery is judged like any other. That the run cannot be claimed is no reason not to hand
-- over: the delivery's own claim says why, and moves what has to be moved.

-- Another run than the one that the transition is of, as far as claims touch it, or nil where it is not what it should be: its keys, its fields.
local function another(k, id)
  local run = key_of(k.due, id)
  local own = { run = run, memory = run .. ':memory', due = k.due, queues = k.queues, lists = k.lists, paused = k.paused }
  local read = redis.pcall('HGETALL', own.run)
  run = not read.err and table_of(read)
  if run and not mistyped({ memory = own.memory, paused = own.paused, lists = {} }) and not malformed(own, run) then return own, run end
end

local function wish()
  return { claim = arg.fetch_claim, owner = arg.owner, lease = arg.lease, known = arg.known, newest = arg.newest }
end

-- message LIST TEXT, or where its round could be claimed for the caller: claimed LIST GRANT (the text is in the run's fields)
local function claimed(k, now, list, text)
  -- Where Celery wrote the arguments for people to read; only a place to find the id, which is not relied on.
  local id = match(text, '"argsrepr": "%(\'([%w_.:@-]+)\'')
  local own, run
  if id then own, run = another(k, id) end
  local unclaimed = { 'message', list, text }
  if not own or run.message ~= text or run.phase ~= 'queued' or run.stop_current_execution == 'stop_requested' or not plays(run, wish())
    or call('HEXISTS', k.paused, run.flow) == 1 then return unclaimed end
  local newest, passed = counters(k, run)
  if not newest then return unclaimed end
  -- A commit sent again finds by it what it fetched. Nothing takes it away: the claim's own id says whether it is still meant.
  call('HSET', k.run, 'last_fetched', id)
  if own.run == k.run then run.last_fetched = id end
  return { 'claimed', list, grant(own, run, now, wish(), newest, passed) }
end

local function fetch(k, now)
  for list in string.gmatch(arg.fetch or '', '[^\n]+') do
    -- Where the user may not pop, by rights given before workers fetched, nothing is fetched: the commit stands, and must not fail for it.
    local text = k.lists[list] and redis.pcall('RPOP', list)
    if type(text) == 'string' then return claimed(k, now, list, text) end
  end
end

-- What this commit fetched when it was made: its reply may have been lost, and with it a claim.
local function fetched_before(k, now, id)
  if not arg.fetch or not id or id == '' then return nil end
  local own, run = another(k, id)
  if not run or run.phase ~= 'leased' or run.claim_id ~= arg.fetch_claim then return nil end
  return { 'claimed', run.queue, grant_of(own, now, run, wish(), run.token, run.attempt, run.lease_until) }
end
