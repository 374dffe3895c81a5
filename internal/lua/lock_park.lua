-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0, and tells those who wait when that is over. A repeated call changes nothing.
--
-- KEYS[1] lock  hash: holder -> count
-- KEYS[2] line  zset: waiter -> Unix us of its arrival; absent if nobody stands in one
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] last  the holder that leaves
-- ARGV[7] silent  - if its kind tells nobody if nobody stands in the line
-- returns 1 when it is parked, 0 when the last holder does not hold it
-- keeps rules A.6, Q.2, S.17
-- for lock, fenced, spin

if not replace(KEYS[1], ARGV[6], ARGV[1], 0, ARGV[2]) then
  return redis.call('HEXISTS', KEYS[1], ARGV[1])
end

-- functions
return tried(1, pcall(tellEnd, KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-'))
