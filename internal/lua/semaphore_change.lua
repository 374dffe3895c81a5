-- Changes how many permits a semaphore has, and announces an increase. A semaphore that nobody has set up starts from 0. A
-- repeated call replies the same and changes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] permits   how many there are in all from now on; or after a + how many more
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns 1 when changed, 0 when the result would be outside +-(2^31-1), Redisson's range
-- keeps rules 2, A.6, T.3
-- for semaphore, plain semaphore

local answer = answered(KEYS[3], ARGV[3])
if answer then
  return answer
end

-- functions
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
wrong = not value and rival(KEYS[1])
if wrong then
  return wrong
end
local more, are = string.match(ARGV[6], '^%+(.*)$'), value or 0
local held = redis.call('ZCARD', KEYS[2])
local change = more and tonumber(more) or tonumber(ARGV[6]) - are - held
local total = are + held + change
local fits = math.max(total, are + change) <= 2147483647 and are + change >= -2147483647
if change > 0 then
  extend(KEYS[3], ARGV[2]) -- Redis then accepts the rest even when it is out of memory
end
note(KEYS[3], ARGV[3], ARGV[2], fits and 1 or 0, ARGV[7])
if not fits then
  return 0
end
if change ~= 0 or not value then
  redis.call('INCRBY', KEYS[1], string.format('%.0f', change))
end
if change > 0 then
  announceValue(ARGV[5], ARGV[4], are + change)
end
return 1
