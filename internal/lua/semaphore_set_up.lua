-- Sets a semaphore up that nobody has set up, and announces its permits. Permits that are still out, because only the
-- number was deleted, are part of the total. A repeated call replies the same and changes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] total     and after a space the ms after which the semaphore is gone; 0 means never
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns -1 when set up; when it was set up before, how many permits it has, at least 0
-- keeps rules 2, T.3
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
local held = redis.call('ZCARD', KEYS[2])
if value then
  local total = math.max(value + held, 0)
  pcall(note, KEYS[3], ARGV[3], ARGV[2], total, ARGV[7]) -- who only asks need not be able to write
  return total
end
wrong = rival(KEYS[1])
if wrong then
  return wrong
end
note(KEYS[3], ARGV[3], ARGV[2], -1, ARGV[7])
local total, lifetime = string.match(ARGV[6], '^(%-?%d+) (%d+)$')
redis.call('SET', KEYS[1], total - held)
if lifetime ~= '0' then
  redis.call('PEXPIRE', KEYS[1], lifetime)
end
announceValue(ARGV[5], ARGV[4], total - held)
return -1
