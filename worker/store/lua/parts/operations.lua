-- Operations: a client's request with an id of its own is done once, however often it is sent. A
-- repeated request gets its first reply, even if other requests came in between.

local KEPT_OPERATIONS = 16 -- number of replies that a run stores

-- Return the first reply to operation `op`, or nil.
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
