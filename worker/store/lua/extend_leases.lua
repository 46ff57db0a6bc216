#!lua flags=allow-oom
-- extend_leases: the heartbeat of one process, for all the rounds it plays; the answer carries the stop requests back.
-- KEYS  1 due set, then one run hash a round
-- ARGV  [limit:N] (in how many ms the own time of the N-th round is over), [claim:N] (the id of its claim);
--       after "--", for each run: its token, and its progress (JSON, or "" for none)
-- Returns one word a run: ok | stop (asked to stop, gracefully) | lost (the lease is no longer this token's) | damaged
--@ reading.lua
local now = clock()
local due_type = call('TYPE', KEYS[1]).ok
local answers = {}
for i = 2, #KEYS do
  local key, token, progress = KEYS[i], ARGV[rest + 2 * i - 3], ARGV[rest + 2 * i - 2]
  local found = call('TYPE', key).ok
  if found ~= 'hash' or (due_type ~= 'zset' and due_type ~= 'none') then
    answers[#answers + 1] = found == 'none' and 'lost' or 'damaged'
  else
    local id, phase, held, granted, limit, stop, seen, claim, spared = unpack(call('HMGET', key, 'id', 'phase', 'token',
      'lease_granted', 'round_until', 'stop_current_execution', 'stop_seen_at', 'claim_id', 'spared'))
    local named = arg['claim:' .. (i - 1)]
    if phase ~= 'leased' or held ~= token or (named and claim ~= named) then
      answers[#answers + 1] = 'lost'
    elseif not id or key_of(KEYS[1], id) ~= key or not is_count(granted) or (limit and not is_count(limit)) then
      answers[#answers + 1] = 'damaged'
    else
      local own = arg['limit:' .. (i - 1)]
      if own and (not limit or now + number(own) + number(granted) < number(limit)) then
        -- A limit that only the worker knew of (a command's own): from here on the sweep knows it too.
        limit = whole(now + number(own) + number(granted))
        call('HSET', key, 'round_until', limit)
      end
      local extended = now + number(granted)
      if limit then extended = math.min(extended, number(limit)) end
      call('HSET', key, 'lease_until', whole(extended), 'beat_at', whole(now))
      -- Spared for its own sake: in the very millisecond of the sweep, the new end would look like the one that was spared.
      if spared then call('HDEL', key, 'spared') end
      call('ZADD', KEYS[1], extended, id)
      if progress ~= '' then call('HSET', key, 'progress', progress) end
      if stop == 'stop_requested' then
        if not seen then call('HSET', key, 'stop_seen_at', whole(now)) end
        answers[#answers + 1] = 'stop'
      else
        answers[#answers + 1] = 'ok'
      end
    end
  end
end
return answers
