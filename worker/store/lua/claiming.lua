-- For the two transitions that claim: claim_round, and commit_round where it fetches. Both have of whoever claims the arguments owner,
-- lease, known and newest, and [schema], as claim_round.lua tells them.

local AHEAD = 1e12 -- tokens; at a thousand rounds a second, the work of thirty years

-- Whether the caller plays the run's flow: a run that a newer worker wrote is for newer workers, like one whose flow is not known.
local function plays(run)
  return not newer(run.schema) and find(arg.known, ',' .. run.flow .. ',', 1, true) ~= nil
end

-- The newest token of all runs and the cursor of this one's list, or nil and what is damaged: also where the run's token is so far ahead
-- that it must be. The counter may have been lost, but granted, such a token would take all others' room to grow.
local function counters(k, run)
  local read = pcall('HMGET', k.queues, 'token', run.queue .. ':cursor')
  if read.err then return nil, k.queues end
  local newest = number(read[1])
  if tonumber(run.token) > newest + AHEAD then return nil, 'token' end
  return newest, number(read[2])
end

-- The newest of the run's turns, and how many it has; nil where they are no list.
local function turns_of(k)
  local newest = pcall('LRANGE', k.memory, '-' .. arg.newest, '-1')
  if newest.err then return nil end
  return newest, #newest < tonumber(arg.newest) and #newest or call('LLEN', k.memory)
end

-- What a claim's holder is told: [token, attempt, lease_until, now, turns, fields, newest turns (an object where there are none)]. In
-- JSON, as a client reads one long text in a fifth of the time that it takes for a hundred short ones. Without the message, which is
-- long and full of quotes: that is told as it is, before this.
local function told(now, run, newest, turns)
  run.message = nil
  return cjson.encode({ run.token, run.attempt, run.lease_until, whole(now), turns, run, newest })
end

-- Lease a queued run under this claim id. `token` and `cursor` are the counters, `newest` and `turns` its turns.
local function grant(k, run, now, claim, token, cursor, newest, turns)
  -- One counter for all runs: a worker of a run that was deleted and submitted again under its id holds no token of the new one.
  token = whole(math.max(token, run.token) + 1)
  local lease = math.max(run.lease or 0, arg.lease)
  local at, lease_until, attempt, granted = whole(now), whole(now + lease), whole(run.attempt + 1), whole(lease)
  call('HSET', k.run, 'phase', 'leased', 'token', token, 'attempt', attempt, 'claim_id', claim, 'owner', arg.owner, 'lease_until',
    lease_until, 'lease_granted', granted, 'updated_at', at, 'claimed_at', at)
  run.phase, run.token, run.attempt, run.claim_id, run.owner, run.lease_until = 'leased', token, attempt, claim, arg.owner, lease_until
  run.lease_granted, run.updated_at, run.claimed_at = granted, at, at
  if not run.started_at or run.looked ~= '0' or run.unknown ~= '0' then -- the first claim; one after others looked at the run
    if not run.started_at then count_status(k, run, 'queued', 'running') end
    run.started_at, run.looked, run.unknown = run.started_at or at, '0', '0'
    call('HSET', k.run, 'started_at', run.started_at, 'looked', '0', 'unknown', '0')
  end
  if run.round_timeout or run.deadline then
    local limit = math.min(run.round_timeout and now + run.round_timeout or math.huge, run.deadline or math.huge)
    -- One lease beyond the round's own limit, so that a round which notices its end can still commit it.
    run.round_until = whole(limit + lease)
    call('HSET', k.run, 'round_until', run.round_until)
  end
  call('ZADD', k.due, lease_until, run.id)
  -- Which of its messages this one is, nobody can tell: by the last one's number, all runs behind the first would be passed.
  local place = run.first_number or run.number
  if number(place) > cursor then
    call('HSET', k.queues, 'token', token, run.queue .. ':cursor', place)
  else
    call('HSET', k.queues, 'token', token)
  end
  return told(now, run, newest, turns)
end
