-- b4eeee52844cf46ee4e058578da57c1bb4f3875a semaphore_release
-- Generated from ../semaphore_release.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Gives permits back, or leaves the line, and tells the waiters about free permits. Does nothing for permits that are not out any
-- more. A semaphore that is gone is not made again.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms; only if a tombstone is to be written, or there is a line
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder     and after a further colon how many permits it has, if more than one
-- ARGV[2] channel
-- ARGV[3] id         of the last one of its permits
-- ARGV[4] standing   ends its member of the line; absent or empty means that it never stood there
-- ARGV[5] publish    SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[6] lifetime   ms of the number's tombstone; absent or 0 (no tombstone) when every command with this number got a reply
-- returns 1 when all of its permits were out, 0 when not
-- keeps rules 2, A.1, A.5, A.6, S.1, S.4, S.9, S.12
-- for semaphore

local removed
if KEYS[4] and not ARGV[5] and string.sub(ARGV[3], 15) == '\0\0' then
  removed = redis.pcall('ZREM', KEYS[2], ARGV[3])
  if removed == 1 and redis.pcall('EXISTS', KEYS[1], KEYS[1], KEYS[4]) == 2 then
    local value = redis.pcall('INCRBY', KEYS[1], '1')
    if type(value) == 'table' then
      redis.pcall('ZADD', KEYS[2], '1', ARGV[3])
      return value
    elseif value > 0 then
      redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', math.min(value, 2147483647)))
    end
    return 1
  end
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
  if publish == 'BOTH' then
    return announce('SPUBLISH', channel, message) + announce('PUBLISH', channel, message)
  end
  local receivers = redis.pcall(publish, channel, message)
  return type(receivers) == 'number' and receivers or 0
end
local function failure(why)
  return type(why) == 'table' and why or redis.error_reply(why)
end
local function idsOf(last)
  local ids, high, low = {}, string.byte(last, 15, 16)
  for i = 0, high * 256 + low do
    ids[i + 1] = string.sub(last, 1, 14) .. string.char(math.floor(i / 256), i % 256)
  end
  return ids
end
local function scored(ids, score)
  local args = {}
  for _, id in ipairs(ids) do
    args[#args + 1] = score
    args[#args + 1] = id
  end
  return unpack(args)
end
local function giveBack(semaphore, leases, ids)
  local value = redis.pcall('INCRBY', semaphore, #ids)
  if type(value) == 'table' then
    redis.pcall('ZADD', leases, scored(ids, 1))
  end
  return value
end
local function announceValue(publish, channel, value)
  if value > 0 then
    announce(publish, channel, string.format('%.0f', math.min(value, 2147483647)))
  end
end
local ids, publish, value = idsOf(ARGV[3]), ARGV[5] or 'PUBLISH', nil
removed = removed or redis.pcall('ZREM', KEYS[2], unpack(ids))
if type(removed) == 'number' and removed > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  if removed == #ids then
    value = giveBack(KEYS[1], KEYS[2], ids)
  else
    value = redis.pcall('INCRBY', KEYS[1], removed)
  end
end
local line = KEYS[4] and redis.pcall('EXISTS', KEYS[4]) == 1
if type(value) == 'number' and not line then
  announceValue(publish, ARGV[2], value)
end
local reply = removed == #ids and 1 or 0
if type(removed) == 'table' or type(value) == 'table' then
  reply = type(value) == 'table' and value or removed
end
local able, why = pcall(abandon, KEYS[3], string.match(ARGV[1], ':(%d+)'), ARGV[6] or 0)
if not able then
  reply = failure(why)
end
if not line then
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
leave(KEYS[1], KEYS[4], KEYS[2], ARGV[1], ARGV[4] or '', type(value) == 'number' and value or nil, publish, ARGV[2])
return reply
