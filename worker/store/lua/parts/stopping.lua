-- Ask a run to stop that has neither ended nor stopped, and stop it at once if no worker holds it.
-- `now` may follow graceful, but not the reverse. `now` fences the lease at once. Its token is held
-- until the lease's end or the old worker's late commit, so that no other worker is in the step
-- meanwhile. With `only`, its children go on, unless another stop has asked for more. Return stopped, or
-- asked if the round in flight may still finish.
local function ask_to_stop(k, run, now, mode, by, reason, only)
  local first = run.stop_current_execution ~= 'stop_requested'
  if first or (mode == 'now' and run.stop_mode == 'graceful') then
    run.stop_mode, run.stop_by, run.stop_reason = mode, by or run.stop_by, reason or run.stop_reason
    run.stop_asked_at = first and whole(now) or run.stop_asked_at
    set(k, 'stop_current_execution', 'stop_requested', 'stop_mode', mode, 'stop_asked_at', run.stop_asked_at)
    if by then set(k, 'stop_by', by) end
    if reason then set(k, 'stop_reason', reason) end
  end
  if only and first then
    run.stop_only = '1'
    set(k, 'stop_only', '1')
  elseif run.stop_only and not only then
    run.stop_only = nil
    unset(k, 'stop_only')
  end
  if run.phase ~= 'leased' then
    stop_here(k, run, now, '')
    return 'stopped'
  end
  if mode == 'graceful' then
    if first then event(k, run, now, 'stop_requested', 'mode', 'graceful', 'by', by or '', 'reason', reason or '') end
    return 'asked'
  end
  set(k, 'held_token', run.token, 'held_until', run.lease_until)
  free_lease(k)
  stop_here(k, run, now, run.step .. '/' .. run.current_node .. '/' .. run.attempt)
  return 'stopped'
end
