-- Takes the lock if nobody holds it. A repeated call by the holder returns the same and counts nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns 0 when acquired; when refused, -1 minus the ms left of the present lease
-- for lock, spin

-- EXISTS counts a key as often as it is named, so one call tells which of the two there are.
local found = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[2])
-- The caller that used this number has given up: its late command must not create a holder that nobody releases.
if found >= 2 and redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  return -1
end
if found % 2 == 0 then
  return create(KEYS[1], ARGV[2], ARGV[1], 1) or 0
end

-- functions
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  extend(KEYS[1], ARGV[2])
  return 0
end
return refused(KEYS[1], ARGV[2])
