-- Takes the lock if nobody holds it, and draws a token if its kind has tokens. A repeated call by the holder returns the same and
-- counts nothing. A client that knows of a line sends line_acquire.lua instead.
--
-- KEYS[1] lock       hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] token      the latest token, or else the tombstones
-- KEYS[3] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- returns the token or 0 when acquired; when refused, -1 minus the ms left of the present lease
-- keeps rules A.1, A.3, A.4, A.7, H, M.3
-- for lock, spin, write
-- with tokens for fenced, fenced write

local token, tombstones = KEYS[3] and KEYS[2], KEYS[3] or KEYS[2]
-- EXISTS counts a key as often as it is named, so one call tells which of the two there are.
local found = redis.call('EXISTS', KEYS[1], tombstones, tombstones)
-- The caller that used this number has given up: its late command must not create a holder that nobody releases.
if found >= 2 and redis.call('HEXISTS', tombstones, ARGV[3]) == 1 then
  return -1
end
if found % 2 == 0 then
  local drawn = token and raise(token) or 0
  return create(KEYS[1], ARGV[2], ARGV[1]) or drawn
end

-- functions
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  if token then
    return same(KEYS[1], token, ARGV[2])
  end
  extend(KEYS[1], ARGV[2])
  return 0
end
return refused(KEYS[1], ARGV[2])
