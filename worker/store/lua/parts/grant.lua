-- Part of the two transitions that claim: claim_round, and commit_round if it prefetches. Both have
-- the arguments owner, lease, known, newest and [schema], as described in claim_round.lua.

local AHEAD = 1e12 -- tokens: at a thousand rounds a second, the work of thirty years

-- Return whether the caller can play the run. It must know the flow, and the run must not be of a
-- newer schema: such a run is for newer workers.
local function plays(run)
  return not newer(run.schema) and find(arg.known, ',' .. run.flow .. ',', 1, true) ~= nil
end

-- Return the newest token of all runs and the cursor of this run's list. If something is damaged,
-- return nil and its name. A run's token that is far ahead of the counter counts as damaged. The
-- counter may have been lost, but such a token would leave no room for further tokens.
local function counters(k, run)
  local read = pcall('HMGET', k.queues, 'token', run.queue .. ':cursor')
  if read.err then return nil, k.queues end
  local newest = number(read[1])
  if tonumber(run.token) > newest + AHEAD then return nil, 'token' end
  return newest, number(read[2])
end

-- Write what `grant` added to `promises` and `counted`.
local function promise(k, promises, counted)
  call('ZADD', k.due, unpack(promises))
  call('HSET', k.queues, unpack(counted))
end

-- Return the run's newest turns and the number of all its turns, or nil if the key is not a list.
local function turns_of(k)
  local newest = pcall('LRANGE', k.memory, '-' .. arg.newest, '-1')
  if newest.err then return nil end
  return newest, #newest < tonumber(arg.newest) and #newest or call('LLEN', k.memory)
end

-- Separates texts in a reply that is one long text. A client reads one long text in a fifth of the
-- time that it needs for a hundred short ones. JSON never contains this character. If another text
-- does, the client receives more texts than the count, and reads the hash instead.
local BETWEEN = '\31'

-- Add to `flat` what may have ended the run's wait, as names and texts, and return the number of these
-- texts. The round asks for it first, and is spared another request. For each signal that is waited for,
-- that is NAME:last, NAME:taken, and the next unread one as NAME:NUMBER, as they are in the mailbox. For
-- a small group of children, it is each field of the group as `:GROUP FIELD`.
--
-- Each script makes its functions anew, at a price for each outer local that they use. Few rounds have
-- waited, so this one uses none.
local function waited_for(k, run, flat)
  local most, before = 24, #flat -- fields of a small group
  local function add(name, text) flat[#flat + 1], flat[#flat + 2] = name, text end
  for name in string.gmatch(run.wait_for, '(%S+) %d+[%d ]*') do
    if string.sub(name, 1, 1) == ':' then
      local group = k.run .. ':group/' .. string.sub(name, 2)
      local size = redis.pcall('HLEN', group)
      if type(size) == 'number' and size <= most then
        local fields = redis.call('HGETALL', group)
        for i = 1, #fields, 2 do add(name .. ' ' .. fields[i], fields[i + 1]) end
      end
    else
      local mailbox = k.run .. ':mailbox'
      local counts = redis.pcall('HMGET', mailbox, name .. ':last', name .. ':taken') -- an error has no elements
      local taken = counts[2] or '0'
      local next_one = name .. ':' .. string.format('%d', (tonumber(taken) or 0) + 1)
      local text = counts[1] and redis.call('HGET', mailbox, next_one)
      if text then
        add(name .. ':last', counts[1])
        add(name .. ':taken', taken)
        add(next_one, text)
      end
    end
  end
  return #flat - before
end

-- Return a GRANT, the reply to a claim's holder. It begins with "now turns fields waited id": the
-- numbers of all turns, and of the texts of fields and of what it waited for. The run's fields as names
-- and values, its newest turns and what it waited for follow. `changed` has newer values of fields. Like
-- the turns it is added to `flat`.
local function told(k, now, run, flat, newest, turns, changed)
  local count = #flat
  if changed then
    for i = 1, #changed do flat[count + i] = changed[i] end
    count = count + #changed
  end
  for i = 1, #newest do flat[count + i] = newest[i] end
  local waited = run.wait_for and waited_for(k, run, flat) or 0
  return format('%d %d %d %d %s', now, turns, count, waited, run.id) .. BETWEEN .. concat(flat, BETWEEN)
end

-- Lease a queued run to this claim id. `token` and `cursor` are the counters, `newest` and `turns`
-- the run's turns. Writes to the due set and the queues hash are only added to `promises` and
-- `counted`, since the caller may have to write there too.
local function grant(k, run, flat, now, claim, token, cursor, newest, turns, promises, counted)
  -- One counter serves all runs. So if a run is deleted and submitted again under its id, a worker
  -- of the old run has no token of the new one.
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
  -- Earlier marks of the sweep no longer apply.
  if run.looked == '1' then change('looked', '0') end
  if run.unknown and run.unknown ~= '0' then change('unknown', '0') end
  if run.round_timeout or run.deadline then
    local limit = math.min(run.round_timeout and now + run.round_timeout or math.huge, run.deadline or math.huge)
    -- One lease after the round's own limit, so that a round that stops at its limit can still
    -- commit.
    change('round_until', whole(limit + lease))
  end
  call('HSET', k.run, unpack(changed))
  local due, counts = #promises, #counted
  promises[due + 1], promises[due + 2] = lease_until, run.id
  counted[counts + 1], counted[counts + 2] = 'token', token
  -- With an outbox a round may have several messages, and the claim does not show which one it came
  -- from. With the last one's number, the cursor would pass all runs behind the first one.
  local place = run.first_number or run.number
  if number(place) > cursor then counted[counts + 3], counted[counts + 4] = run.queue .. ':cursor', place end
  return told(k, now, run, flat, newest, turns, changed)
end
