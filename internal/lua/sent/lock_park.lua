-- f6d68d0fd0413bec5b740718f8292934252608c7 lock_park
-- Generated from ../lock_park.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0, and tells those who wait when that is over. A repeated call changes nothing.
--
-- KEYS[1] lock  hash: holder -> count
-- KEYS[2] line  zset: waiter -> Unix us of its arrival; absent if nobody stands in one
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
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
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and '{}' or '')
end
local function listeners(publish, base, own)
  local counts = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, 'rlock-twin'), own or base)
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end
local function denied(why)
  local text = type(why) == 'table' and why.err or tostring(why)
  return string.find(text, "The user executing the script can't", 1, true) or string.find(text, 'ACL failure in script', 1, true)
    or string.find(text, 'NOPERM', 1, true)
end
local function failure(why)
  return type(why) == 'table' and why or redis.error_reply(why)
end
local function tried(reply, able, why)
  return not able and denied(why) and failure(why) or reply
end
local function marks(member)
  local first = string.byte(member)
  return first == 33 or first == 35
end
local function hears(publish, channel)
  return hearers(publish, channel) > 0
end
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
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
return tried(1, pcall(tellEnd, KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-'))
