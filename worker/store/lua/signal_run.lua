#!lua
-- signal_run: put a signal into a run's mailbox, and wake the run if it waits for it.
--
-- KEYS  as in parts/run.lua
-- ARGV  name (of the signal), payload (JSON), [by] (the sender), [key] (the sender's own id of the
--       signal), [content] (digest of the payload, with a key), and what a mailbox holds unread at
--       most: most (signals of one name), names, bytes. The limit of names does not hold for a signal
--       that the run waits for.
-- Returns
--   ok NUMBER PHASE         The signal has this number among those of its name.
--   unmade NUMBER PHASE EPOCH STEP TASK QUEUE
--                           The same, and the run's wait is over: the caller brings its message
--                           (wake_run.lua). If it does not, the sweep asks for it.
--   finished PHASE          The run is completed.
--   conflict NUMBER         The key has this signal, with another payload.
--   full WHAT               The mailbox has as many unread signals, names or bytes as it may have.
--   missing                 There is no such run.
--   damaged KEY             A key or field is damaged: nothing is written.
--
-- A repeated signal with a key gets its first number. The newest 1,000 keys of a name are known.
-- Like a submission, a signal is refused by a server that is full.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/mailbox.lua
--@ parts/receive.lua
local k = keys_of_one_run()
k.mailbox = mailbox_of(k)
local now = clock()
local run, refusal = read_run(k)
if not run then return refusal end
local place, content = known_signal(k.mailbox, arg.name, arg.key)
if place then
  if content ~= arg.content then return { 'conflict', place } end
  return { 'ok', place, run.phase }
end
if run.phase == 'completed' then return { 'finished', run.phase } end
return receive(k, run, now)
