-- 6b70c9729eb72e79b701721353db5bcd6e753454 lock_park
-- Generated from ../lock_park.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Keeps a lock taken for some time, by a holder that nobody is, whose count is 0, and tells the first waiter of the line that is reached
-- when that is over, if it is soon: the lease that it knows of may end later. A repeated call changes nothing.
--
-- KEYS[1] lock  hash: holder -> count
-- KEYS[2] line  zset: waiter -> Unix us of its arrival; absent if nobody is told
-- ARGV[1] park  the holder that nobody is
-- ARGV[2] time  ms for which the lock stays taken
-- ARGV[4] base     Redisson's channel
-- ARGV[5] publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] last  the holder that leaves
-- returns 1 when it is parked, 0 when the last holder does not hold it
-- keeps rules A.6, Q.2
-- for lock, fenced, spin

if redis.call('HEXISTS', KEYS[1], ARGV[6]) == 0 then
  return redis.call('HEXISTS', KEYS[1], ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], 0)
redis.call('HDEL', KEYS[1], ARGV[6])
if not KEYS[2] or redis.pcall('EXISTS', KEYS[2]) ~= 1 then
  return 1
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
pcall(function()
  forewarn(KEYS[2], 0, ARGV[5], ARGV[4], ARGV[2], microseconds())
end)
return 1
