-- Renews the permits of a batch of holders, each of one semaphore. A renewal never restores a permit that was taken
-- back. Redis does it even when it is out of memory, because ZREM needs none.
--
-- KEYS[i]   leases  zset: id of a permit that is out -> Unix ms when its lease ends
-- ARGV[1]   lease   ms; a longer lease stays as it is
-- ARGV[i+1] id      of the last one of a holder's permits, which are of KEYS[i]
-- returns for each of KEYS 1 if renewed, 0 if one of the holder's permits is gone
-- keeps rules A.2, A.4, A.6
-- for semaphore

local score = string.format('%.0f', milliseconds() + ARGV[1])
local renewed = {}
for i, key in ipairs(KEYS) do
  redis.pcall('ZREM', key, '')
  local ids = idsOf(ARGV[i + 1])
  local n = out(key, ids)
  if type(n) == 'table' then
    return n
  end
  renewed[i] = n == #ids and 1 or 0
  if n == #ids then
    lengthen(key, ids, score)
  end
end
return renewed
