-- Takes permits of a plain semaphore if enough are free, and writes a receipt. A repeated call finds it, takes
-- nothing, and returns how many are left now.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] receipts   hash: number -> Unix ms; a number that has permits has a time that never comes
-- ARGV[1] holder     and after a further colon how many permits it wants, if more than one
-- ARGV[2] lifetime   ms of the receipts
-- ARGV[3] number     of the holder
-- returns how many permits are left when acquired; -1 when the number has a tombstone; when refused {-1 minus a day in ms,
-- because no lease will end; 1 if the semaphore is set up or else 0}

local has = '922337203685477' -- the time that never comes
local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local receipt, ttl = redis.call('HGET', KEYS[2], ARGV[3]), redis.call('PTTL', KEYS[2])
if receipt == has then
  keep(KEYS[2], ttl, ARGV[2])
  return math.max(value or 0, 0)
elseif receipt then
  return -1
elseif not value then
  return {-86400001, 0}
end
local wanted = permitsOf(ARGV[1])
if value < wanted then
  return {-86400001, 1}
end
redis.call('HSET', KEYS[2], ARGV[3], has)
local result = keep(KEYS[2], ttl, ARGV[2])
if type(result) ~= 'table' then
  result = redis.pcall('DECRBY', KEYS[1], wanted)
end
if type(result) == 'table' then -- it has no permits, so it must have no receipt
  redis.call('HDEL', KEYS[2], ARGV[3])
end
return result
