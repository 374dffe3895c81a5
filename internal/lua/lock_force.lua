-- Frees the lock for any holder, and announces the release if there is a channel.
--
-- KEYS[1] lock     hash: holder -> count
-- ARGV[4] channel  empty means none
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns 1 when freed, 0 when nobody held it, or others
-- for lock, fenced, spin

-- HLEN fails on a key of another type, which DEL would destroy.
if redis.call('HLEN', KEYS[1]) == 0 or heldByOthers(KEYS[1], ARGV[7]) then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[4] ~= '' then
  announce(ARGV[5], ARGV[4], '0')
end
return 1
