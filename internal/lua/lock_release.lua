-- Frees the lock, whatever count it shows, and announces it if there is a channel to announce it on.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] abandoned  hash: number -> Unix ms; only if there is something to remember
-- ARGV[1] holder
-- ARGV[2] memory     ms to remember the number as abandoned; 0 when every command of it was answered
-- ARGV[3] number     of the holder
-- ARGV[4] channel    empty: none
-- ARGV[5] publish    PUBLISH, SPUBLISH where the cluster's pub/sub is sharded, or BOTH
-- returns when freed 1 and the number of those who were told, 0 when not held

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- refused if the key has become something else
abandon(KEYS[2], ARGV[3], ARGV[2])
if freed == 1 and ARGV[4] ~= '' then
  freed = 1 + announce(ARGV[5], ARGV[4], '0')
end
return freed
