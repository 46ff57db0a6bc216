#!lua
-- show_text: append to the live text of a run, if the round that shows it still has the run's lease.
--
-- KEYS  1 run hash   2 live text stream
-- ARGV  token (of the round's claim), [claim] (its id), step, attempt, most (entries that the stream
--       keeps; the server may keep somewhat more), keep (ms after the last entry when it expires); after
--       "--", for each entry: its number in the attempt, its kind, its part and its text
-- Returns
--   ok            The entries are there. Those that were there before are not appended again.
--   fenced        The round no longer has the lease: nothing is written.
--   damaged KEY   A key is of a wrong type: nothing is written.
--
-- A run that ends makes its live text expire with it (parts/moves.lua). A full server refuses live text.
--@ parts/arguments.lua
local ENTRY = 4 -- texts of an entry
local run, text = KEYS[1], KEYS[2]
local found = call('TYPE', text).ok
if found ~= 'none' and found ~= 'stream' then return { 'damaged', text } end
local phase, token, claim = unpack(pcall('HMGET', run, 'phase', 'token', 'claim_id')) -- an error has no elements
if phase ~= 'leased' or token ~= arg.token or (arg.claim and claim ~= arg.claim) then return { 'fenced' } end

-- The number of the newest entry of this attempt. A call is sent again if its reply was lost.
local newest = -1
local last = call('XREVRANGE', text, '+', '-', 'COUNT', 1)[1]
if last then
  local entry = {}
  for i = 1, #last[2], 2 do entry[last[2][i]] = last[2][i + 1] end
  if entry.step == arg.step and entry.attempt == arg.attempt then newest = tonumber(entry.number) or -1 end
end
for i = rest + 1, #ARGV, ENTRY do
  local number, kind, part, piece = unpack(ARGV, i, i + ENTRY - 1)
  if tonumber(number) > newest then
    call('XADD', text, 'MAXLEN', '~', arg.most, '*', 'step', arg.step, 'attempt', arg.attempt, 'number', number, 'kind', kind,
      'part', part, 'text', piece)
  end
end
call('PEXPIREAT', text, whole(clock() + arg.keep))
return { 'ok' }
