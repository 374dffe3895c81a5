-- Frees the lock for any holder, and announces the release if there is a channel.
--
-- KEYS[1] lock     hash: holder -> count; a read-write lock also has a mode
-- ARGV[4] channel  empty means none
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] side     read or write for a lock with a mode, which is freed only from that
-- ARGV[7] holders  only these may have the lock, separated by line breaks; empty means anybody
-- returns 1 when freed, 0 when nobody held it, or others
-- keeps rules G.3, P.9
-- for lock, fenced, spin, read, write, fenced write

if not forced(KEYS[1], ARGV[6], ARGV[7]) then
  return 0
end
if ARGV[4] ~= '' then
  announceFree(ARGV[5], ARGV[4], ARGV[6])
end
return 1
