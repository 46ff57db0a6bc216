#!lua flags=allow-oom
-- commit_round: make a round real (state, memory, event, due time and the next message in one write), or refuse it.
-- KEYS  as in reading.lua.
-- PLACES epoch step token kind [claim] [took] [data] [message] [fetch] [fetch_claim] [owner] [lease] [known] [newest] [schema]
-- ARGV  epoch, step, token (what the claim granted), [claim] (its id), kind, and by kind:
--         next        this round is done; message (of the next round), the fields current_node task queue and others
--         end         this round is done and so is the run
--         pause_next  as next, then wait for a person; message is of the next epoch; the fields i_... describe the interrupt
--         pause_here  the node asked a person: nothing is committed; message (next epoch, same step), i_...
--         failed      error, delay (wait before the next attempt), [fatal] (no attempt can help), max_failures, [traceback] (a text),
--                     [uncounted] (a provider is busy or away: the round waits, and no failure is counted), [within] (ms since the first
--                     failure of this step and epoch, after which the run ends), [spent] (the error then)
--         give_back   another worker shall have the round; nothing is counted; [own] is the round's message, where the hash has none
--         damaged     error; what was loaded is not what was stored: the run is quarantined
--       with every kind: [harmless] (this attempt did nothing that could not be done again: a stop leaves nothing in doubt), [field...]; [intent] is what still stands of the intents (record_intent.lua), where this attempt takes its own
--       back: its command did nothing;
--       where the round is done: [data] (JSON for the event), [took] (ms); after "--": texts that are kept whole, each behind its name,
--       of which there are [artifacts] (names and texts together), then the memory's additions
--       with every kind but give_back: [fetch] (lists, one a line), and with it fetch_claim, owner, lease, known, newest, [schema] as in
--       claim_round.lua (fetch_claim is the claim's id): the caller has a place free now, and takes the next message of these lists
-- Returns ok continued | ok completed | ok interrupted | ok stopped | ok errored | ok waiting | ok queued | fenced | missing |
--         damaged KEY | unknown_queue LIST
--         After ok and its word, where a message was fetched: message LIST TEXT | claimed LIST GRANT (see claiming.lua)
-- Only the newest token of a leased run commits, and a commit repeated gets its first answer. A stop asked for meanwhile
-- beats every outcome but `end`; the fields are written all the same. What was recorded before the commit goes when the round is done.
-- A server that has forgotten claims (a failover, a loss of power) grants their tokens once more; so where the caller names its claim, the
-- lease must be that claim's.
--@ reading.lua
--@ counting.lua
--@ claiming.lua
--@ fetching.lua
--@ logging.lua
--@ continuing.lua
local k = keys_of_one_run()
local now = clock()
local run, found = read_leased(k)
if not run then return { 'damaged', k.run } end
local plain, damaged = is_plain(run), nil
if not plain then
  damaged = mistyped(k)
  if damaged then return { 'damaged', damaged } end
  local more = { 'last_node', 'idem', 'started_at', 'waiting_for', 'stop_mode', 'stop_by', 'stop_reason', 'stop_asked_at', 'i_status',
    'i_node', 'i_reason', 'intent_token', 'failing', 'traceback', 'handed_to', 'on_end' }
  local texts = call('HMGET', k.run, unpack(more))
  for i = 1, #more do run[more[i]] = texts[i] or nil end
end
if not run.id then return { call('EXISTS', k.run) == 0 and 'missing' or 'damaged', 'id' } end
damaged = not (plain and is_sound(k, run, found)) and malformed(k, run)
if damaged then return { 'damaged', damaged } end

if run.last_token == arg.token then
  local answer, fetched = unpack(call('HMGET', k.run, 'last_answer', 'last_fetched'))
  return { 'ok', answer or nil, fetched_before(k, now, fetched) }
end
if run.held_token == arg.token then
  call('HDEL', k.run, 'held_token', 'held_until')
  if run.phase == 'waiting' and run.waiting_for == 'hold' then call('ZADD', k.due, math.min(now, run.deadline or now), run.id) end
  return { 'fenced' }
end
if run.phase ~= 'leased' or run.token ~= arg.token or run.step ~= arg.step or run.epoch ~= arg.epoch then return { 'fenced' } end
if arg.claim and run.claim_id ~= arg.claim then return { 'fenced' } end

local queue = run.queue -- the next round's
for i = fields, fields_end, 2 do
  if ARGV[i] == 'queue' then queue = ARGV[i + 1] end
end
local refusal, pushed = unpushable(k, queue)
if refusal then return refusal end
if plain then
  damaged = unwritable(k, queue)
  if damaged then return { 'damaged', damaged } end
  return continue(k, run, now, queue, tonumber(pushed or 0))
end

--@ moving.lua
local kind = arg.kind
local done = kind == 'next' or kind == 'end' or kind == 'pause_next'
local paused = kind == 'pause_next' or kind == 'pause_here'
local stopping = run.stop_current_execution == 'stop_requested' and kind ~= 'end'

free_lease(k)
if done then
  log(k, run, whole(now))
  if run.i_id then forget_interrupt(k) end
  run.last_node, run.step, run.attempt = run.current_node, whole(run.step + 1), '0'
  set(k, 'step', run.step, 'last_node', run.last_node, 'attempt', '0', 'failures', '0', 'losses', '0')
  unset(k, 'traceback', 'last_error', 'intent', 'intent_token', 'intent_at', 'intent_by')
elseif arg.intent and run.intent_token == arg.token then
  -- Only by whom it was written: that its own command did nothing says nothing of the command of an attempt before.
  if arg.intent == '' then unset(k, 'intent', 'intent_token', 'intent_at', 'intent_by') else set(k, 'intent', arg.intent) end
end
if paused then forget_interrupt(k) end
set_fields(k)
for i = fields, fields_end, 2 do run[ARGV[i]] = ARGV[i + 1] end
if arg.message then
  fresh_message(k, run, arg.message)
elseif arg.own and run.message == '' then
  run.message = arg.own
  set(k, 'message', arg.own)
end
if paused then
  run.i_id = run.epoch .. ':' .. run.step
  set(k, 'i_id', run.i_id)
end

local answer
if stopping then
  stop_here(k, run, now, (done or arg.harmless) and '' or (run.step .. '/' .. run.current_node .. '/' .. run.attempt))
  answer = 'stopped'
elseif kind == 'next' then
  push(k, run, now)
  answer = 'continued'
elseif kind == 'end' then
  complete(k, run, now)
  answer = 'completed'
elseif paused then
  pause(k, run, now)
  answer = 'interrupted'
elseif kind == 'give_back' then
  event(k, run, now, 'given_back', 'token', run.token)
  push(k, run, now)
  answer = 'queued'
elseif kind == 'failed' then
  local failures, counts = number(run.failures), not arg.uncounted
  if counts then failures = failures + 1 end
  -- Of which epoch and step, since when, how many waits in a row: what is left of another step means nothing, and nothing clears it.
  local epoch, step, since, waits = match(run.failing or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if epoch ~= run.epoch or step ~= run.step or not is_count(since) then since, waits = whole(now), '0' end
  waits = counts and 0 or number(waits) + 1
  local left = arg.within and number(since) + number(arg.within) - now
  local spent = left and left <= 0
  local raised = arg.traceback
  if raised then set(k, 'traceback', raised) elseif run.traceback then unset(k, 'traceback') end
  set(k, 'failures', whole(failures), 'last_error', arg.error, 'failing', concat({ run.epoch, run.step, since, whole(waits) }, ' '))
  if arg.fatal or spent or counts and failures >= number(arg.max_failures) then
    fail(k, run, now, spent and arg.spent or arg.error, raised)
    answer = 'errored'
  else
    local delay = math.min(number(arg.delay), left or math.huge) -- the last attempt is made when the patience ends
    if counts then
      -- An outage fails a round a thousand times in the same way, and each event is kept: the same traceback is told once.
      local told = raised and raised ~= run.traceback and { 'traceback', raised } or {}
      event(k, run, now, 'failed', 'error', arg.error, 'retry_in', whole(delay), unpack(told))
      wait(k, run, now, 'retry', delay)
    else
      -- A day of waiting shall not fill the log.
      if waits <= 10 or waits % 10 == 0 then
        event(k, run, now, 'waits', 'reason', arg.error, 'since', since, 'until', whole(now + delay), 'waits', whole(waits))
      end
      tally(k, run, 'moves:provider_waits', 1)
      wait(k, run, now, 'provider', delay)
    end
    answer = 'waiting'
  end
else
  fail(k, run, now, arg.error)
  set(k, 'quarantined', '1')
  answer = 'errored'
end
local list, text, id
if kind ~= 'give_back' then list, text, id = pop(k) end
set(k, 'last_token', arg.token, 'last_answer', answer, 'last_fetched', id or '')
local promises, counted = {}, {}
local fetched = claimed(k, now, list, text, id, promises, counted)
if promises[1] then promise(k, promises, counted) end
return { 'ok', answer, fetched }
