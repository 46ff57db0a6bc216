-- Budgets of a tree (docs/internals/decisions/0048-a-tree-pays-upwards.md). What a run spends is counted
-- by its ancestors too, its payers. Amounts are whole millionths.
--   payers   of a child: a line ID NONCE [NAMES] for each ancestor, the parent first. NAMES are the
--            budgets of it that limit its descendants, separated by commas.
--   t:NAME   what the run's descendants have spent
--   x:NAME   what was added to a limit of the run
--   asks:NAME  the descendant that asks a person for more of this budget
--   short    of a run that waits for more of a budget: EPOCH STEP LOOK RUN BUDGET (LOOK: the ms until it
--            looks again; RUN has the budget)
--   funded   something was added: descendants that wait for it are looked for in the next walk

local LONGEST_SHORT = 3600000 -- ms between two looks of a run that waits for a budget

-- Return whether the text is an amount that `plus` adds exactly.
local function is_amount(text) return #text <= 18 and find(text, '^%d+$') ~= nil end

-- Return the sum of two amounts. Lua counts exactly up to 2^53 only, which is nine billion tokens.
local function plus(one, other)
  local function high(text) return tonumber(string.sub(text, 1, -10)) or 0 end
  local low = tonumber(string.sub(one, -9)) + tonumber(string.sub(other, -9))
  local top = high(one) + high(other) + math.floor(low / 1e9)
  return top > 0 and format('%d%09d', top, low % 1e9) or format('%d', low)
end

-- Add amounts, given as names and texts, to the fields of these names with a prefix. A damaged
-- amount is left alone.
local function add_amounts(key, prefix, amounts)
  for i = 1, #amounts, 2 do
    local known = call('HGET', key, prefix .. amounts[i]) or '0'
    if is_amount(known) and is_amount(amounts[i + 1]) then call('HSET', key, prefix .. amounts[i], plus(known, amounts[i + 1])) end
  end
end

-- Count what the run has spent at its ancestors. An ancestor in doubt (deleted, made anew, damaged) is
-- left alone.
local function charge_above(k, payers, amounts)
  for line in string.gmatch(payers or '', '[^\n]+') do
    local id, nonce = match(line, '^(%S+) (%S+)')
    local key = key_of(k.due, id or '')
    local texts = pcall('HMGET', key, 'id', 'nonce') -- an error has no elements
    if texts[1] == id and texts[2] == nonce then add_amounts(key, 't:', amounts) end
  end
end

-- Return the lines NAME AMOUNT as names and amounts.
local function amounts_of(lines)
  local amounts = {}
  for name, amount in string.gmatch(lines, '(%S+) (%d+)') do
    amounts[#amounts + 1] = name
    amounts[#amounts + 1] = amount
  end
  return amounts
end

-- Return whether another run asks a person for this budget of the payer.
local function another_asks(k, payer, budget)
  local asker = call('HGET', key_of(k.due, payer), 'asks:' .. budget)
  if not asker then return false end
  local texts = pcall('HMGET', key_of(k.due, asker), 'phase', 'i_payer', 'i_budget')
  return texts[1] == 'interrupted' and texts[2] == payer and texts[3] == budget
end

-- Decide about a round that may not begin, as a budget is used up. Return
--   again   something was added to the limit since the caller looked
--   waits   another run asks for more already, and this one waits with it
--   asks    this run asks
local function held_up(k, run)
  local of, nonce, budget = match(arg.short, '^(%S+) (%S*) (%S+)$')
  local texts = pcall('HMGET', key_of(k.due, of), 'id', 'nonce', 'x:' .. budget) -- an error has no elements
  -- The limit of a run that is in doubt no longer holds, as for the next look.
  if texts[1] ~= of or (texts[2] or '') ~= nonce then return 'again' end
  if (texts[3] or '') ~= arg.added then return 'again' end
  if of == run.id then return 'asks' end
  if another_asks(k, of, budget) then return 'waits' end
  call('HSET', key_of(k.due, of), 'asks:' .. budget, run.id)
  return 'asks'
end

-- Wait until something is added to the budget. The run looks again from time to time, ever more seldom,
-- in case the run that asks is stopped.
local function wait_for_budget(k, run, now)
  local of, budget = match(arg.short, '^(%S+) %S* (%S+)$')
  local epoch, step, look = match(run.short or '', '^(%d+) (%d+) (%d+) ')
  local again = epoch == run.epoch and step == run.step
  look = again and math.min(2 * number(look), LONGEST_SHORT) or number(arg.look)
  set(k, 'short', concat({ run.epoch, run.step, whole(look), of, budget }, ' '))
  -- A run that looks for days must not fill its log.
  if not again then event(k, run, now, 'held_up', 'of', of, 'budget', budget) end
  wait(k, run, now, 'budget', look)
end
