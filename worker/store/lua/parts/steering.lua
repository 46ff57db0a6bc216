-- What people say to a run that works, and what it replies
-- (docs/internals/decisions/0047-a-finish-hears-what-was-said.md). For each NAME the mailbox hash has
-- the replies of committed rounds (NAME:reply:NUMBER), beside what parts/waits.lua describes.

-- Return the signals of `heed` that the round has not used, as `NAME COUNT, ...`, or nil if it has
-- used all of them. If the mailbox is of a wrong type, return nil and its key.
local function unread_of_end(k)
  local used, unread = {}, {}
  for name, upto in string.gmatch(arg.take or '', '(%S+) (%d+)') do used[name] = number(upto) end
  for name in string.gmatch(arg.heed, '%S+') do
    local found = pcall('HMGET', mailbox_of(k), name .. ':last', name .. ':taken')
    if found.err then return nil, mailbox_of(k) end
    local left = number(found[1]) - math.max(number(found[2]), used[name] or 0)
    if left > 0 then unread[#unread + 1] = name .. ' ' .. whole(left) end
  end
  if unread[1] then return concat(unread, ', ') end
end

-- Newest replies of a name that a mailbox keeps.
local REPLIES = 100

-- Write the replies of the round. The first reply to a signal stands.
local function reply_to_signals(k)
  for name, place, reply in string.gmatch(arg.replies, '(%S+) (%d+) ([^\n]*)') do
    call('HDEL', k.mailbox, name .. ':reply:' .. (number(place) - REPLIES))
    local field = name .. ':reply:' .. place
    if call('HEXISTS', k.mailbox, field) == 0 then call('HSET', k.mailbox, field, reply) end
  end
end
