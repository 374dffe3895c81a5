-- What the scripts of a lock share. KEYS are the lock, its line and its token.
--@line

local function rest()
  return math.max(redis.call('PTTL', KEYS[1]), 0)
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
    local number = string.match(field, ':(%d+)')
    if hear(field) == 0 then
      publish(own(field), '9 ' .. number .. ' 0') -- somebody may pass it on
    else
      local term = math.min(lease, 3000)
      local token = create(field, term, flags, now)
      publish(own(field), string.format('6 %s %.0f %d %.0f %s', number, now, term, token, flags))
      warn(now, rest(), anyway)
      return 0
    end
  end
end

-- Gives a free lock to the first of the line, or leaves it to the others, whose turn it is. Returns the token of the asker, or 0, and whether the
-- lock was left.
local function handOn(now, asker, base)
  local n, token = others(base), 0
  if n > 0 and theirTurn(n, now) then
    warn(now, 0, true)
  else
    token = pass(now, asker, n > 0)
  end
  local left = n > 0 and redis.call('EXISTS', KEYS[1]) == 0
  if left then
    publish(base, '0')
  end
  return token, left
end

-- Makes somebody the holder for so many ms, and tells those who wait, who may know of a longer lease.
local function keep(field, count, ms, now, base)
  redis.call('HSET', KEYS[1], field, count)
  redis.call('PEXPIRE', KEYS[1], ms)
  warn(now, ms, true)
  if others(base) > 0 then
    publish(base, '0')
  end
end
