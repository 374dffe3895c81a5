-- Gives back permits of a plain semaphore, or leaves the line, and tells the waiters about free permits. A semaphore that is gone
-- is not made again. Redis does it even when it is out of memory.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] receipts  hash: number -> Unix ms; a number that has permits has a time that never comes
-- KEYS[3] line      zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder    and after a further colon how many permits it has, if more than one
-- ARGV[2] channel
-- ARGV[3] standing  ends its member of the line; absent or empty means that it never stood there
-- ARGV[4] publish   SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[5] lifetime  ms of the number's tombstone; absent or 0 (no tombstone) when every command with this number got a reply
-- returns 1 when there was a receipt, so that they are given back unless the semaphore is gone; 0 when there was none: an earlier
-- release gave them back, or Redis never had the acquisition, or has lost it
-- keeps rules 2, A.1, A.5, A.6, S.1, S.4, S.9, S.12
-- for plain semaphore

local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local number, many = string.match(ARGV[1], ':(%d+):?(%d*)')
local receipt, left = redis.call('HGET', KEYS[2], number), nil
local late = receipt and not isOut(receipt) -- a release was repeated, and this one comes late
if not late then
  redis.call('HDEL', KEYS[2], number) -- Redis then accepts the rest even when it is out of memory
  abandon(KEYS[2], number, ARGV[5] or 0)
  if receipt and value then
    left = redis.pcall('INCRBY', KEYS[1], tonumber(many) or 1)
    if type(left) == 'table' then
      redis.call('HSET', KEYS[2], number, receipt)
      return left
    end
  end
end
local reply = isOut(receipt) and 1 or 0
if not KEYS[3] or redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  if left then
    announceValue(ARGV[4] or 'PUBLISH', ARGV[2], left)
  end
  return reply
end

-- functions
leave(KEYS[1], KEYS[3], nil, ARGV[1], ARGV[3] or '', left, ARGV[4] or 'PUBLISH', ARGV[2])
return reply
