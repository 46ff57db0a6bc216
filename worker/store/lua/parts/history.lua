-- Part of the two scripts that commit a round: commit_round and commit_and_stay.

-- Drop the oldest turns of the history (`forget` of them). It is a commit's first write, since the ACL
-- of an earlier version refuses it. If the events key is of a wrong type, nothing is dropped, and `log`
-- refuses the commit.
local function forget_turns(k)
  if not is_count(arg.forget) then return end
  local held = call('TYPE', k.events).ok
  if held == 'stream' or held == 'none' then call('LTRIM', k.memory, arg.forget, '-1') end
end

-- Add to a round's event what the round did with named values: the words of `record` are a digest of
-- all values before it (or `-`), names of values that it changed, and behind `!` of those left out.
local function add_values(event)
  local digest, words = match(arg.record, '^(%S+)(.*)$')
  local last, wanted, left_out = #event, {}, ''
  for word in string.gmatch(words, '%S+') do
    if string.sub(word, 1, 1) == '!' then
      left_out = left_out .. ' ' .. string.sub(word, 2)
    else
      wanted['v:' .. word] = true
    end
  end
  local function add(name, text)
    event[last + 1], event[last + 2] = name, text
    last = last + 2
  end
  if digest == '-' then add('values', '{}') else add('before', digest) end
  if left_out ~= '' then add('left_out', string.sub(left_out, 2)) end
  for i = fields, fields_end, 2 do
    if wanted[ARGV[i]] then add(ARGV[i], ARGV[i + 1]) end
  end
end

-- Write what a done round adds: its event, its turns and its artifacts. Delete what it had recorded
-- before its commit. Return false, and write nothing, if the events key is of a wrong type.
--
-- keep_events is about how many of the newest events stay: a server trims them in blocks.
local function log(k, run, at)
  local event = { 'type', 'committed', 'at', at, 'step', run.step, 'attempt', run.attempt, 'node', run.current_node, 'took', arg.took or '' }
  if arg.data and arg.data ~= '{}' then event[13], event[14] = 'data', arg.data end
  if arg.record then add_values(event) end
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
