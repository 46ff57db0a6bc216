#!lua flags=allow-oom
-- claim_round: grant one delivery of a round's message the right to play that round.
-- KEYS  as in reading.lua.
-- ARGV  epoch, step (what the message says), claim (id made once a delivery), owner (worker), lease,
--       known (flows this worker plays, ",a,b,"), [schema] (the newest it reads), back, back_max (waits before a run of another flow is offered again), newest (turns wanted),
--       hold (until a run of a paused flow is looked at, should nobody unpause it)
-- Returns ok GRANT (see claiming.lua) | missing | stale | finished PHASE | early PHASE | leased |
--         stopped | paused FLOW | unknown FLOW | damaged WHAT
-- It is granted only to a queued run, for exactly its epoch and step; it never judges time: a lapsed lease is the sweep's.
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end

local this_round = run.epoch == arg.epoch and run.step == arg.step
if this_round and run.phase == 'leased' and run.claim_id == arg.claim then
  return { 'ok', grant_of(k, now, run, arg, run.token, run.attempt, run.lease_until) }
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
if call('HEXISTS', k.paused, run.flow) == 1 then
  wait(k, run, now, 'paused', number(arg.hold))
  return { 'paused', run.flow }
end
local newest, passed = counters(k, run)
if not newest then return { 'damaged', 'token' } end
if not plays(run, arg) then
  -- Offered again after a wait that doubles: soon, should another worker know the flow, and cheaply, should nobody.
  local refused = number(run.unknown) + 1
  set(k, 'unknown', whole(refused))
  wait(k, run, now, 'flow', math.min(number(arg.back) * 2 ^ (refused - 1), number(arg.back_max)))
  return { 'unknown', run.flow }
end
return { 'ok', grant(k, run, now, arg, newest, passed) }
