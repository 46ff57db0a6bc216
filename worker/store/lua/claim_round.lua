#!lua flags=allow-oom
-- claim_round: grant one delivery of a round's message the right to play that round.
-- KEYS  as in reading.lua.
-- PLACES epoch step claim owner lease known newest back back_max hold [schema]
-- ARGV  epoch, step (what the message says), claim (id made once a delivery), owner (worker), lease,
--       known (flows this worker plays, ",a,b,"), [schema] (the newest it reads), back, back_max (waits before a run of another flow is offered again), newest (turns wanted),
--       hold (until a run of a paused flow is looked at, should nobody unpause it)
-- Returns ok GRANT (see claiming.lua) | missing | stale | finished PHASE | early PHASE | leased |
--         stopped | paused FLOW | unknown FLOW | damaged WHAT
-- It is granted only to a queued run, for exactly its epoch and step; it never judges time: a lapsed lease is the sweep's.
--@ reading.lua
--@ counting.lua
--@ claiming.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal, flat = read_hash(k)
if not run then return refusal end

local this_round = run.epoch == arg.epoch and run.step == arg.step
local newest, turns = turns_of(k)
if not newest then return { 'damaged', k.memory } end
if this_round and run.phase == 'leased' and run.claim_id == arg.claim then return { 'ok', told(now, run, flat, newest, turns) } end
if not this_round then return { 'stale' } end
if ENDED[run.phase] or run.phase == 'stopped' then return { 'finished', run.phase } end
if run.phase == 'interrupted' or run.phase == 'waiting' then return { 'early', run.phase } end
if run.phase == 'leased' then return { 'leased' } end
local stopping = run.stop_current_execution == 'stop_requested'
-- Before the flow is asked for: no worker is offered a round of a paused one.
local paused = pcall('HEXISTS', k.paused, run.flow)
if not stopping and paused == 0 then
  local token, cursor = counters(k, run)
  if not token then return { 'damaged', cursor } end
  -- Nothing else is written for a lease than the run, the counters and the time when it is due.
  if type(pcall('ZCARD', k.due)) ~= 'number' then return { 'damaged', k.due } end
  if plays(run) then
    local promises, counted, granted = {}, {}
    granted = { 'ok', grant(k, run, flat, now, arg.claim, token, cursor, newest, turns, promises, counted) }
    promise(k, promises, counted)
    return granted
  end
end

--@ moving.lua
local damaged = mistyped(k)
if damaged then return { 'damaged', damaged } end
if stopping then
  stop_here(k, run, now, '')
  return { 'stopped' }
end
if paused == 1 then -- it waits without lease or attempt
  wait(k, run, now, 'paused', number(arg.hold))
  return { 'paused', run.flow }
end
-- Offered again after a wait that doubles: soon, should another worker know the flow, and cheaply, should nobody.
local refused = number(run.unknown) + 1
set(k, 'unknown', whole(refused))
wait(k, run, now, 'flow', math.min(number(arg.back) * 2 ^ (refused - 1), number(arg.back_max)))
return { 'unknown', run.flow }
