-- Frees the lock, and gives it to the first of the line; or leaves the line.
-- KEYS lock line token
-- ARGV 1 field 2 public channel, or empty for a lock that tells nobody 3 its member of the line, or empty 4 the member of the next holder of this process, or empty 5 notAfter of that
-- 6 for how many ms the lock stays taken, by nobody 7 how to publish
-- Returns {1 if it had the lock, 2 if so and the lock was left to others, so that this process must not take it back at once, or 0; us; 2 if
-- the next holder has the lock, 1 if it stands in the line, or 0; its token}.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local freed = redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[3] == '' and ARGV[4] == '' and ARGV[6] == '0' and ARGV[7] == '' and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then -- the short way
  if freed == 1 and ARGV[2] ~= '' and redis.call('PUBLISH', ARGV[2], '0') > 0 then
    local n = redis.call('PUBSUB', 'NUMSUB', ARGV[2], ARGV[2] .. ':rlock')
    freed = n[2] > n[4] and 2 or 1
  end
  return {freed, now, 0, 0}
end
--@create
--@lock
local next, what, token, led, left = ARGV[4], 0, 0, false, false
if ARGV[3] ~= '' then
  led = redis.call('ZRANK', KEYS[2], ARGV[3]) == 0
  redis.call('ZREM', KEYS[2], ARGV[3])
end
if freed == 1 and next ~= '' and now <= tonumber(ARGV[5]) then
  redis.call('ZADD', KEYS[2], 'NX', now, next)
  redis.call('PEXPIRE', KEYS[2], 600000)
end
if freed == 1 and ARGV[6] ~= '0' then
  keep(string.match(ARGV[1], '^[^:]+') .. ':0', 0, ARGV[6], now, ARGV[2])
elseif redis.call('EXISTS', KEYS[1]) == 0 then
  token, left = handOn(now, next, ARGV[2])
  if left then
    freed = freed * 2
  end
elseif led then
  warn(now, rest(), true)
end
if next ~= '' then
  what = redis.call('HEXISTS', KEYS[1], string.match(next, '^[^|]+')) == 1 and 2 or redis.call('ZSCORE', KEYS[2], next) and 1 or 0
end
return {freed, now, what, token}
