-- Make a run whose fields the caller has written. `run` has them, and id, nonce, message and
-- [deadline], [step]. It is then pushed, or waits.
local function begin_run(k, run, now)
  run.created_at, run.step, run.number, run.grace = whole(now), run.step or '0', '0', run.resend
  set(k, 'id', run.id, 'nonce', run.nonce, 'created_at', run.created_at, 'epoch', '0', 'step', run.step, 'token', '0', 'attempt', '0',
    'failures', '0', 'losses', '0', 'number', '0', 'grace', run.resend, 'message', run.message)
  if run.deadline then set(k, 'deadline', run.deadline) end
  event(k, run, now, 'submitted', 'flow', run.flow, unpack(arg.values and { 'values', arg.values } or {}))
  tally(k, run, 'moves:submitted', 1)
end
