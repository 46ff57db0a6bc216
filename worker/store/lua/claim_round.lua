#!lua flags=allow-oom
-- claim_round: grant one delivery of a round's message the right to play that round.
-- KEYS  as in reading.lua.
-- ARGV  epoch, step (what the message says), claim (id made once a delivery), owner (worker), lease,
--       known (flows this worker plays, ",a,b,"), [schema] (the newest it reads), back, back_max (waits before a run of another flow is offered again), newest (turns wanted),
--       hold (until a run of a paused flow is looked at, should nobody unpause it)
-- Returns ok TOKEN ATTEMPT LEASE_UNTIL NOW TURNS FIELDS NEWEST | missing | stale | finished PHASE | early PHASE | leased |
--         stopped | paused FLOW | unknown FLOW | damaged WHAT
-- It is granted only to a queued run, for exactly its epoch and step; it never judges time: a lapsed lease is the sweep's.
local AHEAD = 1e12 -- tokens; at a thousand rounds a second, the work of thirty years
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end

local function granted(token, attempt, lease_until)
  return { 'ok', token, attempt, lease_until, whole(now), redis.call('LLEN', k.memory), redis.call('HGETALL', k.run),
    redis.call('LRANGE', k.memory, -number(arg.newest), -1) }
end

local this_round = run.epoch == arg.epoch and run.step == arg.step
if this_round and run.phase == 'leased' and run.claim_id == arg.claim then
  return granted(run.token, run.attempt, run.lease_until)
end
if not this_round then return { 'stale' } end
if ENDED[run.phase] or run.phase == 'stopped' then return { 'finished', run.phase } end
if run.phase == 'interrupted' or run.phase == 'waiting' then return { 'early', run.phase } end
if run.phase == 'leased' then return { 'leased' } end
if run.stop_current_execution == 'stop_requested' then
  stop_here(k, run, now, '')
  return { 'stopped' }
end
-- Before the flow is asked for: no worker is offered a round of a paused one. It waits without lease or attempt.
if redis.call('HEXISTS', k.paused, run.flow) == 1 then
  wait(k, run, now, 'paused', number(arg.hold))
  return { 'paused', run.flow }
end
-- One counter for all runs: a worker of a run that was deleted and submitted again under its id holds no token of the new one.
local newest = number(redis.call('HGET', k.queues, 'token'))
-- The counter may have been lost, but no run is so far ahead of it: granted, such a token would take all others' room to grow.
if number(run.token) > newest + AHEAD then return { 'damaged', 'token' } end
-- A run that a newer worker wrote is for newer workers, like one whose flow is not known here.
if newer(run.schema) or not string.find(arg.known, ',' .. run.flow .. ',', 1, true) then
  -- Offered again after a wait that doubles: soon, should another worker know the flow, and cheaply, should nobody.
  local refused = number(run.unknown) + 1
  set(k, 'unknown', whole(refused))
  wait(k, run, now, 'flow', math.min(number(arg.back) * 2 ^ (refused - 1), number(arg.back_max)))
  return { 'unknown', run.flow }
end

local token, attempt = whole(math.max(newest, number(run.token)) + 1), whole(number(run.attempt) + 1)
local lease = math.max(number(run.lease), number(arg.lease))
local lease_until = now + lease
redis.call('HSET', k.queues, 'token', token)
enter(k, run, 'leased', now)
set(k, 'token', token, 'attempt', attempt, 'claim_id', arg.claim, 'owner', arg.owner, 'lease_until', whole(lease_until),
  'lease_granted', whole(lease), 'claimed_at', whole(now), 'looked', '0', 'unknown', '0')
redis.call('HSETNX', k.run, 'started_at', whole(now))
redis.call('HDEL', k.run, 'spared')
local limit = math.huge
if run.round_timeout then limit = now + number(run.round_timeout) end
if run.deadline then limit = math.min(limit, number(run.deadline)) end
if limit < math.huge then
  -- One lease beyond the round's own limit, so that a round which notices its end can still commit it.
  set(k, 'round_until', whole(limit + lease))
end
due_at(k, run, lease_until)
local cursor = run.queue .. ':cursor'
-- Which of its messages this one is, nobody can tell: by the last one's number, all runs behind the first would be passed.
local place = run.first_number or run.number
if number(place) > number(redis.call('HGET', k.queues, cursor)) then redis.call('HSET', k.queues, cursor, place) end
return granted(token, attempt, whole(lease_until))
