-- ab806a8db0a59ee93370e39be01d6067f4c38ba5 lock_ticket
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
-- for lock, fenced, spin, fair, fenced fair, write, fenced write

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
