-- Deletes a semaphore. Permits that are out come back to nobody. A repeated call replies the same and changes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns 1 when deleted, 0 when there was none
-- keeps rules 2, A.6
-- for semaphore, plain semaphore

local answer = answered(KEYS[3], ARGV[3])
if answer then
  return answer
end

-- functions
local _, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
redis.call('ZCARD', KEYS[2]) -- fails on a key of another type, which DEL would destroy
local found = redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 and 1 or 0
extend(KEYS[3], ARGV[2]) -- Redis then accepts the rest even when it is out of memory
note(KEYS[3], ARGV[3], ARGV[2], found, ARGV[7])
redis.call('DEL', KEYS[1], KEYS[2])
return found
