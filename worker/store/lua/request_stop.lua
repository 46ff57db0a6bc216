#!lua flags=allow-oom
-- request_stop: ask a run to stop, and stop it at once if no worker holds it.
--
-- KEYS  as in parts/run.lua
-- ARGV  op (operation id), mode (graceful | now), [by], [reason], [only] (its children go on)
-- Returns
--   WORD PHASE ASKED_AT SEEN_AT STOPPED_AT STEP DOUBT [FOLLOW_UPS]
--       WORD is finished (the run had ended or was stopped already), asked (the round in flight may
--       still finish) or stopped. Times are in ms, 0 for "not yet". DOUBT is - for none.
--       FOLLOW_UPS are the ids of runs whose children the caller may look after at once.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--
-- A repeated operation gets its first reply. What a mode means: parts/stopping.lua.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
--@ parts/operations.lua
--@ parts/stopping.lua
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
  return with_follow_ups(remember_reply(k, run, arg.op, words))
end

if run.phase == 'stopped' and run.stop_only and not arg.only then -- now its children are stopped too
  unset(k, 'stop_only')
  end_family(k, run, now)
end
if ENDED[run.phase] or run.phase == 'stopped' then return reply('finished', run.phase) end

if run.stop_tree then -- it is asked to stop with its parent, but now it is not to go on with it
  run.stop_tree, run.stop_by, run.stop_reason = nil, arg.by, arg.reason
  unset(k, 'stop_tree', 'stop_by', 'stop_reason')
  if arg.by then set(k, 'stop_by', arg.by) end
  if arg.reason then set(k, 'stop_reason', arg.reason) end
end
local word = ask_to_stop(k, run, now, arg.mode, arg.by, arg.reason, arg.only)
return reply(word, run.phase)
