-- Takes the read lock unless another owner holds the write lock. A repeated call by the holder counts nothing.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] hold       a string that lives as long as this hold
-- KEYS[3] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[7] writer     the field with which the same owner holds the write lock; empty if it does not
-- returns 0 when acquired; when refused, -1 minus the ms left of the present lease
-- keeps rules A.1, A.3, A.4, A.7, G.1
-- for read

if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -1
end

local mode = redis.call('HGET', KEYS[1], ModeField)
if mode == ReadMode or (mode == WriteMode and redis.call('HEXISTS', KEYS[1], ARGV[7]) == 1)
  or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('SET', KEYS[2], 1, 'PX', math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[2])))
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    redis.call('HSET', KEYS[1], ARGV[1], 1)
  end
  extend(KEYS[1], ARGV[2])
  return 0
end

-- A key that is not a read-write lock belongs to another lock, or is foreign data.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return refused(KEYS[1], ARGV[2])
end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
return create(KEYS[1], ARGV[2], ARGV[1], ReadMode) or 0
