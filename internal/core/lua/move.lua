-- Gives the lock from one holder to another, for exactly the lease of that one, and tells those who wait. A repeated call returns the same.
-- KEYS lock line token
-- ARGV 1 field of the next holder 2 its lease in ms 3 notAfter, in us of Redis 4 field of the holder 5 flags 6 public channel 7 how to publish
-- Returns the token, or without the flag t the time in us; {-1, us, 0, 0, 0, 0} when that holder does not have the lock; {-2, us, 0, 0, 0, 0}
-- when the command is late.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = ARGV[3] - now
if left < 0 or left > 60000000 then
  return {-2, now, 0, 0, 0, 0}
end
--@create
--@lock
local token = 0
if redis.call('HDEL', KEYS[1], ARGV[4]) == 1 then
  token = draw(ARGV[5], now)
  keep(ARGV[1], 1, ARGV[2], now, ARGV[6])
elseif redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {-1, now, 0, 0, 0, 0}
elseif ARGV[5] == 't' then -- the command was repeated
  token = tonumber(redis.call('GET', KEYS[3]) or 0)
end
return token > 0 and token or now
