#!lua flags=allow-oom
-- extend_leases: extend the leases of all rounds of one process (the heartbeat), and report stops.
--
-- KEYS  1 due set, then one run hash per round
-- ARGV  [limit:N] (in how many ms the N-th round's own time is over), [claim:N] (id of its claim);
--       after "--", for each run: its token, and its progress (JSON, or "" for none)
-- Returns one word per run
--   ok       The lease is extended, at most to the round's own limit.
--   stop     As ok, and a graceful stop is requested.
--   lost     The lease is no longer of this token and claim: the round must end.
--   damaged  A key or field is damaged.
--@ parts/run.lua
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
        -- Only the worker knew this limit (a command's own). From now on the sweep knows it too.
        limit = whole(now + number(own) + number(granted))
        call('HSET', key, 'round_until', limit)
      end
      local extended = now + number(granted)
      if limit then extended = math.min(extended, number(limit)) end
      call('HSET', key, 'lease_until', whole(extended), 'beat_at', whole(now))
      -- Deleted, since a heartbeat in the very millisecond of the sweep gives the same end as the
      -- spared one. The sweep would not spare the lease again.
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
