-- Part of commit_round: what a commit that is sent again prefetched.

-- Return what this commit prefetched when it was made first: its reply may have been lost, and with
-- it a claim. The claim's id shows whether the claim is still valid.
local function fetched_before(k, now, id)
  if not arg.fetch or not id or id == '' then return nil end
  local own = another(k, id)
  local run, _, flat = read_hash(own)
  if not run or run.phase ~= 'leased' or run.claim_id ~= arg.fetch_claim then return nil end
  local newest, turns = turns_of(own)
  return newest and 'claimed ' .. run.queue .. BETWEEN .. told(own, now, run, flat, newest, turns)
end
