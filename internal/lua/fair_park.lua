-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0, and tells the first waiter that is reached when that is
-- over. A repeated call changes nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first; absent, as are the following, if nobody is told
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[6] last  the holder that leaves
-- returns 1 when it is parked, 0 when the last holder does not hold it
-- keeps rules A.6, Q.2, S.17
-- for fair, fenced fair

if not replace(KEYS[1], ARGV[6], ARGV[1], 0, ARGV[2]) then
  return redis.call('HEXISTS', KEYS[1], ARGV[1])
end
if not KEYS[2] or redis.pcall('EXISTS', KEYS[2]) ~= 1 then
  return 1
end

-- functions
return tried(1, pcall(alertFirst, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[5], ARGV[2]))
