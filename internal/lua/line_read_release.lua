-- Ends a read hold, whatever its count is. The lock then lasts as long as its longest remaining hold. If no hold
-- remains, the lock is free, and goes to the first waiter of the line that is reached: a writer. Announces a shorter lease, or a
-- lock that nobody gets.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] line       zset: waiter -> Unix us of its arrival
-- KEYS[3] hold       a string that lives as long as this hold
-- KEYS[4] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] base       Redisson's channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- returns 1 when ended, 0 when not held; where writers wait for the free lock {1, Unix us, 1 if one of them has it or is asked
-- to take it, 3 if it is still offered to others, or else 0, 0, 0, how many others listen}
-- keeps rules A.1, A.5, G.1, G.3, G.4, S.1, S.2, S.4, S.9
-- for read

local own, ttl = redis.call('PTTL', KEYS[3]), redis.call('PTTL', KEYS[1])
local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
redis.call('DEL', KEYS[3])
abandon(KEYS[4], ARGV[3], ARGV[2])
-- A writer's lease does not depend on readers. A hold that was not the longest did not determine how long the lock lasts.
-- The margin of 100 ms is there because the clock may move between setting the two expiries.
-- As long as there were more readers than 16, the lock may have become too long.
if freed ~= 1 or redis.call('HGET', KEYS[1], ModeField) == WriteMode then
  return freed
end
local size = redis.call('HLEN', KEYS[1])
if own + 100 < ttl and size > 1 and size ~= 17 then
  return freed
end
local left = size > 1 and longest(KEYS[1], size, ttl, ARGV[3]) or 0
if left <= 0 then
  redis.call('DEL', KEYS[1])
  if redis.pcall('EXISTS', KEYS[2]) ~= 1 then
    announce(ARGV[5], ARGV[4], MessageFree)
    return 1
  end
end

-- functions
if left > 0 then
  if left ~= ttl then
    redis.call('PEXPIRE', KEYS[1], left)
  end
  if left + 100 < ttl then -- a waiting writer was told a longer lease, and sleeps that long
    announce(ARGV[5], ARGV[4], MessageFree)
    return tried(1, pcall(forewarn, KEYS[2], 0, ARGV[5], ARGV[4], left))
  end
  return 1
end
local able, reply = pcall(function()
  local now = microseconds()
  if offered(KEYS[2], now, true) then -- the offer was to all readers, and some may be slower
    local others = listeners(ARGV[5], ARGV[4])
    return {1, now, 3, 0, 0, others}
  end
  mayRemove(KEYS[2])
  return pass(KEYS[1], KEYS[2], nil, ARGV[5], ARGV[4], now, ReadMode, true, '', 0)
end)
if able then
  return reply
end
announce(ARGV[5], ARGV[4], MessageFree)
return tried(1, able, reply)
