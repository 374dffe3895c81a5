-- Frees the lock for any holder, and gives it to the first waiter of the line that is reached. If it was free already, a
-- waiter gets it, too.
--
-- KEYS[1] lock   hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] line   zset: waiter -> Unix us of its arrival
-- KEYS[3] token  the latest token, or else the tombstones
-- KEYS[4] tombstones  hash: number -> Unix ms; only if there is a token
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] side     read or write for a lock with a mode, which is freed only from that; - when nobody is told of a release that
-- gives the lock to nobody
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns {1, Unix us} when freed, 0 when nobody held it, or others
-- keeps rules G.3, P.9, S.1, S.2, S.4, S.12
-- for lock, spin, read, write
-- with tokens for fenced, fenced write

local freed, now, side = forced(KEYS[1], ARGV[6], ARGV[7]), microseconds(), ARGV[6]
if not freed and redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local able, given, asked = true, false, nil
if redis.call('EXISTS', KEYS[2]) == 0 then
  if not freed then
    return 0
  end
elseif redis.call('PEXPIRE', KEYS[2], 300000) == 1 and (freed or not offered(KEYS[2], now)) then
  able, given, asked = pcall(function()
    mayRemove(KEYS[2])
    return grant(KEYS[1], KEYS[2], KEYS[4] and KEYS[3], ARGV[5], ARGV[4], now)
  end)
end
if freed and side ~= '-' and not (able and (given or asked)) then
  announceFree(ARGV[5], ARGV[4], side)
end
return tried(freed and {1, now} or 0, able, given)
