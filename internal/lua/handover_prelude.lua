-- Replaces the last holder by the next one, with the next holder's lease. Returns nil on success. Returns 0 when the next
-- holder already has the lock; its lease is then at least as long as asked for. Returns -1 when the last holder does not
-- hold the lock, and -2 when the next holder's number has a tombstone.
local function hand(lock, abandoned, last, holder, number, lease)
  if redis.call('HEXISTS', abandoned, number) == 1 then
    return -2
  end
  if redis.call('HSETNX', lock, holder, 1) == 0 then
    extend(lock, lease)
    return 0
  end
  if redis.call('HDEL', lock, last) == 0 then
    redis.call('HDEL', lock, holder)
    return -1
  end
  redis.call('PEXPIRE', lock, lease)
end
