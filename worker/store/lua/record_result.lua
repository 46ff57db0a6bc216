#!lua flags=allow-oom
-- record_result: record a result of a round before its commit. The first of a name is kept in a step.
--
-- KEYS  as in parts/run.lua
-- ARGV  nonce (of the submission that the round's claim found), step, name (without line breaks),
--       value (opaque), [artifact] (the whole result, if the value only stands for it)
-- Returns
--   ok VALUE      The recorded result of this name.
--   large VALUE   As ok. The whole result is the artifact once/NAME-STEP, and the result is listed
--                 as @NAME.
--   stale         The run has left the step, or is another run under the same id.
--   full          The step has as many results as it may have.
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- Neither token nor epoch fences it. What a worker did before it lost its round is done, and the
-- next worker of the step must know it. Every later claim of the step gets the results. The commit
-- of the step deletes them (commit_round.lua).
--@ parts/run.lua
-- Results per step, since claims read the whole hash and each result is a field of it. Of the steps
-- of a workflow that a round carries out at the same time, each has its own: "STEP:NAME".
local MOST = 64
local function scope_of(name)
  return string.match(name, '^@?([^:]*:)') or ''
end
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.nonce ~= arg.nonce or run.step ~= arg.step then return { 'stale' } end
local small, large = run['o:' .. arg.name], run['o:@' .. arg.name]
if small or large then return { small and 'ok' or 'large', small or large } end
local names, scope, count = {}, scope_of(arg.name), 0
for name in string.gmatch(run.once or '', '[^\n]+') do
  names[#names + 1] = name
  if scope_of(name) == scope then count = count + 1 end
end
if count >= MOST then return { 'full' } end
local name = (arg.artifact and '@' or '') .. arg.name
names[#names + 1] = name
if arg.artifact then
  call('HSET', k.artifacts, 'once/' .. arg.name .. '-' .. run.step, arg.artifact)
  if ENDED[run.phase] then call('PEXPIREAT', k.artifacts, whole(number(run.ended_at) + number(run.retention))) end
end
call('HSET', k.run, 'once', table.concat(names, '\n'), 'o:' .. name, arg.value)
return { arg.artifact and 'large' or 'ok', arg.value }
