-- Put the signal of the arguments into the mailbox of a run that has been read, and make the run due
-- if it waits for it. Return the reply as in signal_run.lua. A known key is answered before.
local function receive(k, run, now)
  local name = arg.name
  local is_awaited = run.phase == 'parked' and find('\n' .. run.wait_for, '\n' .. name .. ' ', 1, true)
  local signal = { name = name, payload = arg.payload, at = whole(now), by = arg.by, key = arg.key, content = arg.content }
  local place, refusal = put_signal(k, run, now, signal, function(unread, names, bytes)
    if unread >= number(arg.most) then return { 'full', 'signals' } end
    if unread == 0 and names >= number(arg.names) and not is_awaited then return { 'full', 'names' } end
    if bytes > number(arg.bytes) then return { 'full', 'bytes' } end
  end)
  if not place then return refusal end
  if run.phase ~= 'parked' or not is_over(k, run, now) then return { 'ok', place, run.phase } end
  due_at(k, run, now)
  return { 'unmade', place, run.phase, run.epoch, run.step, run.task or '', run.queue }
end
