-- Counts a latch down by one. At zero it opens: the key goes, and that is announced. A repeated call replies the same and
-- changes nothing.
--
-- KEYS[1] latch    the count; no key means that the latch is open
-- KEYS[2] marks    hash: number -> Unix ms, and the answer
-- ARGV[2] memory   ms for which the number is remembered
-- ARGV[3] number   of the call
-- ARGV[4] channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[7] over     numbers of earlier calls, whose marks are not needed any more
-- returns the count that is left; 0 when the latch is open
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
local left = math.max((count or 0) - 1, 0)
extend(KEYS[2], ARGV[2]) -- Redis then accepts the rest even when it is out of memory
note(KEYS[2], ARGV[3], ARGV[2], left, ARGV[7])
if count and redis.call('DECR', KEYS[1]) <= 0 then
  redis.call('DEL', KEYS[1])
  if count == 1 then -- Redisson announces nothing for a count that was not positive
    announce(ARGV[5], ARGV[4], LatchOpened)
  end
end
return left
