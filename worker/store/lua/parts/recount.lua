-- Part of sweep_due: count again how many runs have which status.
--
-- The sweep does so if the field `counted` of the queues hash is absent. That is the case after an
-- upgrade from a version without counts. A person may also delete the field, after changing keys or
-- counts by hand.

-- Maximum number of runs: each takes a few microseconds, in which the server does nothing else.
local RECOUNTED = 50000

-- With more runs than that, the counts are left unchanged.
local function recount(base, prefix)
  local indexes, size, found = { base.live, base.interrupted, base.stopped }, 0, {}
  for _, index in ipairs(indexes) do size = size + call('ZCARD', index) end
  if size > RECOUNTED then return end
  for _, name in ipairs(call('HKEYS', base.queues)) do
    local status = match(name, '^runs:(%a+):')
    if status and not ENDED[status] then found[name] = 0 end
  end
  for _, index in ipairs(indexes) do
    for _, id in ipairs(call('ZRANGE', index, 0, -1)) do
      local read = pcall('HMGET', prefix .. ':run:' .. id, 'flow', 'phase', 'started_at')
      local flow, phase, started_at = read[1], read[2], read[3]
      if not read.err and flow and PHASES[phase or ''] and not ENDED[phase] then
        local name = 'runs:' .. status_of({ started_at = started_at }, phase) .. ':' .. flow
        found[name] = (found[name] or 0) + 1
        if phase == 'parked' then found['runs:parked:' .. flow] = (found['runs:parked:' .. flow] or 0) + 1 end
      end
    end
  end
  for name, number_of in pairs(found) do call('HSET', base.queues, name, whole(number_of)) end
end
