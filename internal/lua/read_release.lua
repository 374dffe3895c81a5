-- Ends a read hold, whatever its count is. The lock then lasts as long as its longest remaining hold. If no hold
-- remains, the lock is free. Announces a shorter lease or a free lock.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] hold       a string that lives as long as this hold
-- KEYS[3] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- returns 1 when ended, 0 when not held
-- keeps rules A.1, A.5, G.1, G.3, G.4
-- for read

local own, ttl = redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[1])
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
redis.call('DEL', KEYS[2])
-- A writer's lease does not depend on readers. A hold that was not the longest did not determine how long the lock lasts.
-- The margin of 100 ms is there because the clock may move between setting the two expiries. As long as there were more readers
-- than 16, the lock may have become too long.
local size = freed == 1 and redis.call('HGET', KEYS[1], ModeField) ~= WriteMode and redis.call('HLEN', KEYS[1])
if size and (own + 100 >= ttl or size == 1 or size == 17) then
  local left = size > 1 and longest(KEYS[1], size, ttl, ARGV[3]) or 0
  if left > 0 then
    if left ~= ttl then
      redis.call('PEXPIRE', KEYS[1], left)
    end
    if left + 100 < ttl then
      announce(ARGV[5], ARGV[4], MessageFree) -- a waiting writer was told a longer lease, and sleeps that long
    end
  else
    redis.call('DEL', KEYS[1])
    announce(ARGV[5], ARGV[4], MessageFree)
  end
end
abandon(KEYS[3], ARGV[3], ARGV[2]) -- last, because it may fail
return freed
