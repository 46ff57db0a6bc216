#!lua flags=allow-oom
-- commit_and_continue: commit a round that another one follows, and lease that one to the same worker.
--
-- It replaces commit_round, a push and a claim for a run with affinity to its worker. The next
-- round's message enters no list, so it need not be built. If the lease is lost, the sweep's caller
-- builds it. docs/internals/decisions/0026-a-run-stays.md
--
-- KEYS  1 run hash   2 memory list   3 event stream   4 artifacts hash   5 due set   6 queues hash
--       7 paused flows
-- PLACES epoch step token claim next_claim list [took] [data] [message] [artifacts]
-- ARGV  epoch, step, token, claim (its id), [took], [data], [artifacts] as in commit_round.lua,
--       next_claim (id of the next round's claim), list (where the next round's message would be),
--       [message] (of the next round, if it is built already), [mailbox] (the run's field, if the
--       claim has it), [forget], [keep_events], [record], [field...]; after "--" as in commit_round.lua
-- Returns, as one text, which a client reads faster than a list
--   ok TOKEN NOW LEASE_UNTIL NUMBER [ROUND_UNTIL]   The lease of the next round.
--   other   The case needs commit_round: a stop, a pause, an answer, a new signal, damage, or a lost
--           lease.
--           Nothing is written.
--
-- A repeated commit gets the same lease again while the lease is held. As in commit_round, only the
-- newest token of a leased run commits.
--@ parts/arguments.lua
--@ parts/history.lua
local k = { run = KEYS[1], memory = KEYS[2], events = KEYS[3], artifacts = KEYS[4], due = KEYS[5], queues = KEYS[6], paused = KEYS[7] }
local now = clock()

local OTHER = { ok = 'other' }
local COUNTS = 12 -- the first fields that are read: counts and times that every leased run has
local found = pcall('HMGET', k.run, 'epoch', 'step', 'token', 'attempt', 'claimed_at', 'lease_until', 'lease_granted', 'number',
  'failures', 'losses', 'grace', 'resend', 'id', 'flow', 'phase', 'current_node', 'claim_id', 'last_token', 'held_token',
  'stop_current_execution', 'i_id', 'last_error', 'once', 'round_until', 'round_timeout', 'deadline', 'mailbox')
if found.err then return OTHER end
for i = 1, COUNTS do
  local text = found[i]
  if not text or text == '' or #text > 14 then return OTHER end
end
if not find(concat(found, '', 1, COUNTS), '^%d+$') then return OTHER end
local epoch, step, token, attempt, claimed_at, lease_until, lease, number_in_line, failures, losses, grace, resend, id, flow, phase, node,
  claim, last_token, held_token, stop, interrupt, last_error, once, round_until, round_timeout, deadline, mailbox = unpack(found)
if phase ~= 'leased' or not id or k.run ~= key_of(k.due, id) then return OTHER end
if round_until and not is_count(round_until) then return OTHER end

local function granted(...) return { ok = concat({ 'ok', ... }, ' ') } end

if last_token == arg.token then -- made already, and the reply was lost
  if claim ~= arg.next_claim then return OTHER end
  return granted(token, claimed_at, lease_until, number_in_line, round_until or nil)
end

if token ~= arg.token or claim ~= arg.claim or step ~= arg.step or epoch ~= arg.epoch then return OTHER end
if stop == 'stop_requested' or interrupt or held_token == arg.token then return OTHER end
-- A signal came in. The next round reads the run, and so hears of it.
if (mailbox or nil) ~= arg.mailbox then return OTHER end
if failures ~= '0' or losses ~= '0' or last_error or grace ~= resend then return OTHER end
if not flow or not node or round_timeout and not is_count(round_timeout) or deadline and not is_count(deadline) then return OTHER end
if pcall('HEXISTS', k.paused, flow) ~= 0 or type(pcall('ZCARD', k.due)) ~= 'number' then return OTHER end
if rest < #ARGV or arg.forget then
  for key, wanted in pairs({ [k.memory] = 'list', [k.artifacts] = 'hash' }) do
    local held = call('TYPE', key).ok
    if held ~= wanted and held ~= 'none' then return OTHER end
  end
end
-- The run's number is that of the list's newest claimed message. So the run counts as one already
-- in line: whatever requeues it pushes to the consuming end. An empty cursor has no such
-- number.
local counters = pcall('HMGET', k.queues, 'token', arg.list .. ':cursor')
if counters.err then return OTHER end
local newest, place = number(counters[1]), counters[2]
if number(place) == 0 or newest < tonumber(token) then return OTHER end

local at = whole(now)
forget_turns(k)
if not log(k, { step = step, attempt = attempt, current_node = node, once = once or nil }, at) then return OTHER end
call('HDEL', k.run, 'progress', 'spared', 'intent', 'intent_token', 'intent_at', 'intent_by', 'round_until')
round_until = nil
if round_timeout or deadline then -- as in parts/grant.lua
  round_until = whole(math.min(round_timeout and now + round_timeout or math.huge, deadline or math.huge) + lease)
  call('HSET', k.run, 'round_until', round_until)
end
in_parts('HSET', k.run, ARGV, fields + MOST_AT_ONCE, fields_end)
token, lease_until = whole(newest + 1), whole(now + lease)
call('HSET', k.run, 'step', whole(step + 1), 'last_node', node, 'attempt', '1', 'message', arg.message or '', 'number', place, 'updated_at', at,
  'claimed_at', at, 'token', token, 'claim_id', arg.next_claim, 'lease_until', lease_until, 'last_token', arg.token, 'last_answer',
  'continued', unpack(ARGV, fields, math.min(fields + MOST_AT_ONCE - 1, fields_end)))
call('ZADD', k.due, lease_until, id)
call('HSET', k.queues, 'token', token)
return granted(token, at, lease_until, place, round_until)
