-- Deletes a latch, which opens it, and announces that as Redisson does. A repeated call replies the same and changes nothing.
--
-- KEYS[1] latch    the count; no key means that the latch is open
-- KEYS[2] marks    hash: number -> Unix ms, and the answer
-- ARGV[2] memory   ms for which the number is remembered
-- ARGV[3] number   of the call
-- ARGV[4] channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[7] over     numbers of earlier calls, whose marks are not needed any more
-- returns 1 when deleted, 0 when there was none
-- keeps rules 2, A.6
-- for latches

local answer = answered(KEYS[2], ARGV[3])
if answer then
  return answer
end

-- functions
local count, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
extend(KEYS[2], ARGV[2]) -- Redis then accepts the rest even when it is out of memory
note(KEYS[2], ARGV[3], ARGV[2], count and 1 or 0, ARGV[7])
if not count then
  return 0
end
redis.call('DEL', KEYS[1])
announce(ARGV[5], ARGV[4], LatchChanged)
return 1
