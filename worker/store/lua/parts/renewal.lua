-- Renewal: the run begins anew at its flow's first node, in its next step. Its mailbox, its children
-- and what it has spent do not change.

-- Remove the named values and log the renewal. The commit then writes the values that the run begins
-- with.
local function renew(k, run, now)
  local values = {}
  for _, name in ipairs(call('HKEYS', k.run)) do
    if string.sub(name, 1, 2) == 'v:' then values[#values + 1] = name end
  end
  in_parts('HDEL', k.run, values, 1, #values)
  event(k, run, now, 'renewed', 'generation', arg.generation)
end
