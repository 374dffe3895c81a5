-- 825a32a58df227d08fd895938526e554415f335c semaphore_count
-- Generated from ../semaphore_count.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Returns the permits of a semaphore. Those whose leases are over count as free.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- returns {how many are free, how many are out, 1 if the semaphore is set up or else 0}
-- keeps rules 2
-- for semaphore, plain semaphore

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function counter(key)
  local value = redis.call('GET', key)
  if not value then
    return nil
  end
  if #value > 18 or not string.match(value, '^%-?%d+$') then
    local shown = string.gsub(string.sub(value, 1, 64), '[%c\127-\255]', '?')
    return nil, redis.error_reply('ERR the value is not a count: "' .. shown .. '"')
  end
  return tonumber(value)
end
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
if not value then
  return {0, 0, 0}
end
local over = redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%.0f', milliseconds()))
return {value + over, redis.call('ZCARD', KEYS[2]) - over, 1}
