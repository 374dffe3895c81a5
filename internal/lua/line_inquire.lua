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

local now = microseconds()

local function inquire(lock, line, waiter)
  local member, base = string.match(waiter, '^(%S+) (.*)$')
  local holder, client = string.match(member, '^((.-):%d+[^|]*)')
  local ttl, place = redis.call('PTTL', lock), redis.call('ZRANK', line, member)
  if ttl <= FirstTerm or not place or place >= Watching or redis.call('HEXISTS', lock, holder) == 1 then
    return -1
  end
  local _, watchers, hearers = listeners(ARGV[1], base, beside(base, client))
  if hearers == 0 or watchers < 2 and (watchers == 0 or redis.call('ZCOUNT', line, 0, WaitersEnd) > 1) then
    return -1
  end
  redis.call('ZREM', line, WaiterMark .. member)
  redis.call('PEXPIRE', line, 300000)
  return now
end

local replies = {}
for i = 1, #KEYS / 2 do
  local inquired, reply = pcall(inquire, KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 1])
  replies[i] = inquired and reply or -1 -- the waiter meets the error when it asks
end
return replies
