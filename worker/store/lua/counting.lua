-- What is counted for those who watch (docs/metrics.md), in fields WHAT:WORD:FLOW of the queues hash: how many runs have a status, and how
-- often what is rare has happened. Each count is written with what it counts, so that neither is there without the other.

-- A count that somebody damaged stays as it is, and none goes below 0: no run shall fail for a figure.
local function tally(k, run, what, by)
  local name = what .. ':' .. run.flow
  local known = call('HGET', k.queues, name) or '0'
  if is_count(known) and tonumber(known) + by >= 0 then call('HINCRBY', k.queues, name, by) end
end

-- The status that the phase stands for, as worker/run.py has it; nil where there is none.
local function status_of(run, phase)
  if PHASES[phase or ''] ~= 'live' then return PHASES[phase or ''] end
  return (run.started_at or phase == 'leased') and 'running' or 'queued'
end

-- A run of status `from` (nil: it is new) has status `to` (nil: it is deleted). Those that have ended are only ever added to.
local function count_status(k, run, from, to)
  if from == to then return end
  if from and not ENDED[from] then tally(k, run, 'runs:' .. from, -1) end
  if to then tally(k, run, 'runs:' .. to, 1) end
end
