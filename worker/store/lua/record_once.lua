#!lua flags=allow-oom
-- record_once: a result that a round knows before its commit, recorded as soon as it is known; in a step the first of its name stands.
-- KEYS  as in reading.lua.
-- ARGV  nonce (of the submission that the round's claim found), step, name (without line breaks), value (opaque)
-- Returns ok VALUE (the one that stands) | stale (the run has left the step, or is another under the same id) | full | missing |
--         damaged WHAT
-- Not fenced, by token or by epoch: what a worker that lost its round has done is done, and whoever plays the step next must know.
-- The results come with every later claim of the step; a round that is done takes them away (commit_round.lua).
--@ reading.lua
local MOST = 64 -- results in a step: each is a field of the hash that claims read whole
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.nonce ~= arg.nonce or run.step ~= arg.step then return { 'stale' } end
local field = 'o:' .. arg.name
if run[field] then return { 'ok', run[field] } end
local names = {}
for name in string.gmatch(run.once or '', '[^\n]+') do names[#names + 1] = name end
if #names >= MOST then return { 'full' } end
names[#names + 1] = arg.name
call('HSET', k.run, 'once', table.concat(names, '\n'), field, arg.value)
return { 'ok', arg.value }
