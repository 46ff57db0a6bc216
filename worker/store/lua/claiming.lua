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

-- Write what `grant` left to be written.
local function promise(k, promises, counted)
  call('ZADD', k.due, unpack(promises))
  call('HSET', k.queues, unpack(counted))
end

-- The newest of the run's turns, and how many it has; nil where they are no list.
local function turns_of(k)
  local newest = pcall('LRANGE', k.memory, '-' .. arg.newest, '-1')
  if newest.err then return nil end
  return newest, #newest < tonumber(arg.newest) and #newest or call('LLEN', k.memory)
end

-- Between texts that are told as one: a client reads one long text in a fifth of the time that it takes for a hundred short ones. JSON
-- never has this character (ASCII's own for the purpose); where another text has it, there are more texts than were told, and the client
-- reads the hash.
local BETWEEN = '\31'

-- A GRANT, what a claim's holder is told: "now turns texts id" (how many turns, how many texts), the run's fields, each behind its name,
-- its newest turns.
-- `changed`, where it is given, has fields as they are by now; like the turns it is added to `flat`.
local function told(now, run, flat, newest, turns, changed)
  local count = #flat
  if changed then
    for i = 1, #changed do flat[count + i] = changed[i] end
    count = count + #changed
  end
  for i = 1, #newest do flat[count + i] = newest[i] end
  return format('%d %d %d %s', now, turns, count, run.id) .. BETWEEN .. concat(flat, BETWEEN)
end

-- Lease a queued run under this claim id. `token` and `cursor` are the counters, `newest` and `turns` its turns. What is to be written to
-- the due set and to the queues hash is added to `promises` and `counted`, for the caller may have to write there too.
local function grant(k, run, flat, now, claim, token, cursor, newest, turns, promises, counted)
  -- One counter for all runs: a worker of a run that was deleted and submitted again under its id holds no token of the new one.
  token = whole(math.max(token, run.token) + 1)
  local lease = math.max(run.lease or 0, arg.lease)
  local at, lease_until = whole(now), whole(now + lease)
  local granted, changed = whole(lease), { 'phase', 'leased', 'token', token, 'attempt', whole(run.attempt + 1), 'claim_id', claim,
    'owner', arg.owner, 'lease_until', lease_until, 'updated_at', at, 'claimed_at', at }
  local count = #changed
  local function change(name, text) changed[count + 1], changed[count + 2], count = name, text, count + 2 end
  if run.lease_granted ~= granted then change('lease_granted', granted) end
  if not run.started_at then count_status(k, run, 'queued', 'running') end
  if not run.started_at then change('started_at', at) end
  -- Others have looked at the run.
  if run.looked == '1' then change('looked', '0') end
  if run.unknown and run.unknown ~= '0' then change('unknown', '0') end
  if run.round_timeout or run.deadline then
    local limit = math.min(run.round_timeout and now + run.round_timeout or math.huge, run.deadline or math.huge)
    -- One lease beyond the round's own limit, so that a round which notices its end can still commit it.
    change('round_until', whole(limit + lease))
  end
  call('HSET', k.run, unpack(changed))
  local due, counts = #promises, #counted
  promises[due + 1], promises[due + 2] = lease_until, run.id
  counted[counts + 1], counted[counts + 2] = 'token', token
  -- Which of its messages this one is, nobody can tell: by the last one's number, all runs behind the first would be passed.
  local place = run.first_number or run.number
  if number(place) > cursor then counted[counts + 3], counted[counts + 4] = run.queue .. ':cursor', place end
  return told(now, run, flat, newest, turns, changed)
end
