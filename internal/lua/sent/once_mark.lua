-- 7bfa1392be1914b189bee79029540ad5ebc2d86c once_mark
-- Generated from ../once_mark.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Marks the number of a call that its caller has given up, so that no late command with that number counts.
--
-- KEYS[1] marks   hash: number -> Unix ms, and the answer
-- ARGV[2] memory  ms for which the number is remembered
-- ARGV[3] number  of the call
-- returns 1 when the number was used before, 0 when it is marked now
-- keeps rules 2, A.6
-- for latches and both semaphores

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
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then
  return 1
end
extend(KEYS[1], ARGV[2])
note(KEYS[1], ARGV[3], ARGV[2])
return 0
