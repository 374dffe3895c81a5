-- Gives back what a call took whose caller has given up, and announces that. If the call took nothing, it marks the number, so that no
-- late command with it takes anything. A semaphore that is gone is not made again.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] permits   how many
-- returns 1 when given back, 0 when there was nothing to give back
-- keeps rules 2, A.6, V.2
-- for plain semaphore

local took, value = answered(KEYS[2], ARGV[3]), counter(KEYS[1])
extend(KEYS[2], ARGV[2]) -- Redis then accepts the rest even when it is out of memory
note(KEYS[2], ARGV[3], ARGV[2])
if took ~= 1 or not value then
  return 0
end
announceValue(ARGV[5], ARGV[4], redis.call('INCRBY', KEYS[1], ARGV[6]))
return 1
