-- Gives permits back, and what is free to the line; or leaves the line; or only serves the line. A semaphore that is gone is not made again.
-- KEYS count line leases
-- ARGV 1 field, or empty 2 public channel 3 its member of the line, or empty 4 how many permits 5 what the ids of its permits begin with
-- 6 how to publish
-- Returns {1 if it had all its permits, 2 if so and some were left to others, so that this process must not take them back at once, or 0; us}.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if ARGV[4] == '1' and ARGV[3] == '' and ARGV[6] ~= 's' and redis.call('EXISTS', KEYS[2]) == 0 then -- the short way: one permit, and nobody waits
  if redis.call('ZREM', KEYS[3], ARGV[5] .. '\0\0') == 0 then
    return {0, now}
  end
  if redis.call('EXISTS', KEYS[1]) == 1 then
    local free = redis.call('INCRBY', KEYS[1], 1)
    if free > 0 then
      redis.call('PUBLISH', ARGV[2], string.format('%.0f', math.min(free, 2147483647)))
    end
  end
  return {1, now}
end
--@permits
local back, led = 0, false
if ARGV[1] ~= '' then
  back = redis.call('ZREM', KEYS[3], unpack(ids(ARGV[1], ARGV[4])))
end
if back > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('INCRBY', KEYS[1], back)
end
if ARGV[3] ~= '' then
  led = redis.call('ZRANK', KEYS[2], ARGV[3]) == 0
  redis.call('ZREM', KEYS[2], ARGV[3])
end
local freed = back == tonumber(ARGV[4]) and 1 or 0
if redis.call('EXISTS', KEYS[2]) == 0 then
  if back > 0 then
    announce(ARGV[2])
  end
  return {freed, now}
end
local n = others(ARGV[2])
if n > 0 and back > 0 and theirTurn(n, now) then
  warn(now, 0, true)
else
  serve(now, '', n > 0)
  if led then
    warn(now, rest(now), true)
  end
end
if n > 0 and (count() or 0) > 0 then
  announce(ARGV[2])
  freed = freed * 2
end
return {freed, now}
