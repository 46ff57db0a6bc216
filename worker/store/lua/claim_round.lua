#!lua flags=allow-oom
-- claim_round: grant one delivery of a round's message the right to play that round.
--
-- KEYS  as in parts/run.lua
-- PLACES epoch step claim owner lease known newest back back_max hold [schema]
-- ARGV  epoch and step (of the message), claim (an id made for this delivery), owner (the worker),
--       lease, known (the flows that this worker plays, ",a,b,"), newest (number of turns wanted),
--       back and back_max (first and longest wait of a run whose flow is unknown), hold (wait of a
--       run whose flow is paused), [schema] (the newest that the worker reads)
-- Returns
--   ok GRANT        The round is leased to this claim (GRANT: parts/grant.lua). The same claim id gets
--                   the grant again.
--   missing         There is no such run.
--   stale           The run is in another epoch or step.
--   finished PHASE  The run has ended or is stopped.
--   early PHASE     The run is interrupted, waiting or parked.
--   leased          Another claim has the round.
--   stopped         A stop was requested: this claim stopped the run.
--   paused FLOW     The flow is paused: the run waits, without lease or attempt.
--   unknown FLOW    The worker does not play the flow: the run waits, without lease or attempt.
--   damaged WHAT    A key or field is damaged: nothing is written.
--
-- Only a queued run is granted, for exactly its epoch and step. A claim never compares times: only
-- the sweep and a stop `now` take a lease away, even a lapsed one. Each claim increments the token.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/grant.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal, flat = read_hash(k)
if not run then return refusal end

local this_round = run.epoch == arg.epoch and run.step == arg.step
local newest, turns = turns_of(k)
if not newest then return { 'damaged', k.memory } end
if this_round and run.phase == 'leased' and run.claim_id == arg.claim then return { 'ok', told(k, now, run, flat, newest, turns) } end
if not this_round then return { 'stale' } end
if ENDED[run.phase] or run.phase == 'stopped' then return { 'finished', run.phase } end
if run.phase == 'interrupted' or run.phase == 'waiting' or run.phase == 'parked' then return { 'early', run.phase } end
if run.phase == 'leased' then return { 'leased' } end
local stopping = run.stop_current_execution == 'stop_requested'
-- Checked before the flow, so that a paused run does not wait for a worker that plays it.
local paused = pcall('HEXISTS', k.paused, run.flow)
if not stopping and paused == 0 then
  local token, cursor = counters(k, run)
  if not token then return { 'damaged', cursor } end
  -- A grant writes only the run, the counters and the due time. So only these are checked.
  if type(pcall('ZCARD', k.due)) ~= 'number' then return { 'damaged', k.due } end
  if plays(run) then
    local promises, counted, granted = {}, {}
    granted = { 'ok', grant(k, run, flat, now, arg.claim, token, cursor, newest, turns, promises, counted) }
    promise(k, promises, counted)
    return granted
  end
end

--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
local damaged = mistyped(k)
if damaged then return { 'damaged', damaged } end
if stopping then
  stop_here(k, run, now, '')
  return { 'stopped' }
end
if paused == 1 then -- The run waits without a lease or an attempt.
  wait(k, run, now, 'paused', number(arg.hold))
  return { 'paused', run.flow }
end
-- The wait doubles each time. It is short at first, in case another worker plays the flow. It
-- grows, in case no worker does.
local refused = number(run.unknown) + 1
set(k, 'unknown', whole(refused))
wait(k, run, now, 'flow', math.min(number(arg.back) * 2 ^ (refused - 1), number(arg.back_max)))
return { 'unknown', run.flow }
