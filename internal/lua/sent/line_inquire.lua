-- 6e8941139680521816ad82acfef8d24c19e286d6 line_inquire
-- Generated from ../line_inquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Looks at the places of a batch of waiters in the lines of their locks, each for itself. Those for whom nothing has changed need not
-- ask: they stay where they are, as if they had asked.
--
-- KEYS[2i-1] lock   hash: holder -> count
-- KEYS[2i]   line   zset: waiter -> Unix us of its arrival
-- ARGV[1]   publish  PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[i+1] waiter   of KEYS[2i], a space, and Redisson's channel of its lock
-- returns for each waiter Unix us if nothing has changed for it and the lease lasts for more than a first term, or else -1: it has to ask
-- keeps rules A.7, S.4, S.9, S.12, S.16
-- for lock, fenced, spin, write, fenced write

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
local now = microseconds()
local function inquire(lock, line, waiter)
  local member, base = string.match(waiter, '^(%S+) (.*)$')
  local holder, client = string.match(member, '^((.-):%d+[^|]*)')
  local ttl, place = redis.call('PTTL', lock), redis.call('ZRANK', line, member)
  if ttl <= 3000 or not place or place >= 4 or redis.call('HEXISTS', lock, holder) == 1 then
    return -1
  end
  local _, watchers, hearers = listeners(ARGV[1], base, beside(base, client))
  if hearers == 0 or watchers < 2 and (watchers == 0 or redis.call('ZCOUNT', line, 0, 3e15) > 1) then
    return -1
  end
  redis.call('ZREM', line, '!' .. member)
  redis.call('PEXPIRE', line, 300000)
  return now
end
local replies = {}
for i = 1, #KEYS / 2 do
  local inquired, reply = pcall(inquire, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1])
  replies[i] = inquired and reply or -1
end
return replies
