-- Frees the write lock, whatever count it shows, and announces it. Read holds of the same owner go on.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] abandoned  hash: number -> Unix ms; only if there is something to remember
-- ARGV[1] holder
-- ARGV[2] memory     ms to remember the number as abandoned; 0 when every command of it was answered
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- returns when freed 1 and the number of those who were told, 0 when not held

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- refused if the key has become something else
abandon(KEYS[2], ARGV[3], ARGV[2])
if freed == 1 then
  local left = longest(KEYS[1])
  if left > 0 then
    redis.call('HSET', KEYS[1], 'mode', 'read')
    redis.call('PEXPIRE', KEYS[1], left) -- a dead reader is to block writers for its own lease, not for the writer's
  else
    redis.call('DEL', KEYS[1])
  end
  freed = 1 + announceWriter(ARGV[5], ARGV[4])
end
return freed
