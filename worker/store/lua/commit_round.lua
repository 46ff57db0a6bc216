#!lua flags=allow-oom
-- commit_round: commit a round (state, memory, event, due time and next message in one write), or
-- refuse it.
--
-- KEYS  as in parts/run.lua
-- PLACES epoch step token kind [claim] [took] [data] [message] [fetch] [fetch_claim] [owner] [lease] [known] [newest] [schema]
-- ARGV  epoch, step and token (of the claim), [claim] (its id), kind, and by kind:
--         next        The round is done. message (of the next round), the fields current_node,
--                     task, queue and others.
--         end         The round is done, and so is the run. With [heed] (names of signals, separated
--                     by spaces), the run does not end while one of them is unread, or, with
--                     [insist], an event names them.
--         pause_next  As next, then the run waits for a person. message is of the next epoch. The
--                     fields i_... describe the interrupt.
--         pause_here  The node asked a person: nothing is committed. message (next epoch, same
--                     step), fields i_...
--         failed      error, delay (before the next attempt), max_failures, [fatal] (no attempt can
--                     help), [traceback]. For a provider that is busy or down: [uncounted] (the
--                     round waits without a counted failure), [within] (ms after the first failure
--                     of this step and epoch at which the run ends), [spent] (the error then). For
--                     code that does not fit the run the same, with reason `code`.
--         give_back   The round is released to another worker, and nothing is counted. [own] is the
--                     round's message, for a run whose hash has none.
--         park        The node waits: wait (its name), wait_for (lines NAME COUNT), [wait_ms],
--                     wait_over (parts/waits.lua), [own]. With children, unless they are written
--                     already: group (its name), total, limit, policy, [hold], [kept], and after
--                     "--" the texts of the plan (parts/family.lua). With any wait for children: look (ms until the
--                     parent looks at them, parts/waits.lua).
--         short       The round may not begin, as a budget is used up: short (RUN NONCE BUDGET, the run
--                     that has the limit), added (x:BUDGET of it, as the caller read it, '' for none), look (ms
--                     until the run looks again), [own], and as pause_here the question: message,
--                     fields i_... If another run asks it, this one waits. If something was added
--                     meanwhile, the round is queued again (parts/payers.lua).
--         damaged     error. The run as loaded is not what was stored: it is quarantined.
--       With every kind: [charge] (lines NAME MILLIONTHS: what this commit adds to what the run has
--         spent, for its ancestors), [field...], [harmless] (all that this attempt did can be repeated, so a
--         stop leaves nothing in doubt), [intent] (the remaining intents of record_intent.lua, if
--         this attempt takes its own back because its command did nothing).
--       If the round is done: [forget] (how many of the oldest turns go), [keep_events] (about how many
--         of the newest events stay), [record] (what the event tells of named values:
--         parts/history.lua), [generation] (the run is renewed: of its named values only those
--         among the fields stay), [take] (lines NAME NUMBER: the signals that it used; given if the step
--         has waited), [joined] (lines: the kept groups that it has joined), [replies] (lines NAME NUMBER
--         JSON: what it replies to signals), [data] (JSON for the event), [took] (ms). After "--": the artifacts
--         as names and texts ([artifacts] is the number of both together), then the memory's
--         additions.
--       With every kind but give_back: [fetch] (lists, one per line), and with it fetch_claim (the
--         id of the prefetch's claim), owner, lease, known, newest and [schema] as in
--         claim_round.lua. The caller has a free slot and takes the next message of these lists.
-- Returns
--   ok continued | completed | interrupted | stopped | errored | waiting | queued | parked
--       After this word, if a message was prefetched: message LIST TEXT, or claimed LIST GRANT
--       (parts/grant.lua). Then, with '' for no message: the ids of the runs for which this commit
--       made a follow-up, separated by spaces.
--   unread SIGNALS      Kind `end`: these signals of `heed` are unread (`NAME COUNT, ...`). Nothing is
--                       written. The caller plays the round again.
--   fenced              The caller no longer has the lease: nothing is committed. After a stop
--                       `now`, this ends the hold of the caller's token.
--   missing             There is no such run.
--   damaged KEY         A key or field is damaged: nothing is written.
--   unknown_queue LIST  The next round's queue is not one of ours: nothing is written.
--
-- Only the newest token of a leased run commits, even after its lease has lapsed. A repeated commit
-- gets its first reply. A requested stop beats every kind but `end`, and the fields are still
-- written. What the step recorded before its commit is removed when the round is done.
-- After a failover or a loss of power, a server may grant a token twice. So if the caller names its
-- claim, the lease must be of that claim.
--@ parts/run.lua
--@ parts/counters.lua
--@ parts/grant.lua
--@ parts/prefetch.lua
--@ parts/history.lua
local k = keys_of_one_run()
local now = clock()
--@ parts/leased_run.lua
local damaged
if not plain then
  if arg.take or arg.wait or arg.replies then k.mailbox = mailbox_of(k) end
  if arg.group then k.group = group_of(k, arg.group) end
  damaged = mistyped(k)
  if damaged then return { 'damaged', damaged } end
  local more = { 'last_node', 'idem', 'started_at', 'waiting_for', 'stop_mode', 'stop_by', 'stop_reason', 'stop_asked_at', 'i_status',
    'i_node', 'i_reason', 'intent_token', 'failing', 'misfit', 'traceback', 'handed_to', 'on_end',
    'mailbox', 'wait', 'wait_until', 'o:~' .. (arg.wait or ''), 'nonce', 'groups', 'walk', 'parent', 'parent_nonce', 'group', 'place',
    'stop_tree', 'stop_only', 'payers', 'short', 'topic' }
  local texts = call('HMGET', k.run, unpack(more))
  for i = 1, #more do run[more[i]] = texts[i] or nil end
end
if not run.id then return { call('EXISTS', k.run) == 0 and 'missing' or 'damaged', 'id' } end
-- `malformed` would find the same, and takes three times as long.
local sound = plain
for i = 1, COUNTS do
  local text = found[i]
  if not text or text == '' or #text > 14 then sound = false end
end
sound = sound and find(concat(found, '', 1, COUNTS), '^%d+$') and run.phase == 'leased'
  and run.flow and run.queue and run.message and run.current_node
  and not run.deadline and k.run == key_of(k.due, run.id)
damaged = not sound and malformed(k, run)
if damaged then return { 'damaged', damaged } end

if run.last_token == arg.token then
--@ parts/fetched_before.lua
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

local queue = run.queue -- the next round's queue
for i = fields, fields_end, 2 do
  if ARGV[i] == 'queue' then queue = ARGV[i + 1] end
end
local refusal, pushed = unpushable(k, queue)
if plain then
  if refusal then return refusal end
--@ parts/fast_continue.lua
end

-- Each script makes its functions anew, so those that most rounds do not need stand behind this.
--@ parts/steering.lua
local unread
if arg.heed and run.mailbox and arg.kind == 'end' then
  unread, damaged = unread_of_end(k)
  if damaged then return { 'damaged', damaged } end
  if unread and not arg.insist then return { 'unread', unread } end
end
if refusal then return refusal end

--@ parts/moves.lua
--@ parts/waits.lua
--@ parts/family.lua
--@ parts/ends.lua
--@ parts/payers.lua
--@ parts/renewal.lua
local kind = arg.kind
local done = kind == 'next' or kind == 'end' or kind == 'pause_next'
local paused = kind == 'pause_next' or kind == 'pause_here'
local stopping = run.stop_current_execution == 'stop_requested' and kind ~= 'end'
local short = kind == 'short' and (stopping and 'again' or held_up(k, run))
if short == 'asks' then paused = true end

if done then forget_turns(k) end
free_lease(k)
if done then
  log(k, run, whole(now))
  if arg.generation then renew(k, run, now) end
  if run.i_id then forget_interrupt(k) end
  if arg.take then
    end_waits(k, run)
    drop_groups(k, run, now, arg.joined or '')
  end
  if arg.replies then reply_to_signals(k) end
  run.last_node, run.step, run.attempt = run.current_node, whole(run.step + 1), '0'
  set(k, 'step', run.step, 'last_node', run.last_node, 'attempt', '0', 'failures', '0', 'losses', '0')
  unset(k, 'traceback', 'last_error', 'intent', 'intent_token', 'intent_at', 'intent_by')
elseif arg.intent and run.intent_token == arg.token then
  -- An attempt takes back only its own intent. That its command did nothing proves nothing about
  -- the command of an earlier attempt.
  if arg.intent == '' then unset(k, 'intent', 'intent_token', 'intent_at', 'intent_by') else set(k, 'intent', arg.intent) end
end
if paused then forget_interrupt(k) end
if kind == 'park' then
  begin_wait(k, run, now)
  if open_group(k, run, now) then
    local runs = { 'runs', arg.total .. '000000' }
    add_amounts(k.run, 't:', runs)
    charge_above(k, run.payers, runs)
  end
end
set_fields(k)
if arg.charge then charge_above(k, run.payers, amounts_of(arg.charge)) end
for i = fields, fields_end, 2 do run[ARGV[i]] = ARGV[i + 1] end
if short and not paused then forget_interrupt(k) end
if arg.message and (paused or not short) then
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
  if unread then event(k, run, now, 'unread', 'signals', unread) end
  complete(k, run, now)
  answer = 'completed'
elseif paused then
  pause(k, run, now)
  answer = 'interrupted'
elseif short == 'waits' then
  wait_for_budget(k, run, now)
  answer = 'waiting'
elseif short then
  push(k, run, now)
  answer = 'queued'
elseif kind == 'park' then
  answer = park(k, run, now)
elseif kind == 'give_back' then
  event(k, run, now, 'given_back', 'token', run.token)
  push(k, run, now)
  answer = 'queued'
elseif kind == 'failed' then
  local failures, counts = number(run.failures), not arg.uncounted
  if counts then failures = failures + 1 end
  -- `failing` has the epoch and step, the time of the first failure, and the number of waits in a
  -- row; `misfit` has the same of code that does not fit. Neither is deleted, so a value of another
  -- step is ignored.
  local reason = arg.reason or 'provider'
  local noted = reason == 'code' and 'misfit' or 'failing'
  local epoch, step, since, waits = match(run[noted] or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if epoch ~= run.epoch or step ~= run.step or not is_count(since) then since, waits = whole(now), '0' end
  waits = counts and 0 or number(waits) + 1
  local left = arg.within and number(since) + number(arg.within) - now
  local spent = left and left <= 0
  local raised = arg.traceback
  if raised then set(k, 'traceback', raised) elseif run.traceback then unset(k, 'traceback') end
  set(k, 'failures', whole(failures), 'last_error', arg.error, noted, concat({ run.epoch, run.step, since, whole(waits) }, ' '))
  if arg.fatal or spent or counts and failures >= number(arg.max_failures) then
    fail(k, run, now, spent and arg.spent or arg.error, raised)
    answer = 'errored'
  else
    -- The last attempt is made when the time `within` ends.
    local delay = math.min(number(arg.delay), left or math.huge)
    if counts then
      -- An outage can fail a round a thousand times in the same way, and each event is stored. So
      -- the same traceback is logged once.
      local told = raised and raised ~= run.traceback and { 'traceback', raised } or {}
      event(k, run, now, 'failed', 'error', arg.error, 'retry_in', whole(delay), unpack(told))
      wait(k, run, now, 'retry', delay)
    else
      -- A day of waiting must not fill the log.
      if waits <= 10 or waits % 10 == 0 then
        event(k, run, now, 'waits', 'reason', arg.error, 'since', since, 'until', whole(now + delay), 'waits', whole(waits),
          unpack(arg.reason and { 'for', reason } or {}))
      end
      tally(k, run, 'moves:' .. reason .. '_waits', 1)
      wait(k, run, now, reason, delay)
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
return with_follow_ups({ 'ok', answer, fetched or followed[1] and '' or nil })
