-- Frees the lock, whatever its count is, and announces the release if there is a channel. Read holds of the owner of a write lock
-- remain, and then the lock is one for readers.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] tombstones hash: number -> Unix ms; only if a tombstone is to be written
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel    empty means none
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- returns 1 plus the number of listeners to the channel when freed, 0 when not held
-- keeps rules A.1, A.5, A.6, G.3, G.4
-- for lock, fenced, spin, write, fenced write

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
if ARGV[2] == '0' and (freed ~= 1 or ARGV[4] == '') then
  return freed
end

-- functions
if freed == 1 and ARGV[4] ~= '' then
  local side = string.sub(ARGV[1], -6) == WriteSuffix and WriteMode or nil
  if side then
    leaveWrite(KEYS[1], ARGV[3])
  end
  local receivers = announceFree(ARGV[5], ARGV[4], side)
  freed = 1 + (receivers > 0 and hearers(ARGV[5], ARGV[4]) or receivers)
end
abandon(KEYS[2], ARGV[3], ARGV[2]) -- last, because it may fail
return freed
