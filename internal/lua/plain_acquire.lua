-- Takes permits of a plain semaphore if enough are free, and writes a receipt. A repeated call finds it, takes
-- nothing, and returns how many are left now.
--
-- Permits that those need who stand in the line before it are not free for it. If it is refused, it stands in the line, unless it does
-- not wait, or there is none.
--
-- KEYS[1] semaphore  a string: how many permits are free
-- KEYS[2] receipts   hash: number -> Unix ms; a number that has permits has a time that never comes
-- KEYS[3] line       zset: waiter -> Unix us of its arrival; absent if the client knows of no line
-- ARGV[1] holder     and after a further colon how many permits it wants, if more than one
-- ARGV[2] lifetime   ms of the receipts
-- ARGV[3] standing   0 or absent, which ends its member of the line; empty means that it does not wait
-- ARGV[4] publish    SPUBLISH if the cluster's pub/sub is sharded, or BOTH; absent or PUBLISH otherwise
-- ARGV[5] sets up    1 if its caller sets the semaphore up when nobody has, so that it does not wait for that; may be absent
-- returns how many permits are left when acquired; -1 when the number has a tombstone; when refused {-1 minus the ms until
-- another attempt may help, a day because no lease will end, and three numbers as in semaphore_acquire.lua}
-- keeps rules A.1, A.3, S.1, S.4, S.7, S.9, S.12, V.1
-- for plain semaphore

local value, wrong = counter(KEYS[1])
if wrong then
  return wrong
end
local number, many = string.match(ARGV[1], ':(%d+):?(%d*)')
local receipt, ttl = redis.call('HGET', KEYS[2], number), redis.call('PTTL', KEYS[2])
if isOut(receipt) then
  keep(KEYS[2], ttl, ARGV[2])
  return math.max(value or 0, 0)
elseif receipt then
  return -1
end
local wants = tonumber(many) or 1
if not value and (not KEYS[3] or ARGV[3] == '' or ARGV[5] == '1') then
  return {-86400001, 0, BitNotSetUp, -1}
elseif value and not KEYS[3] and value < wants then
  return {-86400001, 0, 0, -1}
end
if value and value >= wants and (not KEYS[3] or redis.call('EXISTS', KEYS[3]) == 0) then
  return receive(KEYS[1], KEYS[2], number, wants, ttl, ARGV[2])
end

-- functions
local publish, base, waits = ARGV[4] or 'PUBLISH', baseOf(SemaphoreChannel), ARGV[3] ~= ''
local member = ARGV[1] .. '|0' -- the last question of one that stood in the line does not wait
local now, mine, rest = microseconds(), false, 3000
if value then
  mayRemove(KEYS[3])
  mine, rest = tellFirst(KEYS[3], value, nil, publish, base, now, member, waits)
  if mine then
    local left = receive(KEYS[1], KEYS[2], number, wants, ttl, ARGV[2])
    forget(KEYS[3], member)
    return left
  elseif not waits then
    return {-86400001, 0, 0, -1}
  end
end
local hint = -1 - (value and value >= wants and rest or 86400000)
return stand(KEYS[3], member, publish, base, now, hint, value and 0 or BitNotSetUp)
