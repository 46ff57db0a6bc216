#!lua flags=allow-oom
-- record_intent: record that a command which is not idempotent is about to be carried out.
--
-- KEYS  as in parts/run.lua
-- ARGV  epoch, step and token (of the claim), [claim] (its id), key (one line per command: its
--       idempotency key, and more)
-- Returns
--   ok            The intents are recorded, and the commands may begin.
--   fenced        The caller no longer has the lease: no command may begin.
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- Only a caller whose commit would be accepted may begin a command. After a graceful stop the round
-- in flight may. After a stop `now` it has no lease.
-- Every later claim of the step gets the key, however the attempt ended (a loss, a failure, a stop,
-- a question). It is deleted when the step is done, or when this attempt takes it back
-- (commit_round.lua). A new key replaces the old one, so a caller that adds a line sends the
-- earlier ones too. The time and the worker of the intent are recorded for people.
--@ parts/run.lua
local k = keys_of_one_run()
local run, refusal = read_run(k)
if not run then return refusal end

if run.phase ~= 'leased' or run.token ~= arg.token or run.step ~= arg.step or run.epoch ~= arg.epoch then return { 'fenced' } end
if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end

-- The same key again remains the first attempt's. A second attempt cannot take back what the first
-- one may have done.
if run.intent ~= arg.key then
  call('HSET', k.run, 'intent', arg.key, 'intent_token', arg.token, 'intent_at', whole(clock()), 'intent_by', run.owner or '')
end
return { 'ok' }
