-- b83e469d6c467c1f272f2efafdad9771259a89c8 semaphore_lease
-- Generated from ../semaphore_lease.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Returns how long the lease of a permit still runs, and sets it first if asked to. Redis does it even when it is out of memory.
--
-- KEYS[1] leases zset: id of a permit that is out -> Unix ms when its lease ends
-- ARGV[6] id
-- ARGV[7] lease  ms from now; empty means that it stays as it is
-- returns the ms; -1 for a permit without a lease, -2 when it is not out or its lease is over
-- keeps rules A.6
-- for semaphore

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.pcall('ZREM', KEYS[1], '')
local score, now = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[6]) or nil), milliseconds()
if not score or score <= now then
  return -2
end
if ARGV[7] ~= '' then
  score = now + ARGV[7]
  redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', score), ARGV[6])
end
return score >= tonumber('922337203685477') and -1 or score - now
