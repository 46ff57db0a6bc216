-- How a run ends or is stopped, and how it is continued. These functions write.

-- Return the key of the pending `on_end` calls: `ID EPOCH`, by the time at which the call is late.
-- It is not in KEYS, since most ends do not use it, and every round would have to send its name.
local function calls_of(due) return string.sub(due, 1, -#'due' - 1) .. 'endings' end

-- Record the pending `on_end` call in the same write as the end, until the call is made. The epoch
-- distinguishes this end from later ones. The run does not depend on this record. So a key of a
-- wrong type does not block the end of the run, but adds an event.
local function promise_call(k, run, now)
  if not run.on_end then return end
  local calls = calls_of(k.due)
  local kept = pcall('ZADD', calls, now, run.id .. ' ' .. run.epoch)
  if type(kept) == 'table' then event(k, run, now, 'call_not_kept', 'key', calls, 'error', kept.err) end
end

local function complete(k, run, now)
  promise_call(k, run, now)
  if run.unfinished then -- all cycles that it may have are used
    event(k, run, now, 'completed', 'unfinished', run.unfinished)
    tally(k, run, 'moves:unfinished', 1)
  else
    event(k, run, now, 'completed')
  end
  enter(k, run, 'completed', now)
  set(k, 'status', 'completed', 'stop_current_execution', 'none', 'ended_at', whole(now))
  never_due(k, run)
  rest_well(k, run)
  local expires = now + number(run.retention)
  expire_at(k, run, expires)
  drop_groups(k, run, now, '', true)
  give_topic_up(k, run, expires)
  deliver_end(k, run, now, 'completed')
end

local function fail(k, run, now, text, traceback)
  promise_call(k, run, now)
  event(k, run, now, 'errored', 'error', text, unpack(traceback and { 'traceback', traceback } or {}))
  enter(k, run, 'errored', now)
  set(k, 'status', 'error', 'stop_current_execution', 'none', 'error', text, 'ended_at', whole(now))
  never_due(k, run)
  rest_well(k, run)
  expire_at(k, run, now + number(run.retention))
  end_family(k, run, now)
  deliver_end(k, run, now, 'errored', text)
end

-- Stop the run. `doubt` names the round in flight whose effects are uncertain ('' for none).
local function stop_here(k, run, now, doubt)
  promise_call(k, run, now)
  event(k, run, now, 'stopped', 'mode', run.stop_mode or '', 'by', run.stop_by or '', 'reason', run.stop_reason or '',
    'asked_at', run.stop_asked_at or '', 'in_doubt', doubt)
  enter(k, run, 'stopped', now)
  tally(k, run, run.stop_mode == 'now' and 'stops:now' or 'stops:graceful', 1)
  set(k, 'stop_current_execution', 'stopped', 'status', 'interrupted_after', 'interrupted_node', run.last_node or run.current_node,
    'interrupt_reason', 'stop_requested', 'stopped_at', whole(now), 'in_doubt', doubt)
  unset(k, 'interrupt_data')
  never_due(k, run)
  rest_well(k, run)
  if not run.stop_only then end_family(k, run, now) end
  deliver_end(k, run, now, 'stopped', run.stop_reason)
end

-- Begin a new epoch with this message, and remove stop, error and interrupt from the run's state.
local function new_epoch(k, run, message)
  run.epoch, run.failures, run.losses = whole(number(run.epoch) + 1), '0', '0'
  fresh_message(k, run, message)
  set(k, 'epoch', run.epoch, 'failures', '0', 'losses', '0', 'status', 'running', 'stop_current_execution', 'none')
  unset(k, 'interrupted_node', 'interrupt_reason', 'interrupt_data', 'in_doubt', 'error', 'ended_at', 'quarantined',
    'stop_mode', 'stop_by', 'stop_reason', 'stop_only', 'stop_asked_at', 'stop_seen_at', 'stopped_at')
end

-- Remove a deadline that has passed, since it would end the continued run again at once.
local function take_down_passed_deadline(k, run, now)
  if run.deadline and number(run.deadline) <= now then
    unset(k, 'deadline')
    run.deadline = nil
  end
end

-- Continue a resumed or retried run in its new epoch:
--   - An open interrupt without an answer is shown again, so that a stop and a resume do not skip
--     an approval. It needs the message of the epoch after this one, which its answer begins.
--   - A stopped round's token that is still held makes the run wait, so that never two workers are
--     in one step.
--   - A start time that is still to come makes the run wait.
--   - Without a message, the run waits until a sweep has asked for it.
--   - Otherwise the run is queued.
-- What became of its children meanwhile is looked at.
local function start_again(k, run, now, message, after, answered)
  local held = run.held_token and number(run.held_until) - now or 0
  local early = number(run.not_before) - now
  new_epoch(k, run, message)
  if run.i_id and not run.i_answer and not answered then
    fresh_message(k, run, after)
    pause(k, run, now)
  elseif held > 0 then
    wait(k, run, now, 'hold', held)
  elseif early > 0 or message == '' then
    wait(k, run, now, 'start', math.max(early, 0))
  else
    push(k, run, now)
  end
  if run.groups then make_follow_up(k, run, now, true) end
end
