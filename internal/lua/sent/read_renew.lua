-- 200f117525a07834e27e19e4005084c5246317d8 read_renew
-- Generated from ../read_renew.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Renews a batch of read holds, each only for the holder given with it.
--
-- KEYS[2i-1] lock    hash: mode -> read or write, holder -> count
-- KEYS[2i]   hold    a string that lives as long as this hold
-- ARGV[1]    lease   ms; a longer lease stays as it is
-- ARGV[i+1]  holder  of KEYS[2i-1]
-- returns for each lock 1 if renewed, 0 if that hold is gone
-- keeps rules A.2, A.4, G.1
-- for read

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
for i = 1, #KEYS / 2 do
  local lock, hold = KEYS[2 * i - 1], KEYS[2 * i]
  local held = holds(lock, ARGV[i + 1])
  if type(held) == 'table' then
    return held
  end
  if held == 1 and redis.call('EXISTS', hold) == 0 then
    held = 0
  end
  if held == 1 then
    extend(hold, ARGV[1])
    extend(lock, ARGV[1])
  end
  renewed[i] = held
end
return renewed
