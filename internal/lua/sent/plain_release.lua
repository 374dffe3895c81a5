-- d52f75b20b02ef4c8746e19702b37eb2a6a7e9f1 plain_release
-- Generated from ../plain_release.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Gives back permits of a plain semaphore, or leaves the line, and tells the waiters about free permits. A semaphore that is gone
-- is not made again. Redis does it even when it is out of memory.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] receipts  hash: number -> Unix ms; a number that has permits has a time that never comes
-- KEYS[3] line      zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder    and after a further colon how many permits it has, if more than one
-- ARGV[2] channel
-- ARGV[3] standing  ends its member of the line; absent or empty means that it never stood there
-- ARGV[4] publish   SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[5] lifetime  ms of the number's tombstone; absent or 0 (no tombstone) when every command with this number got a reply
-- returns 1 when there was a receipt, so that they are given back unless the semaphore is gone; 0 when there was none: an earlier
-- release gave them back, or Redis never had the acquisition, or has lost it
-- keeps rules 2, A.1, A.5, A.6, S.1, S.4, S.9, S.12
-- for plain semaphore

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
  if publish == 'BOTH' then
    return announce('SPUBLISH', channel, message) + announce('PUBLISH', channel, message)
  end
  local receivers = redis.pcall(publish, channel, message)
  return type(receivers) == 'number' and receivers or 0
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
local function isOut(receipt)
  return receipt and string.sub(receipt, 1, 15) == '922337203685477'
end
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local number, many = string.match(ARGV[1], ':(%d+):?(%d*)')
local receipt, left = redis.call('HGET', KEYS[2], number), nil
local late = receipt and not isOut(receipt)
if not late then
  redis.call('HDEL', KEYS[2], number)
  abandon(KEYS[2], number, ARGV[5] or 0)
  if receipt and value then
    left = redis.pcall('INCRBY', KEYS[1], tonumber(many) or 1)
    if type(left) == 'table' then
      redis.call('HSET', KEYS[2], number, receipt)
      return left
    end
  end
end
local reply = isOut(receipt) and 1 or 0
if not KEYS[3] or redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  if left then
    announceValue(ARGV[4] or 'PUBLISH', ARGV[2], left)
  end
  return reply
end
local function hearers(publish, channel)
  local counts = publish ~= 'BOTH' and redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts and counts[2]
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
leave(KEYS[1], KEYS[3], nil, ARGV[1], ARGV[3] or '', left, ARGV[4] or 'PUBLISH', ARGV[2])
return reply
