-- Fourth shared part, for commit_round alone: the commit of one round takes the next message too, and claims its run. Between a message
-- that was popped and its claim, a worker that dies loses the message; here there is nothing between them.
--
-- Only what is, byte for byte, the message that its run's hash stores is claimed: what stands in a list is a hint, and may be anybody's.
-- All else is handed over unclaimed, and its delivery is judged like any other. That the run cannot be claimed is no reason not to hand
-- over: the delivery's own claim says why, and moves what has to be moved.

-- The keys of another run than the one that the transition is of.
local function keys_of_another(k, id)
  local other = {}
  for name, key in pairs(k) do other[name] = key end
  other.run = key_of(k.due, id)
  other.memory, other.events, other.artifacts, other.idem = other.run .. ':memory', other.run .. ':events', other.run .. ':artifacts', other.run
  return other
end

local function wish()
  return { claim = arg.fetch_claim, owner = arg.owner, lease = arg.lease, known = arg.known, newest = arg.newest }
end

-- LIST TEXT, the grant where there is one; then the id of the run that was claimed.
local function claimed(k, now, list, text)
  -- Where Celery wrote the arguments for people to read; only a place to find the id, which is not relied on.
  local id = string.match(text, '"argsrepr": "%(\'([%w_.:@-]+)\'')
  local own = id and keys_of_another(k, id)
  if not own or redis.call('TYPE', own.run).ok ~= 'hash' or redis.call('HGET', own.run, 'message') ~= text then return { list, text } end
  local run = read_run(own)
  if not run or run.phase ~= 'queued' or run.stop_current_execution == 'stop_requested' or not plays(run, wish())
    or redis.call('HEXISTS', k.paused, run.flow) == 1 then return { list, text } end
  local newest = newest_token(k, run)
  if not newest then return { list, text } end
  return { list, text, grant(own, run, now, wish(), newest) }, id
end

local function fetch(k, now)
  for list in string.gmatch(arg.fetch or '', '[^\n]+') do
    local text = k.lists[list] and redis.call('RPOP', list)
    if text then return claimed(k, now, list, text) end
  end
end

-- What this commit fetched when it was made: its reply may have been lost, and with it a claim.
local function fetched_before(k, now, id)
  if not arg.fetch or not id or id == '' then return nil end
  local own = keys_of_another(k, id)
  local run = read_run(own)
  if not run or run.phase ~= 'leased' or run.claim_id ~= arg.fetch_claim then return nil end
  return { run.queue, run.message, grant_of(own, now, wish(), run.token, run.attempt, run.lease_until) }
end
