#!lua flags=allow-oom
-- reconcile_children: bring the children of a run into line with the run, a slice at a time, and say
-- what comes next.
--
-- KEYS  as in parts/run.lua
-- ARGV  id (of the run), slice (how many children it looks at, up to 0.1 ms each), [ended] (how many
--       children that have ended it passes over beside these, 1 us each), [walk] and [from] (of the
--       reply `more`, to go on)
-- Returns
--   more WALK FROM      There are more children to look at: the caller calls again with these.
--   start GROUP FROM NONCE ROOM COMMON PLANS
--                       ROOM children of this group may be started (start_children.lua), from place
--                       FROM on. COMMON and PLANS are the texts of the plan.
--   done                Nothing is left to be done: the follow-up is over.
--   moved               A newer walk was asked for: the caller begins anew.
--   missing             There is no such run: the follow-up is over.
--   damaged WHAT        The run cannot be read: the follow-up is over.
-- With more and done, the ids of runs follow as one text whose own children are to be looked after.
--
-- Children of a run that has ended or stopped, or of a group that it dropped, are stopped. Children of
-- a run that goes on, which were stopped with it, go on. If something was added to a budget of the run,
-- children that wait for it look again. An end that was not delivered is delivered.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
--@ parts/stopping.lua
local PLANNED = 32 -- children of one text of the plan
local k = keys_of_one_run()
local now = clock()
local function done(reply)
  end_follow_up(k, arg.id)
  return with_follow_ups(reply)
end
local run, refusal = read_run(k)
if not run then return done(refusal) end

-- Stop a child that is not wanted any more, unless a person has continued it by itself. That no longer
-- counts if the run has gone on since.
local function stop_child(own, child)
  if child.own == run.epoch or child.own == '-' then return end
  -- A child that a person has asked to stop is not continued with its parent.
  if child.stop_current_execution ~= 'stop_requested' then
    child.stop_tree = '1'
    set(own, 'stop_tree', '1')
  end
  ask_to_stop(own, child, now, run.stop_mode or 'graceful', 'parent ' .. run.id)
end

-- Return whether the child's end is known. Most children of a wide group have ended, and are not read
-- again: a child with a known end is neither stopped nor continued.
local function has_ended(group, place) return call('HEXISTS', group.key, 'end:' .. place) == 1 end

local function look_at(group, place)
  if has_ended(group, place) then return end
  local id, nonce = child_of(run, group.name, place)
  local own = keys_of_other(k, id)
  local unwanted = AT_REST[run.phase] or group.dropped
  local child, why = read_run(own)
  if child and child.nonce ~= nonce then child, why = nil, { 'missing' } end
  if not child then
    if why[1] == 'missing' then record_end(k, run, group, place, now, 'gone', false, '') end
  elseif AT_REST[child.phase] then
    if unwanted then return end
    if child.phase == 'stopped' and child.stop_tree then
      unset(own, 'stop_tree')
      event(own, child, now, 'resumed', 'answer', 'null', 'by', 'parent ' .. run.id)
      set(own, 'resumed_at', whole(now), 'resumed_by', 'parent ' .. run.id)
      start_again(own, child, now, '', '')
    else
      deliver_end(own, child, now, child.phase, child.error or child.stop_reason)
    end
  elseif unwanted then
    stop_child(own, child)
  else
    if child.own then unset(own, 'own') end -- it is its parent's again
    if not run.funded then return end
    -- It may wait for what was added to a budget, and so may its own children.
    if child.waiting_for == 'budget' then
      set(own, 'waiting_until', whole(now))
      due_at(own, child, now)
    end
    if child.groups then
      set(own, 'funded', '1')
      make_follow_up(own, child, now, true)
    end
  end
end

local walk = run.walk
if walk ~= run.walked then
  if arg.walk and arg.walk ~= walk then return { 'moved' } end
  local from_group, from_place = match(arg.from or '', '^(%S+) (%d+)$')
  -- If that group is gone meanwhile, the other groups are looked at from the first one on.
  if from_group and not find('\n' .. (run.groups or '') .. '\n', '\n' .. from_group .. '\n', 1, true) then from_group = nil end
  local left, passed = tonumber(arg.slice), number(arg.ended)
  for name in groups_of(run) do
    if not from_group or name == from_group then
      local group = read_group(k, name)
      local first = from_group and tonumber(from_place) or 0
      from_group = nil
      local alone = run.stop_only or group and group.policy ~= 'stop'
      if group and (group.dropped or not (AT_REST[run.phase] and alone)) then
        for place = first, group.started - 1 do
          if left == 0 then return with_follow_ups({ 'more', walk, name .. ' ' .. place }) end
          if passed > 0 and has_ended(group, place) then
            passed = passed - 1
          else
            left = left - 1
            look_at(group, place)
          end
        end
      end
    end
  end
  for name in groups_of(run) do
    local group = read_group(k, name)
    if group and group.dropped then forget_group(k, run, name) end
  end
  set(k, 'walked', walk)
  unset(k, 'funded')
end
local group = not AT_REST[run.phase] and group_to_start(k, run)
if group then
  local common, plans = unpack(call('HMGET', group.key, 'plan:0', 'plan:' .. (1 + math.floor(group.started / PLANNED))))
  return { 'start', group.name, whole(group.started), run.nonce or '', whole(room_of(group)), common or '', plans or '' }
end
return done({ 'done' })
