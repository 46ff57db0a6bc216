-- For sweep_due alone: how many runs have which status, counted anew. Done where nobody has ever counted, as the runs are older than the
-- counts; and where somebody took the mark away (the field `counted` of the queues hash), as keys or counts had been changed by hand.

local RECOUNTED = 50000 -- runs at most; a few microseconds each, in which the server does nothing else

-- Where there are more, the counts stay as they are.
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
      end
    end
  end
  for name, number_of in pairs(found) do call('HSET', base.queues, name, whole(number_of)) end
end
