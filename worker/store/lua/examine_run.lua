#!lua flags=no-writes,allow-oom
-- examine_run: whether the transitions can read a run; it changes nothing.
-- KEYS  as in reading.lua.
-- Returns ok | missing | damaged KEY or FIELD
local run, refusal = read_run(keys_of_one_run())
return run and { 'ok' } or refusal
