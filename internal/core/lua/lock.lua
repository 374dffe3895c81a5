-- What the scripts of a lock share. KEYS are the lock, its line and its token. The only flag is t: it draws a token.
--@line
local function rest()
  return math.max(redis.call('PTTL', KEYS[1]), 0)
end

-- Makes a holder, and returns its token, or 0. Tokens follow the clock, so that they grow even if a failover has lost the latest.
local function create(field, lease, flags, now)
  redis.call('HSET', KEYS[1], field, 1)
  redis.call('PEXPIRE', KEYS[1], lease)
  if flags ~= 't' then
    return 0
  end
  local token = redis.call('INCR', KEYS[3])
  if token < now then
    token = now
    redis.call('SET', KEYS[3], string.format('%.0f', now))
  end
  return token
end

-- Gives a free lock to the first of the line that is heard, for 3 s at most, in which it renews. Who is not heard at its turn loses its place.
-- asker needs no message, and gets its whole lease. Returns the token of the asker, or 0.
local function pass(now, asker, anyway)
  while true do
    local member = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not member then
      return 0
    end
    redis.call('ZREM', KEYS[2], member)
    local field, lease, flags = string.match(member, '^([^|]+)|(%d+)|(.*)$')
    if member == asker then
      local token = create(field, lease, flags, now)
      warn(now, rest(), anyway)
      return token
    end
    if hear(field) > 0 then
      local term = math.min(lease, 3000)
      local token = create(field, term, flags, now)
      publish(own(field), string.format('6 %s %.0f %d %.0f %s', string.match(field, ':(%d+)'), now, term, token, flags))
      warn(now, rest(), anyway)
      return 0
    end
  end
end
