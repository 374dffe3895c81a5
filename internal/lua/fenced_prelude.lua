-- Draws a token greater than any before. A failover may lose the latest ones: they come from the clock, in microseconds,
-- so that those given out after it are greater all the same.
local function raise(key)
  local time = redis.call('TIME')
  local token = redis.call('INCR', key)
  local now = time[1] * 1000000 + time[2]
  if token < now then
    token = now
    redis.call('SET', key, string.format('%.0f', token))
  end
  return token
end
