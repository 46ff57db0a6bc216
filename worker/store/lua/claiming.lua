-- Third shared part, for the two transitions that claim: claim_round, and commit_round where it fetches. `wish` is who claims: the
-- arguments claim, owner, lease, known, newest of claim_round.lua.

local AHEAD = 1e12 -- tokens; at a thousand rounds a second, the work of thirty years

-- Whether a worker of this wish plays the run's flow: a run that a newer worker wrote is for newer workers, like one whose flow is not known.
local function plays(run, wish)
  return not newer(run.schema) and string.find(wish.known, ',' .. run.flow .. ',', 1, true) ~= nil
end

-- The newest token of all runs and the cursor of this one's list; nil where the run's token is so far ahead that it must be damaged: the
-- counter may have been lost, but granted, such a token would take all others' room to grow.
local function counters(k, run)
  local read = call('HMGET', k.queues, 'token', run.queue .. ':cursor')
  local newest = number(read[1])
  if number(run.token) <= newest + AHEAD then return newest, number(read[2]) end
end

-- What a claim's holder is told: [token, attempt, lease_until, now, turns, fields, newest turns (an object where there are none)]. In JSON, as a client reads one long text in a tenth of the time that it takes for a hundred short ones.
local function grant_of(k, now, run, wish, token, attempt, lease_until)
  local newest = call('LRANGE', k.memory, -number(wish.newest), -1)
  return cjson.encode({ token, attempt, lease_until, whole(now), call('LLEN', k.memory), run, newest })
end

-- Lease a queued run, none of whose keys is of a wrong type.
local function grant(k, run, now, wish, newest, passed)
  -- One counter for all runs: a worker of a run that was deleted and submitted again under its id holds no token of the new one.
  local token, attempt = whole(math.max(newest, number(run.token)) + 1), whole(number(run.attempt) + 1)
  local lease = math.max(number(run.lease), number(wish.lease))
  local lease_until = now + lease
  gather(k)
  enter(k, run, 'leased', now)
  set(k, 'token', token, 'attempt', attempt, 'claim_id', wish.claim, 'owner', wish.owner, 'lease_until', whole(lease_until),
    'lease_granted', whole(lease), 'claimed_at', whole(now))
  if run.looked ~= '0' then set(k, 'looked', '0') end
  if run.unknown ~= '0' then set(k, 'unknown', '0') end
  if not run.started_at then set(k, 'started_at', whole(now)) end
  if run.spared then unset(k, 'spared') end
  local limit = math.huge
  if run.round_timeout then limit = now + number(run.round_timeout) end
  if run.deadline then limit = math.min(limit, number(run.deadline)) end
  if limit < math.huge then
    -- One lease beyond the round's own limit, so that a round which notices its end can still commit it.
    set(k, 'round_until', whole(limit + lease))
  end
  due_at(k, run, lease_until)
  -- Which of its messages this one is, nobody can tell: by the last one's number, all runs behind the first would be passed.
  local place = run.first_number or run.number
  if number(place) > passed then
    call('HSET', k.queues, 'token', token, run.queue .. ':cursor', place)
  else
    call('HSET', k.queues, 'token', token)
  end
  for i = 1, #k.values, 2 do run[k.values[i]] = k.values[i + 1] end
  run.spared = nil
  write(k)
  return grant_of(k, now, run, wish, token, attempt, whole(lease_until))
end
