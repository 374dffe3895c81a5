-- Puts a next holder, whose number is not abandoned, in the place of the last one, with the next one's lease. Returns nil when
-- that is done; 0 when the next one has the lock already, with a lease that is no shorter; -1 when the last one does not hold
-- it; -2 when the next one gave up.
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
