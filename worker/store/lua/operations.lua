-- Operations: what a client asked for under an id of its own is done once, however often it is sent. For the transitions that are asked so.

local KEPT_OPERATIONS = 16 -- how many replies to operations a run remembers, so that each can be repeated

-- The first reply to operation `op`, or nil.
local function reply_of(run, op)
  for line in string.gmatch(run.ops or '', '[^\n]+') do
    local id, reply = match(line, '^(%S+) (.*)$')
    if id == op then
      local words = {}
      for word in string.gmatch(reply, '%S+') do words[#words + 1] = word end
      return words
    end
  end
end

local function remember_reply(k, run, op, words)
  local lines = {}
  for line in string.gmatch(run.ops or '', '[^\n]+') do lines[#lines + 1] = line end
  lines[#lines + 1] = op .. ' ' .. table.concat(words, ' ')
  set(k, 'ops', table.concat(lines, '\n', math.max(1, #lines - KEPT_OPERATIONS + 1)))
  return words
end
