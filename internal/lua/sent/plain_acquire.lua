-- 62aa0ee3748a6bc5a28bb0d317c0447be4ccc909 plain_acquire
-- Generated from ../plain_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
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
