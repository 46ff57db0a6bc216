-- The first part of every script (worker/store/scripts.py): its arguments, and numbers and texts.
--
-- ARGV, in this order:
--   1. The positional arguments, in the order of the script's PLACES line. An optional one (in
--      brackets) that is absent is "". The arguments of each round are positional, since a name is
--      one argument more.
--   2. Pairs of name and value. `now` (ms) replaces the server's clock in tests.
--   3. After "=" and their number: names and values that the script writes into the run's hash.
--   4. After "--": a plain list.
-- Durations are in ms.
--
-- A script reads and checks everything first and writes last, since a server undoes nothing if a
-- script fails half-way.

-- Locals take a third less time than lookups by name. pcall is for calls that may be refused, such
-- as a read of a key of a wrong type.
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV
local format, match, find, concat = string.format, string.match, string.find, table.concat

--@ arguments
local fields, fields_end = 1, 0 -- their positions in ARGV
local rest -- the list begins after this position
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

-- Lua's stack limits unpack to about 8,000 values, and a run may have more.
local MOST_AT_ONCE = 200

-- Run the command with `words` from `first` to `last`, in parts.
local function in_parts(command, key, words, first, last)
  for i = first, last, MOST_AT_ONCE do call(command, key, unpack(words, i, math.min(i + MOST_AT_ONCE - 1, last))) end
end

local function clock()
  if arg.now then return tonumber(arg.now) end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local written, text_of_it -- A script writes the same time in many fields.
local function whole(number)
  if number ~= written then written, text_of_it = number, format('%d', number) end
  return text_of_it
end

-- Lua accepts nan, inf, 0x10 and 1e3 as numbers, and is exact only up to 2^53. None of these is a
-- count or a time.
local function is_count(text) return text and #text <= 15 and find(text, '^%d+$') ~= nil end

local function number(text) return is_count(text) and tonumber(text) or 0 end

-- Return the key of the run with this id. A hash under any other key is a copy. Moving the copy
-- would change the due time and index of the original.
local function key_of(due, id) return string.sub(due, 1, -#'due' - 1) .. 'run:' .. id end
