#!lua flags=no-writes
-- read_fields: read some fields of many hashes. It writes nothing.
--
-- KEYS  the hashes
-- ARGV  the names of the fields
-- Returns a JSON array with an entry for each hash: the texts of its fields, in the order of their
-- names, with false for a field that it does not have. The entry is false if a key is not a hash.
local read = {}
for place, key in ipairs(KEYS) do
  local found = redis.pcall('HMGET', key, unpack(ARGV))
  if found.err and not string.find(found.err, 'WRONGTYPE') then return found end
  read[place] = not found.err and found
end
return cjson.encode(read)
