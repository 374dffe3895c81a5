-- Gives the permits of a holder of a plain semaphore to another one that wants as many, and their receipt. A repeated call returns
-- the same. A semaphore that was given fewer permits takes these back first, so nothing is handed over then.
--
-- KEYS[1] semaphore a string: how many permits are free
-- KEYS[2] receipts  hash: number -> Unix ms; a number that has permits has a time that never comes
-- KEYS[3] line      zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] next      the holder that gets the permits, and after a further colon how many they are, if more than one
-- ARGV[2] lifetime  ms of the receipts
-- ARGV[3] number    of the next holder
-- ARGV[4] channel
-- ARGV[5] publish   PUBLISH, or SPUBLISH if the cluster's pub/sub is sharded, or BOTH
-- ARGV[6] last      the holder that gives the permits up
-- returns what semaphore_handover.lua does
-- keeps rules A.1, A.6, E.2
-- for plain semaphore

local value, wrong = counter(KEYS[1])
local last = string.match(ARGV[6], ':(%d+)')
local mine, theirs = redis.call('HGET', KEYS[2], ARGV[3]), redis.call('HGET', KEYS[2], last)
if wrong then
  return wrong
elseif not value or value < 0 then
  return -2
elseif not mine and isOut(theirs) then
  redis.call('HDEL', KEYS[2], '') -- Redis then accepts the rest even when it is out of memory; and it fails if the last one would
  redis.call('HSET', KEYS[2], ARGV[3], theirs)
  redis.call('HDEL', KEYS[2], last)
elseif not isOut(mine) or isOut(theirs) then
  return -2
end
keep(KEYS[2], redis.call('PTTL', KEYS[2]), ARGV[2]) -- a failure does no harm: renewals keep the receipts, too
if not KEYS[3] or redis.call('EXISTS', KEYS[3]) == 0 then
  return value + (listeners(ARGV[5], ARGV[4]) > 0 and OthersListen or 0)
end

-- functions
return makeWay(KEYS[1], KEYS[3], nil, ARGV[1], value, ARGV[5], ARGV[4])
