-- Tells the first waiters of the line to ask, as many of them as there are free permits for. Whoever gives permits back and knows of
-- no line does not do so. Therefore, if no permit is free and nobody watches, a waiter is asked to watch: it will send this when
-- that is announced.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] line      zset: waiter -> Unix us of its arrival
-- KEYS[3] leases    zset: id of a permit that is out -> Unix ms when its lease ends; absent for a plain semaphore
-- ARGV[1] but       a client whom nobody asks to watch; empty means none
-- ARGV[4] base      Redisson's channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- returns 1 when waiters may have been told, 0 when not
-- keeps rules S.1, S.4, S.9, S.12
-- for semaphore, plain semaphore

if redis.call('ZCOUNT', KEYS[2], 0, WaitersEnd) == 0 then
  return 0
end

-- functions
local value = counter(KEYS[1]) or 0
local _, watchers = listeners(ARGV[5], ARGV[4])
if watchers == 0 then
  summon(latest(KEYS[2]), ARGV[5], ARGV[4], ARGV[1])
end
if value <= 0 then
  return 0
end
mayRemove(KEYS[2])
redis.call('PEXPIRE', KEYS[2], 300000)
tellFirst(KEYS[2], value, KEYS[3] and value + redis.call('ZCARD', KEYS[3]), ARGV[5], ARGV[4], microseconds())
return 1
