-- Frees the lock from all readers, and announces the release. Does not touch a writer's lock.
--
-- KEYS[1] lock     hash: mode -> read or write, holder -> count
-- ARGV[4] channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns 1 when freed, 0 when nobody reads, or others
-- for read

if redis.call('HGET', KEYS[1], 'mode') ~= 'read' or heldByOthers(KEYS[1], ARGV[7]) then
  return 0
end
redis.call('DEL', KEYS[1])
announce(ARGV[5], ARGV[4], '0')
return 1
