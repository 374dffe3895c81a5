-- Frees the lock for any holder, and gives it to the first waiter that can have it. The queue stays.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- KEYS[5] token      the latest token, or else the tombstones
-- KEYS[6] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[7] holders    only these may have the lock, separated by line breaks; empty means anybody
-- returns {1, Unix us} when freed, 0 when nobody held it, or others
-- keeps rules P.9, R.1, R.5, S.4, S.12, T.3
-- for fair
-- with tokens for fenced fair

if not forced(KEYS[1], nil, ARGV[7]) then
  return 0
end
local q = fairLock(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6] and KEYS[5], ARGV[4], ARGV[5])
serve(q)
return {1, q.micros}
