#!lua flags=allow-oom
-- open_hook: record the digest of the secret by which a run can be signalled without a token.
--
-- KEYS  as in parts/run.lua
-- ARGV  nonce (of the submission that the round's claim found), name (of the signal), digest
-- Returns
--   ok            The run has this digest under the name.
--   stale         Another run has the id by now.
--   full          The run has as many hooks as it may have.
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- The secret is derived from the run, so every attempt records the same digest.
--@ parts/run.lua
-- Hooks per run, since claims read the whole hash.
local MOST = 16
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.nonce ~= arg.nonce then return { 'stale' } end
local field, count = 'h:' .. arg.name, 0
for name in pairs(run) do
  if string.sub(name, 1, 2) == 'h:' and name ~= field then count = count + 1 end
end
if count >= MOST then return { 'full' } end
call('HSET', k.run, field, arg.digest)
return { 'ok' }
