-- Waits and the mailbox (docs/internals/decisions/0045-a-wait-is-a-condition.md). A node that waits
-- parks its run, which then has no lease, no message and no worker. The run's fields say what ends
-- the wait:
--   wait        its name, one of its own in the step
--   wait_for    lines NAME COUNT: this many unread signals of a name end it; or :GROUP OK BAD ALL:
--               the numbers of children that ended well, badly, or at all (parts/family.lua)
--   wait_until  the time that ends it
--   wait_over   what records under the name ~WAIT that the time ended it
-- The mailbox hash has for each NAME the numbers of the newest signal (NAME:last) and of the newest
-- signal that a committed round took (NAME:taken), and each unread signal (NAME:NUMBER; with an empty
-- payload, it was moved to a later run of its topic, and readers leave it out). `names` counts
-- the names that have unread signals, `bytes` the size of these. A script that reads the mailbox sets
-- `k.mailbox` before it checks the types of the keys.

-- Return the name of a signal or a group that ends the wait, or nil.
local function signal_for(k, run)
  for name, count, more in string.gmatch(run.wait_for, '(%S+) (%d+)([%d ]*)') do
    if string.sub(name, 1, 1) == ':' then
      local most_bad, most = match(more, '^ (%d+) (%d+)$')
      local counts = pcall('HMGET', group_of(k, string.sub(name, 2)), 'ok', 'bad')
      local good, bad = number(counts[1]), number(counts[2])
      if good >= number(count) or bad >= number(most_bad) or good + bad >= number(most) then return name end
    else
      local newest, taken = unpack(call('HMGET', k.mailbox, name .. ':last', name .. ':taken'))
      if number(newest) - number(taken) >= number(count) then return name end
    end
  end
end

local function waits_for_children(run) return find(run.wait_for, ':', 1, true) ~= nil end

-- A parent looks at its children from time to time, in case the end of one was not delivered (by an
-- earlier version, or because a key was damaged): after `look`, then each time twice as late, up to an
-- hour.
local LONGEST_LOOK = 3600000

-- Make the parked run due when its time is over, or when it looks at its children again.
local function due_parked(k, run, now, look)
  local time = run.wait_until and number(run.wait_until)
  if not waits_for_children(run) then return due_at(k, run, time) end
  set(k, 'look', whole(look))
  due_at(k, run, math.min(time or math.huge, now + look))
end

local function has_timed_out(run, now) return run.wait_until and number(run.wait_until) <= now end

-- Record that the time has ended the wait, unless a signal did. Every attempt of the step then finds
-- the same, whatever arrives later.
local function record_time_out(k, run, now)
  local field = 'o:~' .. run.wait
  if run[field] or not has_timed_out(run, now) or signal_for(k, run) then return end
  run[field], run.once = run.wait_over, (run.once and run.once .. '\n' or '') .. '~' .. run.wait
  set(k, 'once', run.once, field, run[field])
end

local function is_over(k, run, now) return signal_for(k, run) or has_timed_out(run, now) end

-- Write the wait that the round came to. A wait of the same name keeps its time, so that a sleep does
-- not begin anew after a stop and a resume.
local function begin_wait(k, run, now)
  if run.wait ~= arg.wait then run.wait_until = arg.wait_ms and whole(now + number(arg.wait_ms)) end
  run.wait, run.wait_for, run.wait_over = arg.wait, arg.wait_for, arg.wait_over
  set(k, 'wait', run.wait, 'wait_for', run.wait_for, 'wait_over', run.wait_over)
  if run.wait_until then set(k, 'wait_until', run.wait_until) else unset(k, 'wait_until') end
end

-- Park the run, or queue it if its wait is over: a signal may have come after the round looked.
local function park(k, run, now)
  set(k, 'failures', '0', 'losses', '0')
  unset(k, 'failing', 'misfit')
  record_time_out(k, run, now)
  if is_over(k, run, now) then
    push(k, run, now)
    return 'queued'
  end
  tally(k, run, 'moves:parked', 1)
  event(k, run, now, 'parked', 'for', run.wait_for, 'until', run.wait_until or '')
  enter(k, run, 'parked', now)
  due_parked(k, run, now, number(arg.look))
  -- The script that ends the last child pushes its parent's message, so that is kept.
  if not waits_for_children(run) then rest_well(k, run) end
  return 'parked'
end

-- Queue a parked run whose wait is over, and whose message is there.
local function wake(k, run, now)
  local by = signal_for(k, run) or 'time'
  event(k, run, now, 'woken', 'by', string.sub(by, 1, 1) == ':' and 'children ' .. string.sub(by, 2) or by)
  fresh_message(k, run, run.message)
  push(k, run, now)
end

-- Take the signals that the round used out of the mailbox (lines NAME NUMBER, each up to this
-- number), and forget the step's wait.
local function end_waits(k, run)
  for name, upto in string.gmatch(arg.take, '(%S+) (%d+)') do
    local newest, taken, names, bytes = unpack(call('HMGET', k.mailbox, name .. ':last', name .. ':taken', 'names', 'bytes'))
    local gone, freed = {}, 0
    for i = number(taken) + 1, number(upto) do
      gone[#gone + 1] = name .. ':' .. i
      freed = freed + call('HSTRLEN', k.mailbox, name .. ':' .. i)
    end
    in_parts('HDEL', k.mailbox, gone, 1, #gone)
    -- A name without unread signals makes room for another.
    local left = number(names) - (upto == newest and 1 or 0)
    call('HSET', k.mailbox, name .. ':taken', upto, 'names', format('%d', left), 'bytes', format('%d', number(bytes) - freed))
  end
  unset(k, 'wait', 'wait_for', 'wait_until', 'wait_over', 'look')
end
