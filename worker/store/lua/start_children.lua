#!lua
-- start_children: make the next children of a group, and push their first rounds.
--
-- KEYS  as in parts/run.lua, of the parent
-- ARGV  nonce (of the parent), group, from (the place of the first one). After "--", for each child
--       the ms from now to its deadline ('' for none), the number of the texts that follow, and the
--       names and values of its fields with its message.
-- Returns
--   ok STARTED OVER [LIST MESSAGE...]
--                       STARTED children of the group are made now. OVER is 1 if the script ended
--                       the follow-up, because no walk is pending and no group has room. Otherwise
--                       it is nil. With an outbox, the caller must publish these messages.
--   missing             There is no such parent.
--   ended PHASE         The parent has ended or is stopped.
--   gone                The group is there no more, or it was dropped.
--   stale STARTED       The group has come to another place.
--   full                As many children run as may run at a time.
--   exists ID           Another run has the id of a child: nothing is written.
--   damaged WHAT        A key or field is damaged: nothing is written.
--   unknown_queue LIST  A child's queue is not one of ours: nothing is written.
--
-- More children than may be started are left out. Like a submission, a start is refused by a server
-- that is full.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/new_run.lua
local k = keys_of_one_run()
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
if (run.nonce or '') ~= arg.nonce then return { 'missing' } end
if AT_REST[run.phase] then return { 'ended', run.phase } end
local group = read_group(k, arg.group)
if not group or group.dropped then return { 'gone' } end
if whole(group.started) ~= arg.from then return { 'stale', whole(group.started) } end
local room = room_of(group)
if room <= 0 then return { 'full' } end

local children, i = {}, rest + 1
while ARGV[i] and #children < room do
  local child = { within = ARGV[i], first = i + 2, last = i + 1 + ARGV[i + 1] }
  for j = child.first, child.last, 2 do child[ARGV[j]] = ARGV[j + 1] end
  child.id, child.nonce = child_of(run, arg.group, whole(group.started + #children))
  child.keys = keys_of_other(k, child.id)
  local found = pcall('HGET', child.keys.run, 'nonce')
  if type(found) == 'table' then return { 'damaged', child.keys.run } end
  -- A run of this nonce is the child itself, from a copy of the data that a server has lost.
  child.is_made = found == child.nonce
  if not child.is_made and call('EXISTS', child.keys.run, child.keys.memory, child.keys.events, child.keys.artifacts) > 0 then
    return { 'exists', child.id }
  end
  refusal = unpushable(k, child.queue)
  if refusal then return refusal end
  children[#children + 1] = child
  i = child.last + 1
end
for _, child in ipairs(children) do
  if not child.is_made then
    local deadline = math.min(run.deadline or math.huge, child.within ~= '' and now + number(child.within) or math.huge)
    child.deadline = deadline < math.huge and whole(deadline) or nil
    in_parts('HSET', child.keys.run, ARGV, child.first, child.last)
    begin_run(child.keys, child, now)
    if child.i_id then pause(child.keys, child, now) else push(child.keys, child, now) end
  end
end
local started = whole(group.started + #children)
call('HSET', group.key, 'started', started)
event(k, run, now, 'started', 'group', arg.group, 'from', arg.from, 'to', started, 'total', whole(group.total))
-- A pending walk, or a group with room, still needs the follow-up.
local over = run.walk == run.walked and not group_to_start(k, run)
if over then end_follow_up(k, run.id) end
return { 'ok', started, over, unpack(handed) }
