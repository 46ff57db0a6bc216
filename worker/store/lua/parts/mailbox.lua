-- The mailbox of a run takes a signal (parts/waits.lua has what else is in it). These functions write
-- to `k.mailbox`, except the first.
local KNOWN = 1000 -- newest keys of a name that a mailbox knows

-- Return the number and the content of the signal that this mailbox has under the sender's key. If
-- the mailbox is damaged, it has none.
local function known_signal(mailbox, name, key)
  local known = key and pcall('HGET', mailbox, name .. ':key:' .. key)
  if type(known) == 'string' then return match(known, '^(%d+) (%S+)$') end
end

-- Put a signal (name, payload, at, [by], [key], [content]) into the mailbox, and return its number.
-- `full` is called with the number of unread signals of its name, the number of names and the bytes
-- with this signal. If it returns a reply, nothing is written, and this is returned as well.
local function put_signal(k, run, now, signal, full)
  local mailbox, name = k.mailbox, signal.name
  local newest, taken, names, bytes, order = unpack(call('HMGET', mailbox, name .. ':last', name .. ':taken', 'names', 'bytes', 'order'))
  local unread = number(newest) - number(taken)
  -- The order among all names, so that every attempt finds the same signal first.
  order = format('%d', number(order) + 1)
  local entry = concat({ order, signal.at, signal.by or '', signal.payload }, '\n')
  local refusal = full and full(unread, number(names), number(bytes) + #entry)
  if refusal then return nil, refusal end
  local place = whole(number(newest) + 1)
  if unread == 0 then names = format('%d', number(names) + 1) end
  call('HSET', mailbox, 'order', order, 'names', names, 'bytes', format('%d', number(bytes) + #entry),
    name .. ':last', place, name .. ':' .. place, entry)
  if signal.key then
    local old = name .. ':known:' .. (number(place) - KNOWN)
    local forgotten = call('HGET', mailbox, old)
    if forgotten then call('HDEL', mailbox, old, name .. ':key:' .. forgotten) end
    call('HSET', mailbox, name .. ':key:' .. signal.key, place .. ' ' .. signal.content, name .. ':known:' .. place, signal.key)
  end
  -- The mailbox of an errored run does not expire with it: a client may not expire keys. So the sweep
  -- removes it.
  set(k, 'mailbox', order)
  tally(k, run, 'moves:signalled', 1)
  event(k, run, now, 'signalled', 'name', name, 'number', place, 'by', signal.by or '')
  return place
end
