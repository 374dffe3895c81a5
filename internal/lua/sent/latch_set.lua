-- ef15bac643790ca817f68ab71f048a9472770359 latch_set
-- Generated from ../latch_set.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Sets the count of a latch that has none, and announces that it is closed. A repeated call replies the same and changes
-- nothing.
--
-- KEYS[1] latch    the count; no key means that the latch is open
-- KEYS[2] marks    hash: number -> Unix ms, and the answer
-- ARGV[2] memory   ms for which the number is remembered
-- ARGV[3] number   of the call
-- ARGV[4] channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] count
-- ARGV[7] over     numbers of earlier calls, whose marks are not needed any more
-- returns 1 when set, 0 when the latch has a count
-- keeps rules 2
-- for latches

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
local answer = answered(KEYS[2], ARGV[3])
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
local count, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
note(KEYS[2], ARGV[3], ARGV[2], count and 0 or 1, ARGV[7])
if count then
  return 0
end
redis.call('SET', KEYS[1], ARGV[6])
announce(ARGV[5], ARGV[4], '1')
return 1
