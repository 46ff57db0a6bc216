#!lua flags=allow-oom
-- take_topic: a round takes a topic for its run. The signals that wait there move into the run's
-- mailbox.
--
-- KEYS  as in parts/run.lua
-- ARGV  token (of the claim), [claim] (its id), topic
-- Returns
--   ok            The run holds the topic. If it held it before, nothing is written.
--   taken ID      Another live run, ID, holds the topic.
--   other TOPIC   The run holds this other topic, and a run holds one topic at a time.
--   fenced        The caller no longer has the lease: nothing is written.
--   missing       There is no such run.
--   damaged WHAT  A key or field is damaged: nothing is written.
--
-- Only a caller whose commit would be accepted takes a topic, so that a run which has ended does not.
-- A full server does not refuse it: work that runs goes on, and the signals only move.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/mailbox.lua
--@ parts/topic.lua
local k = keys_of_one_run()
local now = clock()
k.mailbox = mailbox_of(k)
local run, refusal = read_run(k)
if not run then return refusal end

if run.phase ~= 'leased' or run.token ~= arg.token then return { 'fenced' } end
if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end

if held_topic(k, run) then
  if run.topic == arg.topic then return { 'ok' } end
  return { 'other', run.topic }
end
local topic
topic, refusal = read_topic(k, arg.topic, now)
if not topic then return refusal end
refusal = taken_by_another(k, topic)
if refusal then return refusal end

take_topic(k, run, now, topic)
return { 'ok' }
