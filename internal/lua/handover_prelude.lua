-- Why a hand-over to a number cannot be: -2 when the next one gave up, -1 when the last one does not hold the lock; else nil.
local function unwanted(lock, abandoned, number, last)
  if redis.call('HEXISTS', abandoned, number) == 1 then
    return -2
  end
  if redis.call('HEXISTS', lock, last) == 0 then
    return -1
  end
end

-- Puts one holder in the place of another, with the next one's lease.
local function hand(lock, last, holder, lease)
  redis.call('HSET', lock, holder, 1)
  redis.call('HDEL', lock, last)
  redis.call('PEXPIRE', lock, lease)
end
