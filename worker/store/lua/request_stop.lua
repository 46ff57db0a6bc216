#!lua flags=allow-oom
-- request_stop: ask a run to stop, and stop it at once if no worker holds it.
--
-- KEYS  as in parts/run.lua
-- ARGV  op (operation id), mode (graceful | now), [by], [reason]
-- Returns
--   WORD PHASE ASKED_AT SEEN_AT STOPPED_AT STEP DOUBT
--       WORD is finished (the run had ended or was stopped already), asked (the round in flight may
--       still finish) or stopped. Times are in ms, 0 for "not yet". DOUBT is - for none.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--
-- A repeated operation gets its first reply. `now` may follow graceful, but not the reverse.
-- `now` fences the lease at once. Its token is held until the lease's end or the old worker's late
-- commit, so that no other worker is in the step meanwhile.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/operations.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local repeated = reply_of(run, arg.op)
if repeated then return repeated end

local function reply(word, phase)
  local doubt = call('HGET', k.run, 'in_doubt') or ''
  local words = { word, phase, run.stop_asked_at or '0', run.stop_seen_at or '0', word == 'stopped' and whole(now) or (run.stopped_at or '0'),
    run.step, doubt == '' and '-' or doubt }
  return remember_reply(k, run, arg.op, words)
end

if ENDED[run.phase] or run.phase == 'stopped' then return reply('finished', run.phase) end

local first = run.stop_current_execution ~= 'stop_requested'
if first or (arg.mode == 'now' and run.stop_mode == 'graceful') then
  run.stop_mode, run.stop_by, run.stop_reason = arg.mode, arg.by or run.stop_by, arg.reason or run.stop_reason
  run.stop_asked_at = first and whole(now) or run.stop_asked_at
  set(k, 'stop_current_execution', 'stop_requested', 'stop_mode', arg.mode, 'stop_asked_at', run.stop_asked_at)
  if arg.by then set(k, 'stop_by', arg.by) end
  if arg.reason then set(k, 'stop_reason', arg.reason) end
end

if run.phase ~= 'leased' then
  stop_here(k, run, now, '')
  return reply('stopped', 'stopped')
end
if arg.mode == 'graceful' then
  if first then event(k, run, now, 'stop_requested', 'mode', 'graceful', 'by', arg.by or '', 'reason', arg.reason or '') end
  return reply('asked', 'leased')
end
set(k, 'held_token', run.token, 'held_until', run.lease_until)
free_lease(k)
stop_here(k, run, now, run.step .. '/' .. run.current_node .. '/' .. run.attempt)
return reply('stopped', 'stopped')
