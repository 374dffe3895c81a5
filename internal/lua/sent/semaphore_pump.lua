-- 2bcdf05f3a8e45151f461a6dab72ee93ec2080b4 semaphore_pump
-- Generated from ../semaphore_pump.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Tells the first waiters of the line to ask, as many of them as there are free permits for. Whoever gives permits back and knows of
-- no line does not do so. Therefore, if no permit is free and nobody watches, a waiter is asked to watch: it will send this when
-- that is announced.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] line      zset: waiter -> Unix us of its arrival
-- KEYS[3] leases    zset: id of a permit that is out -> Unix ms when its lease ends; absent for a plain semaphore
-- ARGV[1] but       a client whom nobody asks to watch; empty means none
-- ARGV[4] base      Redisson's channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- returns 1 when waiters may have been told, 0 when not
-- keeps rules S.1, S.4, S.9, S.12
-- for semaphore, plain semaphore

if redis.call('ZCOUNT', KEYS[2], 0, 3e15) == 0 then
  return 0
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
local function latest(line)
  return redis.call('ZREVRANGEBYSCORE', line, 3e15, 0, 'LIMIT', 0, 10)
end
local function hears(publish, channel)
  return (hearers(publish, channel) or announce(publish, channel, '9')) > 0
end
local function deliver(publish, channel, message)
  local receivers = announce(publish, channel, message)
  return receivers > 0 and (hearers(publish, channel) or receivers) > 0
end
local function summon(last, publish, base, but)
  for _, member in ipairs(last) do
    local client = string.match(member, '^(.-):') or ''
    if client ~= but and deliver(publish, beside(base, client), '7') then
      return
    end
  end
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
local value = counter(KEYS[1]) or 0
local _, watchers = listeners(ARGV[5], ARGV[4])
if watchers == 0 then
  summon(latest(KEYS[2]), ARGV[5], ARGV[4], ARGV[1])
end
if value <= 0 then
  return 0
end
mayRemove(KEYS[2])
redis.call('PEXPIRE', KEYS[2], 300000)
tellFirst(KEYS[2], value, KEYS[3] and value + redis.call('ZCARD', KEYS[3]), ARGV[5], ARGV[4], microseconds())
return 1
