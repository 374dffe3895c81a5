-- Frees the lock, whatever its count is, or leaves its queue. Wakes the waiter that is first now.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which it counts as dead
-- KEYS[4] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] wait       ms that a waiter may be silent
-- returns 1 when freed, 0 when not held

local now = milliseconds()
local wait = tonumber(ARGV[6])
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
local position
if freed ~= 1 then
  position = redis.call('LPOS', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  if position then
    redis.call('LREM', KEYS[2], 0, ARGV[1])
    hasten(KEYS[3], redis.call('LRANGE', KEYS[2], position, -1), wait)
  end
end
abandon(KEYS[4], ARGV[3], ARGV[2])
local head, evicted = evict(KEYS[2], KEYS[3], now, wait)
-- While a slot moves, a cluster does not answer whether a key is gone.
if head and (evicted or position == 0 or redis.pcall('EXISTS', KEYS[1]) ~= 1) then
  wake(ARGV[5], ARGV[4], head)
end
return freed
