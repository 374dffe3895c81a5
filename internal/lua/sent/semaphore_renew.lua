-- 9f00f83a3da2aba42f4438e5b079d1bf03819ba0 semaphore_renew
-- Generated from ../semaphore_renew.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Renews the permits of a batch of holders, each of one semaphore. A renewal never restores a permit that was taken
-- back. Redis does it even when it is out of memory, because ZREM needs none.
--
-- KEYS[i]   leases  zset: id of a permit that is out -> Unix ms when its lease ends
-- ARGV[1]   lease   ms; a longer lease stays as it is
-- ARGV[i+1] id      of the last one of a holder's permits, which are of KEYS[i]
-- returns for each of KEYS 1 if renewed, 0 if one of the holder's permits is gone
-- keeps rules A.2, A.4, A.6
-- for semaphore

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function idsOf(last)
  local ids, high, low = {}, string.byte(last, 15, 16)
  for i = 0, high * 256 + low do
    ids[i + 1] = string.sub(last, 1, 14) .. string.char(math.floor(i / 256), i % 256)
  end
  return ids
end
local function lengthen(leases, ids, score)
  for _, id in ipairs(ids) do
    if tonumber(redis.call('ZSCORE', leases, id)) < tonumber(score) then
      redis.call('ZADD', leases, 'XX', score, id)
    end
  end
end
local function out(leases, ids)
  local n = 0
  for _, id in ipairs(ids) do
    local score = redis.pcall('ZSCORE', leases, id)
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) then
      return score
    end
    n = n + (type(score) == 'string' and 1 or 0)
  end
  return n
end
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
