-- Part of commit_round: it reads what the fast path needs of `run`, and finds out whether the fast path
-- applies (`plain`). It is no function, nor is parts/fast_continue.lua: a script makes its functions anew
-- each time, which costs a round more than these do.
local COUNTS = 13 -- the first fields: counts and times that every leased run has
local found = pcall('HMGET', k.run, 'epoch', 'step', 'token', 'attempt', 'resend', 'retention', 'created_at', 'failures', 'losses',
  'number', 'grace', 'lease_until', 'lease_granted', 'id', 'flow', 'phase', 'current_node', 'queue', 'message', 'claim_id', 'last_token',
  'deadline', 'held_token', 'stop_current_execution', 'i_id', 'once')
if found.err then return { 'damaged', k.run } end
local run = { epoch = found[1] or nil, step = found[2] or nil, token = found[3] or nil, attempt = found[4] or nil, resend = found[5] or nil,
  retention = found[6] or nil, created_at = found[7] or nil, failures = found[8] or nil, losses = found[9] or nil,
  number = found[10] or nil, grace = found[11] or nil, lease_until = found[12] or nil, lease_granted = found[13] or nil,
  id = found[14] or nil, flow = found[15] or nil, phase = found[16] or nil, current_node = found[17] or nil, queue = found[18] or nil,
  message = found[19] or nil, claim_id = found[20] or nil, last_token = found[21] or nil, deadline = found[22] or nil,
  held_token = found[23] or nil, stop_current_execution = found[24] or nil, i_id = found[25] or nil, once = found[26] or nil }
-- There is no stop, no used answer, no held token, and no outbox.
local plain = arg.kind == 'next' and arg.message and run.stop_current_execution ~= 'stop_requested' and not run.i_id and not arg.outbox
  and not arg.take and not arg.replies and not arg.charge and not arg.generation
  and run.held_token ~= arg.token
