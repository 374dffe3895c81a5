-- Frees the lock, whatever its count is, or leaves its queue. Wakes the waiter that is first now.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded; BOTH; or NODE if the cluster's is not
-- returns 1 when freed, 0 when not held

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
local first = false
if freed ~= 1 then
  first = redis.call('LINDEX', KEYS[2], 0) == ARGV[1]
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('LREM', KEYS[2], 0, ARGV[1])
end
abandon(KEYS[4], ARGV[3], ARGV[2])
-- While a slot moves, a cluster does not answer whether a key is gone.
if redis.pcall('EXISTS', KEYS[2]) ~= 1 then
  return freed
end

local now = milliseconds()
local head = first and favor(KEYS[2], KEYS[3], now + math.max(redis.call('PTTL', KEYS[1]), 0))
if redis.pcall('EXISTS', KEYS[1]) ~= 1 then
  wakeFirst(KEYS[2], KEYS[3], now, ARGV[5], ARGV[4])
elseif head == evict(KEYS[2], KEYS[3], now, ARGV[5], ARGV[4]) and head then
  reach(ARGV[5], ARGV[4], head) -- it must watch the lease
end
return freed
