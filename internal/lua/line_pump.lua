-- Gives a free lock to the first waiter of the line that is reached. A release that knows of no line does not do so. Therefore, if
-- somebody has the lock and nobody watches, a waiter is asked to watch: it will send this when the lock is free.
--
-- KEYS[1] lock   hash: holder -> count
-- KEYS[2] line   zset: waiter -> Unix us of its arrival
-- KEYS[3] token  the latest token, or else the tombstones
-- KEYS[4] tombstones  hash: number -> Unix ms; only if there is a token
-- ARGV[1] but       a client whom nobody asks to watch; empty means none
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- returns 1 when a waiter has it, or was told to ask; 0 when not; -1 minus the ms to wait while others may take it
-- keeps rules S.1, S.4, S.9, S.12
-- for lock, spin, read, write
-- with tokens for fenced, fenced write

if redis.call('EXISTS', KEYS[2]) == 0 or redis.call('ZCOUNT', KEYS[2], 0, WaitersEnd) == 0 then
  return 0
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local _, watchers = listeners(ARGV[5], ARGV[4])
  if watchers == 0 then
    summon(latest(KEYS[2]), ARGV[5], ARGV[4], ARGV[1])
  end
  return 0
end
local now = microseconds()
if offered(KEYS[2], now, true) then
  return -2
end
mayRemove(KEYS[2])
redis.call('PEXPIRE', KEYS[2], 300000)
local given, asked = grant(KEYS[1], KEYS[2], KEYS[4] and KEYS[3], ARGV[5], ARGV[4], now)
return (given or asked) and 1 or 0
