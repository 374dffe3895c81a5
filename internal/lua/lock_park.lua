-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0, and tells the first waiter of the line that is reached
-- when that is over, if it is soon: the lease that it knows of may end later. A repeated call changes nothing.
--
-- KEYS[1] lock  hash: holder -> count
-- KEYS[2] line  zset: waiter -> Unix us of its arrival; absent if nobody is told
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] last  the holder that leaves
-- returns 1 when it is parked, 0 when the last holder does not hold it
-- keeps rules A.6, Q.2
-- for lock, fenced, spin

if redis.call('HEXISTS', KEYS[1], ARGV[6]) == 0 then
  return redis.call('HEXISTS', KEYS[1], ARGV[1])
end
-- Redis accepts a PEXPIRE even when it is out of memory, and then also accepts the writes that follow it.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], 0)
redis.call('HDEL', KEYS[1], ARGV[6])
if not KEYS[2] or redis.pcall('EXISTS', KEYS[2]) ~= 1 then
  return 1
end

-- functions
pcall(function()
  forewarn(KEYS[2], 0, ARGV[5], ARGV[4], ARGV[2], microseconds())
end)
return 1
