-- 92f76f310bc050b9aa291d13452dc2bbd4f26b85 lock_renew
-- Generated from ../lock_renew.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Renews a batch of locks, each only for the holder given with it.
--
-- KEYS[i]   lock    hash: holder -> count
-- ARGV[1]   lease   ms; a longer lease stays as it is
-- ARGV[i+1] holder  of KEYS[i]
-- returns for each of KEYS 1 if renewed, 0 if that holder is gone
-- keeps rules A.2, A.4, A.6
-- for lock, fenced, spin, fair, fenced fair, write, fenced write

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function holds(lock, holder)
  local held = redis.pcall('HEXISTS', lock, holder)
  if type(held) == 'table' and string.find(held.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return held
end
local renewed = {}
for i, key in ipairs(KEYS) do
  local held = holds(key, ARGV[i + 1])
  if type(held) == 'table' then
    return held
  end
  if held == 1 then
    extend(key, ARGV[1])
  end
  renewed[i] = held
end
return renewed
