-- Takes all permits of a plain semaphore that are free, for good. A negative number becomes 0. A repeated call replies the same
-- and changes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns how many there were; 0 when nobody has set the semaphore up
-- keeps rules 2
-- for plain semaphore

local answer = answered(KEYS[2], ARGV[3])
if answer then
  return answer
end

-- functions
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
note(KEYS[2], ARGV[3], ARGV[2], value or 0, ARGV[7])
if value and value ~= 0 then
  redis.call('INCRBY', KEYS[1], string.format('%.0f', -value)) -- keeps the time at which the semaphore expires
end
return value or 0
