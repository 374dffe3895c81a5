-- Frees the lock from its writer and from the read holds of the same owner, and announces the release. Does not touch
-- a lock that only has readers.
--
-- KEYS[1] lock     hash: mode -> read or write, holder -> count
-- ARGV[4] channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns 1 when freed, 0 when nobody writes, or others
-- for write, fenced write

if redis.call('HGET', KEYS[1], 'mode') ~= 'write' or heldByOthers(KEYS[1], ARGV[7]) then
  return 0
end
redis.call('DEL', KEYS[1])
announceWriter(ARGV[5], ARGV[4])
return 1
