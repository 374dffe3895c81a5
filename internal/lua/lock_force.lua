-- Frees the lock whoever holds it, and announces it if there is a channel to announce it on.
--
-- KEYS[1] lock     hash: holder -> count
-- ARGV[4] channel  empty: none
-- ARGV[5] publish  PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- returns 1 when freed, 0 when nobody held it

-- HLEN refuses a key of another type, which DEL would destroy.
if redis.call('HLEN', KEYS[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[4] ~= '' then
  announce(ARGV[5], ARGV[4], '0')
end
return 1
