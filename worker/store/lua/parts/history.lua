-- Part of the two scripts that commit a round: commit_round and commit_and_stay.

-- Drop the oldest turns of the history (`forget` of them). It is a commit's first write, since the ACL
-- of an earlier version refuses it. If the events key is of a wrong type, nothing is dropped, and `log`
-- refuses the commit.
local function forget_turns(k)
  if not is_count(arg.forget) then return end
  local held = call('TYPE', k.events).ok
  if held == 'stream' or held == 'none' then call('LTRIM', k.memory, arg.forget, '-1') end
end

-- Return the values that this round changed, as JSON, and under "" the digest of all values before it.
local function changed_values()
  local digest, names = match(arg.record, '^(%x+)(.*)$')
  local parts = { '"":"' .. digest .. '"' }
  names = names .. ' '
  for i = fields, fields_end, 2 do
    local name = match(ARGV[i], '^v:(.*)')
    if name and find(names, ' ' .. name .. ' ', 1, true) then parts[#parts + 1] = '"' .. name .. '":' .. ARGV[i + 1] end
  end
  return '{' .. concat(parts, ',') .. '}'
end

-- Write what a done round adds: its event, its turns and its artifacts. Delete what it had recorded
-- before its commit. Return false, and write nothing, if the events key is of a wrong type.
--
-- keep_events is about how many of the newest events stay: a server trims them in blocks.
local function log(k, run, at)
  local event = { 'type', 'committed', 'at', at, 'step', run.step, 'attempt', run.attempt, 'node', run.current_node, 'took', arg.took or '' }
  if arg.data and arg.data ~= '{}' then event[13], event[14] = 'data', arg.data end
  if arg.record then event[#event + 1], event[#event + 2] = 'values', changed_values() end
  local keep = is_count(arg.keep_events) and arg.keep_events
  local logged = keep and pcall('XADD', k.events, 'MAXLEN', '~', keep, '*', unpack(event)) or pcall('XADD', k.events, '*', unpack(event))
  if type(logged) == 'table' then return false end
  local artifacts = rest + (arg.artifacts or 0)
  in_parts('HSET', k.artifacts, ARGV, rest + 1, artifacts)
  in_parts('RPUSH', k.memory, ARGV, artifacts + 1, #ARGV)
  if run.once then
    call('HDEL', k.run, 'once')
    for name in string.gmatch(run.once, '[^\n]+') do
      call('HDEL', k.run, 'o:' .. name)
      local large = match(name, '^@(.+)') -- record_result.lua
      if large then pcall('HDEL', k.artifacts, 'once/' .. large .. '-' .. run.step) end
    end
  end
  return true
end
