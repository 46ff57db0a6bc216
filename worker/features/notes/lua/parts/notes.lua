-- The keys of a namespace's notes. Notes are outside of the protocol: no transition of a run reads
-- or writes them.

-- Return the keys by name, or nil and the reply that refuses the call.
local function note_keys()
  local types = { 'hash', 'zset', 'zset', 'hash' }
  for i = 1, #KEYS do
    local found = call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= types[i] then return nil, { 'damaged', KEYS[i] } end
  end
  if KEYS[4] then
    local phase, token, claim = unpack(call('HMGET', KEYS[4], 'phase', 'token', 'claim_id'))
    if phase ~= 'leased' or token ~= arg.token or (arg.claim and claim ~= arg.claim) then return nil, { 'fenced' } end
  end
  return { notes = KEYS[1], order = KEYS[2], index = KEYS[3] }
end
