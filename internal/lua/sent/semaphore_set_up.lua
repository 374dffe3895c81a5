-- bfd6520e7061f9291fa58e42a988b9f036893b03 semaphore_set_up
-- Generated from ../semaphore_set_up.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Sets a semaphore up that nobody has set up, and announces its permits. Permits that are still out, because only the
-- number was deleted, are part of the total. A repeated call replies the same and changes nothing.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] leases    zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] marks     hash: number -> Unix ms, and the answer
-- KEYS[4] line      zset: waiter -> Unix us of its arrival; absent if the user may not touch it
-- ARGV[2] memory    ms for which the number is remembered
-- ARGV[3] number    of the call
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] total     and after a space the ms after which the semaphore is gone; 0 means never
-- ARGV[7] over      numbers of earlier calls whose marks may go
-- returns -1 when set up; when it was set up before, how many permits it has, at least 0
-- keeps rules 2, A.9, T.3
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
local function hearers(publish, channel)
  local counts = publish ~= 'BOTH' and redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts and counts[2]
end
local function announce(publish, channel, message)
  if publish == 'BOTH' then
    return announce('SPUBLISH', channel, message) + announce('PUBLISH', channel, message)
  end
  local receivers = redis.pcall(publish, channel, message)
  return type(receivers) == 'number' and receivers or 0
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
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and '{}' or '')
end
local function listeners(publish, base, own)
  local counts = publish ~= 'BOTH'
    and redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, 'rlock-twin'), own or base)
  if not counts or counts.err or not counts[4] then
    return 1, 2
  end
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end
local function mayRemove(line)
  redis.call('ZREM', line, '!')
end
local function marks(member)
  local first = string.byte(member)
  return first == 33 or first == 35
end
local function tidy(line)
  local first = redis.call('ZRANGE', line, 0, 0)[1]
  if first and first ~= '#r' and marks(first) then
    redis.call('DEL', line)
  end
end
local function forget(line, member)
  if redis.call('ZREM', line, member, '!' .. member) > 0 then
    tidy(line)
  end
end
local function hears(publish, channel)
  return (hearers(publish, channel) or announce(publish, channel, '9')) > 0
end
local function deliver(publish, channel, message)
  local receivers = announce(publish, channel, message)
  return receivers > 0 and (hearers(publish, channel) or receivers) > 0
end
local function forewarn(line, place, publish, base, lease, now)
  for next = place, tonumber(lease) <= 3000 and place + 15 or -1 do
    local behind = redis.call('ZRANGE', line, next, next, 'WITHSCORES')
    if not behind[1] or marks(behind[1]) or tonumber(lease) == 3000 and now - behind[2] < 2e6 then
      return
    end
    local client, number = string.match(behind[1], '^(.-):(%d+)')
    if deliver(publish, beside(base, client or ''), string.format('9 %s %s', number or 0, lease)) then
      return
    end
  end
end
local function announceValue(publish, channel, value)
  if value > 0 then
    announce(publish, channel, string.format('%.0f', math.min(value, 2147483647)))
  end
end
local function wanted(member)
  return tonumber(string.match(member, ':%d+:(%d+)|') or 1)
end
local function stops(line, member, publish, base, ms)
  local mark = '!' .. member
  local at = tonumber(redis.call('ZSCORE', line, mark) or nil) or 0
  local age = ms - (at - 7.5e15)
  if at > 0 and at < 8e15 and age >= 0 then
    return age < 10000
  end
  local reached = hears(publish, beside(base, string.match(member, '^(.-):')))
  if reached then
    redis.call('ZADD', line, string.format('%.0f', 7.5e15 + ms), mark)
  end
  return reached
end
local function tellFirst(line, free, total, publish, base, now, asker, waiting)
  local ms, place, size, told, mine = math.floor(now / 1000), 0, 2, false, false
  local client = waiting and string.match(asker, '^(.-):')
  local rest, over = 3000, false
  while not over do
    local batch = redis.call('ZRANGE', line, place, place + size - 1)
    for _, member in ipairs(batch) do
      if marks(member) then
        if place == 0 then
          redis.call('DEL', line)
        end
        batch = {}
        break
      end
      local wants = wanted(member)
      if wants > free then
        if free <= 0 or wants <= (total or 0) and (member == asker or stops(line, member, publish, base, ms)) then
          over = true
          break
        end
        place = place + 1
        if member == asker then
          asker = nil
        end
      elseif member == asker then
        mine, asker, client, free, place = true, nil, nil, free - wants, place + 1
      else
        local mark, its = '!' .. member, string.match(member, '^(.-):')
        local at = tonumber(redis.call('ZSCORE', line, mark) or nil) or 0
        local asked = at >= 8e15 and at < 8.5e15
        local age = ms - (asked and at - 8e15 or at - 8.5e15)
        local fresh = at < 8e15 or age < 0
        if its == client then
          place = place + 1
        elseif asked and not fresh and age < 3000 then
          free, place, rest = free - wants, place + 1, math.min(rest, 3000 - age)
        elseif asked and not fresh then
          redis.call('ZREM', line, member, mark)
        elseif deliver(publish, beside(base, its), '8') then
          redis.call('ZADD', line, string.format('%.0f', 8e15 + ms), mark)
          free, place, told = free - wants, place + 1, true
        elseif not fresh and age >= 3000 then
          redis.call('ZREM', line, member, mark)
        else
          if fresh then
            redis.call('ZADD', line, string.format('%.0f', 8.5e15 + ms), mark)
          end
          place = place + 1
        end
      end
    end
    if #batch < size then
      break
    end
    size = 100
  end
  if asker and not over then
    mine = free >= wanted(asker)
  end
  if told then
    forewarn(line, place, publish, base, 3000, now)
  end
  return mine, rest
end
local function leave(semaphore, line, leases, holder, standing, value, publish, base)
  local others, watchers = 1, 0
  local able = pcall(function()
    if standing ~= '' then
      forget(line, holder .. '|' .. standing)
    else
      mayRemove(line)
    end
    local free = value or tonumber(redis.call('GET', semaphore) or nil) or 0
    if free > 0 then
      tellFirst(line, free, leases and free + redis.call('ZCARD', leases), publish, base, microseconds())
    end
    others, watchers = listeners(publish, base)
  end)
  if value and value > 0 and (others > 0 or not able) then
    if able and watchers > 0 then
      announce(publish, beside(base, 'rlock-twin'), '5')
    end
    announceValue(publish, base, value)
  end
  return able and others or 1
end
local function tell(semaphore, line, leases, value, publish, base)
  if line and redis.pcall('EXISTS', line) == 1 then
    leave(semaphore, line, leases, '', '', value, publish, base)
  else
    announceValue(publish, base, value)
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
local held = redis.call('ZCARD', KEYS[2])
if value then
  local total = math.max(value + held, 0)
  pcall(note, KEYS[3], ARGV[3], ARGV[2], total, ARGV[7])
  return total
end
wrong = rival(KEYS[1])
if wrong then
  return wrong
end
note(KEYS[3], ARGV[3], ARGV[2], -1, ARGV[7])
local total, lifetime = string.match(ARGV[6], '^(%-?%d+) (%d+)$')
redis.call('SET', KEYS[1], total - held)
if lifetime ~= '0' then
  redis.call('PEXPIRE', KEYS[1], lifetime)
end
tell(KEYS[1], KEYS[4], KEYS[2], total - held, ARGV[5], ARGV[4])
return -1
