-- Gives the lock from one holder directly to another. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] token      the latest token, or else the tombstones
-- KEYS[3] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] last       the holder that gives the lock up
-- returns the token or 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone
-- keeps rules A.1, E.2, M.3
-- for lock, write
-- with tokens for fenced, fenced write

local token, tombstones = KEYS[3] and KEYS[2], KEYS[3] or KEYS[2]
local latest = token and redis.call('GET', token)
if latest and not tonumber(latest) then
  return redis.error_reply('ERR the fencing token is not an integer')
end
if redis.call('HEXISTS', tombstones, ARGV[3]) == 1 then
  return -2
end
if redis.call('HSETNX', KEYS[1], ARGV[1], 1) == 1 then
  if redis.call('HDEL', KEYS[1], ARGV[4]) == 0 then
    redis.call('HDEL', KEYS[1], ARGV[1])
    return -1
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return token and raise(token) or 0
end

-- functions
extend(KEYS[1], ARGV[2]) -- a repeated call; the lease is now at least as long as asked for
return token and (tonumber(latest) or raise(token)) or 0
