-- bd99ded7df10363a4f09d05167fff47fdb2f57d0 fair_ticket
-- Generated from ../fair_ticket.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Gives the lock from its holder to that of a ticket, or from that to whoever presents the ticket, and tells the first waiter that is
-- reached when the lease is over. A repeated call returns the same.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- KEYS[5] token      the latest token, or else the tombstones
-- KEYS[6] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] next       the holder that gets the lock
-- ARGV[2] lease      ms, of the next holder
-- ARGV[3] number     of the next holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[6] last       the holder that gives the lock up
-- ARGV[7] draws      1 if the next holder is no ticket, and draws a token
-- returns the token or 0 when given; -1 when the last holder does not hold it; -2 when the next holder has a tombstone
-- keeps rules A.1, A.6, M.3, Q.7, Q.8, Q.10, S.17
-- for fair

local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
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
local reply, first = handOff(KEYS[1], KEYS[6] and ARGV[7] == '1' and KEYS[5], KEYS[6] or KEYS[5], ARGV[6], ARGV[1], ARGV[3], ARGV[2])
if not first or redis.pcall('EXISTS', KEYS[2]) ~= 1 then
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
local function hears(publish, channel)
  return hearers(publish, channel) > 0
end
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
end
local function ours(waiter)
  return string.find(waiter, ':-', 1, true)
end
local function foreign(waiter)
  return ours(waiter) and (string.byte(waiter, -1) == 125) ~= (string.find(KEYS[1], '^{[^{]*}$') ~= nil)
end
local function first(queue, from)
  local place, size = from or 0, 1
  while true do
    local waiters = redis.call('LRANGE', queue, place, place + size - 1)
    for i, waiter in ipairs(waiters) do
      if not foreign(waiter) then
        return waiter, place + i - 1
      end
    end
    if #waiters < size then
      return false
    end
    place, size = place + size, 64
  end
end
local function fairLock(lock, queue, deadlines, seats, token, channel, publish)
  local micros = microseconds()
  return {
    lock = lock, queue = queue, deadlines = deadlines, seats = seats, token = token, channel = channel, publish = publish,
    micros = micros, now = math.floor(micros / 1000),
  }
end
local function sitter(seats, waiter)
  return string.match(redis.call('HGET', seats, waiter) or '', '^(%d+)|(%d+)|?(t?)$')
end
local function grantable(q, term, wants)
  return term and term ~= '0' and (wants == '' or q.token) and q.publish ~= 'NODE'
end
local function reach(q, waiter)
  if q.publish == 'NODE' then
    announce('PUBLISH', q.channel .. ':' .. waiter, '0')
    return nil
  end
  return deliver(q.publish, q.channel .. ':' .. waiter, '0') and 1 or 0
end
local function alert(q, place, client, lease)
  for _ = 1, 16 do
    local waiter, at = first(q.queue, place)
    if not waiter or tonumber(lease) >= 3000 and ours(waiter) and string.match(waiter, '^(.*):') == client then
      return
    end
    place = at + 1
    local number, term, wants = sitter(q.seats, waiter)
    local receivers
    if grantable(q, term, wants) then
      receivers = deliver(q.publish, q.channel .. ':' .. waiter, string.format('9 %s %s', number, lease)) and 1 or 0
    else
      receivers = reach(q, waiter)
    end
    if receivers ~= 0 then
      return
    end
  end
end
local function alertFirst(lock, queue, deadlines, seats, channel, publish, lease)
  alert(fairLock(lock, queue, deadlines, seats, true, channel, publish), 0, nil, lease)
end
return tried(reply, pcall(alertFirst, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], ARGV[5], ARGV[2]))
