-- Takes the write lock if it has no writer and no reader. A repeated call by the holder returns the same and counts
-- nothing.
--
-- KEYS[1] lock       hash: mode -> read or write, holder -> count
-- KEYS[2] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns 0 when acquired; when refused, -1 minus the ms left of the present lease
-- for write

if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  return -1
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  return create(KEYS[1], ARGV[2], 'mode', 'write', ARGV[1], 1) or 0
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  extend(KEYS[1], ARGV[2])
  return 0
end
return refused(KEYS[1], ARGV[2])
