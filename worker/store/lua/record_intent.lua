#!lua flags=allow-oom
-- record_intent: before a command that is not idempotent is carried out, its round writes down that it is about to be.
-- KEYS  as in reading.lua.
-- ARGV  epoch, step, token (what the claim granted), [claim] (its id), key (a line for each command: its idempotency key, and more)
-- Returns ok | fenced | missing | damaged WHAT
-- Granted to whom a commit would be: nobody else may begin anything. After a graceful stop the round in flight may, after `now` it
-- has no lease. The key comes with every later claim of the step, whatever ended the attempt (a loss, a failure, a stop, a question),
-- until the step is done, or this same attempt takes it back (commit_round.lua). It is replaced whole: whoever adds a line sends those
-- that stood. When and by which worker it was written is for people, and goes with the intent.
--@ reading.lua
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.phase ~= 'leased' or run.token ~= arg.token or run.step ~= arg.step or run.epoch ~= arg.epoch then return { 'fenced' } end
if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end

-- Tried again under the same key, it stays the first attempt's: the second cannot take back what the first may have done.
if run.intent ~= arg.key then
  call('HSET', k.run, 'intent', arg.key, 'intent_token', arg.token, 'intent_at', whole(clock()), 'intent_by', run.owner or '')
end
return { 'ok' }
