-- Takes the lock if nobody holds it, with a token greater than all earlier ones. A repeated call by the holder returns
-- the same token and counts nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] token      the latest token
-- KEYS[3] tombstones hash: number -> Unix ms
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns the token when acquired; when refused, -1 minus the ms left of the present lease
-- with tokens for fenced

if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then
  return -1
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return same(KEYS[1], KEYS[2], ARGV[2])
end

if redis.call('EXISTS', KEYS[1]) == 1 then
  return refused(KEYS[1], ARGV[2])
end
local token = raise(KEYS[2])
return create(KEYS[1], ARGV[2], ARGV[1], 1) or token
