-- 47a55cfd45e03925bbd6725cc7489606af83ad40 semaphore_change
-- Generated from ../semaphore_change.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Changes how many permits a semaphore has, and announces an increase. A semaphore that nobody has set up starts from 0. A
-- repeated call replies the same and changes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] marks     hash: number -> Unix ms, and the answer
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] permits   how many there are in all from now on; or after a + how many more
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns 1 when changed, 0 when the result would be outside +-(2^31-1), Redisson's range
-- keeps rules 2, A.6, T.3
-- for semaphore, plain semaphore

local function answered(marks, number)
  local mark = redis.call('HGET', marks, number)
  if not mark then
    return nil
  end
  local sign, digits = string.match(mark, '%.([01])(%d+)$')
  if not sign then
    return 0
  end
  return sign == '0' and tonumber(digits) or -tonumber(digits)
end
local answer = answered(KEYS[3], ARGV[3])
if answer then
  return answer
end
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function sweep(key, number, now)
  local size = redis.pcall('HLEN', key)
  if type(size) ~= 'number' or size % 128 ~= 0 then
    return
  end
  local all
  if size <= 1024 then
    all = redis.pcall('HGETALL', key)
  else
    all = redis.pcall('HSCAN', key, string.format('%.0f', number * 2654435761 % 4294967296), 'COUNT', 300)[2] or {}
  end
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) < now then
      redis.pcall('HDEL', key, all[i])
    end
  end
end
local function abandon(key, number, memory, answer)
  memory = tonumber(memory)
  if memory == 0 then
    return
  end
  local now = milliseconds()
  redis.call('HSET', key, number, string.format('%.0f', now + memory) .. (answer or ''))
  extend(key, memory)
  sweep(key, number, now)
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function note(marks, number, memory, answer, over)
  abandon(marks, number, memory, answer and string.format(answer < 0 and '.1%.0f' or '.0%.0f', math.abs(answer)))
  for earlier in string.gmatch(over or '', '%d+') do
    redis.call('HDEL', marks, earlier)
  end
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
local function announceValue(publish, channel, value)
  if value > 0 then
    announce(publish, channel, string.format('%.0f', math.min(value, 2147483647)))
  end
end
local function rival(semaphore)
  local inside = string.match(semaphore, '^{([^{]*)}$')
  local other = inside or not string.find(semaphore, '{', 1, true) and '{' .. semaphore .. '}'
  local count = other and redis.pcall('GET', other)
  if type(count) == 'string' and string.match(count, '^%-?%d+$') then
    return redis.error_reply('ERR the name ' .. (inside and 'without' or 'in') .. ' braces has a count, and both would have the same leases')
  end
end
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
wrong = not value and rival(KEYS[1])
if wrong then
  return wrong
end
local more, are = string.match(ARGV[6], '^%+(.*)$'), value or 0
local held = redis.call('ZCARD', KEYS[2])
local change = more and tonumber(more) or tonumber(ARGV[6]) - are - held
local total = are + held + change
local fits = math.max(total, are + change) <= 2147483647 and are + change >= -2147483647
if change > 0 then
  extend(KEYS[3], ARGV[2])
end
note(KEYS[3], ARGV[3], ARGV[2], fits and 1 or 0, ARGV[7])
if not fits then
  return 0
end
if change ~= 0 or not value then
  redis.call('INCRBY', KEYS[1], string.format('%.0f', change))
end
if change > 0 then
  announceValue(ARGV[5], ARGV[4], are + change)
end
return 1
