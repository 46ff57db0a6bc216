#!lua flags=no-writes
-- list_entries: read the next entries of some sorted sets, as one list by score and member. It writes
-- nothing. Everything is read at one moment, and the list continues behind a position in this order.
-- So each entry that stays in these sets at its score is read once, whatever comes and goes meanwhile.
--
-- KEYS  the sorted sets
-- ARGV  order ('oldest': the lowest score first, or 'newest'), count (entries to return at most), score and
--       member of the position ('' and '' for the beginning; no entry needs to stand there), then for each
--       sorted set the lowest and the highest score of its entries in the list
-- Returns member and score of each entry, all in one array. Fewer than `count` entries are the last.
local call, byte = redis.call, string.byte
local is_ascending, count = ARGV[1] == 'oldest', tonumber(ARGV[2])
local position, behind = tonumber(ARGV[3]), ARGV[4]
-- Entries that are read at once of each of several sorted sets.
local PIECE = 50

-- Return whether a member comes before another one of the same score. Lua's own comparison depends on
-- the server's locale, the order of a sorted set does not.
local function is_before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = byte(one, i), byte(other, i)
    if a ~= b then return (a < b) == is_ascending end
  end
  return #one ~= #other and (#one < #other) == is_ascending
end

-- Return a part of a sorted set in the list's order. The first place is 0, and `stop` is excluded.
local function part(key, start, stop, with_scores)
  local words = { key, start, stop - 1 }
  if not is_ascending then words[#words + 1] = 'REV' end
  if with_scores then words[#words + 1] = 'WITHSCORES' end
  return call('ZRANGE', unpack(words))
end

-- Return how many entries of a sorted set come before a score in the list's order.
local function count_before(key, score)
  if is_ascending then return call('ZCOUNT', key, '-inf', '(' .. score) end
  return call('ZCOUNT', key, '(' .. score, '+inf')
end

-- Return the place of the first entry behind the position.
local function place_behind(key)
  if not position then return 0 end
  if tonumber(call('ZSCORE', key, behind) or nil) == position then
    local place = call('ZREVRANK', key, behind)
    return (is_ascending and call('ZCARD', key) - 1 - place or place) + 1
  end
  -- No entry stands at the position. Its place among those of the same score is found by bisection.
  local low = count_before(key, ARGV[3])
  local high = low + call('ZCOUNT', key, ARGV[3], ARGV[3])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(behind, part(key, middle, middle + 1)[1]) then high = middle else low = middle + 1 end
  end
  return low
end

local sources = {}
for i, key in ipairs(KEYS) do
  local lowest, highest = ARGV[3 + 2 * i], ARGV[4 + 2 * i]
  local first, last = lowest, highest
  if not is_ascending then first, last = highest, lowest end
  local start = math.max(place_behind(key), count_before(key, first))
  -- Entries behind the last score are counted from the other end.
  local behind_last = is_ascending and call('ZCOUNT', key, '(' .. last, '+inf') or call('ZCOUNT', key, '-inf', '(' .. last)
  sources[i] = { key = key, place = start, stop = call('ZCARD', key) - behind_last, next = 1, entries = {} }
end

-- Read on where the entries of a source are used. Return whether there are more.
local function has_entry(source)
  if source.entries[source.next] then return true end
  if source.place >= source.stop then return false end
  local stop = math.min(source.stop, source.place + (#KEYS == 1 and count or PIECE))
  source.entries, source.next, source.place = part(source.key, source.place, stop, true), 1, stop
  return source.entries[1] ~= nil
end

local listed = {}
while #listed < 2 * count do
  local first, member, score
  for _, source in ipairs(sources) do
    if has_entry(source) then
      local other, at = source.entries[source.next], tonumber(source.entries[source.next + 1])
      local comes_first = not first
      if first and at ~= score then
        comes_first = (at < score) == is_ascending
      elseif first then
        comes_first = is_before(other, member)
      end
      if comes_first then first, member, score = source, other, at end
    end
  end
  if not first then break end
  listed[#listed + 1] = member
  listed[#listed + 1] = first.entries[first.next + 1]
  first.next = first.next + 2
end
return listed
