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
  for i = 1, 3 do indexes[i + 3] = index_of_children(indexes[i]) end
  for _, index in ipairs(indexes) do size = size + (tonumber(pcall('ZCARD', index)) or 0) end
  if size > RECOUNTED then return end
  for _, name in ipairs(call('HKEYS', base.queues)) do
    local status = match(name, '^runs:(%a+):')
    if status and not ENDED[status] or find(name, 'children:queued:', 1, true) == 1 then found[name] = 0 end
  end
  local function count(name) found[name] = (found[name] or 0) + 1 end
  for _, index in ipairs(indexes) do
    for _, id in ipairs(pcall('ZRANGE', index, 0, -1)) do -- an error has no elements
      local read = pcall('HMGET', prefix .. ':run:' .. id, 'flow', 'phase', 'started_at', 'parent')
      local flow, phase, started_at, parent = read[1], read[2], read[3], read[4]
      if not read.err and flow and PHASES[phase or ''] and not ENDED[phase] then
        local status = status_of({ started_at = started_at }, phase)
        count('runs:' .. status .. ':' .. flow)
        if phase == 'parked' then count('runs:parked:' .. flow) end
        if parent and status == 'queued' then count('children:queued:' .. flow) end
      end
    end
  end
  for name, number_of in pairs(found) do call('HSET', base.queues, name, whole(number_of)) end
end
