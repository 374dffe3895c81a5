-- Gives the lock from one holder directly to another, with a token greater than all earlier ones. A repeated call returns
-- the same token.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] token      the latest token
-- KEYS[3] tombstones hash: number -> Unix ms
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] last       the holder that gives the lock up
-- returns the token when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone

local last = redis.call('GET', KEYS[2])
if last and not tonumber(last) then
  return redis.error_reply('ERR the fencing token is not an integer')
end
if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -2
end
if redis.call('HSETNX', KEYS[1], ARGV[1], 1) == 1 then
  if redis.call('HDEL', KEYS[1], ARGV[4]) == 0 then
    redis.call('HDEL', KEYS[1], ARGV[1])
    return -1
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return raise(KEYS[2])
end

-- functions
extend(KEYS[1], ARGV[2]) -- a repeated call; the lease is now at least as long as asked for
return tonumber(last) or raise(KEYS[2])
