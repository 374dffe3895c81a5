-- Gives permits back by their ids, all of them or none, and announces that. A repeated call replies the same and changes
-- nothing. Redis does it even when it is out of memory.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] ids       of 16 bytes each, without anything in between
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns 1 when given back, 0 when one of them is not out, or its lease is over
-- keeps rules 2, A.6
-- for semaphore

local answer = answered(KEYS[3], ARGV[3])
if answer then
  return answer
end

-- functions
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local ids, now, able = {}, milliseconds(), 1
for i = 1, #ARGV[6], 16 do
  local id = string.sub(ARGV[6], i, i + 15)
  local score = redis.call('ZSCORE', KEYS[2], id)
  if not score or tonumber(score) <= now then
    able = 0
  end
  ids[#ids + 1] = id
end
redis.call('ZREM', KEYS[2], '') -- Redis then accepts the rest even when it is out of memory
note(KEYS[3], ARGV[3], ARGV[2], able, ARGV[7])
if able == 1 then
  redis.call('ZREM', KEYS[2], unpack(ids))
  if value then
    announceValue(ARGV[5], ARGV[4], redis.call('INCRBY', KEYS[1], #ids))
  end
end
return able
