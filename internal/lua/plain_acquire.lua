-- Takes permits of a plain semaphore if enough are free. A repeated call replies the same and takes nothing more. A number that its
-- caller has given up takes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[6] permits   how many
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns 1 when taken, 0 when refused, -1 when refused because nobody has set the semaphore up
-- keeps rules 2, V.2
-- for plain semaphore

local answer = answered(KEYS[2], ARGV[3])
if answer then
  return answer
end

-- functions
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
elseif not value then
  return -1
elseif value < tonumber(ARGV[6]) then
  return 0
end
note(KEYS[2], ARGV[3], ARGV[2], 1, ARGV[7])
local left = redis.pcall('DECRBY', KEYS[1], ARGV[6])
if type(left) == 'table' then
  redis.call('HDEL', KEYS[2], ARGV[3])
  return left
end
return 1
