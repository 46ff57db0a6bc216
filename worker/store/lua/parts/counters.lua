-- Counts for metrics (docs/operations/metrics.md), in the fields WHAT:WORD:FLOW of the queues hash: how many
-- runs have a status, and how often rare events happened. Each count is written in the same script
-- as the change that it counts.

-- Add to a count. A damaged count is left unchanged, and no count falls below 0, since no run may
-- fail because of a metric.
local function tally(k, run, what, by)
  local name = what .. ':' .. run.flow
  local known = call('HGET', k.queues, name) or '0'
  if is_count(known) and tonumber(known) + by >= 0 then call('HINCRBY', k.queues, name, by) end
end

-- Return the status of a phase as worker/domain/run.py defines it, or nil if it has none.
local function status_of(run, phase)
  if PHASES[phase or ''] ~= 'live' then return PHASES[phase or ''] end
  return (run.started_at or phase == 'leased') and 'running' or 'queued'
end

-- Count the change of a run's status. `from` is nil for a new run, `to` is nil for a deleted one.
-- Counts of ended runs only grow.
local function count_status(k, run, from, to)
  if from == to then return end
  if from and not ENDED[from] then tally(k, run, 'runs:' .. from, -1) end
  if to then tally(k, run, 'runs:' .. to, 1) end
  if not run.parent then return end
  if not from then tally(k, run, 'children:started', 1) end
  if ENDED[to] or to == 'stopped' then tally(k, run, 'children:' .. to, 1) end
  -- Lists of runs leave child runs out, and so does their number of queued runs.
  if from == 'queued' then tally(k, run, 'children:queued', -1) end
  if to == 'queued' then tally(k, run, 'children:queued', 1) end
end
