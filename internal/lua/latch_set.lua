-- Sets the count of a latch that has none, and announces that it is closed. A repeated call replies the same and changes
-- nothing.
--
-- KEYS[1] latch    the count; no key means that the latch is open
-- KEYS[2] marks    hash: number -> Unix ms, and the answer
-- ARGV[2] memory   ms for which the number is remembered
-- ARGV[3] number   of the call
-- ARGV[4] channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] count
-- ARGV[7] over     numbers of earlier calls, whose marks are not needed any more
-- returns 1 when set, 0 when the latch has a count
-- keeps rules 2
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
note(KEYS[2], ARGV[3], ARGV[2], count and 0 or 1, ARGV[7])
if count then
  return 0
end
redis.call('SET', KEYS[1], ARGV[6])
announce(ARGV[5], ARGV[4], LatchChanged)
return 1
