-- ff3afa89832e13df637fe62c9f7aee1734b2216f fenced_lock_ticket
-- Generated from ../lock_ticket.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Gives the lock from its holder to that of a ticket, or from that to whoever presents the ticket. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] token      the latest token, or else the tombstones
-- KEYS[3] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] last       the holder that gives the lock up
-- returns the token or 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone
-- keeps rules A.1, A.6, M.3, Q.7, Q.8, Q.10
-- with tokens for fenced, fenced fair, fenced write

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
local token, tombstones = KEYS[3] and KEYS[2], KEYS[3] or KEYS[2]
local latest = token and redis.call('GET', token)
if latest and not tonumber(latest) then
  return redis.error_reply('ERR the fencing token is not an integer')
end
if redis.call('HEXISTS', tombstones, ARGV[3]) == 1 then
  return -2
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if redis.call('HEXISTS', KEYS[1], ARGV[4]) == 0 then
    return -1
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  redis.call('HDEL', KEYS[1], ARGV[4])
  return token and raise(token) or 0
end
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
extend(KEYS[1], ARGV[2])
return token and (tonumber(latest) or raise(token)) or 0
