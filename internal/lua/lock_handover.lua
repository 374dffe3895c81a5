-- Gives the lock from one holder directly to another. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] tombstones hash: number -> Unix ms
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] last       the holder that gives the lock up
-- returns 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone

if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  return -2
end
if redis.call('HSETNX', KEYS[1], ARGV[1], 1) == 1 then
  if redis.call('HDEL', KEYS[1], ARGV[4]) == 0 then
    redis.call('HDEL', KEYS[1], ARGV[1])
    return -1
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end

-- functions
extend(KEYS[1], ARGV[2]) -- a repeated call; the lease is now at least as long as asked for
return 0
