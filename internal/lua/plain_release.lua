-- Gives permits of a plain semaphore back, and announces that. A semaphore that is gone is not made again. Redis does it even
-- when it is out of memory.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] receipts  hash: number -> Unix ms; a number that has permits has a time that never comes
-- ARGV[1] holder    and after a further colon how many permits it has, if more than one
-- ARGV[2] lifetime  ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number    of the holder
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- returns 1 when there was a receipt, so that they are given back unless the semaphore is gone; 0 when there was none: an earlier release gave them back, or Redis never had the acquisition, or has
-- lost it

local has = '922337203685477' -- the time that never comes
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local receipt = redis.call('HGET', KEYS[2], ARGV[3])
if receipt and receipt ~= has then
  return 0 -- a release was repeated, and this one comes late
end
redis.call('HDEL', KEYS[2], ARGV[3]) -- Redis then accepts the rest even when it is out of memory
abandon(KEYS[2], ARGV[3], ARGV[2])
if not receipt or not value then
  return receipt and 1 or 0
end
local left = redis.pcall('INCRBY', KEYS[1], permitsOf(ARGV[1]))
if type(left) == 'table' then
  redis.call('HSET', KEYS[2], ARGV[3], has)
  return left
end
announceValue(ARGV[5], ARGV[4], left)
return 1
