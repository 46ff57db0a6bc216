-- Part of the two scripts that commit a round: commit_round and commit_and_stay.

-- Write what a done round adds: its event, its turns and its artifacts. Delete what it had recorded
-- before its commit. Return false, and write nothing, if the events key is of a wrong type.
local function log(k, run, at)
  local event = { 'type', 'committed', 'at', at, 'step', run.step, 'attempt', run.attempt, 'node', run.current_node, 'took', arg.took or '' }
  if arg.data and arg.data ~= '{}' then event[13], event[14] = 'data', arg.data end
  local logged = pcall('XADD', k.events, '*', unpack(event))
  if type(logged) == 'table' then return false end
  local artifacts = rest + (arg.artifacts or 0)
  in_parts('HSET', k.artifacts, ARGV, rest + 1, artifacts)
  in_parts('RPUSH', k.memory, ARGV, artifacts + 1, #ARGV)
  if run.once then
    call('HDEL', k.run, 'once')
    for name in string.gmatch(run.once, '[^\n]+') do call('HDEL', k.run, 'o:' .. name) end
  end
  return true
end
