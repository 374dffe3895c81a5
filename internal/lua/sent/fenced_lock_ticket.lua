-- 66a46e8c3bcc57c50f1f6e1c85995ff0f7d1479e fenced_lock_ticket
-- Generated from ../lock_ticket.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Gives the lock from its holder to that of a ticket, or from that to whoever presents the ticket, and tells those who wait when the lease
-- is over. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] line       zset: waiter -> Unix us of its arrival; the lock again if nobody stands in one
-- KEYS[3] token      the latest token, or else the tombstones
-- KEYS[4] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] base       Redisson's channel
-- ARGV[5] publish    PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded
-- ARGV[6] last       the holder that gives the lock up
-- ARGV[7] draws      1 if the next holder is no ticket, and draws a token; - if its kind has none, and tells nobody if nobody stands in the line
-- returns the token or 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone
-- keeps rules A.1, A.6, M.3, Q.7, Q.8, Q.10, S.17
-- with tokens for fenced, fenced write

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function raise(key)
  local time = redis.call('TIME')
  local token = redis.call('INCR', key)
  local now = time[1] * 1000000 + time[2]
  if token < now then
    token = now
    redis.call('SET', key, string.format('%.0f', token))
  end
  return token
end
local function replace(lock, last, next, count, lease)
  if redis.call('HEXISTS', lock, last) == 0 then
    return false
  end
  redis.call('PEXPIRE', lock, lease)
  redis.call('HSET', lock, next, count)
  redis.call('HDEL', lock, last)
  return true
end
local function handOff(lock, token, tombstones, last, next, number, lease)
  local latest = token and redis.call('GET', token)
  if latest and not tonumber(latest) then
    return redis.error_reply('ERR the fencing token is not an integer')
  end
  if redis.call('HEXISTS', tombstones, number) == 1 then
    return -2
  end
  if replace(lock, last, next, 1, lease) then
    return token and raise(token) or 0, true
  end
  if redis.call('HEXISTS', lock, next) == 0 then
    return -1
  end
  extend(lock, lease)
  return token and (tonumber(latest) or raise(token)) or 0
end
local reply, first = handOff(KEYS[1], KEYS[4] and ARGV[7] == '1' and KEYS[3], KEYS[4] or KEYS[3], ARGV[6], ARGV[1], ARGV[3], ARGV[2])
if not first then
  return reply
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
local side = string.byte(ARGV[1], -1) == 101 and 'write' or nil
return tried(reply, pcall(tellEnd, KEYS[2] ~= KEYS[1] and KEYS[2], ARGV[5], ARGV[4], ARGV[2], ARGV[7] == '-', side))
