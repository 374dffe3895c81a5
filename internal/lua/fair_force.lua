-- Frees the lock for any holder, and wakes the next waiter. The queue stays.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded; BOTH; or NODE if the cluster's is not
-- returns 1 when freed, 0 when nobody held it

-- HLEN fails on a key of another type, which DEL would destroy.
if redis.call('HLEN', KEYS[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[1])
wakeFirst(KEYS[2], KEYS[3], milliseconds(), ARGV[5], ARGV[4])
return 1
