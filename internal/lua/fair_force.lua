-- Frees the lock whoever holds it, and tells whoever is next. The queue stays.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of holders to be, the next one first
-- KEYS[3] deadlines  zset: holder to be -> Unix ms when he counts as dead
-- ARGV[4] channel    without the holder to be
-- ARGV[5] publish    PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] wait       ms that a waiter may go without asking
-- returns 1 when freed, 0 when nobody held it

local now = milliseconds()
-- HLEN refuses a key of another type, which DEL would destroy.
if redis.call('HLEN', KEYS[1]) == 0 then
  return 0
end
redis.call('DEL', KEYS[1])
local head = evict(KEYS[2], KEYS[3], now, tonumber(ARGV[6]))
if head then
  wake(ARGV[5], ARGV[4], head)
end
return 1
