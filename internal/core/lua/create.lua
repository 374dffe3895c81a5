-- Draws the next token, if the only flag, t, says so; else returns 0. Tokens follow the clock, so that they grow even if a failover has lost
-- the latest.
local function draw(flags, now)
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

-- Makes a holder, and returns its token, or 0.
local function create(field, lease, flags, now)
  local token = draw(flags, now) -- first, because it fails if the key has something else
  redis.call('HSET', KEYS[1], field, 1)
  redis.call('PEXPIRE', KEYS[1], lease)
  return token
end
