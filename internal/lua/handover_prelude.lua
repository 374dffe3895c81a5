-- Puts another holder, with a count, in the place of the last one, for exactly so many ms. Returns whether the last one had the lock.
local function replace(lock, last, next, count, lease)
  if redis.call('HEXISTS', lock, last) == 0 then
    return false
  end
  -- Redis accepts a PEXPIRE even when it is out of memory, and then also accepts the writes that follow it.
  redis.call('PEXPIRE', lock, lease)
  redis.call('HSET', lock, next, count)
  redis.call('HDEL', lock, last)
  return true
end

-- Puts a holder in the place of the last one, with a token if there is one. A repeated call changes nothing, but for the lease. Returns the
-- token or 0, or why not; and whether it was the first call.
local function handOff(lock, token, tombstones, last, next, number, lease)
  local latest = token and redis.call('GET', token)
  if latest and not tonumber(latest) then
    return redis.error_reply('ERR the fencing token is not an integer')
  end
  if redis.call('HEXISTS', tombstones, number) == 1 then
    return -2
  end
  if replace(lock, last, next, 1, lease) then
    return token and raise(token) or 0, true
  end
  if redis.call('HEXISTS', lock, next) == 0 then
    return -1
  end
  extend(lock, lease) -- the lease is now at least as long as asked for
  return token and (tonumber(latest) or raise(token)) or 0
end
