-- Frees the lock whoever holds it, and announces it.
--
-- KEYS[1] lock     hash: holder -> count
-- ARGV[4] channel
-- returns 1 when freed, 0 when nobody held it

-- HLEN refuses a key of another type, which DEL would destroy.
if redis.call('HLEN', KEYS[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[4], '0')
return 1
