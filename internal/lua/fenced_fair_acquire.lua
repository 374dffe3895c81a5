-- Takes the lock if nobody holds it and nobody waits ahead, with a token greater than all earlier ones. Otherwise queues, or
-- renews its place in the queue. A repeated call by the holder returns the same token.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] token      the latest token
-- KEYS[5] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded; BOTH; or NODE if the cluster's is not
-- ARGV[6] wait       ms that a waiter may be silent; negative means that the caller does not queue
-- returns the token when acquired; when refused, -1 minus the ms until another attempt may succeed

if redis.call('HEXISTS', KEYS[5], ARGV[3]) == 1 then
  return -1
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return same(KEYS[1], KEYS[4], ARGV[2])
end

return takeTurn(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], tonumber(ARGV[6]), ARGV[5], ARGV[4], function()
  local token = raise(KEYS[4])
  return create(KEYS[1], ARGV[2], ARGV[1], 1) or token
end)
