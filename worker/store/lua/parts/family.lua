-- Child runs (docs/internals/decisions/0046-a-childs-end-is-delivered-in-the-write-that-ends-it.md).
-- A node that waits for children parks its run with a group, a hash of its own with these fields:
--   total, limit     how many children there are, and how many of them may run at a time
--   policy           stop | abandon: what becomes of them if the parent stops, ends or drops the group
--   plan:I           texts from which Python makes children: plan:0 what they have in common, plan:I
--                    the next ones (docs/internals/decisions/0046)
--   started          the number of children that were made, from place 0 on
--   ok, bad          how many have ended well, and how many otherwise
--   order            the number of ends so far
--   end:PLACE        WORD STATUS ORDER, and on the next lines the answer (JSON) or the error
--   hold             bad ends are not told: the parent waits until a person has continued the child
--   held, held:PLACE how many ends are held back, and the status of each
--   kept             it outlives its step, until a later one has joined it or the run completes
--   dropped          the step that waited is done
-- A parent has in its own hash `groups` (their names), and `walk` and `walked`: the numbers of the
-- newest walk over its children that was asked for, and of the newest finished one.
-- A child has parent, parent_nonce, group and place; stop_tree if it is stopped with its parent; own
-- if a person continued it while its parent did not want it: the parent's epoch, since the child is its
-- parent's again when that goes on, or - if no parent waits for it.

local AT_REST = { stopped = true, completed = true, errored = true }
local LONGEST_END = 65536 -- bytes of an answer or an error that a group keeps
local FOLLOWED = 1000 -- ms until a sweep passes a follow-up to another process

-- Return the key of the set of runs whose children need something that scripts cannot do, by the time
-- at which a sweep passes this on. Few runs have children, so it is not in KEYS.
local function follow_ups_of(due) return string.sub(due, 1, -#'due' - 1) .. 'follow_ups' end

local followed = {} -- ids of the runs for which this script made a follow-up

-- Record that the run's children need something. Without `walk`, there are only more to start.
local function make_follow_up(k, run, now, walk)
  if walk then
    run.walk = whole(number(run.walk) + 1)
    set(k, 'walk', run.walk)
  end
  -- If the key is of a wrong type, the sweep reports it. The run does not depend on it.
  pcall('ZADD', follow_ups_of(k.due), 'LT', now + FOLLOWED, run.id)
  if not followed[run.id] then followed[#followed + 1], followed[run.id] = run.id, true end
end

local function end_follow_up(k, id) pcall('ZREM', follow_ups_of(k.due), id) end

-- Add the runs for which this script made a follow-up to its reply, as one text.
local function with_follow_ups(reply)
  if followed[1] then reply[#reply + 1] = concat(followed, ' ') end
  return reply
end

-- Return the id and the nonce of the child at this place. They are the same in every process.
local function child_of(run, group, place)
  local nonce = redis.sha1hex(concat({ run.id, run.nonce or '', group, place }, ' '))
  return string.sub(nonce, 1, 24), nonce
end

-- Return the group as a table, or nil if there is none or it is damaged.
local function read_group(k, name)
  local names = { 'total', 'limit', 'started', 'ok', 'bad', 'order', 'policy', 'dropped', 'hold', 'held', 'kept' }
  local texts = pcall('HMGET', group_of(k, name), unpack(names)) -- an error has no elements
  local group = { name = name, key = group_of(k, name) }
  for i = 1, 6 do
    if not is_count(texts[i]) then return nil end
    group[names[i]] = tonumber(texts[i])
  end
  group.policy, group.dropped, group.hold, group.held, group.kept = texts[7], texts[8], texts[9], number(texts[10]), texts[11]
  return group
end

-- Return how many of its children may run at a time beside those that run now.
local function free_of(group) return group.limit - (group.started - group.ok - group.bad - group.held) end

-- Return how many of its children are started together at least, since each start has a price: an
-- eighth of those that may run at a time, or all that are left.
local function started_together(group) return math.min(math.ceil(group.limit / 8), group.total - group.started) end

-- Return how many more of its children may be started now. If they are too few to be started
-- together, return 0: the next ends make room for more.
local function room_of(group)
  local free = free_of(group)
  return free >= started_together(group) and math.min(group.total - group.started, free) or 0
end

-- Return the first group of the run with children that may be started now, or nil.
local function group_to_start(k, run)
  for name in groups_of(run) do
    local group = read_group(k, name)
    if group and room_of(group) > 0 then return group end
  end
end

-- Write the group of the wait, unless it is there already, and return whether it is new.
local function open_group(k, run, now)
  if not arg.group or find('\n' .. (run.groups or '') .. '\n', '\n' .. arg.group .. '\n', 1, true) then return end
  run.groups = (run.groups and run.groups .. '\n' or '') .. arg.group
  set(k, 'groups', run.groups)
  local texts = { 'total', arg.total, 'limit', arg.limit, 'policy', arg.policy, 'started', '0', 'ok', '0', 'bad', '0', 'order', '0' }
  for _, name in ipairs({ 'hold', 'kept' }) do
    if arg[name] then
      texts[#texts + 1] = name
      texts[#texts + 1] = '1'
    end
  end
  for i = rest + 1, #ARGV do
    texts[#texts + 1] = 'plan:' .. (i - rest - 1)
    texts[#texts + 1] = ARGV[i]
  end
  in_parts('HSET', group_of(k, arg.group), texts, 1, #texts)
  make_follow_up(k, run, now)
  return true
end

-- Forget a group whose children have all ended, or are not wanted any more.
local function forget_group(k, run, name)
  local kept = {}
  for other in groups_of(run) do
    if other ~= name then kept[#kept + 1] = other end
  end
  run.groups = kept[1] and concat(kept, '\n')
  if run.groups then set(k, 'groups', run.groups) else unset(k, 'groups') end
  pcall('PEXPIREAT', group_of(k, name), 1)
end

-- The step that waited for these groups is done: children that go on are not wanted any more. A kept
-- group is dropped by the step that has joined it (`joined`, lines), or with all others.
local function drop_groups(k, run, now, joined, all)
  local lives = false
  for name in groups_of(run) do
    local group = read_group(k, name)
    local stays = group and group.kept and not all and not find('\n' .. joined .. '\n', '\n' .. name .. '\n', 1, true)
    if stays then
      -- nothing
    elseif group and group.started > group.ok + group.bad and group.policy == 'stop' then
      call('HSET', group.key, 'dropped', '1')
      lives = true
    else
      forget_group(k, run, name)
    end
  end
  if lives then make_follow_up(k, run, now, true) end
end

-- The run has failed or was stopped. Children of it that go on are to be stopped.
local function end_family(k, run, now)
  for name in groups_of(run) do
    local group = read_group(k, name)
    if group and group.started > group.ok + group.bad then return make_follow_up(k, run, now, true) end
  end
end

-- Queue a parked run whose wait its children have ended. A child that has just ended must not fail
-- because of its parent. So all is checked first; of the keys, only the parent's own.
local function wake_parent(k, now)
  local run = not mistyped({ events = k.events, lists = {} }) and read_hash(k)
  if not run then return end
  -- A sweep wakes it where its message is missing, or has to be published by a process.
  if run.message == '' or outbox or unpushable(k, run.queue) then return due_at(k, run, now) end
  record_time_out(k, run, now)
  wake(k, run, now)
end

-- The end that makes enough room makes a follow-up. Its caller starts children until there is too little
-- room, so later ends need none: two callers would prepare the same children. If the caller dies, a sweep
-- passes the follow-up on.
local function start_more(k, parent, group, now)
  if AT_REST[parent.phase] or group.started == group.total then return end
  if free_of(group) == started_together(group) then make_follow_up(k, parent, now) end
end

-- The end of a child is not held back any more: a person has continued it, or it is gone.
local function release(group, place)
  if group.hold and call('HDEL', group.key, 'held:' .. place) == 1 then
    group.held = group.held - 1
    call('HSET', group.key, 'held', whole(group.held))
  end
end

-- Write how a child ended into its parent's group, and wake the parent if its wait is over. The first
-- end of a place stands.
local function record_end(k, parent, group, place, now, status, good, text)
  if call('HEXISTS', group.key, 'end:' .. place) == 1 then return end
  if group.hold and not good and status ~= 'gone' then
    if call('HSET', group.key, 'held:' .. place, status) == 0 then return end
    group.held = group.held + 1
    call('HSET', group.key, 'held', whole(group.held))
    return start_more(k, parent, group, now)
  end
  release(group, place)
  local order = whole(group.order + 1)
  local head = concat({ good and 'ok' or 'bad', status, order }, ' ')
  if #text > LONGEST_END then head, text = head .. ' long', '' end
  local word = good and 'ok' or 'bad'
  group.order, group[word] = group.order + 1, group[word] + 1
  call('HSET', group.key, 'end:' .. place, head .. '\n' .. text, 'order', order, word, whole(group[word]))
  start_more(k, parent, group, now)
  -- Most ends are not the last one, and read no more of the parent than these fields.
  if parent.phase == 'parked' and parent.wait_for and waits_for_children(parent) and is_over(k, parent, now) then wake_parent(k, now) end
end

-- Return the keys of the run's parent, the fields of it that are needed here, and the group that waits
-- for the run. Return nil if anything is in doubt: the parent finds the end when it looks.
local function parent_of(k, run)
  local parent_keys = keys_of_other(k, run.parent)
  local names, parent = { 'id', 'nonce', 'phase', 'epoch', 'walk', 'wait_for', 'wait_until' }, {}
  local texts = pcall('HMGET', parent_keys.run, unpack(names)) -- an error has no elements
  for i = 1, #names do parent[names[i]] = texts[i] end
  if parent.id ~= run.parent or parent.nonce ~= run.parent_nonce then return nil end
  local group = read_group(parent_keys, run.group or '')
  if not group or group.dropped or not is_count(run.place) then return nil end
  return parent_keys, parent, group
end

-- Tell the run's parent how it ended. A run that was stopped with its parent tells nothing: it goes on
-- when its parent does. If its parent goes on already, this is to be done now.
local function deliver_end(k, run, now, status, text)
  if not run.parent then return end
  local parent_keys, parent, group = parent_of(k, run)
  if not parent then return end
  if status == 'stopped' and run.stop_tree then
    if not AT_REST[parent.phase] then make_follow_up(parent_keys, parent, now, true) end
    return
  end
  local answer, unfinished = unpack(call('HMGET', k.run, 'answer', 'unfinished'))
  local completed = status == 'completed'
  record_end(parent_keys, parent, group, run.place, now, completed and unfinished and 'unfinished' or status, completed and not unfinished,
    completed and (answer or 'null') or text or '')
end

-- A person continues a child: if its parent was told of a bad end, this is taken back.
local function take_up(k, run)
  if not run.parent then return end
  unset(k, 'stop_tree')
  local parent_keys, parent, group = parent_of(k, run)
  if parent then
    local known = call('HGET', group.key, 'end:' .. run.place)
    if known and string.sub(known, 1, 4) == 'bad ' then
      call('HDEL', group.key, 'end:' .. run.place)
      call('HSET', group.key, 'bad', whole(group.bad - 1))
    end
    release(group, run.place)
  end
  if parent and not AT_REST[parent.phase] then unset(k, 'own') else set(k, 'own', parent and parent.epoch or '-') end
end
