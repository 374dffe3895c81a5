-- Returns a token greater than all earlier ones. A failover may lose the latest tokens. Tokens therefore come from the
-- clock, in microseconds, and are greater even after a failover.
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

-- Returns the token of the present holder, whose acquire is repeated, and lengthens its lease. It raises only a token that
-- Redis has lost.
local function same(lock, key, lease)
  local token = redis.call('GET', key)
  token = token and tonumber(token) or raise(key)
  extend(lock, lease)
  return token
end
