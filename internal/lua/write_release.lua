-- Frees the write lock, whatever its count is, and announces the release. Read holds of the same owner remain.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- returns 1 plus the number of listeners to the channel when freed, 0 when not held
-- for write, fenced write

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
if freed == 1 then
  local size = redis.call('HLEN', KEYS[1])
  local left = size > 1 and longest(KEYS[1], size, redis.call('PTTL', KEYS[1]), ARGV[3]) or 0
  if left > 0 then
    redis.call('HSET', KEYS[1], 'mode', 'read')
    redis.call('PEXPIRE', KEYS[1], left) -- so a dead reader blocks writers for its own lease, not for the writer's
  else
    redis.call('DEL', KEYS[1])
  end
  local receivers = announceWriter(ARGV[5], ARGV[4])
  freed = 1 + (receivers > 0 and hearers(ARGV[5], ARGV[4]) or receivers)
end
abandon(KEYS[2], ARGV[3], ARGV[2]) -- last, because it may fail
return freed
