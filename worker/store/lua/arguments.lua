-- The part with which every script begins (worker/store/scripts.py): its arguments, and what numbers and texts are.
--
-- ARGV: first, in their order, the arguments that the script's line PLACES names, for these are sent for each round and a name is an
--   argument more ("" for one in brackets that is not given); then name, value pairs. After "=" and their number come names and values
--   to write into the run's hash as they are; after "--" a plain list. `now` (ms) stands in for the server's clock in tests; durations are
--   in ms.
--
-- Scripts read and check everything first and write last: a server undoes nothing of a script that fails half-way.

-- A third less time than by name. pcall is for what may be refused: a read of a key of a wrong type.
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local format, match, find, concat = string.format, string.match, string.find, table.concat

--@ arguments
local fields, fields_end = 1, 0 -- where they stand in ARGV
local rest -- and behind what the list stands
do
  local i, name = placed + 1, ARGV[placed + 1]
  while name and name ~= '=' and name ~= '--' do
    arg[name] = ARGV[i + 1]
    i = i + 2
    name = ARGV[i]
  end
  if name == '=' then
    fields = i + 2
    fields_end = fields + ARGV[i + 1] - 1
    i = fields_end + 1
  end
  rest = i
end

-- Lua's unpack is bounded by its stack (about 8,000); a run may hold more values than that.
local MOST_AT_ONCE = 200

-- What stands in `words` from `first` to `last`.
local function in_parts(command, key, words, first, last)
  for i = first, last, MOST_AT_ONCE do call(command, key, unpack(words, i, math.min(i + MOST_AT_ONCE - 1, last))) end
end

local function clock()
  if arg.now then return tonumber(arg.now) end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local written, text_of_it -- a script writes the same time in many places
local function whole(number)
  if number ~= written then written, text_of_it = number, format('%d', number) end
  return text_of_it
end

-- Lua reads nan, inf, 0x10 and 1e3 as numbers, and counts exactly only to 2^53: none of these is a count or a time.
local function is_count(text) return text and #text <= 15 and find(text, '^%d+$') ~= nil end

local function number(text) return is_count(text) and tonumber(text) or 0 end

-- The key that belongs to a run of this id: whatever is under another one is a copy, and would move the other's due time and index.
local function key_of(due, id) return string.sub(due, 1, -#'due' - 1) .. 'run:' .. id end
