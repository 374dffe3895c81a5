-- 5da09b672d269b5ec59424939c11ecfd3f4395b8 semaphore_handover
-- Generated from ../semaphore_handover.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Gives the permits of a holder to another one that wants as many. A repeated call returns the same. A semaphore that was given
-- fewer permits takes these back first, so nothing is handed over then.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] leases     zset: id of a permit that is out -> Unix ms when its lease ends
-- KEYS[3] tombstones hash: number -> Unix ms
-- KEYS[4] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] next       the holder that gets the permits, and after a further colon how many they are, if more than one
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] last       the id of the last one of the permits that are given up
-- ARGV[7] id         of the last one of the next holder's permits
-- returns how many permits are free when given, plus 2^32 if others stand in the line, and 2^33 if somebody listens who knows of
-- no line; -2 when nothing was done: the last holder has to give its permits back
-- keeps rules A.1, A.6, E.2
-- for semaphore

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
local free, added, removed = redis.call('GET', KEYS[1]), nil, nil
if KEYS[4] and string.sub(ARGV[7], 15) == '\0\0' and free and string.find(free, '^%d%d?%d?%d?$')
  and redis.call('HEXISTS', KEYS[3], ARGV[3]) == 0 then
  redis.call('ZREM', KEYS[2], '')
  local time = redis.call('TIME')
  local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
  added = redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', ends), ARGV[7])
  removed = added == 1 and redis.call('ZREM', KEYS[2], ARGV[6]) or 0
  if removed == 1 and redis.call('EXISTS', KEYS[4]) == 0 then
    return tonumber(free) + (listeners(ARGV[5], ARGV[4]) > 0 and 8589934592 or 0)
  end
end
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
local function out(leases, ids)
  local n = 0
  for _, id in ipairs(ids) do
    local score = redis.pcall('ZSCORE', leases, id)
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) then
      return score
    end
    n = n + (type(score) == 'string' and 1 or 0)
  end
  return n
end
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
elseif not value or value < 0 or not added and redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -2
end
local mine, theirs = idsOf(ARGV[7]), idsOf(ARGV[6])
if not added then
  redis.call('ZREM', KEYS[2], '')
  added = redis.call('ZADD', KEYS[2], 'NX', scored(mine, string.format('%.0f', milliseconds() + ARGV[2])))
  removed = added == #mine and redis.call('ZREM', KEYS[2], unpack(theirs)) or 0
end
if removed < #mine and (added > 0 or out(KEYS[2], theirs) ~= 0) then
  if added > 0 then
    redis.call('ZREM', KEYS[2], unpack(mine))
    redis.call('INCRBY', KEYS[1], #mine - added + removed)
  end
  return -2
end
if not KEYS[4] or redis.call('EXISTS', KEYS[4]) == 0 then
  return value + (listeners(ARGV[5], ARGV[4]) > 0 and 8589934592 or 0)
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
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
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
local function makeWay(semaphore, line, leases, holder, value, publish, base)
  local others, stand = leave(semaphore, line, leases, holder, '0', nil, publish, base), false
  local client = string.match(holder, '^(.-):')
  for _, member in ipairs(redis.call('ZRANGE', line, 0, 1)) do
    stand = stand or not marks(member) and string.match(member, '^(.-):') ~= client
  end
  return value + (stand and 4294967296 or 0) + (others > 0 and 8589934592 or 0)
end
return makeWay(KEYS[1], KEYS[4], KEYS[2], ARGV[1], value, ARGV[5], ARGV[4])
