-- Returns the permits of a semaphore. Those whose leases are over count as free.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- returns {how many are free, how many are out, 1 if the semaphore is set up or else 0}
-- keeps rules 2
-- for semaphore, plain semaphore

local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
if not value then
  return {0, 0, 0}
end
local over = redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%.0f', milliseconds()))
return {value + over, redis.call('ZCARD', KEYS[2]) - over, 1}
