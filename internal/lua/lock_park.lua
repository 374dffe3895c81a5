-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0. A repeated call changes nothing.
--
-- KEYS[1] lock  hash: holder -> count
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] last  the holder that leaves
-- returns 1 when it is parked, 0 when the last holder does not hold it
-- keeps rules A.6, Q.2
-- for lock, fenced, spin, fair, fenced fair

if redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then
  return redis.call('HEXISTS', KEYS[1], ARGV[1])
end
-- Redis accepts a PEXPIRE even when it is out of memory, and then also accepts the writes that follow it.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], 0)
redis.call('HDEL', KEYS[1], ARGV[4])
return 1
