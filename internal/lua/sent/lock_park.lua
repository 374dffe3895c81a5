-- 236eb50668337282e0ad495062d0ee6f34b4885c lock_park
-- Generated from ../lock_park.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0, and tells those who wait when that is over. A repeated call changes nothing.
--
-- KEYS[1] lock  hash: holder -> count
-- KEYS[2] line  zset: waiter -> Unix us of its arrival; absent if nobody stands in one
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] last  the holder that leaves
-- ARGV[7] silent  - if its kind tells nobody if nobody stands in the line
-- returns 1 when it is parked, 0 when the last holder does not hold it
-- keeps rules A.6, Q.2, S.17
-- for lock, fenced, spin

local function replace(lock, last, next, count, lease)
  if redis.call('HEXISTS', lock, last) == 0 then
    return false
  end
  redis.call('PEXPIRE', lock, lease)
  redis.call('HSET', lock, next, count)
  redis.call('HDEL', lock, last)
  return true
end
if not replace(KEYS[1], ARGV[6], ARGV[1], 0, ARGV[2]) then
  return redis.call('HEXISTS', KEYS[1], ARGV[1])
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
local function marks(member)
  local first = string.byte(member)
  return first == 33 or first == 35
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
local function tellOthers(publish, base, watchers, side)
  for _, message in ipairs(side == 'write' and {'1', '0'} or {'0'}) do
    if watchers > 0 then
      announce(publish, beside(base, 'rlock-twin'), '5')
    end
    announce(publish, base, message)
  end
end
local function tellEnd(line, publish, base, lease, silent, side)
  local stand, others, watchers = line and redis.call('EXISTS', line) == 1, 1, 0
  if silent and not stand then
    return
  elseif line then
    others, watchers = listeners(publish, base)
  end
  if others > 0 then
    tellOthers(publish, base, watchers, side)
  end
  if stand then
    forewarn(line, 0, publish, base, lease, microseconds())
  end
end
pcall(tellEnd, KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-')
return 1
